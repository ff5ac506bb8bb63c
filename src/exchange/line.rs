//! Lines over TCP, each with a greatest length and a time by which it must be complete: a peer that
//! sends without end, or a byte now and then, ends in an error all the same.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::ExchangeError;
use super::message::{self, Body, Line, VERSION, excerpt};

/// The longest line in bytes, its end included. An introduction of 256 queue pairs has about half.
pub(super) const LINE_MAX: usize = 64 << 10;

/// What a peer that says nothing keeps us waiting for.
const WAITED_FOR: &str = "a line of the exchange";

/// A connection that carries lines.
#[derive(Debug)]
pub(super) struct Lines {
    stream: TcpStream,
    peer: SocketAddr,
    /// Arrived and not yet taken: at most one line and a bit of the next.
    pending: Vec<u8>,
}

impl Lines {
    pub(super) const fn new(stream: TcpStream, peer: SocketAddr) -> Self {
        Self { stream, peer, pending: Vec::new() }
    }

    pub(super) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our own end of it.
    pub(super) fn local(&self) -> std::io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// Sends one line.
    pub(super) fn send(&mut self, body: &Body, within: Duration) -> Result<(), ExchangeError> {
        let peer = self.peer;
        let line = Line { softrnic: VERSION, body: body.clone() };
        let mut line = serde_json::to_vec(&line)
            .map_err(|error| ExchangeError::Connection { peer, source: error.into() })?;
        line.push(b'\n');
        if line.len() > LINE_MAX {
            return Err(ExchangeError::TooLong { peer: None, limit: LINE_MAX });
        }
        let sent =
            self.stream.set_write_timeout(Some(within)).and_then(|()| self.stream.write_all(&line));
        sent.map_err(|source| self.broken(source, "the peer to take our line"))
    }

    /// Receives one line.
    pub(super) fn receive(&mut self, within: Duration) -> Result<Body, ExchangeError> {
        let deadline = Instant::now() + within;
        let mut seen = 0;
        loop {
            if let Some(body) = self.complete_line(seen)? {
                return Ok(body);
            }
            seen = self.pending.len();
            self.read_some(deadline)?;
        }
    }

    /// Takes a line if one has arrived. Does not wait.
    pub(super) fn arrived(&mut self) -> Result<Option<Body>, ExchangeError> {
        let mut chunk = [0; 4096];
        loop {
            if let Some(body) = self.complete_line(0)? {
                return Ok(Some(body));
            }
            let read = self.stream.set_nonblocking(true).and_then(|()| {
                let read = self.stream.read(&mut chunk);
                self.stream.set_nonblocking(false).and(read)
            });
            match read {
                Ok(0) => return Err(self.closed()),
                Ok(count) => self.pending.extend(chunk.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error, WAITED_FOR)),
            }
        }
    }

    /// Takes the first line off what is pending, of which the first `seen` bytes hold no end.
    fn complete_line(&mut self, seen: usize) -> Result<Option<Body>, ExchangeError> {
        let end = self.pending.iter().skip(seen).position(|&byte| byte == b'\n');
        match end.map(|end| end + seen) {
            Some(end) if end < LINE_MAX => {
                let rest = self.pending.split_off(end + 1);
                let line = std::mem::replace(&mut self.pending, rest);
                message::parse(line.trim_ascii_end(), self.peer).map(Some)
            }
            None if self.pending.len() < LINE_MAX => Ok(None),
            Some(_) | None => Err(self.too_long()),
        }
    }

    /// Appends what arrives next.
    fn read_some(&mut self, deadline: Instant) -> Result<(), ExchangeError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ExchangeError::TimedOut { peer: self.peer, waited_for: WAITED_FOR });
        }
        let mut chunk = [0; 4096];
        let read =
            self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut chunk));
        match read {
            Ok(0) => Err(self.closed()),
            Ok(count) => {
                self.pending.extend(chunk.iter().take(count));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(self.broken(error, WAITED_FOR)),
        }
    }

    fn closed(&self) -> ExchangeError {
        let arrived = self.pending.len();
        ExchangeError::Closed { peer: self.peer, arrived, start: excerpt(&self.pending) }
    }

    const fn too_long(&self) -> ExchangeError {
        ExchangeError::TooLong { peer: Some(self.peer), limit: LINE_MAX }
    }

    fn broken(&self, source: std::io::Error, waited_for: &'static str) -> ExchangeError {
        let peer = self.peer;
        if matches!(source.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            return ExchangeError::TimedOut { peer, waited_for };
        }
        ExchangeError::Connection { peer, source }
    }
}
