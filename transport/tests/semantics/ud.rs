//! Datagrams.

use softrnic_model::counters::Counter;
use softrnic_model::profile::Profile;
use softrnic_model::verbs::QpState::{self, Init, Reset, Rtr, Rts, Sqe};
use softrnic_model::verbs::WcStatus::{
    LocalProtectionError, LocalQpOperationError, Success, WorkRequestFlushed,
};
use softrnic_model::verbs::{
    AddressVector, Key, Mtu, QpAttributeMask, SendOp, VerbError, WcFlags, WcOpcode,
};
use softrnic_model::wire::Place::Only;
use softrnic_model::wire::{Grh, Ipv4Header};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Bench, Forge, QKEY, Setup, send, wr};

const GRH: u64 = 40;

fn to_b(bench: &mut Bench, imm: Option<u32>) -> SendOp {
    let ah = bench.handle(A, B);
    SendOp::SendTo { ah, remote_qpn: bench.end(B).qp, remote_qkey: QKEY, imm }
}

#[test]
fn a_datagram_with_all_that_comes_with_it() {
    let mut bench = Setup::ud().pair();
    bench.recv(B, 7, 0..GRH + 100);
    let op = to_b(&mut bench, Some(0xabcd_ef01));
    bench.post(A, wr(1, op).at(1000..1100));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)], "nobody answers");
    let received = bench.received(B);
    let [wc] = received[..] else { panic!("{received:?}") };
    assert_eq!((wc.wr_id, wc.status, wc.opcode), (7, Success, WcOpcode::Recv));
    assert_eq!((wc.byte_len, wc.imm_data), (140, 0xabcd_ef01));
    assert_eq!(wc.flags, WcFlags::GRH | WcFlags::WITH_IMM);
    assert_eq!((wc.qp_num, wc.src_qp, wc.pkey_index), (bench.end(B).qp, bench.end(A).qp, 0));
    assert_eq!(bench.bytes(B, 40..140), bench.bytes(A, 1000..1100));
    let log = bench.tap.log();
    assert_eq!(log.len(), 1);
    assert!(!log[0].packet().bth.ack_req());
}

/// Sends 13 bytes along a path with everything set, and returns the 40 bytes in front of them.
fn grh(setup: &Setup) -> ([u8; 40], Bench) {
    let mut bench = setup.pair();
    bench.recv(B, 7, 0..GRH + 13);
    let pd = bench.end(A).pd;
    let path = AddressVector {
        dgid: bench.gid(B),
        hop_limit: 9,
        traffic_class: 0xa8,
        flow_label: if setup.v6 { 0xc_baba } else { 0 },
        ..AddressVector::default()
    };
    let ah = bench.device(A).create_ah(pd, path).unwrap();
    let op = SendOp::SendTo { ah, remote_qpn: bench.end(B).qp, remote_qkey: QKEY, imm: None };
    bench.post(A, wr(1, op).at(0..13));
    bench.run();
    assert_eq!(bench.recvs(B), [(7, Success)]);
    (bench.bytes(B, 0..40).try_into().unwrap(), bench)
}

/// BTH, DETH, 13 bytes with their pad, ICRC; the UDP header in front.
const UDP_LEN: u16 = 8 + 12 + 8 + 16 + 4;

#[test]
fn the_grh_of_ipv4_is_its_header_in_the_second_half() {
    let (bytes, bench) = grh(&Setup::ud());
    assert_eq!(bytes[..20], [0; 20]);
    let [_, total_high, total_low] = [0, bytes[22], bytes[23]];
    assert_eq!((bytes[20], bytes[21]), (0x45, 0xa8), "version and length, type of service");
    assert_eq!(u16::from_be_bytes([total_high, total_low]), 20 + UDP_LEN);
    assert_eq!((bytes[28], bytes[29]), (8, 17), "time to live as it arrived, UDP");
    assert_eq!(bytes[32..36], bench.gid(A).as_v4().unwrap());
    assert_eq!(bytes[36..40], bench.gid(B).as_v4().unwrap());
    // RFC 1071: with a right checksum in it, the header sums up to all ones.
    let words = bytes[20..].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    assert_eq!((sum >> 16) + (sum & 0xffff), 0xffff);
    assert_eq!(Grh::parse(&bytes).unwrap().hop_limit, 8);
}

