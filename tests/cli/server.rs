//! Servers that wait for a client.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use super::{Ran, command};

/// A TCP port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A server that waits for its client; it is killed when this goes.
pub(crate) struct Server(Option<Child>);

impl Server {
    pub(crate) fn start(line: &str) -> Self {
        let mut child =
            command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut told).unwrap();
        assert!(told.starts_with("waiting for a client on TCP port "), "{told}");
        Self(Some(child))
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.as_ref().unwrap().id().into()
    }

    pub(crate) fn finish(mut self) -> Ran {
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}
