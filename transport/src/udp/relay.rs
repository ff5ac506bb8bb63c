//! Datagrams that come by way of another process, which is not trusted with the socket itself.
//!
//! The relay reads the socket and sends on, over a pair of unix datagram sockets, what it read
//! with what it knows of it in front. The other end is adopted like a UDP socket
//! ([`super::UdpLink::adopt`]).

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use softrnic_model::verbs::Gid;

use super::linux::{self, Calls};
use super::system::{Arrival, DATAGRAM_MAX, System};

/// Bytes in front of the datagrams: address 16, port 2, traffic class, hop limit, flow label 4,
/// segment 2.
const HEADER_LEN: usize = 26;
const _: () = assert!(HEADER_LEN + DATAGRAM_MAX <= linux::BUFFER_LEN);

/// Reads UDP sockets for others.
pub(crate) struct Relay(Calls);

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

impl Relay {
    pub(crate) fn new() -> Self {
        Self(Calls::new())
    }

    /// Sets the options of a socket that is going to be read. `bytes` of buffer are asked for.
    pub(crate) fn prepare(socket: &UdpSocket, v4: bool, bytes: usize) -> io::Result<()> {
        linux::prepare_receive(socket, v4, true)?;
        linux::force_buffers(socket, bytes, 0)
    }

    /// Sends on what waits at a socket, at most one batch. What the other end has no room for is
    /// lost, as at a full socket. Returns whether there may be more.
    pub(crate) fn forward(&mut self, from: &UdpSocket, to: &impl AsFd) -> bool {
        let forwarded = self.0.receive(from, &mut |arrival, bytes| {
            let header = header(arrival);
            let parts = [IoSlice::new(&header), IoSlice::new(bytes)];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = sendmsg(to, &parts, &mut SendAncillaryBuffer::default(), flags);
        });
        forwarded.is_ok()
    }
}

fn header(arrival: &Arrival) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    let segment = u16::try_from(arrival.segment).unwrap_or(u16::MAX);
    header[..16].copy_from_slice(&Gid::from(arrival.from.ip()).0);
    header[16..18].copy_from_slice(&arrival.from.port().to_le_bytes());
    header[18] = arrival.traffic_class;
    header[19] = arrival.hop_limit;
    header[20..24].copy_from_slice(&arrival.flow_label.to_le_bytes());
    header[24..].copy_from_slice(&segment.to_le_bytes());
    header
}

/// What a relay says of datagrams, and the datagrams; `None` if no relay has sent it.
pub(super) fn taken_apart(bytes: &[u8]) -> Option<(Arrival, &[u8])> {
    let (header, datagrams) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let port = u16::from_le_bytes([header[16], header[17]]);
    let segment = usize::from(u16::from_le_bytes([header[24], header[25]]));
    let arrival = Arrival {
        from: SocketAddr::new(IpAddr::from(Gid(*header.first_chunk()?)), port),
        traffic_class: header[18],
        hop_limit: header[19],
        flow_label: u32::from_le_bytes([header[20], header[21], header[22], header[23]]),
        segment: if segment == 0 { datagrams.len() } else { segment },
        overflow: None,
    };
    Some((arrival, datagrams))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_datagram_is_told() {
        for from in ["127.0.0.1:50000", "[fd00::1]:65535"] {
            let arrival = Arrival {
                from: from.parse().unwrap(),
                traffic_class: 0xb8,
                hop_limit: 63,
                flow_label: 0x000a_bcde,
                segment: 1052,
                overflow: None,
            };
            let bytes = [&header(&arrival)[..], &[1, 2, 3]].concat();
            assert_eq!(taken_apart(&bytes), Some((arrival, &[1, 2, 3][..])));
        }
        assert_eq!(taken_apart(&[0; HEADER_LEN - 1]), None);
    }
}
