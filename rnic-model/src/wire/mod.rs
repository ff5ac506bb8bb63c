//! RoCEv2 on the wire.
//!
//! A *packet* is what the transport makes and takes: base transport header, extension headers,
//! payload, pad ([`Packet`], [`HeaderBuf`]). A *datagram* is a packet and its ICRC, the payload of
//! UDP ([`IcrcSeed`]). A *frame* is a datagram in UDP, IP and Ethernet ([`RoceFrame`]), which only
//! captures show.

mod bth;
mod build;
mod frame;
mod grh;
mod headers;
mod icrc;
mod ip;
mod opcode;
mod packet;
mod route;
mod syndrome;

pub use bth::Bth;
pub use build::HeaderBuf;
pub use frame::{IpHeader, NotRoce, PacketTooLong, RoceFrame, emit_frame};
pub use grh::Grh;
pub use headers::{Aeth, AtomicAckEth, AtomicEth, Deth, Feth, Ieth, ImmDt, Reth, XrcEth};
pub use icrc::{ICRC_LEN, IcrcRoute, IcrcSeed, IcrcVerdict, split_icrc};
pub use ip::{EthernetHeader, Ipv4Header, Ipv6Header, UdpHeader, VlanTag};
pub use opcode::{Extensions, Opcode, OpcodeFacts, Operation, Place, Service};
pub use packet::{Packet, ParseError};
pub use route::{ROCE_PORT, Route};
pub use syndrome::{NakCode, Syndrome, ack_timeout_ns, rnr_timer_ns};
