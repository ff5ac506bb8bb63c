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
pub(crate) use message::{Hello, Purpose, QueuePairInfo, RegionInfo, Settings};

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use line::Lines;
use message::Body;

/// How long a peer may take for a line that it need not wait for anybody to send.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long a TCP connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How often a listener that must not wait for ever looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a [`Hello`] is called in messages.
const INTRODUCTION: &str = "its introduction";

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

    /// Listens on any free port of the loopback address: for a process that this one starts.
    pub(crate) fn bind_local() -> Result<Self> {
        let failed = |source| ExchangeError::Listen { port: 0, source };
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
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
    /// Heard while nobody had asked for it.
    early: Option<Body>,
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
        Ok(Self { lines: Lines::new(stream, peer), role, early: None })
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
            other @ (Body::Reached { .. } | Body::Told { .. } | Body::Failed { .. }) => {
                return Err(self.out_of_step(INTRODUCTION, &other));
            }
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
            other @ (Body::Hello(_)
            | Body::Reached { .. }
            | Body::Told { .. }
            | Body::Failed { .. }) => Err(self.out_of_step(point, &other)),
        }
    }

    /// Tells the peer something that only the two ends of one command understand.
    pub(crate) fn tell(&mut self, what: &impl Serialize) -> Result<()> {
        let peer = self.peer();
        let told = serde_json::to_value(what)
            .map_err(|error| ExchangeError::Connection { peer, source: error.into() })?;
        self.lines.send(&Body::Told { told }, ANSWER_WITHIN)
    }

    /// Waits for what the peer tells, at most `within`.
    pub(crate) fn hear_told<T: DeserializeOwned>(&mut self, within: Duration) -> Result<T> {
        match self.hear(within)? {
            Body::Told { told } => serde_json::from_value(told).map_err(|error| {
                ExchangeError::Malformed { peer: self.peer(), why: error.to_string() }
            }),
            other @ (Body::Hello(_) | Body::Reached { .. } | Body::Failed { .. }) => {
                Err(self.out_of_step("something of its own", &other))
            }
        }
    }

    /// Whether the peer has said something that is to be heard next. Does not wait; a peer that
    /// has given up or gone is an error.
    pub(crate) fn has_spoken(&mut self) -> Result<bool> {
        if self.early.is_none() {
            self.early = self.lines.arrived()?;
        }
        match self.early.take_if(|body| matches!(body, Body::Failed { .. })) {
            Some(Body::Failed { why }) => Err(self.peer_failed(why)),
            _ => Ok(self.early.is_some()),
        }
    }

    /// The address of this host by which the two ends reach each other.
    pub(crate) fn local_ip(&self) -> Result<IpAddr> {
        let failed = |source| ExchangeError::Connection { peer: self.peer(), source };
        Ok(self.lines.local().map_err(failed)?.ip().to_canonical())
    }

    /// Tells the peer, if it still listens, that this end cannot go on.
    pub(crate) fn give_up(&mut self, why: &str) {
        // It may be gone already, and we are about to report a failure anyway.
        _ = self.lines.send(&Body::Failed { why: why.into() }, ANSWER_WITHIN);
    }

    /// Receives a line, and tells the peer when it said something that cannot be understood. A peer
    /// that gives up is an error.
    fn hear(&mut self, within: Duration) -> Result<Body> {
        let heard = match self.early.take() {
            Some(early) => Ok(early),
            None => self.lines.receive(within),
        };
        if let Err(error) = &heard
            && error.is_about_what_was_said()
        {
            self.give_up(&error.to_string());
        }
        match heard? {
            Body::Failed { why } => Err(self.peer_failed(why)),
            body @ (Body::Hello(_) | Body::Reached { .. } | Body::Told { .. }) => Ok(body),
        }
    }

    fn out_of_step(&self, expected: &str, heard: &Body) -> ExchangeError {
        let heard = match heard {
            Body::Hello(_) => INTRODUCTION.into(),
            Body::Reached { point } => point.clone(),
            Body::Told { .. } => "something of its own".into(),
            Body::Failed { why } => why.clone(),
        };
        ExchangeError::OutOfStep { peer: self.peer(), expected: expected.into(), heard }
    }

    const fn peer_failed(&self, why: String) -> ExchangeError {
        ExchangeError::PeerFailed { peer: self.peer(), why }
    }
}

#[cfg(test)]
mod tests;
