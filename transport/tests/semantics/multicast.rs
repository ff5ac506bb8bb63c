//! Datagrams to groups.

use softrnic_model::counters::Counter;
use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{Gid, QpCreateFlags, QpNum, QpState, SendOp, VerbError};
use softrnic_model::wire::Place::Only;
use softrnic_transport::sim::FabricConfig;

use crate::bench::{A, B, Bench, EndId, Forge, QKEY, Setup, wr};

const V4_GROUP: Gid = Gid::from_v4([239, 1, 2, 3]);
const V6_GROUP: Gid = Gid([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
const C: EndId = EndId(2);
const D: EndId = EndId(3);

/// A on one host, B and C on a second, D on a third. All but A are attached.
fn party(v6: bool) -> (Bench, Gid) {
    let setup = Setup { v6, ..Setup::ud() };
    let mut bench = Bench::new(FabricConfig::default());
    for host in 0..3 {
        assert_eq!(bench.add_host(&setup), host);
    }
    for host in [0, 1, 1, 2] {
        bench.add_end(&setup, host);
    }
    bench.connect(&setup, A, B);
    bench.connect(&setup, C, D);
    let group = if v6 { V6_GROUP } else { V4_GROUP };
    for end in [B, C, D] {
        attach(&mut bench, end, group);
    }
    for end in [A, B, C, D] {
        bench.recv(end, 7, 0..100);
        bench.recv(end, 8, 100..200);
    }
    (bench, group)
}

fn attach(bench: &mut Bench, end: EndId, group: Gid) {
    let qp = bench.end(end).qp;
    let first = bench.device(end).attach_mcast(qp, group).unwrap();
    let host = bench.end(end).host;
    let groups = &mut bench.fabric.host_mut(host).groups;
    assert_eq!(first, !groups.contains(&group), "the first member makes the interface join");
    if first {
        groups.push(group);
    }
}

fn detach(bench: &mut Bench, end: EndId, group: Gid) {
    let qp = bench.end(end).qp;
    if bench.device(end).detach_mcast(qp, group).unwrap() {
        let host = bench.end(end).host;
        bench.fabric.host_mut(host).groups.retain(|joined| *joined != group);
    }
}

fn post(bench: &mut Bench, from: EndId, group: Gid, remote_qkey: u32) {
    let ah = bench.handle_to(from, group);
    let op = SendOp::SendTo { ah, remote_qpn: QpNum::MULTICAST, remote_qkey, imm: None };
    bench.post(from, wr(1, op).at(1000..1032));
    bench.run();
    assert_eq!(bench.sends(from), [(1, Success)]);
}

/// How many each of the four has received.
fn received(bench: &mut Bench) -> [usize; 4] {
    [A, B, C, D].map(|end| bench.recvs(end).len())
}

#[test]
fn every_member_gets_it_on_every_host() {
    for v6 in [false, true] {
        let (mut bench, group) = party(v6);
        post(&mut bench, A, group, QKEY);
        assert_eq!(bench.tap.log()[0].packet().bth.dest_qp().get(), 0xff_ffff);
        for end in [B, C, D] {
            assert_eq!(bench.bytes(end, 40..72), bench.bytes(A, 1000..1032));
        }
        assert_eq!(received(&mut bench), [0, 1, 1, 1]);
    }
}

#[test]
fn members_on_the_senders_host_get_it_too() {
    let (mut bench, group) = party(false);
    post(&mut bench, B, group, QKEY);
    assert_eq!(received(&mut bench), [0, 1, 1, 1], "the sender is a member itself");
    assert_eq!(bench.bytes(C, 40..72), bench.bytes(B, 1000..1032));
}

#[test]
fn who_does_not_want_what_his_own_device_sends_does_not_get_it() {
    let (mut bench, group) = party(false);
    let block = QpCreateFlags::BLOCK_SELF_MCAST_LB;
    let setup = Setup { create_flags: block, ..Setup::ud() };
    detach(&mut bench, C, group);
    bench.create_qp(&setup, C);
    bench.advance(&setup, C, QpState::Rts);
    attach(&mut bench, C, group);
    bench.recv(C, 7, 0..100);
    bench.recv(C, 8, 100..200);
    post(&mut bench, C, group, QKEY);
    assert_eq!(received(&mut bench), [0, 1, 0, 1], "nor what it sends itself");
    post(&mut bench, B, group, QKEY);
    assert_eq!(received(&mut bench), [0, 1, 0, 1]);
    post(&mut bench, A, group, QKEY);
    assert_eq!(received(&mut bench), [0, 0, 1, 0], "B and D have no receive left");
    // What is about Ethernet frames is not here, and other services have no groups.
    for (setup, refused) in [
        (Setup { create_flags: QpCreateFlags::from_bits_retain(1 << 8), ..Setup::ud() }, 95),
        (Setup { create_flags: block, ..Setup::rc() }, 22),
    ] {
        let error = bench.try_create_qp(&setup, C).unwrap_err();
        assert_eq!(error.errno(), refused);
    }
}

#[test]
fn who_left_gets_nothing() {
    let (mut bench, group) = party(false);
    detach(&mut bench, B, group);
    post(&mut bench, A, group, QKEY);
    assert_eq!(received(&mut bench), [0, 0, 1, 1]);
    detach(&mut bench, C, group);
    detach(&mut bench, D, group);
    post(&mut bench, A, group, QKEY);
    assert_eq!(received(&mut bench), [0; 4]);
    let qp = bench.end(B).qp;
    assert!(bench.device(B).detach_mcast(qp, group).is_err());
}

#[test]
fn each_member_judges_for_itself() {
    let (mut bench, group) = party(false);
    let mask = softrnic_model::verbs::QpAttributeMask::QKEY;
    bench.modify(C, mask, |attr| attr.qkey = 9).unwrap();
    post(&mut bench, A, group, QKEY);
    assert_eq!(received(&mut bench), [0, 1, 0, 1]);
    assert_eq!(bench.count(C, Counter::DropBadQkey), 1);
    post(&mut bench, A, group, 9);
    assert_eq!(received(&mut bench), [0, 0, 1, 0]);
}

#[test]
fn group_and_number_belong_together() {
    let (mut bench, group) = party(false);
    let to_group = Forge::send(Only, 0).count_up(0, 8);
    let mut bytes = to_group.bytes(&bench, A);
    let mut route = bench.route(A);
    // A number of its own at the address of a group.
    route.dst = group;
    bench.deliver(B, &route, &bytes);
    assert_eq!(received(&mut bench), [0; 4]);
    assert_eq!(bench.dropped(B), 1);
    // The number of groups at an address of its own.
    bytes[5..8].copy_from_slice(&[0xff; 3]);
    let route = bench.route(A);
    bench.deliver(B, &route, &bytes);
    assert_eq!(received(&mut bench), [0; 4]);
    assert_eq!(bench.dropped(B), 2);
    // A group that nobody is attached to.
    let mut route = bench.route(A);
    route.dst = Gid::from_v4([239, 9, 9, 9]);
    bench.deliver(B, &route, &bytes);
    assert_eq!((bench.dropped(B), bench.count(B, Counter::DropUnknownQp)), (3, 3));
}

#[test]
fn who_may_be_attached_to_what() {
    let mut bench = Setup::rc().pair();
    let qp = bench.end(A).qp;
    assert!(matches!(bench.device(A).attach_mcast(qp, V4_GROUP), Err(VerbError::Invalid(_))));
    let (mut bench, group) = party(false);
    let qp = bench.end(B).qp;
    let device = bench.device(B);
    let unicast = device.gids()[0];
    assert!(matches!(device.attach_mcast(qp, unicast), Err(VerbError::Invalid(_))));
    assert_eq!(device.attach_mcast(qp, group), Ok(false), "once more changes nothing");
    assert!(matches!(device.destroy_qp(qp), Err(VerbError::Busy(_))));
    detach(&mut bench, B, group);
    bench.device(B).destroy_qp(qp).unwrap();
}

#[test]
fn groups_and_their_members_are_limited() {
    let mut setup = Setup::ud();
    setup.device.attributes.max_mcast_grp = 1;
    setup.device.attributes.max_mcast_qp_attach = 2;
    let mut bench = Bench::new(FabricConfig::default());
    let host = bench.add_host(&setup);
    let ends = [(); 3].map(|()| bench.add_end(&setup, host));
    let [a, b, c] = ends.map(|end| bench.end(end).qp);
    let device = bench.device(ends[0]);
    assert_eq!(device.attach_mcast(a, V4_GROUP), Ok(true));
    assert_eq!(device.attach_mcast(b, V4_GROUP), Ok(false));
    assert!(matches!(device.attach_mcast(c, V4_GROUP), Err(VerbError::Full(_))));
    assert!(matches!(device.attach_mcast(c, V6_GROUP), Err(VerbError::Full(_))));
    assert_eq!(device.detach_mcast(a, V4_GROUP), Ok(false));
    assert_eq!(device.attach_mcast(c, V4_GROUP), Ok(false), "there is room again");
}
