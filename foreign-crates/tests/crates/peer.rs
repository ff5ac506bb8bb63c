//! Two processes: the test, and itself started again. They exchange lines over TCP.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

const VARIABLE: &str = "FOREIGN_CRATES_PEER";

/// Which of the two processes this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ping,
    Pong,
}

/// The way to the other process.
pub struct Link(BufReader<TcpStream>);

impl Link {
    /// Says something and hears what the other says at this point.
    pub fn exchange<T: Serialize + DeserializeOwned>(&mut self, mine: &T) -> T {
        let line = serde_json::to_string(mine).unwrap() + "\n";
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("the peer said {line:?}: {error}"))
    }

    /// Goes on when the other is here, too.
    pub fn meet(&mut self) {
        self.exchange(&());
    }
}

/// Plays both sides of a test, each in a process of its own. `name` is the path of the test.
pub fn two_processes(name: &str, play: impl Fn(Side, &mut Link)) {
    let wrap = |stream: TcpStream| {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Link(BufReader::new(stream))
    };
    if let Ok(address) = std::env::var(VARIABLE) {
        return play(Side::Pong, &mut wrap(TcpStream::connect(address).unwrap()));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VARIABLE, listener.local_addr().unwrap().to_string())
        .spawn()
        .unwrap();
    listener.set_nonblocking(true).unwrap();
    let stream = within("the other process connects", || {
        assert!(other.try_wait().unwrap().is_none(), "the other process ended at once");
        listener.accept().ok()
    });
    stream.0.set_nonblocking(false).unwrap();
    play(Side::Ping, &mut wrap(stream.0));
    assert!(other.wait().unwrap().success(), "the other process failed");
}

/// Tries again until `attempt` finds something.
pub fn within<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::yield_now();
    }
}

/// What a side sends in a round, different at each place.
pub fn content(side: Side, round: u64, index: usize) -> u64 {
    let first = if side == Side::Ping { 0x0123_4567_89ab_cdef } else { 0xfedc_ba98_7654_3210 };
    u64::wrapping_add(first, round * 0x1_0001).rotate_left((index % 64) as u32) ^ index as u64
}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Self::Ping => Self::Pong,
            Self::Pong => Self::Ping,
        }
    }
}
