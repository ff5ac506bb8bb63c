//! What the device can do, and what it cannot: the same list as "What is not here yet" of the
//! README. The tests ask an open device.

use super::tables::yes_no;
use crate::output::{Column, Table};

/// One capability.
struct Capability {
    key: &'static str,
    here: bool,
    remark: &'static str,
}

const fn yes(key: &'static str, remark: &'static str) -> Capability {
    Capability { key, here: true, remark }
}

const fn no(key: &'static str, remark: &'static str) -> Capability {
    Capability { key, here: false, remark }
}

const CAPABILITIES: [Capability; 47] = [
    yes("rc", "reliable connection"),
    yes("uc", "unreliable connection"),
    yes("ud", "unreliable datagram"),
    yes("xrc", "extended reliable connection: domains, shared receive queues, shared targets"),
    no("rd", "reliable datagram"),
    no("raw_packet", ""),
    yes("send_with_immediate", ""),
    yes("send_with_invalidate", ""),
    yes("rdma_write_with_immediate", ""),
    yes("rdma_read", ""),
    yes("atomic_compare_swap", "also with the program's own atomics of 8 bytes"),
    yes("atomic_fetch_add", "also with the program's own atomics of 8 bytes"),
    no("atomic_masked", "of 16, 32 or more bytes, or under a mask"),
    yes("atomic_write", "of 8 bytes"),
    yes("flush_global", "of a range or a whole region"),
    no("flush_persistent", "refused as an invalid request; nothing is known of the memory"),
    yes("inline_data", ""),
    yes("zero_based_region", ""),
    yes("reregister_region", ""),
    yes("on_demand_paging", "accepted; no memory is pinned with or without it"),
    yes("device_memory", "on the heap of the program"),
    yes("null_region", ""),
    yes("implicit_on_demand_paging", "one region over all memory of the program"),
    yes("advise_region", "prefetch"),
    yes("memory_window_type_1", ""),
    yes("memory_window_type_2a", ""),
    yes("memory_window_type_2b", ""),
    yes("local_invalidate", "of windows of type 2"),
    yes("completion_channel", ""),
    yes("cq_resize", ""),
    yes("cq_moderation", "by count and by time"),
    yes("shared_receive_queue", "with limit event"),
    yes("srq_resize", ""),
    yes("completion_timestamps", "in nanoseconds"),
    no("qp_resize", ""),
    no("alternate_path", "APM and path migration"),
    yes("multicast", "UD"),
    yes("congestion_notification", "marks are answered with CNPs; senders do not slow down"),
    yes("rate_limit", "RC"),
    no("service_level", "kept and reported, without effect"),
    yes("roce_v2_ipv4", ""),
    yes("roce_v2_ipv6", ""),
    no("roce_v1", ""),
    no("connection_manager", "rdma_cm"),
    no("shared_address", "several processes on one address"),
    no("same_host_shared_memory", ""),
    yes("c_library", "libibverbs.so.1 for unmodified programs"),
];

const COLUMNS: [Column; 3] = [
    Column { key: "capability", title: "capability" },
    Column { key: "here", title: "here" },
    Column { key: "remark", title: "remark" },
];

