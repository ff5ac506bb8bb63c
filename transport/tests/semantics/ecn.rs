//! Congestion: marks, notifications, and the window that shrinks (annex A17.9).

use softrnic_model::DeviceConfig;
use softrnic_model::counters::Counter;
use softrnic_model::verbs::{AddressVector, Mtu, QpType, SendOp};
use softrnic_model::wire::Opcode;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Bench, Forge, QKEY, Setup, send, wr};

fn pair(qp_type: QpType) -> Bench {
    pair_with(qp_type, true)
}

fn pair_with(qp_type: QpType, reaction_point: bool) -> Bench {
    let device = DeviceConfig { window_bytes: 64 * 256, reaction_point, ..DeviceConfig::default() };
    Setup { mtu: Mtu::B256, device, ..Setup::of(qp_type) }.pair()
}

fn mark_requests(bench: &Bench) {
    bench.tap.rule(|seen| if seen.text.starts_with("A ") { Fate::Mark } else { Fate::Pass });
}

fn notifications(bench: &Bench) -> usize {
    bench.tap.take().iter().filter(|text| *text == "B CNP").count()
}

#[test]
fn a_marked_packet_is_answered_by_a_notification() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let mut bench = pair(qp_type);
        let b = bench.remote(B);
        mark_requests(&bench);
        bench.post(A, wr(1, b.write(0)).at(0..8));
        bench.run();
        let log = bench.tap.log();
        let cnp = log.iter().find(|seen| seen.text == "B CNP").unwrap();
        let packet = cnp.packet();
        assert_eq!(packet.opcode, Opcode::CNP);
        assert_eq!(packet.bth.dest_qp(), bench.end(A).qp);
        assert!(packet.bth.becn() && !packet.bth.fecn() && !packet.bth.ack_req());
        assert_eq!(packet.payload, [0; 16]);
        assert_eq!(bench.count(B, Counter::EcnMarked), 1);
        assert_eq!(bench.count(B, Counter::CnpSent), 1);
        assert_eq!(bench.count(A, Counter::CnpReceived), 1);
    }
}

/// Without a word from the program packets are not ECN-capable; what it says is sent as it is.
#[test]
// [congestion/ecn-capable]
// [packet-format/traffic-class]
fn the_program_says_whether_its_packets_are_ecn_capable() {
    for traffic_class in [0, 0b10, 0b1010_1001] {
        let mut bench = pair_with(QpType::Ud, false);
        bench.recv(B, 7, 0..100);
        let path = AddressVector { dgid: bench.gid(B), traffic_class, ..AddressVector::default() };
        let pd = bench.end(A).pd;
        let ah = bench.device(A).create_ah(pd, path).unwrap();
        let op = SendOp::SendTo { ah, remote_qpn: bench.end(B).qp, remote_qkey: QKEY, imm: None };
        bench.post(A, wr(1, op).at(0..8));
        bench.run();
        let log = bench.tap.log();
        let classes: Vec<_> = log.iter().map(|seen| seen.route.traffic_class).collect();
        assert_eq!(classes, [traffic_class]);
    }
}

#[test]
// [congestion/cnp-rate]
fn notifications_are_not_sent_too_often() {
    let mut bench = pair(QpType::Rc);
    let b = bench.remote(B);
    mark_requests(&bench);
    let mut posted = 0;
    while bench.fabric.now().as_ns() < 1_000_000 {
        bench.post(A, wr(1, b.write(0)).at(0..3000));
        posted += 1;
        bench.run_for(5_000);
        bench.sends(A);
    }
    let marked = bench.count(B, Counter::EcnMarked);
    assert!(marked > 10 * posted, "{marked} of {posted}");
    let cnps = notifications(&bench);
    assert!((15..=21).contains(&cnps), "one in 50 µs: {cnps}");
    // After a pause the next mark counts again.
    bench.run_for(1_000_000);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.run();
    assert_eq!(notifications(&bench), 1);
}

