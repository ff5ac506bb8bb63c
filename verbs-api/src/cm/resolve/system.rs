//! Resolution among open devices, as a connection manager wants it.

use std::net::SocketAddr;
use std::sync::Arc;

use softrnic_model::verbs::Gid;

use super::{Holder, ResolveError, holder, resolve};
use crate::cm::{Cm, CmError, Path, Resolver};
use crate::provider::{Context, GidEntry, GidType};

/// The only port of a device.
const PORT: u8 = 1;
/// How many routers packets may pass, as Linux has it unless it is told otherwise.
const HOP_LIMIT: u8 = 64;

/// Resolves by the routes and addresses of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

/// The GID table of an open device.
fn gids(device: &Arc<dyn Context>) -> Vec<GidEntry> {
    let none = GidEntry { gid: Gid::default(), gid_type: GidType::RoceV2, interface_index: 0 };
    let len = device.query_port(PORT).map_or(0, |port| port.gid_tbl_len);
    (0..len).map(|index| device.query_gid(PORT, index).unwrap_or(none)).collect()
}

/// The device that has an address, and the index of its GID there; `None` for a wildcard.
///
/// # Errors
/// As [`holder`].
pub fn device_at(
    devices: &[Arc<dyn Context>],
    address: SocketAddr,
) -> Cm<Option<(Arc<dyn Context>, u8)>> {
    let tables: Vec<_> = devices.iter().map(gids).collect();
    let Some(Holder { device, gid_index }) = holder(address, &tables)? else { return Ok(None) };
    Ok(devices.get(device).map(|device| (Arc::clone(device), gid_index)))
}

impl Resolver for SystemResolver {
    fn path(
        &self,
        devices: &[Arc<dyn Context>],
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Cm<Path> {
        let tables: Vec<_> = devices.iter().map(gids).collect();
        let resolved = resolve(destination, source, &tables)?;
        let device = devices.get(resolved.device).ok_or(ResolveError::NoDevice)?;
        Ok(Path {
            device: Arc::clone(device),
            port: PORT,
            gid_index: resolved.gid_index,
            source: resolved.source,
            destination: resolved.destination,
            hop_limit: HOP_LIMIT,
            mtu: None,
        })
    }
}

impl From<ResolveError> for CmError {
    fn from(error: ResolveError) -> Self {
        Self::with_errno(error.errno(), error.to_string())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::emulated::{EmulatedConfig, EmulatedContext, free_port};

    #[test]
    fn open_devices_are_found_by_what_they_have() {
        let open = |last| {
            let address = std::net::Ipv4Addr::new(127, 84, 0, last).into();
            let config = EmulatedConfig::new(address).with_port(free_port().unwrap());
            Arc::new(EmulatedContext::open(config).unwrap()) as Arc<dyn Context>
        };
        let devices = [open(1), open(2)];
        let source = "127.84.0.2:7".parse().unwrap();
        let path =
            SystemResolver.path(&devices, Some(source), "127.0.0.1:9".parse().unwrap()).unwrap();
        assert!(Arc::ptr_eq(&path.device, &devices[1]));
        assert_eq!((path.port, path.gid_index, path.source), (1, 0, source));
        let (device, index) = device_at(&devices, source).unwrap().unwrap();
        assert!(Arc::ptr_eq(&device, &devices[1]) && index == 0);
        let errno =
            |address: &str| device_at(&devices, address.parse().unwrap()).unwrap_err().errno();
        assert_eq!(errno("127.84.0.3:0"), libc::ENODEV);
        assert_eq!(errno("198.51.100.9:0"), libc::EADDRNOTAVAIL);
        assert!(device_at(&devices, "0.0.0.0:7".parse().unwrap()).unwrap().is_none());
    }
}
