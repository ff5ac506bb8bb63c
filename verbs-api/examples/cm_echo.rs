//! Connections by address: an echo server and its clients, blocking.
//!
//! The two ends find each other by IP address and port, as with sockets; nobody exchanges queue pair
//! numbers. What a client says with its request the server sees before it takes it.
//!
//! ```console
//! $ cargo run --release -p softrnic-verbs --example cm_echo
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::cm::{ConnectError, Connection, Connector, Listener, Options};
use softrnic_verbs::{Access, Context, Mr, Qp, QpType, emulated};

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

fn main() -> Result<()> {
    // Two devices of this process; between hosts each would open its own, or leave that to
    // `Listener::bind` and `cm::connect`.
    let (near, far) = emulated::open_pair()?;
    let listener = Connector::new(&[far])?.listen("127.0.0.3:0".parse()?)?;
    let server = listener.local();
    let serving = thread::spawn(move || serve(&listener));
    let connector = Connector::new(&[near])?;
    for client in 0..CLIENTS {
        ask(&connector, server, client)?;
    }
    let mut words = None;
    let refused = connector
        .connect(server, &Options::default(), |device| prepared(device, &mut words))
        .err()
        .ok_or("it is refused")?;
    assert!(matches!(refused, ConnectError::Refused { .. }), "{refused}");
    println!("{CLIENTS} clients were served; the last one: {refused}");
    serving.join().map_err(|_| "the server panicked")??;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
