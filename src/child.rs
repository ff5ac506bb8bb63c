//! The second process of a command that needs two: this program, started again.
//!
//! The child lives no longer than its parent: its standard input is a pipe that nobody writes to,
//! and its end means that the parent is gone, whatever became of it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::Failure;

/// A child process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Second(Child);

impl Second {
    /// Starts this program with `arguments`, and without the settings of the environment that are
    /// this end's own.
    pub(crate) fn start<A: AsRef<OsStr>>(
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::plain(format!("the second process cannot be started: {error}"))
        };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        for own in ["SOFTRNIC_ADDRESS", "SOFTRNIC_CAPTURE", "SOFTRNIC_FAULTS", "SOFTRNIC_TRACE"] {
            command.env_remove(own);
        }
        command.spawn().map(Self).map_err(failed)
    }

    /// Waits for it to connect. It has said itself why it ended, if it does so before.
    pub(crate) fn meet(&mut self, at: &TcpListener) -> Result<TcpStream, Failure> {
        let unmet = |error| Failure::plain(format!("the two processes do not meet: {error}"));
        at.set_nonblocking(true).map_err(unmet)?;
        loop {
            match at.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(unmet)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    return Err(unmet(error));
                }
                Err(_) => {}
            }
            if let Ok(Some(status)) = self.0.try_wait() {
                return Err(Failure::plain(format!("the second process failed: {status}")));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until it has ended by itself, at most `within`, and says whether it did well.
    pub(crate) fn finish(mut self, within: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + within;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(Failure::plain(format!("the second process failed: {status}")));
                }
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(None) => {
                    return Err(Failure::plain("the second process does not end; it is killed"));
                }
                Err(error) => {
                    return Err(Failure::plain(format!("the second process is lost: {error}")));
                }
            }
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // Both fail when it has ended already, which is what is wanted.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// In the child: ends this process when its parent is gone.
pub(crate) fn end_with_parent() {
    std::thread::spawn(|| {
        let mut input = io::stdin().lock();
        let mut byte = [0];
        loop {
            match input.read(&mut byte) {
                Ok(0) | Err(_) => std::process::exit(1),
                Ok(_) => {}
            }
        }
    });
}
