//! Objects of a device: limits, what is in use, failures that leave nothing behind; and the port.

use std::collections::{BTreeSet, VecDeque};

use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::qp::MAX_MESSAGE_BYTES;
use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{
    Access, AddressVector, AsyncEvent, CqId, Gid, Mtu, PdId, PortState, QpCapabilities, QpInit,
    QpNum, QpType, SrqAttributes, VerbError, WindowType,
};
use softrnic_model::wire::Place::Only;
use softrnic_model::{Device, DeviceConfig, FrameOut, MemoryId};

use crate::bench::{A, B, BASE, Forge, Setup, send, wr};

const GID: Gid = Gid::from_v4([10, 0, 0, 1]);
const SRQ: SrqAttributes = SrqAttributes { max_wr: 4, max_sge: 1, srq_limit: 0 };

fn device(change: impl FnOnce(&mut DeviceConfig)) -> Device {
    let mut config = DeviceConfig { gids: vec![GID], ..DeviceConfig::default() };
    change(&mut config);
    Device::new(config)
}

fn init(pd: PdId, cq: CqId) -> QpInit {
    let cap = QpCapabilities {
        max_send_wr: 1,
        max_recv_wr: 1,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let (qp_type, srq, signal_all) = (QpType::Rc, None, false);
    QpInit {
        pd,
        qp_type,
        send_cq: cq,
        recv_cq: cq,
        srq,
        xrcd: None,
        cap,
        signal_all,
        create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
    }
}

fn region(pd: PdId) -> RegionSpec {
    let access = Access::LOCAL_WRITE;
    RegionSpec { pd, memory: MemoryId(0), memory_offset: 0, addr: BASE, length: 64, access }
}

/// The same of each kind of object: make some until there are too many, and give one back.
macro_rules! until_full {
    ($make:expr, $remove:expr, $max:expr) => {{
        let mut made: Vec<_> = (0..$max).map(|_| $make.unwrap()).collect();
        for _ in 0..3 {
            let refused = $make.unwrap_err();
            assert!(matches!(refused, VerbError::Full(_)), "{refused:?}");
        }
        let one = made.pop().unwrap();
        $remove(one).unwrap();
        assert!($remove(one).is_err(), "its number names nothing any more");
        let again = $make.unwrap();
        assert_ne!(again, one);
        made.push(again);
        made
    }};
}

#[test]
fn there_are_as_many_as_the_device_says_and_no_more() {
    let mut device = device(|config| {
        let limits = &mut config.attributes;
        (limits.max_pd, limits.max_cq, limits.max_srq, limits.max_ah) = (3, 4, 5, 6);
        (limits.max_mr, limits.max_mw, limits.max_qp) = (7, 8, 9);
    });
    let pd = until_full!(device.alloc_pd(), |pd| device.dealloc_pd(pd), 3)[0];
    let cq = until_full!(device.create_cq(16), |cq| device.destroy_cq(cq), 4)[0];
    let path = AddressVector { dgid: GID, ..AddressVector::default() };
    let ahs = until_full!(device.create_ah(pd, path), |ah| device.destroy_ah(ah), 6);
    let srqs = until_full!(device.create_srq(pd, SRQ), |srq| device.destroy_srq(srq), 5);
    let regions =
        until_full!(device.register(region(pd)), |key| device.deregister(key).map(|_| ()), 7);
    let window = WindowType::Type2A;
    let windows = until_full!(device.alloc_mw(pd, window), |key| device.dealloc_mw(key), 8);
    let qps = until_full!(device.create_qp(&init(pd, cq)), |qp| device.destroy_qp(qp), 9);
    // What failed has left nothing behind: when all is gone the domain is free.
    ahs.into_iter().for_each(|ah| device.destroy_ah(ah).unwrap());
    srqs.into_iter().for_each(|srq| device.destroy_srq(srq).unwrap());
    regions.into_iter().for_each(|key| assert_eq!(device.deregister(key), Ok(region(pd))));
    windows.into_iter().for_each(|key| device.dealloc_mw(key).unwrap());
    assert!(matches!(device.dealloc_pd(pd), Err(VerbError::Busy(_))));
    assert!(matches!(device.destroy_cq(cq), Err(VerbError::Busy(_))));
    qps.into_iter().for_each(|qp| device.destroy_qp(qp).unwrap());
    device.dealloc_pd(pd).unwrap();
    device.destroy_cq(cq).unwrap();
}

#[test]
fn everything_keeps_its_protection_domain() {
    type Make = fn(&mut Device, PdId) -> bool;
    let makes: [Make; 5] = [
        |device, pd| device.register(region(pd)).is_ok(),
        |device, pd| device.alloc_mw(pd, WindowType::Type1).is_ok(),
        |device, pd| device.create_srq(pd, SRQ).is_ok(),
        |device, pd| {
            let path = AddressVector { dgid: GID, ..AddressVector::default() };
            device.create_ah(pd, path).is_ok()
        },
        |device, pd| {
            let cq = device.create_cq(1).unwrap();
            device.create_qp(&init(pd, cq)).is_ok()
        },
    ];
    for make in makes {
        let mut device = device(|_| ());
        let pd = device.alloc_pd().unwrap();
        assert!(make(&mut device, pd));
        assert!(matches!(device.dealloc_pd(pd), Err(VerbError::Busy(_))));
    }
}

#[test]
fn sizes_beyond_the_limits_are_refused_and_cost_nothing() {
    let mut device = device(|_| ());
    let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(1).unwrap());
    let limits = device.query_device();
    type Change = fn(&mut QpInit, u32);
    let changes: [(Change, u32); 5] = [
        (|init, n| init.cap.max_send_wr = n, limits.max_qp_wr),
        (|init, n| init.cap.max_recv_wr = n, limits.max_qp_wr),
        (|init, n| init.cap.max_send_sge = n, limits.max_sge),
        (|init, n| init.cap.max_recv_sge = n, limits.max_sge),
        (|init, n| init.cap.max_inline_data = n, limits.max_inline_data),
    ];
    for (change, max) in changes {
        for (size, good) in [(max, true), (max + 1, false), (u32::MAX, false), (0, true)] {
            let mut init = init(pd, cq);
            change(&mut init, size);
            let made = device.create_qp(&init);
            assert_eq!(made.is_ok(), good, "{size}: {made:?}");
            if let Ok(qp) = made {
                device.destroy_qp(qp).unwrap();
            }
        }
    }
    for srq in [
        SrqAttributes { max_wr: 0, ..SRQ },
        SrqAttributes { max_wr: limits.max_srq_wr + 1, ..SRQ },
        SrqAttributes { max_wr: u32::MAX, ..SRQ },
        SrqAttributes { max_sge: limits.max_srq_sge + 1, ..SRQ },
        SrqAttributes { max_sge: u32::MAX, ..SRQ },
    ] {
        assert!(matches!(device.create_srq(pd, srq), Err(VerbError::Invalid(_))), "{srq:?}");
    }
    device.destroy_cq(cq).unwrap();
    device.dealloc_pd(pd).unwrap();
}

