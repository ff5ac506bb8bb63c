//! Which services there are in this network namespace, and who is a member.

use std::io;

use super::member::{connect, list};
use super::{Refusal, Row, channel};

/// A service that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its UDP port.
    pub port: u16,
    /// The user whose service it says to be.
    pub uid: u32,
    /// What it tells, or why it does not.
    pub listing: Result<Listing, Refusal>,
}

/// What a service tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its process.
    pub service: u32,
    /// The process of its keeper; 0 if it has none.
    pub keeper: u32,
    /// Its members.
    pub members: Vec<Row>,
}

/// All services of the network namespace, by port and user. One that does not answer is left out.
///
/// # Errors
/// The system does not list its unix sockets.
pub fn services() -> io::Result<Vec<Listed>> {
    let table = std::fs::read_to_string("/proc/net/unix")?;
    let mut names: Vec<(u16, u32)> = table.lines().filter_map(name_in).collect();
    names.sort_unstable();
    names.dedup();
    let ask = |(port, uid)| {
        let connection = connect(port, uid).ok().flatten()?;
        Some(Listed { port, uid, listing: list(&connection).ok()? })
    };
    Ok(names.into_iter().filter_map(ask).collect())
}

/// The service that a line of `/proc/net/unix` names: an abstract name begins with `@`.
fn name_in(line: &str) -> Option<(u16, u32)> {
    channel::parse_name(line.split_ascii_whitespace().nth(7)?.strip_prefix('@')?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_table() {
        let line = |name| format!("ffff: 00000002 00000000 00010000 0005 01 12345 {name}");
        assert_eq!(name_in(&line("@softrnic/4791/1000")), Some((4791, 1000)));
        for other in ["@softrnic/4791", "softrnic/4791/0", "@other", "@softrnic/70000/1", ""] {
            assert_eq!(name_in(&line(other)), None);
        }
    }
}
