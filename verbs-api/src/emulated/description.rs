//! What a device is: of an emulated one, told without opening it.

use softrnic_model::Device;
use softrnic_model::verbs::{DeviceAttributes, Gid, PortAttributes};
use softrnic_transport::interfaces;

use super::membership::SLOT_ALONE;
use super::surroundings::View;
use super::{EmulatedConfig, EmulatedContext};
use crate::machine::addresses::Address;
use crate::provider::{Context, DeviceInfo, GidEntry, GidType, Verb};

/// What the verbs of a device tell, or would tell: an emulated one need not be open, and another process may
/// have it open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// How it is listed.
    pub info: DeviceInfo,
    /// `ibv_query_device(3)`
    pub attributes: DeviceAttributes,
    /// `ibv_query_port(3)`
    pub port: PortAttributes,
    /// The GID table.
    pub gids: Vec<GidEntry>,
    /// The P_Key table, host order.
    pub pkeys: Vec<u16>,
}

impl Description {
    /// What an open device tells.
    ///
    /// # Errors
    /// As the verbs that are asked.
    pub fn of(device: &dyn Context) -> Verb<Self> {
        /// The only port that is looked at.
        const PORT: u8 = crate::device::PORT;
        let port = device.query_port(PORT)?;
        let gids = (0..port.gid_tbl_len).filter_map(|index| device.query_gid(PORT, index).ok());
        let mut gids: Vec<_> = gids.collect();
        // Tables of real devices are long and mostly empty.
        let used = gids.iter().rposition(|entry| entry.gid != Gid::default());
        gids.truncate(used.map_or(0, |last| last + 1));
        let pkeys = (0..port.pkey_tbl_len).filter_map(|index| device.query_pkey(PORT, index).ok());
        let pkeys = pkeys.filter(|pkey| *pkey != 0).collect();
        let (info, attributes) = (device.device().clone(), device.query_device()?);
        Ok(Self { info, attributes, port, gids, pkeys })
    }
}

impl EmulatedConfig {
    /// The GID table that the device with this configuration would have.
    #[must_use]
    pub fn gids(&self) -> Vec<GidEntry> {
        let all = interfaces::all().unwrap_or_default();
        let config = self.clone().resolved(&all).unwrap_or_else(|_| self.clone());
        View::of(&config, &all).addresses.iter().map(gid_entry).collect()
    }

    /// What the device with this configuration would be.
    #[must_use]
    pub fn describe(&self) -> Description {
        let all = interfaces::all().unwrap_or_default();
        let config = self.clone().resolved(&all).unwrap_or_else(|_| self.clone());
        let view = View::of(&config, &all);
        let gids = view.addresses.iter().map(|address| address.ip.into()).collect();
        // The receive buffer decides nothing that is told here.
        let mut device = Device::new(config.device(SLOT_ALONE, gids, view.mtu, 0));
        device.set_port_state(view.state);
        Description {
            info: EmulatedContext::info_of(&config),
            attributes: device.query_device(),
            port: device.query_port(),
            gids: view.addresses.iter().map(gid_entry).collect(),
            pkeys: device.pkeys().to_vec(),
        }
    }
}

fn gid_entry(address: &Address) -> GidEntry {
    GidEntry {
        gid: address.ip.into(),
        gid_type: GidType::RoceV2,
        interface_index: address.interface,
    }
}

/// Only Linux has more than one loopback address.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn it_is_what_the_open_device_tells() {
        let port = super::super::free_port().unwrap();
        let config = EmulatedConfig::new(Ipv4Addr::new(127, 83, 0, 1).into()).with_port(port);
        let described = config.describe();
        assert_eq!(config.gids(), described.gids);
        let open = EmulatedContext::open(config).unwrap();
        assert_eq!(*open.device(), described.info);
        assert_eq!(open.query_device(), Ok(described.attributes));
        assert_eq!(open.query_port(1), Ok(described.port));
        for (index, gid) in (0..).zip(described.gids) {
            assert_eq!(open.query_gid(1, index), Ok(gid));
        }
        assert_eq!(described.pkeys, [open.query_pkey(1, 0).unwrap()]);
    }
}