#[test]
fn queues_of_no_length_hold_nothing() {
    let mut setup = Setup::rc();
    setup.cap = QpCapabilities::default();
    let mut bench = setup.pair();
    let b = bench.remote(B);
    assert!(matches!(bench.try_post(A, &wr(1, b.write(0))), Err(VerbError::Full(_))));
    assert!(matches!(bench.try_recv(B, &wr(1, send())), Err(VerbError::Full(_))));
    bench.inject(A, &Forge::send(Only, 0));
    assert_eq!(bench.frames(), ["B RNR_NAK 12 0"]);
}

#[test]
fn objects_that_are_gone_are_named_in_vain() {
    let mut device = device(|_| ());
    let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(1).unwrap());
    let srq = device.create_srq(pd, SRQ).unwrap();
    device.destroy_srq(srq).unwrap();
    let with_srq = QpInit { srq: Some(srq), ..init(pd, cq) };
    assert!(matches!(device.create_qp(&with_srq), Err(VerbError::NoSuchObject(_))));
    device.destroy_cq(cq).unwrap();
    assert!(matches!(device.create_qp(&init(pd, cq)), Err(VerbError::NoSuchObject(_))));
    device.dealloc_pd(pd).unwrap();
    let cq = device.create_cq(1).unwrap();
    assert!(matches!(device.create_qp(&init(pd, cq)), Err(VerbError::NoSuchObject(_))));
    assert!(matches!(device.register(region(pd)), Err(VerbError::NoSuchObject(_))));
    assert!(matches!(device.create_srq(pd, SRQ), Err(VerbError::NoSuchObject(_))));
    assert!(device.dealloc_pd(pd).is_err());
}

#[test]
fn the_longest_message_is_what_the_port_says() {
    let mut bench = Setup::rc().pair();
    let (b, key) = (bench.remote(B), bench.end(A).key);
    let max = bench.device(A).query_port().max_msg_sz;
    assert_eq!(max, MAX_MESSAGE_BYTES);
    let half = max / 2;
    let too_long = wr(1, b.write(0)).sge(BASE, half, key).sge(BASE, half, key).sge(BASE, 1, key);
    assert!(matches!(bench.try_post(A, &too_long), Err(VerbError::Invalid(_))));
    let wraps = wr(1, b.write(0)).sge(BASE, u32::MAX, key).sge(BASE, 9, key);
    assert!(matches!(bench.try_post(A, &wraps), Err(VerbError::Invalid(_))));
    let longest = wr(1, b.write(0)).sge(BASE, half, key).sge(BASE, half, key);
    bench.try_post(A, &longest).unwrap();
}

