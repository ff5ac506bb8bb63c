//! Who listens on a UDP port, for an error message.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The process that has a UDP socket bound to `at` or to that port on all addresses, as
/// "process 123 (name)"; `None` if it belongs to another user or to nobody (`proc_pid_fd(5)`,
/// `/proc/net/udp`).
pub(super) fn owner_of(at: SocketAddr) -> Option<String> {
    let sockets: Vec<String> = clashes(at)?.into_iter().map(|(_, link)| link).collect();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let holds = fs::read_dir(entry.path().join("fd")).ok()?.flatten().any(|fd| {
            fs::read_link(fd.path())
                .is_ok_and(|to| sockets.iter().any(|inode| to == Path::new(inode)))
        });
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        holds.then(|| format!("process {pid} ({})", name.trim_end()))
    })
}

/// The number of the user who has such a socket; of no particular one if several have. It is known
/// even where the process is not.
#[cfg(target_os = "linux")]
pub(crate) fn user_of(at: SocketAddr) -> Option<u32> {
    clashes(at)?.first().map(|(uid, _)| *uid)
}

/// User and link of each socket that is in the way of `at`.
fn clashes(at: SocketAddr) -> Option<Vec<(u32, String)>> {
    let table = if at.is_ipv4() { "/proc/net/udp" } else { "/proc/net/udp6" };
    Some(sockets_in(&fs::read_to_string(table).ok()?, at))
}

/// The sockets in the text `table` that are in the way of `at`: their users, and how links of
/// `/proc/PID/fd` name them.
fn sockets_in(table: &str, at: SocketAddr) -> Vec<(u32, String)> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (address, port) = fields.nth(1)?.split_once(':')?;
            let uid = fields.nth(5)?.parse().ok()?;
            let inode = fields.nth(1)?;
            let clashes = u16::from_str_radix(port, 16) == Ok(at.port())
                && (address == hexadecimal(at.ip()) || address.bytes().all(|b| b == b'0'));
            clashes.then(|| (uid, format!("socket:[{inode}]")))
        })
        .collect()
}

/// The address as the table has it: words of 32 bits in the byte order of the host.
fn hexadecimal(ip: IpAddr) -> String {
    let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
    match ip {
        IpAddr::V4(v4) => word(v4.octets()),
        IpAddr::V6(v6) => {
            v6.octets().as_chunks().0.iter().map(|&chunk| word(chunk)).collect::<String>()
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn finds_this_process() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            let at = socket.local_addr().unwrap();
            let owner = owner_of(at).expect("this process holds it");
            assert!(owner.starts_with(&format!("process {} (", std::process::id())), "{owner}");
            drop(socket);
            assert_eq!(owner_of(at), None);
        }
    }

    #[test]
    fn a_socket_on_all_addresses_is_in_the_way_of_each() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let at = SocketAddr::new([127, 0, 0, 1].into(), socket.local_addr().unwrap().port());
        assert!(owner_of(at).is_some());
    }
}
