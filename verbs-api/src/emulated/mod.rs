//! The emulated device: the model over UDP and program memory.
//!
//! One lock holds the device, its link and the memory table (the core). Who has it makes progress:
//! every verb that posts or polls does so inline, and an engine thread (`engine`) serves a
//! program that does neither, for one-sided operations must be answered all the same.

#[cfg(target_os = "linux")]
mod comeback;
mod communication;
mod config;
mod description;
mod engine;
mod home;
mod membership;
mod notices;
mod open;
#[cfg(unix)]
mod private;
mod provider;
#[cfg(unix)]
mod published;
mod surroundings;
#[cfg(test)]
mod tests;
mod threads;

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use softrnic_transport::udp;

pub use config::{EmulatedConfig, OpenError, Sharing};
pub use description::Description;
pub use open::EmulatedContext;
#[cfg(unix)]
pub use private::private_directory;
pub use provider::{DeviceChoice, EmulatedProvider};
#[cfg(unix)]
pub use published::Published;

use crate::Context;

/// Opens a device.
///
/// # Errors
/// See [`OpenError`]; its text says what to do.
pub fn open(config: EmulatedConfig) -> Result<Context, OpenError> {
    Ok(Context::new(Arc::new(EmulatedContext::open(config)?)))
}

/// Opens the usual device at an address of this host, UDP port 4791.
///
/// # Errors
/// As [`open`].
pub fn open_at(address: impl Into<IpAddr>) -> Result<Context, OpenError> {
    open(EmulatedConfig::new(address.into()))
}

/// Opens two devices of this process that reach each other, at 127.0.0.2 and 127.0.0.3 and a UDP
/// port that was free: for tests and for trying things out. Any number of processes may do so at
/// the same time.
///
/// # Errors
/// As [`open`]; on systems where 127.0.0.1 is the only loopback address.
pub fn open_pair() -> Result<(Context, Context), OpenError> {
    open_pair_with(|_| ())
}

/// As [`open_pair`]; `change` is called on the configuration of each device before it is opened.
///
/// # Errors
/// As [`open_pair`].
pub fn open_pair_with(
    change: impl Fn(&mut EmulatedConfig),
) -> Result<(Context, Context), OpenError> {
    /// A port may be taken between being found and being used.
    const ATTEMPTS: usize = 16;
    let attempt = || {
        let port = free_port()?;
        let end = |last: u8| {
            let mut config = EmulatedConfig::new([127, 0, 0, last].into()).with_port(port);
            config.name = format!("softrnic{}", last - 2);
            change(&mut config);
            open(config)
        };
        Ok((end(2)?, end(3)?))
    };
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(OpenError::Link(udp::OpenError::PortInUse { .. })) => {}
            result => return result,
        }
    }
    attempt()
}

/// A UDP port that was free a moment ago on the loopback addresses.
pub(crate) fn free_port() -> Result<u16, OpenError> {
    let socket = UdpSocket::bind((IpAddr::from([127, 0, 0, 1]), 0));
    let port = socket.and_then(|socket| socket.local_addr()).map(|at| at.port());
    port.map_err(|error| OpenError::System("no free UDP port", error))
}
