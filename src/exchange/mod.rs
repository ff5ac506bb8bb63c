//! The out-of-band exchange: how the two ends of a ping-pong, a benchmark or the demo tell each
//! other their queue pairs and regions before RDMA can begin, and agree on when to go on.
//!
//! A TCP connection carries lines of JSON ([`message`]), each bounded in length and time
//! ([`mod@line`]). The client speaks first, the server checks and answers; every later line is one word
//! of a rendezvous. A side that cannot go on says why, and the other repeats it.

mod error;
mod line;
mod message;

pub(crate) use error::ExchangeError;
pub(crate) use message::{Hello, Settings};

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use line::Lines;
use message::Body;

/// How long a peer may take for a line that it need not wait for anybody to send.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a TCP connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How often a listener that must not wait for ever looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, ExchangeError>;

/// The server's side before a client has come.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    port: u16,
}

impl Listener {
    /// Listens on `port` of every address of the host; 0 takes any free port.
    pub(crate) fn bind(port: u16) -> Result<Self> {
        // `::` takes IPv4 as well, where there is IPv6 at all.
        let socket = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| {
            if error.kind() == ErrorKind::AddrInUse {
                return Err(error);
            }
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        });
        let failed = |source| ExchangeError::Listen { port, source };
        let socket = socket.map_err(failed)?;
        let port = socket.local_addr().map_err(failed)?.port();
        Ok(Self { socket, port })
    }

    /// The port, also when any would do.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Waits for a client, for ever unless `within` says otherwise.
    pub(crate) fn accept(&self, within: Option<Duration>) -> Result<Exchange> {
        let failed = |source| ExchangeError::Listen { port: self.port, source };
        let deadline = within.map(|within| Instant::now() + within);
        self.socket.set_nonblocking(deadline.is_some()).map_err(failed)?;
        loop {
            match self.socket.accept() {
                Ok((stream, peer)) => return Exchange::over(stream, peer, Role::Server),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Err(ExchangeError::NobodyCame { port: self.port });
                    }
                    std::thread::sleep(LOOK_AGAIN);
                }
                // The client gave up between its SYN and our accept(2): wait for the next.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Which end of the exchange this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Client,
    Server,
}

/// A connection to the other end.
#[derive(Debug)]
pub(crate) struct Exchange {
    lines: Lines,
    role: Role,
}

impl Exchange {
    /// Connects to the server at `host` (a name or an address), trying each of its addresses.
    pub(crate) fn connect(host: &str, port: u16) -> Result<Self> {
        let unknown =
            |source| ExchangeError::UnknownHost { host: host.into(), source: Some(source) };
        let addresses = (host, port).to_socket_addrs().map_err(unknown)?;
        let mut refusal = ExchangeError::UnknownHost { host: host.into(), source: None };
        for peer in addresses {
            match TcpStream::connect_timeout(&peer, CONNECT_WITHIN) {
                Ok(stream) => return Self::over(stream, peer, Role::Client),
                Err(source) => refusal = ExchangeError::Connect { peer, source },
            }
        }
        Err(refusal)
    }

    fn over(stream: TcpStream, peer: SocketAddr, role: Role) -> Result<Self> {
        // An IPv4 client of an IPv6 socket is shown as what it is.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
        prepared.map_err(|source| ExchangeError::Connection { peer, source })?;
        Ok(Self { lines: Lines::new(stream, peer), role })
    }

    /// The address of the other end.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.lines.peer()
    }

    /// Tells the peer who we are and learns who it is. Both ends check that they want the same, and
    /// each reports a difference in its own words.
    pub(crate) fn introduce(&mut self, ours: &Hello) -> Result<Hello> {
        let speak = |lines: &mut Lines| lines.send(&Body::Hello(ours.clone()), ANSWER_WITHIN);
        if self.role == Role::Client {
            speak(&mut self.lines)?;
        }
        let theirs = match self.hear(ANSWER_WITHIN)? {
            Body::Hello(theirs) => theirs,
            Body::Reached { point } => return Err(self.out_of_step("its introduction", &point)),
            Body::Failed { why } => return Err(self.peer_failed(why)),
        };
        if self.role == Role::Server {
            speak(&mut self.lines)?;
        }
        ours.check_against(&theirs, self.peer())?;
        Ok(theirs)
    }

    /// Waits until both ends have come to `point`, at most `within`.
    pub(crate) fn meet(&mut self, point: &str, within: Duration) -> Result<()> {
        self.lines.send(&Body::Reached { point: point.into() }, ANSWER_WITHIN)?;
        match self.hear(within)? {
            Body::Reached { point: theirs } if theirs == point => Ok(()),
            Body::Reached { point: theirs } => Err(self.out_of_step(point, &theirs)),
            Body::Hello(_) => Err(self.out_of_step(point, "its introduction")),
            Body::Failed { why } => Err(self.peer_failed(why)),
        }
    }

    /// Tells the peer, if it still listens, that this end cannot go on.
    pub(crate) fn give_up(&mut self, why: &str) {
        // It may be gone already, and we are about to report a failure anyway.
        _ = self.lines.send(&Body::Failed { why: why.into() }, ANSWER_WITHIN);
    }

    /// Receives a line, and tells the peer when it said something that cannot be understood.
    fn hear(&mut self, within: Duration) -> Result<Body> {
        let heard = self.lines.receive(within);
        if let Err(error) = &heard
            && error.is_about_what_was_said()
        {
            self.give_up(&error.to_string());
        }
        heard
    }

    fn out_of_step(&self, expected: &str, heard: &str) -> ExchangeError {
        let (expected, heard) = (expected.into(), heard.into());
        ExchangeError::OutOfStep { peer: self.peer(), expected, heard }
    }

    const fn peer_failed(&self, why: String) -> ExchangeError {
        ExchangeError::PeerFailed { peer: self.peer(), why }
    }
}

#[cfg(test)]
mod tests;
