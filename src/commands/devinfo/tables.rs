//! Devices, ports, tables and limits as rows.

use softrnic_model::profile::{DatagramTooLong, Profile, ReadWithoutDepth};
use softrnic_verbs::emulated::Description;
use softrnic_verbs::provider::GidType;
use softrnic_verbs::{DeviceAttributes, PortState};

use crate::output::{Column, Table, Value};
use crate::words;

const DEVICES: [Column; 9] = [
    Column { key: "device", title: "device" },
    Column { key: "node_guid", title: "node GUID" },
    Column { key: "interface", title: "interface" },
    Column { key: "state", title: "state" },
    Column { key: "active_mtu", title: "active MTU" },
    Column { key: "max_mtu", title: "max MTU" },
    Column { key: "max_msg_sz", title: "max message" },
    Column { key: "gids", title: "#GIDs" },
    Column { key: "pkeys", title: "#P_Keys" },
];

/// The devices and their ports.
pub(super) fn devices(described: &[Description], interfaces: &[Option<String>]) -> Table<9> {
    let mut table = Table::new(&DEVICES);
    for (device, interface) in described.iter().zip(interfaces) {
        let state = match device.port.state {
            PortState::Active => "PORT_ACTIVE",
            PortState::Down => "PORT_DOWN",
        };
        table.push([
            device.info.name.clone().into(),
            guid(device.info.node_guid).into(),
            interface.clone().into(),
            state.into(),
            u64::from(device.port.active_mtu.bytes()).into(),
            u64::from(device.port.max_mtu.bytes()).into(),
            u64::from(device.port.max_msg_sz).into(),
            (device.gids.len() as u64).into(),
            (device.pkeys.len() as u64).into(),
        ]);
    }
    table
}

/// A GUID as rdma-core writes it.
fn guid(bytes: [u8; 8]) -> String {
    let [a, b, c, d, e, f, g, h] = bytes;
    format!("{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}")
}

const GIDS: [Column; 4] = [
    Column { key: "device", title: "device" },
    Column { key: "index", title: "index" },
    Column { key: "gid", title: "GID" },
    Column { key: "type", title: "type" },
];

/// The GID tables.
pub(super) fn gids(described: &[Description]) -> Table<4> {
    let mut table = Table::new(&GIDS);
    for device in described {
        for (index, entry) in (0_u64..).zip(&device.gids) {
            if entry.gid == softrnic_verbs::Gid::default() {
                continue;
            }
            let gid_type = match entry.gid_type {
                GidType::Ib => "IB",
                GidType::RoceV1 => "RoCE v1",
                GidType::RoceV2 => "RoCE v2",
            };
            let gid = entry.gid.to_string();
            table.push([
                device.info.name.clone().into(),
                index.into(),
                gid.into(),
                gid_type.into(),
            ]);
        }
    }
    table
}

const PKEYS: [Column; 3] = [
    Column { key: "device", title: "device" },
    Column { key: "index", title: "index" },
    Column { key: "pkey", title: "P_Key" },
];

/// The P_Key tables.
pub(super) fn pkeys(described: &[Description]) -> Table<3> {
    let mut table = Table::new(&PKEYS);
    for device in described {
        for (index, pkey) in (0_u64..).zip(&device.pkeys) {
            let name = device.info.name.clone();
            table.push([name.into(), index.into(), format!("{pkey:#06x}").into()]);
        }
    }
    table
}

const LIMITS: [Column; 2] =
    [Column { key: "limit", title: "limit" }, Column { key: "value", title: "value" }];

/// The limits of every device, under the names of `ibv_query_device(3)`.
pub(super) fn limits(attributes: Option<&DeviceAttributes>) -> Table<2> {
    let mut table = Table::new(&LIMITS);
    let Some(a) = attributes else { return table };
    let rows: [(&str, u64); 19] = [
        ("max_mr_size", a.max_mr_size),
        ("max_qp", a.max_qp.into()),
        ("max_qp_wr", a.max_qp_wr.into()),
        ("max_sge", a.max_sge.into()),
        ("max_inline_data", a.max_inline_data.into()),
        ("max_cq", a.max_cq.into()),
        ("max_cqe", a.max_cqe.into()),
        ("max_mr", a.max_mr.into()),
        ("max_mw", a.max_mw.into()),
        ("max_pd", a.max_pd.into()),
        ("max_ah", a.max_ah.into()),
        ("max_srq", a.max_srq.into()),
        ("max_srq_wr", a.max_srq_wr.into()),
        ("max_srq_sge", a.max_srq_sge.into()),
        ("max_qp_rd_atom", a.max_qp_rd_atom.into()),
        ("max_qp_init_rd_atom", a.max_qp_init_rd_atom.into()),
        ("max_mcast_grp", a.max_mcast_grp.into()),
        ("max_mcast_qp_attach", a.max_mcast_qp_attach.into()),
        ("max_pkeys", a.max_pkeys.into()),
    ];
    for (name, value) in rows {
        table.push([name.into(), value.into()]);
    }
    table
}

const PROFILE: [Column; 2] = [
    Column { key: "point", title: "where devices differ" },
    Column { key: "here", title: "this profile" },
];

/// The points where real devices differ.
pub(super) fn profile(profile: &Profile) -> Table<2> {
    let mut table = Table::new(&PROFILE);
    let status = |status| Value::from(words::status(status));
    let rows: [(&str, Value); 12] = [
        ("undefined fields and bytes are filled with junk", yes_no(profile.poison).into()),
        ("opcode of a failed completion is 0", yes_no(profile.failed_opcode_is_zero).into()),
        ("GRH flag on RC and UC receives", yes_no(profile.grh_flag_on_connected).into()),
        ("immediate flag on send completions", yes_no(profile.imm_flag_on_send).into()),
        ("wrong lkey", status(profile.bad_lkey)),
        ("receive too small, at the responder", status(profile.receive_too_small.responder)),
        ("receive too small, at the requester", status(profile.receive_too_small.requester)),
        (
            "datagram longer than the receive",
            match profile.datagram_too_long {
                DatagramTooLong::Dropped => "dropped".into(),
                DatagramTooLong::FailsReceive(how) => status(how),
            },
        ),
        (
            "READ or atomic with max_rd_atomic 0",
            match profile.read_without_depth {
                ReadWithoutDepth::Waits => "waits for ever".into(),
                ReadWithoutDepth::Fails(how) => status(how),
            },
        ),
        (
            "unaligned atomic is refused when posted",
            yes_no(profile.unaligned_atomic_refused_at_post).into(),
        ),
        ("access error event at the responder", yes_no(profile.access_error_event).into()),
        ("responder counts errors", yes_no(profile.responder_errors_counted).into()),
    ];
    for (point, here) in rows {
        table.push([point.into(), here]);
    }
    table
}

/// A truth as a cell.
pub(super) const fn yes_no(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_has_four_groups() {
        assert_eq!(guid([0x02, 0, 0x52, 0xff, 0xfe, 1, 0xab, 0x0c]), "0200:52ff:fe01:ab0c");
    }
}
