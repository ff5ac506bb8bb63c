//! Two processes that find each other by the connection manager: there is no TCP port to look for, so a
//! client that is refused because nobody listens yet is started again.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::ends::{Running, Setting, free_port, fresh_address, on_device};

/// How long a server may take until it listens.
const STARTS: Duration = Duration::from_secs(20);

/// What programs say when nobody listens.
const REFUSED: [&str; 7] = [
    "RDMA_CM_EVENT_REJECTED",
    "RDMA_CM_EVENT_UNREACHABLE",
    "Connection refused",
    "event REJECTED",
    "Unexpected CM event bl blka 8",
    "connect error",
    "unexpected CM event",
];

/// Where the two are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// At an address each.
    Two,
    /// Both at the same.
    One,
}

/// A server and its client. In the lines, `SERVER` and `CLIENT` are their addresses and `PORT` is a port.
#[derive(Clone, Debug)]
pub(crate) struct Meeting<'a> {
    pub(crate) server: &'a str,
    pub(crate) client: &'a str,
    pub(crate) places: Places,
    /// Whether the server ends by itself; else it is killed.
    pub(crate) server_ends: bool,
    pub(crate) setting: Setting<'a>,
    /// How long the server is alone at first: of programs that ask nobody whether anybody is there.
    pub(crate) head_start: Duration,
    /// The path of the program, if it is not to be looked for by its name.
    pub(crate) program: Option<&'a str>,
}

impl<'a> Meeting<'a> {
    pub(crate) fn new(server: &'a str, client: &'a str) -> Self {
        Self {
            server,
            client,
            places: Places::Two,
            server_ends: true,
            setting: Setting::default(),
            head_start: Duration::ZERO,
            program: None,
        }
    }

    pub(crate) const fn at(mut self, places: Places) -> Self {
        self.places = places;
        self
    }

    pub(crate) const fn with_endless_server(mut self) -> Self {
        self.server_ends = false;
        self
    }

    /// Runs both; what client and server say, or why it went wrong.
    pub(crate) fn run(&self) -> Result<[String; 2], String> {
        let there = fresh_address();
        let here = if self.places == Places::Two { fresh_address() } else { there };
        let port = free_port().to_string();
        let start = |line: &str, own: IpAddr| {
            let mut command = on_device(own, &self.setting);
            let (name, arguments) = line.split_once(' ').unwrap_or((line, ""));
            command.arg(self.program.unwrap_or(name));
            for word in arguments.split_whitespace() {
                let word = word.replace("SERVER", &there.to_string());
                command.arg(word.replace("CLIENT", &here.to_string()).replace("PORT", &port));
            }
            Running::start(command)
        };
        let server = start(self.server, there);
        std::thread::sleep(self.head_start);
        let begun = Instant::now();
        let client = loop {
            let mut client = start(self.client, here).finish();
            // Some call that a success.
            let refused = REFUSED.iter().any(|text| client.text.contains(text));
            client.good &= !refused;
            if !refused || !server.is_running() || begun.elapsed() > STARTS {
                break client;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let server_ended =
            if self.server_ends && client.good { server.finish() } else { server.kill() };
        if client.good && (server_ended.good || !self.server_ends) {
            return Ok([client.text, server_ended.text]);
        }
        Err(format!(
            "{} ({:?})\n--- client\n{}\n--- server: {}\n{}",
            self.client, self.places, client.text, self.server, server_ended.text
        ))
    }
}

/// Runs all, and fails with all that went wrong.
pub(crate) fn all_meet<'a>(meetings: impl IntoIterator<Item = Meeting<'a>>) {
    let (mut count, mut failed) = (0, Vec::new());
    for meeting in meetings {
        count += 1;
        failed.extend(meeting.run().err());
    }
    let text = failed.join("\n==========\n");
    assert!(failed.is_empty(), "{} of {count} went wrong:\n{text}", failed.len());
}