#[test]
// [ud/grh-ipv6]
fn the_grh_of_ipv6_is_its_header() {
    let (bytes, bench) = grh(&Setup { v6: true, ..Setup::ud() });
    assert_eq!(bytes[..4], (6 << 28 | 0xa8 << 20 | 0xc_baba_u32).to_be_bytes());
    assert_eq!(bytes[4..6], UDP_LEN.to_be_bytes());
    assert_eq!((bytes[6], bytes[7]), (17, 8), "UDP, hop limit as it arrived");
    assert_eq!(bytes[8..24], bench.gid(A).0);
    assert_eq!(bytes[24..40], bench.gid(B).0);
}

#[test]
fn what_is_undefined_in_the_grh_is_junk_in_the_strict_profile() {
    let mut setup = Setup::ud();
    setup.device.profile = Profile::STRICT;
    let (strict, _) = grh(&setup);
    let (plain, _) = grh(&Setup::ud());
    assert_ne!(strict[..20], plain[..20]);
    assert_ne!(strict[0] >> 4, 6, "it does not look like an IPv6 header by chance");
    assert_eq!(strict[20..], plain[20..]);
    assert_eq!(size_of::<Ipv4Header>(), 20);
}

#[test]
fn only_the_right_q_key_opens() {
    let mut bench = Setup::ud().pair();
    bench.recv(B, 7, 0..100);
    for (dropped, qkey) in [(1, QKEY ^ 1), (2, QKEY | 1 << 31), (3, 0), (4, u32::MAX)] {
        bench.inject(A, &Forge::send(Only, 0).qkey(qkey).count_up(0, 8));
        assert_eq!(bench.count(B, Counter::DropBadQkey), dropped);
        assert_eq!(u64::from(bench.device(B).query_port().qkey_viol_cntr), dropped);
    }
    assert_eq!(bench.recvs(B), []);
    bench.inject(A, &Forge::send(Only, 0).count_up(0, 8));
    assert_eq!(bench.recvs(B), [(7, Success)]);
}

#[test]
fn bit_31_of_a_requests_q_key_asks_for_the_queue_pairs_own() {
    let own = 0x8001_0000;
    for (asked, sent) in
        [(QKEY, QKEY), (1 << 31, own), (0xffff_ffff, own), (0x7fff_ffff, 0x7fff_ffff)]
    {
        let mut bench = Setup::ud().pair();
        bench.modify(A, QpAttributeMask::QKEY, |attr| attr.qkey = own).unwrap();
        let ah = bench.handle(A, B);
        let op = SendOp::SendTo { ah, remote_qpn: bench.end(B).qp, remote_qkey: asked, imm: None };
        bench.post(A, wr(1, op).at(0..8));
        bench.run();
        assert_eq!(bench.tap.log()[0].packet().deth().unwrap().qkey(), sent, "{asked:#x}");
    }
}