/// All of them.
pub(super) fn table() -> Table<3> {
    let mut table = Table::new(&COLUMNS);
    for Capability { key, here, remark } in CAPABILITIES {
        table.push([key.into(), yes_no(here).into(), remark.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use softrnic_verbs::buffer::Buffer;
    use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext};
    use softrnic_verbs::{
        Access, Context, CqModeration, DeviceCapabilities, Gid, QpAttributeMask, QpAttributes,
        QpType, SrqAttributes, WindowType,
    };

    use super::*;

    fn has(key: &str) -> bool {
        CAPABILITIES.iter().find(|capability| capability.key == key).unwrap().here
    }

    #[test]
    fn each_stands_there_once() {
        let keys: BTreeSet<_> = CAPABILITIES.iter().map(|capability| capability.key).collect();
        assert_eq!(keys.len(), CAPABILITIES.len());
    }

    /// What the verbs themselves tell. Operations are shown at work by the tour.
    #[test]
    fn an_open_device_agrees() {
        let config = EmulatedConfig::new(Ipv4Addr::new(127, 84, 0, 1).into());
        let context = Context::new(Arc::new(EmulatedContext::open(config).unwrap()));
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(16).unwrap();
        for (key, qp_type) in [("rc", QpType::Rc), ("uc", QpType::Uc), ("ud", QpType::Ud)] {
            assert_eq!(pd.create_qp(qp_type, &cq).build().is_ok(), has(key), "{key}");
        }
        let moderated = cq.moderate(CqModeration { count: 4, period_us: 10 });
        assert_eq!(moderated.is_ok(), has("cq_moderation"));
        assert_eq!(context.attributes().unwrap().qp_rate_limit_max != 0, has("rate_limit"));
        assert_eq!(context.open_xrcd().is_ok(), has("xrc"));
        let can = context.attributes().unwrap().capabilities;
        for (key, capability) in [
            ("xrc", DeviceCapabilities::XRC),
            ("atomic_write", DeviceCapabilities::ATOMIC_WRITE),
            ("flush_global", DeviceCapabilities::FLUSH_GLOBAL),
            ("flush_persistent", DeviceCapabilities::FLUSH_PERSISTENT),
            ("srq_resize", DeviceCapabilities::SRQ_RESIZE),
            ("memory_window_type_1", DeviceCapabilities::MEM_WINDOW),
            ("memory_window_type_2a", DeviceCapabilities::MEM_WINDOW_TYPE_2A),
            ("memory_window_type_2b", DeviceCapabilities::MEM_WINDOW_TYPE_2B),
        ] {
            assert_eq!(can.contains(capability), has(key), "{key}");
        }
        for (key, window_type) in [
            ("memory_window_type_1", WindowType::Type1),
            ("memory_window_type_2a", WindowType::Type2A),
            ("memory_window_type_2b", WindowType::Type2B),
        ] {
            assert_eq!(pd.alloc_mw(window_type).is_ok(), has(key), "{key}");
        }
        for (key, access) in
            [("zero_based_region", Access::ZERO_BASED), ("on_demand_paging", Access::ON_DEMAND)]
        {
            let buffer = Buffer::new(4096).unwrap();
            assert_eq!(pd.register(buffer, access).is_ok(), has(key), "{key}");
        }
        let verbs = context.verbs();
        assert_eq!(context.alloc_dm(4096).is_ok(), has("device_memory"));
        assert_eq!(pd.alloc_null_mr().is_ok(), has("null_region"));
        let memory = verbs.query_memory().unwrap();
        assert_eq!(memory.implicit_on_demand, has("implicit_on_demand_paging"));
        let stamped = context.create_cq_with_timestamps(16, None);
        assert_eq!(stamped.is_ok(), has("completion_timestamps"));
        assert_eq!(verbs.resize_cq(cq.id(), 64).is_ok(), has("cq_resize"));
        let sizes = SrqAttributes { max_wr: 16, max_sge: 1, srq_limit: 0 };
        let srq = pd.create_srq(&sizes).unwrap();
        assert!(has("shared_receive_queue"));
        assert_eq!(verbs.modify_srq(srq.id(), None, Some(32)).is_ok(), has("srq_resize"));
        let qp = pd.create_qp(QpType::Rc, &cq).build().unwrap();
        for (key, mask) in
            [("qp_resize", QpAttributeMask::CAP), ("alternate_path", QpAttributeMask::ALT_PATH)]
        {
            let refused = qp.modify(&QpAttributes::default(), mask);
            assert_eq!(refused.map_err(|error| error.source.errno_name()), Err("EOPNOTSUPP"));
            assert!(!has(key), "{key}");
        }
        let ud = pd.create_qp(QpType::Ud, &cq).build().unwrap();
        assert_eq!(ud.join(Gid::from_v4([239, 84, 0, 1])).is_ok(), has("multicast"));
        assert_eq!(context.create_comp_channel().is_ok(), has("completion_channel"));
    }
}
