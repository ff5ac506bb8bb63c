//! How RoCEv2 frames travel: links, taps that decorate any link, and the pump that moves frames
//! between a device and its link.
#![deny(unsafe_code)]

pub mod interfaces;
pub mod link;
pub mod ports;
pub mod pump;
#[cfg(target_os = "linux")]
pub mod service;
pub mod set;
pub mod sim;
pub mod tap;
pub mod udp;

pub use link::{Link, LinkCounters, Outgoing, PACKET_LEN_MAX};
pub use pump::pump;
pub use set::LinkSet;
pub use udp::{UdpConfig, UdpLink};
