//! What can go wrong in the exchange, and the advice that goes with it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use super::message::VERSION;
use crate::error::Failure;

/// Why the exchange failed.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The port cannot be listened on.
    Listen { port: u16, source: io::Error },
    /// No client came in time.
    NobodyCame { port: u16 },
    /// The name has no address.
    UnknownHost { host: String, source: Option<io::Error> },
    /// No connection came about.
    Connect { peer: SocketAddr, source: io::Error },
    /// The connection broke.
    Connection { peer: SocketAddr, source: io::Error },
    /// The peer took too long.
    TimedOut { peer: SocketAddr, waited_for: &'static str },
    /// The peer closed the connection within a line, or before one.
    Closed { peer: SocketAddr, arrived: usize, start: String },
    /// A line is longer than any may be: the peer's, or (`None`) our own.
    TooLong { peer: Option<SocketAddr>, limit: usize },
    /// What the peer says is no line of an exchange.
    NotSoftrnic { peer: SocketAddr, start: String },
    /// The peer speaks another version.
    OtherVersion { peer: SocketAddr, theirs: u32 },
    /// A line of our version that does not hold what it must.
    Malformed { peer: SocketAddr, why: String },
    /// The peer runs another command.
    OtherPurpose { peer: SocketAddr, ours: &'static str, theirs: &'static str },
    /// The peer was given another value.
    OtherSetting { peer: SocketAddr, name: String, ours: String, theirs: String },
    /// The peer is at another point of the exchange.
    OutOfStep { peer: SocketAddr, expected: String, heard: String },
    /// The peer gave up.
    PeerFailed { peer: SocketAddr, why: String },
}

impl ExchangeError {
    /// Whether the peer said something wrong and still listens for a word about it.
    pub(super) const fn is_about_what_was_said(&self) -> bool {
        matches!(
            self,
            Self::TooLong { .. }
                | Self::NotSoftrnic { .. }
                | Self::OtherVersion { .. }
                | Self::Malformed { .. }
        )
    }

    /// What to do about it.
    fn advice(&self) -> String {
        match self {
            Self::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
                "another program has the port; end it, or give both ends another with --port".into()
            }
            Self::Listen { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; give both ends another with --port".into()
            }
            Self::Listen { .. } => "give both ends another port with --port".into(),
            Self::NobodyCame { port } => {
                format!("start the client with --port {port} and the name of this host")
            }
            Self::UnknownHost { .. } => "check the spelling, or give an IP address".into(),
            Self::Connect { source, .. } if source.kind() == ErrorKind::ConnectionRefused => {
                "start the server (the same command without a host) there first, with the same \
                 --port"
                    .into()
            }
            Self::Connect { .. } => {
                "check the address, the route to it, and that no firewall drops the port".into()
            }
            Self::Connection { .. } | Self::Closed { .. } => {
                "see what the other end says on its standard error".into()
            }
            Self::TimedOut { .. } => {
                "see whether the other end still runs, and that it is a softrnic".into()
            }
            Self::TooLong { peer: None, .. } => "use fewer queue pairs".into(),
            Self::TooLong { .. } | Self::NotSoftrnic { .. } => {
                "another service listens on that port; give both ends another with --port".into()
            }
            Self::OtherVersion { .. } | Self::Malformed { .. } => {
                "use the same version of softrnic at both ends (`softrnic --version`)".into()
            }
            Self::OtherPurpose { .. } => "start the same command at both ends".into(),
            Self::OtherSetting { .. } => "give both ends the same options".into(),
            Self::OutOfStep { .. } => {
                "start both ends anew, with the same version of softrnic".into()
            }
            Self::PeerFailed { .. } => "mend that at the other end and start both anew".into(),
        }
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { port, source } => {
                write!(f, "cannot listen on TCP port {port}: {source}")
            }
            Self::NobodyCame { port } => write!(f, "no client came to TCP port {port} in time"),
            Self::UnknownHost { host, source: Some(source) } => {
                write!(f, "host `{host}` has no known address: {source}")
            }
            Self::UnknownHost { host, source: None } => {
                write!(f, "host `{host}` has no known address")
            }
            Self::Connect { peer, source } => write!(f, "cannot connect to {peer}: {source}"),
            Self::Connection { peer, source } => {
                write!(f, "the connection to {peer} broke: {source}")
            }
            Self::TimedOut { peer, waited_for } => {
                write!(f, "{peer} took too long: waited for {waited_for}")
            }
            Self::Closed { peer, arrived: 0, .. } => {
                write!(f, "{peer} closed the connection without a word")
            }
            Self::Closed { peer, arrived, start } => {
                write!(
                    f,
                    "{peer} closed the connection within a line, after {arrived} bytes: {start}"
                )
            }
            Self::TooLong { peer: Some(peer), limit } => {
                write!(f, "{peer} sent a line of more than {limit} bytes")
            }
            Self::TooLong { peer: None, limit } => {
                write!(f, "the introduction of this end has more than {limit} bytes")
            }
            Self::NotSoftrnic { peer, start } => {
                write!(f, "{peer} does not speak softrnic's exchange; it said: {start}")
            }
            Self::OtherVersion { peer, theirs } => {
                write!(f, "{peer} speaks version {theirs} of the exchange, this end {VERSION}")
            }
            Self::Malformed { peer, why } => {
                write!(f, "{peer} sent a line that does not hold what it must: {why}")
            }
            Self::OtherPurpose { peer, ours, theirs } => {
                write!(f, "{peer} runs `{theirs}`, this end `{ours}`")
            }
            Self::OtherSetting { peer, name, ours, theirs } => {
                write!(f, "the ends differ in {name}: {theirs} at {peer}, {ours} here")
            }
            Self::OutOfStep { peer, expected, heard } => {
                write!(f, "{peer} is out of step: expected `{expected}`, heard `{heard}`")
            }
            Self::PeerFailed { peer, why } => write!(f, "{peer} gave up: {why}"),
        }
    }
}

impl std::error::Error for ExchangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let (Self::Listen { source, .. }
        | Self::UnknownHost { source: Some(source), .. }
        | Self::Connect { source, .. }
        | Self::Connection { source, .. }) = self
        else {
            return None;
        };
        Some(source)
    }
}

impl From<ExchangeError> for Failure {
    /// Parts of the text came from a peer: nothing in it may steer the terminal or fill it.
    fn from(error: ExchangeError) -> Self {
        const SHOWN: usize = 1000;
        let text = error.to_string();
        let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        Self::failed(shown.take(SHOWN).collect::<String>(), error.advice())
    }
}
