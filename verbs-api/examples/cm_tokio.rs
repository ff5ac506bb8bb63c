//! Connections by address as futures: one task accepts, many connect, nobody blocks.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --features tokio --example cm_tokio
//! ```

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use softrnic_verbs::cm::{ConnectError, Connector, Listener, Options};
use softrnic_verbs::{Backend, Context, Qp, QpType, open_pair};
use tokio::task::JoinSet;
use tokio::time::timeout;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS: u8 = 16;
/// Longer than it takes, but on an emulated processor.
const PATIENCE: Duration = Duration::from_secs(180);

fn queue_pair(device: &Context) -> softrnic_verbs::Result<Qp> {
    device.alloc_pd()?.create_qp(QpType::Rc, &device.create_cq(16)?).build()
}

/// Takes everybody, and waits for the end of each in a task of its own.
async fn serve(listener: Listener) -> Result<u32> {
    let mut connections = JoinSet::new();
    for _ in 0..CLIENTS {
        let connection = listener.accept_async(&Options::default(), queue_pair).await?;
        connections.spawn(async move {
            let closed = connection.closed().await;
            closed.map(|()| u32::from(connection.private_data()[0]))
        });
    }
    let mut sum = 0;
    while let Some(ended) = connections.join_next().await {
        sum += ended??;
    }
    Ok(sum)
}

async fn ask(connector: Connector, server: SocketAddr, number: u8) -> Result<()> {
    let options = Options::saying([number]);
    let connection = connector.connect_async(server, &options, queue_pair).await?;
    tokio::task::yield_now().await;
    connection.disconnect()?;
    connection.closed().await?;
    Ok(())
}

async fn run() -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;
    let own = IpAddr::from(far.first_gid()?.1);
    // Devices stay open as long as somebody has them; this one shall outlive its listener.
    let listener = Connector::new(std::slice::from_ref(&far))?.listen(SocketAddr::new(own, 0))?;
    let server = listener.local();
    let serving = tokio::spawn(serve(listener));
    let connector = Connector::new(&[near])?;
    let mut clients = JoinSet::new();
    for number in 1..=CLIENTS {
        clients.spawn(ask(connector.clone(), server, number));
    }
    while let Some(client) = clients.join_next().await {
        client??;
    }
    let sum = serving.await??;
    assert_eq!(sum, (1..=u32::from(CLIENTS)).sum(), "everybody has said a number");
    // Now nobody listens any more.
    let late = connector.connect_async(server, &Options::default(), queue_pair).await;
    assert_eq!(late.err(), Some(ConnectError::NoListener));
    drop(far);
    println!("{CLIENTS} clients were served at {server}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    timeout(PATIENCE, run()).await?
}

#[test]
fn it_runs() {
    main().unwrap();
}