#[test]
fn changes_of_the_port_are_told_once() {
    let mut device = device(|_| ());
    let mut told = |change: &mut dyn FnMut(&mut Device)| {
        change(&mut device);
        std::iter::from_fn(|| device.next_event()).collect::<Vec<_>>()
    };
    let event = |event| vec![softrnic_model::verbs::Event::Async(event)];
    assert_eq!(told(&mut |device| device.set_port_state(PortState::Active)), []);
    let down = told(&mut |device| device.set_port_state(PortState::Down));
    assert_eq!(down, event(AsyncEvent::PortError));
    assert_eq!(told(&mut |device| device.set_port_state(PortState::Down)), []);
    let up = told(&mut |device| device.set_port_state(PortState::Active));
    assert_eq!(up, event(AsyncEvent::PortActive));
    assert_eq!(told(&mut |device| device.set_gids(vec![GID])), []);
    assert_eq!(told(&mut |device| device.set_gids(vec![])), event(AsyncEvent::GidChange));
    assert_eq!(device.counters().get(Counter::LinkDowned), 1);
    device.set_mtu(Mtu::B1024);
    assert_eq!(device.query_port().active_mtu, Mtu::B1024);
    assert_eq!(device.query_port().gid_tbl_len, 0);
}

/// Many are asked for a lot, one for little: it has its turn.
#[test]
fn a_flood_of_reads_starves_nobody() {
    let mut setup = Setup::rc();
    setup.mtu = Mtu::B256;
    let mut bench = setup.pair();
    let other = bench.add_sibling(&setup, B);
    let own = bench.add_sibling(&setup, A);
    bench.connect(&setup, own, other);
    let key = bench.remote(B).key;
    for psn in 0..4 {
        // 256 packets each.
        bench.inject(A, &Forge::read(psn * 256, 0, key, 1 << 16));
    }
    bench.inject(own, &Forge::write(Only, 0).range(0, key, 4).count_up(0, 4));
    let before = (0..).position(|_| {
        let packet = bench.fill_one(B);
        packet[0] == 0x11
    });
    assert!(before < Some(100), "{before:?} packets of one before the other's turn");
}

#[test]
fn what_was_just_posted_may_leave_before_answers() {
    let mut bench = Setup::rc().pair();
    let (b, key) = (bench.remote(B), bench.remote(A).key);
    bench.inject(B, &Forge::read(0, 0, key, 8));
    bench.post(A, wr(1, b.write(0)).at(0..8));
    let qp = bench.end(A).qp;
    let mut frame = FrameOut::default();
    assert!(bench.device(A).next_request(qp, &mut frame));
    let mut bytes = vec![0; frame.len()];
    let now = bench.fabric.now();
    let host = bench.fabric.host_mut(0);
    assert!(host.device.fill(now, &host.memory, &frame, &mut bytes));
    assert_eq!(bytes[0], 0x0a, "the WRITE");
    assert!(!host.device.next_request(qp, &mut frame));
    assert_eq!(bench.fill_one(A)[0], 0x10, "the answer");
    let route = bench.route(A);
    bench.deliver(B, &route, &bytes);
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.count(B, Counter::ReceivedPackets), 1);
}

#[test]
fn numbers_of_queue_pairs_rest_and_special_ones_are_never_given() {
    // The second and third begin just before numbers 0 and 1, the last just before that of multicast.
    for (slot, first) in [(1, 0), (0, 0xfffe), (0, 0), (0xff, 0xfffd)] {
        let mut device = device(|config| {
            config.attributes.max_qp = 4;
            (config.qp_slot, config.first_qp_index) = (slot, first);
        });
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(64).unwrap();
        let (mut live, mut gone) = (VecDeque::new(), QpNum::GSI);
        for round in 0..100 {
            if live.len() == 4 {
                assert!(matches!(device.create_qp(&init(pd, cq)), Err(VerbError::Full(_))));
                gone = live.pop_front().unwrap();
                device.destroy_qp(gone).unwrap();
            }
            let number = device.create_qp(&init(pd, cq)).unwrap();
            assert!(!live.contains(&number), "round {round}: {number:?} is in use");
            assert_ne!(number, gone, "round {round}: it was destroyed a moment ago");
            assert!(number.get() > QpNum::GSI.get() && number != QpNum::MULTICAST, "{number:?}");
            assert_eq!(number.slot(), slot);
            live.push_back(number);
        }
        let numbers: BTreeSet<_> = device.qp_numbers().collect();
        assert_eq!(numbers, live.into_iter().collect());
    }
}