#[test]
fn what_does_not_fit_the_receive_is_dropped_and_the_receive_stays() {
    let mut bench = Setup::ud().pair();
    let op = to_b(&mut bench, None);
    for (dropped, room, len) in [(1, GRH + 99, 100), (2, GRH - 1, 0), (3, 0, 0)] {
        bench.enter(B, Reset);
        bench.advance(&Setup::ud(), B, Rts);
        bench.recv(B, 7, 0..room);
        bench.post(A, wr(1, op).at(1000..1000 + len));
        bench.run();
        assert_eq!(bench.count(B, Counter::DropTooLong), dropped);
        assert_eq!(bench.recvs(B), []);
    }
    for (room, len) in [(GRH + 100, 100), (GRH, 0), (GRH + 1, 0)] {
        bench.enter(B, Reset);
        bench.advance(&Setup::ud(), B, Rts);
        bench.recv(B, 7, 0..room);
        bench.post(A, wr(1, op).at(1000..1000 + len));
        bench.run();
        assert_eq!(bench.recvs(B), [(7, Success)]);
    }
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn datagrams_longer_than_the_mtu() {
    let mut setup = Setup::ud();
    setup.device.mtu = Mtu::B1024;
    let mut bench = setup.pair();
    let op = to_b(&mut bench, None);
    let refused = bench.try_post(A, &wr(1, op).at(0..1025));
    assert!(matches!(refused, Err(VerbError::Invalid(_))), "{refused:?}");
    bench.recv(B, 7, 0..4000);
    bench.inject(A, &Forge::send(Only, 0).count_up(0, 1028));
    assert_eq!(bench.count(B, Counter::DropTooLong), 1);
    bench.post(A, wr(1, op).at(0..1024));
    bench.run();
    assert_eq!(bench.received(B)[0].byte_len, 1064);
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn the_longest_datagram_is_as_long_as_the_port_allows_whatever_the_path_mtu() {
    let mut bench = Setup { mtu: Mtu::B256, ..Setup::ud() }.pair();
    bench.recv(B, 7, 0..5000);
    let op = to_b(&mut bench, None);
    for id in 0..3 {
        bench.post(A, wr(id, op).at(0..4096));
    }
    bench.run();
    assert_eq!(bench.sends(A), [(0, Success), (1, Success), (2, Success)]);
    assert_eq!(bench.bytes(B, 40..4136), bench.bytes(A, 0..4096));
    let psns: Vec<_> = bench.tap.log().iter().map(|seen| seen.packet().bth.psn()).collect();
    assert!(psns.windows(2).all(|pair| pair[1] == pair[0].plus(1)));
}

#[test]
fn without_a_receive_it_is_dropped() {
    let mut bench = Setup::ud().pair();
    let op = to_b(&mut bench, None);
    bench.post(A, wr(1, op).at(0..8));
    bench.run();
    assert_eq!((bench.dropped(B), bench.count(B, Counter::DropNoReceive)), (1, 1));
    assert_eq!(bench.states(), (Rts, Rts));
}

#[test]
fn states_that_receive_and_states_that_do_not() {
    let setup = Setup::ud();
    for (state, receives) in
        [(Reset, false), (Init, false), (Rtr, true), (Rts, true), (QpState::Err, false)]
    {
        let mut bench = setup.pair();
        if state == QpState::Err {
            bench.enter(B, QpState::Err);
        } else {
            bench.enter(B, Reset);
            bench.advance(&setup, B, state);
        }
        if !matches!(state, Reset | QpState::Err) {
            bench.recv(B, 7, 0..100);
        }
        bench.inject(A, &Forge::send(Only, 0).count_up(0, 8));
        assert_eq!(bench.recvs(B).len(), usize::from(receives), "{state:?}");
        assert_eq!(bench.count(B, Counter::DropQpState), u64::from(!receives), "{state:?}");
    }
}

#[test]
fn opcodes_that_are_no_datagrams() {
    let mut bench = Setup::ud().pair();
    bench.recv(B, 7, 0..100);
    for opcode in [0x60, 0x61, 0x62, 0x66, 0x6c, 0x7f] {
        bench.inject(A, &Forge::opcode(opcode, 0).count_up(0, 32));
    }
    assert_eq!(bench.count(B, Counter::DropUnknownOpcode), 6);
    for opcode in [0x04, 0x0a, 0x11, 0x24, 0x81] {
        bench.inject(A, &Forge::opcode(opcode, 0).count_up(0, 32));
    }
    assert_eq!(bench.count(B, Counter::DropWrongService), 5);
    assert_eq!((bench.recvs(B), bench.state(B)), (vec![], Rts));
}

#[test]
fn an_address_handle_that_is_gone_or_foreign_fails_the_send() {
    for foreign in [false, true] {
        let mut bench = Setup::ud().pair();
        bench.recv(B, 7, 0..100);
        let good = to_b(&mut bench, None);
        let path = AddressVector { dgid: bench.gid(B), ..AddressVector::default() };
        let own = bench.end(A).pd;
        let pd = if foreign { bench.device(A).alloc_pd().unwrap() } else { own };
        let ah = bench.device(A).create_ah(pd, path).unwrap();
        if !foreign {
            bench.device(A).destroy_ah(ah).unwrap();
        }
        let bad = SendOp::SendTo { ah, remote_qpn: bench.end(B).qp, remote_qkey: QKEY, imm: None };
        bench.post(A, wr(1, good).at(0..8));
        bench.post(A, wr(2, bad).at(0..8));
        bench.post(A, wr(3, good).at(0..8));
        bench.run();
        let failed = [(2, LocalQpOperationError), (3, WorkRequestFlushed)];
        assert_eq!(bench.sends(A), [&[(1, Success)][..], &failed].concat());
        assert_eq!(bench.states(), (Sqe, Rts));
        assert_eq!(bench.recvs(B), [(7, Success)]);
        bench.enter(A, Rts);
        bench.recv(B, 8, 0..100);
        bench.post(A, wr(4, good).at(0..8));
        bench.run();
        assert_eq!((bench.sends(A), bench.recvs(B)), (vec![(4, Success)], vec![(8, Success)]));
    }
}

#[test]
fn a_protection_domain_with_an_address_handle_stays() {
    let mut bench = Setup::ud().pair();
    let dgid = bench.gid(B);
    let device = bench.device(A);
    let pd = device.alloc_pd().unwrap();
    let ah = device.create_ah(pd, AddressVector { dgid, ..AddressVector::default() }).unwrap();
    assert!(matches!(device.dealloc_pd(pd), Err(VerbError::Busy(_))));
    device.destroy_ah(ah).unwrap();
    assert!(device.destroy_ah(ah).is_err(), "once");
    device.dealloc_pd(pd).unwrap();
    let stale = device.create_ah(pd, AddressVector { dgid, ..AddressVector::default() });
    assert!(stale.is_err());
}

#[test]
fn a_receive_that_is_at_fault_itself_fails_with_its_queue_pair() {
    let mut bench = Setup::ud().pair();
    bench.try_recv(B, &wr(7, send()).sge(BASE, 100, Key(0xdead_0000))).unwrap();
    bench.recv(B, 8, 0..100);
    bench.inject(A, &Forge::send(Only, 0).count_up(0, 8));
    assert_eq!(bench.recvs(B), [(7, LocalProtectionError), (8, WorkRequestFlushed)]);
    assert_eq!(bench.state(B), QpState::Err);
}

#[test]
fn one_queue_pair_talks_to_many_and_to_itself() {
    let mut bench = Setup::ud().pair();
    for end in [A, B] {
        for id in 0..4 {
            bench.recv(end, id, id * 100..id * 100 + 100);
        }
    }
    for (id, from, to) in [(1, A, B), (2, A, A), (3, B, A), (4, B, B), (5, A, B)] {
        let op = bench.datagram(from, to);
        bench.post(from, wr(id, op).at(1000..1008));
        bench.run();
    }
    let sources =
        |bench: &mut Bench, end| bench.received(end).iter().map(|wc| wc.src_qp).collect::<Vec<_>>();
    let (a, b) = (bench.end(A).qp, bench.end(B).qp);
    assert_eq!(sources(&mut bench, A), [a, b]);
    assert_eq!(sources(&mut bench, B), [a, b, a]);
}

#[test]
fn a_lost_datagram_is_lost_and_a_copy_is_another() {
    let mut bench = Setup::ud().pair();
    for id in 0..4 {
        bench.recv(B, id, 0..100);
    }
    bench.tap.once("A SEND_ONLY 0", Fate::Drop);
    bench.tap.once("A SEND_ONLY 1", Fate::Duplicate(500));
    bench.tap.once("A SEND_ONLY 2", Fate::Corrupt(200));
    let op = to_b(&mut bench, None);
    for id in 0..3 {
        bench.post(A, wr(id, op).at(0..8));
    }
    bench.run();
    assert_eq!(bench.sends(A).len(), 3);
    assert_eq!(bench.recvs(B), [(0, Success), (1, Success)]);
}
