//! What belongs to what, and when it may go.

use softrnic_model::verbs::{
    CqId, Mtu, PdId, QpAttributeMask, QpCapabilities, QpCreateFlags, QpInit, QpState, QpType,
    SrqAttributes, SrqInit, VerbError, WcStatus, XrcSrq, XrcdId,
};
use softrnic_model::{Device, DeviceConfig};

use crate::bench::{A, B, Setup, send, wr};

const SIZES: SrqAttributes = SrqAttributes { max_wr: 4, max_sge: 1, srq_limit: 0 };

fn target(xrcd: Option<XrcdId>) -> QpInit {
    QpInit {
        // Nothing is there under these numbers.
        pd: PdId(u32::MAX),
        send_cq: CqId(u32::MAX),
        recv_cq: CqId(u32::MAX),
        srq: None,
        qp_type: QpType::XrcRecv,
        xrcd,
        cap: QpCapabilities { max_send_wr: u32::MAX, ..QpCapabilities::default() },
        signal_all: false,
        create_flags: QpCreateFlags::empty(),
    }
}

fn is_invalid<T>(result: &Result<T, VerbError>) -> bool {
    matches!(result, Err(VerbError::Invalid(_) | VerbError::NoSuchObject(_)))
}

fn is_busy<T>(result: &Result<T, VerbError>) -> bool {
    matches!(result, Err(VerbError::Busy(_)))
}

#[test]
fn a_domain_stays_while_anything_belongs_to_it() {
    let mut device = Device::new(DeviceConfig::default());
    let xrcd = device.open_xrcd().unwrap();
    let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(4).unwrap());
    let xrc = Some(XrcSrq { xrcd, cq });
    let srq = device.create_srq_ex(&SrqInit { pd, attributes: SIZES, xrc }).unwrap();
    let qp = device.create_qp(&target(Some(xrcd))).unwrap();
    assert!(is_busy(&device.close_xrcd(xrcd)));
    assert!(is_busy(&device.destroy_cq(cq)), "the queue completes there");
    assert!(is_busy(&device.dealloc_pd(pd)));
    device.destroy_srq(srq).unwrap();
    assert!(is_busy(&device.close_xrcd(xrcd)));
    device.destroy_cq(cq).unwrap();
    device.dealloc_pd(pd).unwrap();
    device.destroy_qp(qp).unwrap();
    device.close_xrcd(xrcd).unwrap();
    assert!(is_invalid(&device.close_xrcd(xrcd)));
    assert!(is_invalid(&device.share_xrcd(xrcd)));
    assert!(is_invalid(&device.create_qp(&target(Some(xrcd)))));
}

#[test]
fn a_domain_that_is_shared_is_closed_as_often_as_it_was_opened() {
    let mut device = Device::new(DeviceConfig::default());
    let xrcd = device.open_xrcd().unwrap();
    device.share_xrcd(xrcd).unwrap();
    let qp = device.create_qp(&target(Some(xrcd))).unwrap();
    device.close_xrcd(xrcd).unwrap();
    assert!(is_busy(&device.close_xrcd(xrcd)), "the last one");
    device.destroy_qp(qp).unwrap();
    device.close_xrcd(xrcd).unwrap();
    assert!(is_invalid(&device.close_xrcd(xrcd)));
}

#[test]
fn a_target_that_is_shared_lives_until_all_have_closed_it() {
    let mut device = Device::new(DeviceConfig::default());
    let (xrcd, other) = (device.open_xrcd().unwrap(), device.open_xrcd().unwrap());
    let qp = device.create_qp(&target(Some(xrcd))).unwrap();
    device.open_qp(xrcd, qp).unwrap();
    device.open_qp(xrcd, qp).unwrap();
    assert!(is_invalid(&device.open_qp(other, qp)), "of another domain");
    for _ in 0..2 {
        device.destroy_qp(qp).unwrap();
        assert!(device.query_qp(qp).is_ok());
    }
    device.destroy_qp(qp).unwrap();
    assert!(is_invalid(&device.query_qp(qp)));
    assert!(is_invalid(&device.open_qp(xrcd, qp)));
    device.close_xrcd(xrcd).unwrap();
}

#[test]
fn only_targets_can_be_opened_again() {
    for setup in [Setup::rc(), Setup::xrc()] {
        let mut bench = setup.pair();
        let qp = bench.end(A).qp;
        let xrcd = bench.device(A).open_xrcd().unwrap();
        let own = bench.end(A).xrcd.unwrap_or(xrcd);
        assert!(is_invalid(&bench.device(A).open_qp(own, qp)), "{:?}", setup.qp_type);
    }
}

