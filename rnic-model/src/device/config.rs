//! What a device is made with.

use alloc::vec;
use alloc::vec::Vec;

use crate::profile::Profile;
use crate::protection::KeyPolicy;
use crate::qp::MAX_MESSAGE_BYTES;
use crate::qp::window::Reads;
use crate::verbs::{DeviceAttributes, Gid, Mtu};

/// What a device is made with. [`DeviceConfig::default`] is a device without addresses; give it at
/// least one GID.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its limits.
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
        }
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
};

const _: () = assert!(ATTRIBUTES.max_qp < 1 << 16, "a slot has 16 bits of queue pair numbers");
const _: () = assert!(ATTRIBUTES.max_qp_init_rd_atom as usize <= Reads::MAX);
const _: () =
    assert!(MAX_MESSAGE_BYTES / Mtu::B256.bytes() <= 1 << 23, "one message fits half the PSNs");
const _: () = assert!(ATTRIBUTES.max_sge < 256, "a request counts its elements in 8 bits");
