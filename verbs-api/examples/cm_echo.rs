//! Connections by address: an echo server and its clients, blocking.
//!
//! The two ends find each other by IP address and port, as with sockets; nobody exchanges queue pair
//! numbers. What a client says with its request the server sees before it takes it.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example cm_echo                          # both ends
//! $ cargo run --release -p softrnic-verbs --example cm_echo serve 0.0.0.0:7471       # one host ..
//! $ cargo run --release -p softrnic-verbs --example cm_echo ask 10.0.0.1:7471        # .. and another
//! ```
//!
//! `SOFTRNIC_BACKEND` says which kind of device it runs on.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::cm::{ConnectError, Connection, Connector, Listener, Options};
use softrnic_verbs::{Access, Backend, Context, Mr, Qp, QpType, open_pair};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CLIENTS: u64 = 4;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

/// A connection and a place for words: one goes out, one comes in.
struct End {
    connection: Connection,
    words: Mr,
}

/// A queue pair that can receive a word already, and the place for it.
fn prepared(device: &Context, words: &mut Option<Mr>) -> softrnic_verbs::Result<Qp> {
    let pd = device.alloc_pd()?;
    let qp = pd.create_qp(QpType::Rc, &device.create_cq(16)?).build()?;
    let place = pd.register(Buffer::new(16)?, Access::LOCAL_WRITE)?;
    qp.recv(0, place.sge(8, 8))?;
    *words = Some(place);
    Ok(qp)
}

impl End {
    fn send(&self, word: u64) -> Result<()> {
        self.words.buffer().store_u64(0, word)?;
        self.connection.qp().send(1, self.words.sge(0, 8))?;
        Ok(())
    }

    /// Waits for `count` completions: of what was sent, and of what comes.
    fn complete(&self, count: u32) -> Result<u64> {
        for _ in 0..count {
            self.connection.qp().send_cq().wait_success(PATIENCE)?;
        }
        Ok(self.words.buffer().load_u64(8)?)
    }
}

fn serve(listener: &Listener) -> Result<()> {
    for _ in 0..CLIENTS {
        let request = listener.request(None)?.ok_or("no request")?;
        let name = request.private_data()[0];
        let mut words = None;
        // The answer to the request says something, too.
        let connection = request
            .accept(&Options::saying([name + 100]), |device| prepared(device, &mut words))?;
        let end = End { connection, words: words.ok_or("no place for words")? };
        let word = end.complete(1)?;
        end.send(word + 1)?;
        end.complete(1)?;
        assert!(end.connection.wait_closed(PATIENCE)?, "the client ends it");
    }
    // The next one is refused, in words.
    let request = listener.request(None)?.ok_or("no request")?;
    request.reject(b"closing time")?;
    Ok(())
}

fn ask(connector: &Connector, server: SocketAddr, client: u64) -> Result<()> {
    let mut words = None;
    let name = u8::try_from(client)?;
    let connection = connector
        .connect(server, &Options::saying([name]), |device| prepared(device, &mut words))?;
    assert_eq!(connection.private_data()[0], name + 100, "the server knows who it is");
    assert_eq!(connection.peer(), server);
    let end = End { connection, words: words.ok_or("no place for words")? };
    end.send(client * 10)?;
    assert_eq!(end.complete(2)?, client * 10 + 1);
    end.connection.disconnect()?;
    Ok(())
}

/// All clients, one after the other, and one more that is refused.
fn ask_all(connector: &Connector, server: SocketAddr) -> Result<()> {
    for client in 0..CLIENTS {
        ask(connector, server, client)?;
    }
    let mut words = None;
    let refused = connector
        .connect(server, &Options::default(), |device| prepared(device, &mut words))
        .err()
        .ok_or("it is refused")?;
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
    println!("{CLIENTS} clients were served; the last one: {refused}");
    Ok(())
}

/// Both ends, with two devices of this process.
fn both() -> Result<()> {
    let (near, far) = open_pair(Backend::from_environment()?)?;
    let own = IpAddr::from(far.first_gid()?.1);
    let listener = Connector::new(&[far])?.listen(SocketAddr::new(own, 0))?;
    let server = listener.local();
    let serving = thread::spawn(move || serve(&listener));
    ask_all(&Connector::new(&[near])?, server)?;
    serving.join().map_err(|_| "the server panicked")?
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => {
            let listener = Listener::bind(address.parse()?)?;
            println!("listening at {}", listener.local());
            serve(&listener)
        }
        ["ask", address] => ask_all(&Connector::of_host()?, address.parse()?),
        [] => both(),
        _ => Err("usage: cm_echo [serve|ask ADDRESS:PORT]".into()),
    }
}

#[test]
fn it_runs() {
    both().unwrap();
}
