//! What a device is made with.

use alloc::vec;
use alloc::vec::Vec;

use crate::profile::Profile;
use crate::protection::KeyPolicy;
use crate::qp::MAX_MESSAGE_BYTES;
use crate::qp::window::Reads;
use crate::verbs::{DeviceAttributes, DeviceCapabilities, Gid, Mtu};

/// What a device is made with. [`DeviceConfig::default`] is a device without addresses; give it at
/// least one GID.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its limits. Those that the tables cannot hold are lowered; [`Device::query_device`] tells.
    ///
    /// [`Device::query_device`]: super::Device::query_device
    pub attributes: DeviceAttributes,
    /// How it behaves where devices differ.
    pub profile: Profile,
    /// How keys are chosen.
    pub key_policy: KeyPolicy,
    /// The GID table.
    pub gids: Vec<Gid>,
    /// The P_Key table.
    pub pkeys: Vec<u16>,
    /// The largest path MTU that the interface carries.
    pub mtu: Mtu,
    /// The slot of all its queue pair numbers; other slots of the same address are other
    /// processes.
    pub qp_slot: u8,
    /// Index of the first queue pair number within the slot. Start somewhere else each time, so
    /// that packets for an earlier run meet no queue pair.
    pub first_qp_index: u16,
    /// Bytes of payload that one queue pair may have unacknowledged: no more than the peer's
    /// receive buffer takes.
    pub window_bytes: u32,
    /// Whether queue pairs send less when their peers report congestion, the reaction point of
    /// RoCEv2 congestion management (annex A17, optional there). Off if nothing is said: nobody
    /// authenticates these reports, so whoever can spoof a packet of the peer can slow a queue pair
    /// down that heeds them [attacks/cnp-spoof]. They are counted in any case.
    pub reaction_point: bool,
}

impl Default for DeviceConfig {
    fn default() -> Self {
        Self {
            attributes: ATTRIBUTES,
            profile: Profile::SPEC,
            key_policy: KeyPolicy::Sequential,
            gids: Vec::new(),
            pkeys: vec![crate::wire::Bth::DEFAULT_PKEY],
            mtu: Mtu::B4096,
            qp_slot: 1,
            first_qp_index: 0,
            window_bytes: 1 << 20,
            reaction_point: false,
        }
    }
}

/// The limits that are granted of those that are asked for: numbers and counts must fit where they
/// are kept.
pub(super) fn bounded(asked: DeviceAttributes) -> DeviceAttributes {
    const OBJECTS_MAX: u32 = 1 << 16;
    let DeviceAttributes { max_pd, max_cq, max_srq, max_ah, .. } = asked;
    DeviceAttributes {
        max_qp: asked.max_qp.min(OBJECTS_MAX - 1),
        max_qp_wr: asked.max_qp_wr.min(1 << 24),
        max_sge: asked.max_sge.min(u8::MAX.into()),
        max_pd: max_pd.min(OBJECTS_MAX),
        max_cq: max_cq.min(OBJECTS_MAX),
        max_srq: max_srq.min(OBJECTS_MAX),
        max_ah: max_ah.min(OBJECTS_MAX),
        max_qp_init_rd_atom: asked.max_qp_init_rd_atom.min(16),
        // Time is told in nanoseconds.
        core_clock_khz: ATTRIBUTES.core_clock_khz,
        capabilities: asked.capabilities.intersection(ATTRIBUTES.capabilities),
        ..asked
    }
}

const ATTRIBUTES: DeviceAttributes = DeviceAttributes {
    max_mr_size: u64::MAX,
    max_qp: 32_768,
    max_qp_wr: 16_384,
    max_sge: 32,
    max_inline_data: 1024,
    max_cq: 32_768,
    max_cqe: 1 << 20,
    max_mr: 1 << 20,
    max_mw: 1 << 20,
    max_pd: 32_768,
    max_ah: 65_536,
    max_srq: 32_768,
    max_srq_wr: 32_768,
    max_srq_sge: 32,
    max_qp_rd_atom: 16,
    max_qp_init_rd_atom: 16,
    max_mcast_grp: 4096,
    max_mcast_qp_attach: 256,
    max_pkeys: 1,
    node_guid: [0x02, 0, 0, 0xff, 0xfe, 0, 0, 1],
    // All but what no software can promise of memory that it knows nothing of.
    capabilities: DeviceCapabilities::all().difference(DeviceCapabilities::FLUSH_PERSISTENT),
    max_cq_moderation_count: u16::MAX,
    max_cq_moderation_period_us: u16::MAX,
    qp_rate_limit_min: 1,
    qp_rate_limit_max: u32::MAX,
    core_clock_khz: 1_000_000,
};

const _: () = assert!(ATTRIBUTES.max_qp < 1 << 16, "a slot has 16 bits of queue pair numbers");
const _: () = assert!(ATTRIBUTES.max_qp_init_rd_atom as usize <= Reads::MAX);
const _: () =
    assert!(MAX_MESSAGE_BYTES / Mtu::B256.bytes() <= 1 << 23, "one message fits half the PSNs");
const _: () = assert!(ATTRIBUTES.max_sge < 256, "a request counts its elements in 8 bits");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn no_limit_is_higher_than_what_is_kept_for_it() {
        assert_eq!(bounded(ATTRIBUTES), ATTRIBUTES);
        let attributes = DeviceAttributes {
            max_qp: u32::MAX,
            max_qp_wr: u32::MAX,
            max_sge: u32::MAX,
            max_pd: u32::MAX,
            max_cq: u32::MAX,
            max_srq: u32::MAX,
            max_ah: u32::MAX,
            max_qp_init_rd_atom: u8::MAX,
            core_clock_khz: 1,
            capabilities: DeviceCapabilities::all(),
            ..ATTRIBUTES
        };
        let mut device = Device::new(DeviceConfig { attributes, ..DeviceConfig::default() });
        let granted = device.query_device();
        assert_eq!(usize::from(granted.max_qp_init_rd_atom), Reads::MAX);
        assert_eq!(granted.max_sge, 255);
        assert_eq!((granted.max_qp, granted.max_qp_wr), (65_535, 1 << 24));
        assert_eq!([granted.max_cq, granted.max_srq, granted.max_ah], [65_536; 3]);
        assert_eq!(granted.core_clock_khz, 1_000_000, "completions are stamped in nanoseconds");
        assert_eq!(granted.capabilities, ATTRIBUTES.capabilities);
        let made = core::iter::from_fn(|| device.alloc_pd().ok()).count();
        assert_eq!(u32::try_from(made), Ok(granted.max_pd));
    }
}
