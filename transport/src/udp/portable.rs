//! One datagram a call, on systems where no more is known to work.
//!
//! Nothing here sets or shows traffic class, hop limit and IPv4 identification. The ICRC is made
//! as if the identification were 0 and solved for on arrival, so links of this kind understand
//! each other; a NIC that checks the ICRC may not understand them over IPv4.

use std::io;
use std::net::UdpSocket;

use super::system::{Arrival, Burst, System};

const BUFFER_LEN: usize = 1 << 16;
/// How many datagrams one call of [`System::receive`] may bring.
const RECEIVE_BATCH: usize = 16;

/// `sendto` and `recvfrom`.
pub(super) struct Calls {
    buffer: Box<[u8]>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_LEN].into_boxed_slice() }
    }
}

impl System for Calls {
    fn send(&mut self, socket: &UdpSocket, bytes: &[u8], bursts: &[Burst]) -> io::Result<usize> {
        for (sent, burst) in bursts.iter().enumerate() {
            let payload = &bytes[burst.start..burst.start + burst.len];
            match socket.send_to(payload, burst.to) {
                Ok(_) => {}
                Err(_) if sent > 0 => return Ok(sent),
                Err(e) => return Err(e),
            }
        }
        Ok(bursts.len())
    }

    fn receive(
        &mut self,
        socket: &UdpSocket,
        take: &mut dyn FnMut(&Arrival, &[u8]),
    ) -> io::Result<usize> {
        let mut received = 0;
        while received < RECEIVE_BATCH {
            let (len, from) = match socket.recv_from(&mut self.buffer) {
                Ok(got) => got,
                // Windows tells here that some earlier datagram met no listener
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => continue,
                Err(_) if received > 0 => break,
                Err(e) => return Err(e),
            };
            received += 1;
            let arrival = Arrival {
                from,
                traffic_class: 0,
                hop_limit: 0,
                flow_label: 0,
                segment: len,
                overflow: None,
            };
            take(&arrival, &self.buffer[..len]);
        }
        Ok(received)
    }
}