#[test]
fn every_type_belongs_to_what_it_needs_and_nothing_else() {
    let mut device = Device::new(DeviceConfig::default());
    let xrcd = device.open_xrcd().unwrap();
    let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(4).unwrap());
    assert!(is_invalid(&device.create_qp(&target(None))));
    let cap = QpCapabilities { max_send_wr: 4, max_recv_wr: 9, ..QpCapabilities::default() };
    let good = QpInit { pd, send_cq: cq, recv_cq: cq, cap, xrcd: None, ..target(None) };
    for qp_type in QpType::ALL.into_iter().filter(|t| *t != QpType::XrcRecv) {
        let good = QpInit { qp_type, ..good };
        assert!(device.create_qp(&good).is_ok());
        assert!(is_invalid(&device.create_qp(&QpInit { xrcd: Some(xrcd), ..good })));
        assert!(is_invalid(&device.create_qp(&QpInit { pd: PdId(u32::MAX), ..good })));
        let no_cq = CqId(u32::MAX);
        assert!(is_invalid(&device.create_qp(&QpInit { send_cq: no_cq, ..good })));
        let without = device.create_qp(&QpInit { recv_cq: no_cq, ..good });
        assert_eq!(without.is_ok(), qp_type == QpType::XrcSend, "{qp_type:?}");
        // A queue for XRC is none for others.
        let xrc = Some(XrcSrq { xrcd, cq });
        let srq = device.create_srq_ex(&SrqInit { pd, attributes: SIZES, xrc }).unwrap();
        let made = device.create_qp(&QpInit { srq: Some(srq), ..good });
        assert_eq!(made.is_ok(), qp_type == QpType::XrcSend, "{qp_type:?}: not looked at");
        device.destroy_srq(srq).unwrap();
    }
    let xrc = |xrcd, cq| Some(XrcSrq { xrcd, cq });
    for wrong in [xrc(XrcdId(9), cq), xrc(xrcd, CqId(9))] {
        let init = SrqInit { pd, attributes: SIZES, xrc: wrong };
        assert!(is_invalid(&device.create_srq_ex(&init)));
    }
    let basic = device.create_srq(pd, SIZES).unwrap();
    assert!(matches!(device.srq_number(basic), Err(VerbError::NotSupported(_))));
}

#[test]
fn nothing_can_be_posted_to_a_target_nor_received_by_an_initiator() {
    let mut bench = Setup::xrc().pair();
    let (qp, target) = (bench.end(B).qp, bench.end(B).target);
    let request = wr(1, send()).at(0..8);
    let (key, number) = (bench.end(B).key, bench.remote_srq(B));
    for of in [qp, target] {
        assert!(is_invalid(&request.with_recv(key, |wr| bench.device(B).post_recv(of, wr))));
    }
    let sent = request.with(key, number, |wr| bench.device(B).post_send(target, wr));
    assert!(is_invalid(&sent));
    let granted = bench.device(B).query_qp(target).unwrap().1.cap;
    assert_eq!(granted, QpCapabilities::default());
    let granted = bench.device(B).query_qp(qp).unwrap().1.cap;
    assert_eq!((granted.max_recv_wr, granted.max_recv_sge), (0, 0));
}

#[test]
fn a_target_that_goes_gives_back_the_receive_that_it_was_filling() {
    let mut bench = Setup { mtu: Mtu::B256, ..Setup::xrc() }.pair();
    let srq = bench.end(B).srq.unwrap();
    let sizes = bench.device(B).query_srq(srq).unwrap();
    for round in 0..3 {
        bench.recv(B, round, 0..1000);
        let first = crate::bench::Forge::send(softrnic_model::wire::Place::First, 0);
        bench.inject(A, &first.count_up(0, 256));
        bench.modify_target(B, QpAttributeMask::STATE, |a| a.state = QpState::Reset).unwrap();
        bench.enter(B, QpState::Reset);
        bench.advance(&Setup { mtu: Mtu::B256, ..Setup::xrc() }, B, QpState::Rts);
    }
    (0..u64::from(sizes.max_wr)).for_each(|id| bench.recv(B, id, 0..8));
    assert_eq!(bench.recvs(B), Vec::<(u64, WcStatus)>::new());
}