/// Packets that A has on the way when nobody answers.
fn under_way(bench: &mut Bench) -> usize {
    let b = bench.remote(B);
    bench.tap.rule(|_| Fate::Drop);
    bench.tap.take();
    bench.post(A, wr(9, b.write(0)).at(0..40_000));
    let sent = bench.frames().len();
    bench.tap.calm();
    bench.run();
    bench.sends(A);
    sent
}

#[test]
// [congestion/reaction-slows] [congestion/reaction-recovers]
fn a_notification_halves_the_window_and_acknowledgements_widen_it() {
    let mut bench = pair(QpType::Rc);
    let b = bench.remote(B);
    assert_eq!(under_way(&mut bench), 64);
    let mut bench = pair(QpType::Rc);
    mark_requests(&bench);
    bench.post(A, wr(1, b.write(0)).at(0..8));
    bench.run();
    // The acknowledgement behind it has widened it by one already.
    assert_eq!(under_way(&mut bench), 33);
    for _ in 0..40 {
        bench.post(A, wr(2, b.write(0)).at(0..20_000));
        bench.run();
        bench.sends(A);
    }
    assert_eq!(under_way(&mut bench), 64);
}

#[test]
fn without_a_reaction_point_notifications_are_counted_and_nothing_else() {
    // [congestion/reaction-off]
    let mut bench = pair_with(QpType::Rc, false);
    mark_requests(&bench);
    bench.post(A, wr(1, bench.remote(B).write(0)).at(0..8));
    bench.run();
    assert_eq!(bench.count(A, Counter::CnpReceived), 1);
    assert_eq!(under_way(&mut bench), 64);
}

#[test]
// [congestion/reaction-dampened] [congestion/reaction-floor]
fn notifications_close_together_are_about_one_queue_and_the_window_never_closes() {
    let mut bench = pair(QpType::Rc);
    let cnp = |bench: &mut Bench| {
        let mut bytes = Forge::opcode(Opcode::CNP.0, 0).bytes(bench, B);
        bytes.resize(28, 0);
        let route = bench.route(B);
        bench.deliver(A, &route, &bytes);
    };
    for _ in 0..1000 {
        bench.run_for(40);
        cnp(&mut bench);
    }
    assert_eq!(bench.count(A, Counter::CnpReceived), 1000);
    assert_eq!(under_way(&mut bench), 32, "40 µs are one time");
    for _ in 0..20 {
        bench.run_for(60_000);
        cnp(&mut bench);
    }
    assert_eq!(under_way(&mut bench), 8, "a liar slows it down and does not stop it");
}

#[test]
fn notifications_of_strangers_are_dropped() {
    let mut bench = pair(QpType::Rc);
    let bytes = Forge::opcode(Opcode::CNP.0, 0).bytes(&bench, B);
    let mut route = bench.route(B);
    route.src = softrnic_model::verbs::Gid::from_v4([10, 9, 9, 9]);
    bench.deliver(A, &route, &bytes);
    assert_eq!(bench.count(A, Counter::DropBadSource), 1);
    assert_eq!(bench.count(A, Counter::CnpReceived), 0);
    assert_eq!(under_way(&mut bench), 64);
}

#[test]
fn marks_on_datagrams_are_counted_and_not_answered() {
    let mut bench = pair(QpType::Ud);
    bench.recv(B, 7, 0..100);
    mark_requests(&bench);
    let op = bench.datagram(A, B);
    bench.post(A, wr(1, op).at(0..8));
    bench.run();
    assert_eq!(bench.count(B, Counter::EcnMarked), 1);
    assert_eq!(bench.tap.take().len(), 1);
    // The mark is seen by the program, in the type of service.
    assert_eq!(bench.bytes(B, 21..22), [3]);
}

#[test]
fn loss_shrinks_the_window_as_well() {
    let mut bench = pair(QpType::Rc);
    let b = bench.remote(B);
    bench.tap.once("A RDMA_WRITE_FIRST 0", Fate::Drop);
    bench.post(A, wr(1, b.write(0)).at(0..600));
    bench.post(A, wr(2, send()).inline(&[]));
    bench.recv(B, 7, 0..8);
    bench.run();
    assert!(under_way(&mut bench) < 64);
}
