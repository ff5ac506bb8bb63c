//! Commands carried out by a helper on another host.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use super::{Answer, Command, Program, Refusal};

/// TCP port of the helper unless told otherwise.
pub const PORT: u16 = 18_516;

/// How long the helper may take for a command.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line that an answer may have: a megabyte of memory in hexadecimal, and some.
const LINE_MAX: u64 = 4 << 20;

/// The helper's end as a client sees it.
#[derive(Debug)]
pub struct Remote {
    lines: BufReader<TcpStream>,
    out: TcpStream,
    line: u64,
}

impl Remote {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, or does not answer in time.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let out = TcpStream::connect_timeout(&address, PATIENCE)?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(PATIENCE))?;
        out.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { lines: BufReader::new(out.try_clone()?), out, line: 0 })
    }

    /// The address of this end: the one by which the helper's host is reached.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn local_ip(&self) -> io::Result<IpAddr> {
        Ok(self.out.local_addr()?.ip())
    }

    fn ask(&mut self, text: &str) -> io::Result<String> {
        self.out.write_all(format!("{text}\n").as_bytes())?;
        let mut line = String::new();
        let mut limited = io::Read::take(&mut self.lines, LINE_MAX);
        limited.read_line(&mut line)?;
        if line.ends_with('\n') {
            return Ok(line);
        }
        let why = if line.is_empty() { "it has gone" } else { "its answer has no end" };
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
    }
}

impl Program for Remote {
    fn execute(&mut self, command: &Command) -> Result<Answer, Refusal> {
        self.line += 1;
        let gone =
            |error: io::Error| Refusal::plain(format!("the helper does not answer: {error}"));
        let answer = self.ask(&command.text).map_err(gone)?;
        let read: Result<Result<Answer, Refusal>, _> = serde_json::from_str(&answer);
        read.unwrap_or_else(|error| {
            let line = self.line;
            Err(Refusal::plain(format!("the helper's answer {line} is not one: {error}")))
        })
    }
}
