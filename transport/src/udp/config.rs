//! What a UDP link is asked to be.

use std::net::IpAddr;

use softrnic_model::wire::ROCE_PORT;

/// Whether the kernel may be given, or may hand over, several frames in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offload {
    /// When the kernel and the network device can.
    #[default]
    Auto,
    /// Never: one datagram per frame.
    Off,
}

/// How to open a [`super::UdpLink`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// The address of this end, one that the host owns. Its GID is the source of every frame.
    pub address: IpAddr,
    /// UDP port to listen on: [`ROCE_PORT`], or another one for a network of emulators only.
    pub port: u16,
    /// UDP port of the peers, normally the same as [`UdpConfig::port`]. The ICRC is made for
    /// [`ROCE_PORT`] whatever is said here.
    pub peer_port: u16,
    /// Name of the interface for multicast and link-local addresses. Without one, the interface
    /// that owns `address`.
    pub interface: Option<String>,
    /// Receive buffer to ask the kernel for, in bytes. It grants what `net.core.rmem_max` allows
    /// unless the process is privileged; see [`super::UdpLink::granted_receive_buffer`].
    pub receive_buffer: usize,
    /// Send buffer to ask for, in bytes.
    pub send_buffer: usize,
    /// `UDP_SEGMENT`: many frames of one length in one send. Such frames carry a UDP checksum,
    /// because the kernel segments no others; single datagrams leave with checksum 0 as annex A17
    /// has it.
    pub gso: Offload,
    /// `UDP_GRO`: many frames in one receive.
    pub gro: Offload,
    /// How many UDP source ports to send from, 1 to 16, opened as they are needed. Frames of one
    /// destination slot (the high 8 bits of its queue pair number) always leave from the same
    /// port, and those of two slots from two ports while there are enough, so that neither a
    /// receiving kernel nor a network card merges frames of two processes.
    pub source_ports: u8,
}

impl UdpConfig {
    /// The usual link at `address`.
    #[must_use]
    pub const fn new(address: IpAddr) -> Self {
        Self {
            address,
            port: ROCE_PORT,
            peer_port: ROCE_PORT,
            interface: None,
            receive_buffer: 16 << 20,
            send_buffer: 4 << 20,
            gso: Offload::Auto,
            gro: Offload::Auto,
            source_ports: 16,
        }
    }

    /// The same on another port, both ways.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self.peer_port = port;
        self
    }
}
