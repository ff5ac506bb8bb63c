//! The helper: carries out commands for whoever asks over TCP, one line each.
//!
//! A command is a line of [`Command`]; the answer is one line of JSON, `{"Ok":ANSWER}` or
//! `{"Err":REFUSAL}`. What a client has made goes with its connection. It serves one client after the
//! other, and anybody who can connect: it is for test networks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use softrnic_verbs::provider::Context;

use super::{Answer, Command, Local, Program, Refusal};

pub use super::remote::PORT;

/// The longest line that a command may have.
const LINE_MAX: u64 = 1 << 20;
/// How long a client may say nothing.
const IDLE: Duration = Duration::from_secs(300);
/// How long it may say nothing at first: a judge asks at once, and others wait.
const AT_FIRST: Duration = Duration::from_secs(2);

/// What becomes of a client. A judge is one after the other: it connects anew for each case.
#[derive(Debug)]
pub enum News {
    /// It has connected.
    Came,
    /// It has gone after so many commands.
    Went(u64),
    /// It was given up.
    GivenUp(io::Error),
}

/// Serves clients on `listener` until it fails. `tell` hears of each client that comes, and how it
/// went.
///
/// # Errors
/// The listener failed.
pub fn serve(
    listener: &TcpListener,
    verbs: &Arc<dyn Context>,
    tell: &mut dyn FnMut(SocketAddr, News),
) -> io::Result<()> {
    loop {
        let (stream, from) = listener.accept()?;
        tell(from, News::Came);
        tell(from, client(&stream, verbs).map_or_else(News::GivenUp, News::Went));
    }
}

/// Serves one client until it goes. Returns how many commands it had.
///
/// # Errors
/// The connection failed, or a line was too long.
pub fn client(stream: &TcpStream, verbs: &Arc<dyn Context>) -> io::Result<u64> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(AT_FIRST))?;
    let mut lines = BufReader::new(stream);
    let mut out = stream;
    // Its packets come to where its words came to.
    let program = Local::reached_at(Arc::clone(verbs), stream.local_addr()?.ip());
    let mut program = program.map_err(|error| io::Error::other(error.to_string()))?;
    for count in 0.. {
        let mut line = String::new();
        (&mut lines).take(LINE_MAX).read_line(&mut line)?;
        if line.is_empty() {
            return Ok(count);
        }
        if !line.ends_with('\n') {
            let why = format!("line {} has no end", count + 1);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        stream.set_read_timeout(Some(IDLE))?;
        let answer = answer(&mut program, &line);
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        out.write_all(text.as_bytes())?;
    }
    Ok(0)
}

fn answer(program: &mut Local, line: &str) -> Result<Answer, Refusal> {
    let command = line.trim_end().parse::<Command>().map_err(Refusal::plain)?;
    program.execute(&command)
}
