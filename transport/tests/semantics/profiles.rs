//! Profiles: every field can be seen from outside, and nothing but the field decides.

use softrnic_model::counters::Counter;
use softrnic_model::profile::{
    CompletionOrder, DatagramTooLong, PlacementOrder, Profile, ReadWithoutDepth, ReceiveTooSmall,
};
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::QpState::{Err, Rts};
use softrnic_model::verbs::WcStatus::{
    self, LocalLengthError, LocalQpOperationError, RemoteOperationError, Success,
    WorkRequestFlushed,
};
use softrnic_model::verbs::{Access, AsyncEvent, Key, QpAttributeMask, Wc, WcFlags};
use softrnic_model::wire::Place::Only;
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, BASE, Bench, Forge, Setup, Wr, send, send_imm, wr};

/// All that there are, and `SPEC` with one field of another after the other.
fn profiles() -> Vec<Profile> {
    let (spec, rxe, cx5) = (Profile::SPEC, Profile::RXE, Profile::CX5);
    let mut all = Profile::ALL.to_vec();
    all.extend([
        Profile { poison: true, ..spec },
        Profile { answer_delay_ns: 5_000, ..spec },
        Profile { placement: PlacementOrder::LastBytesFirst, ..spec },
        Profile { completions: CompletionOrder::LatestQueueFirst, ..spec },
        Profile { grh_flag_on_connected: true, ..spec },
        Profile { imm_flag_on_send: true, ..spec },
        Profile { bad_lkey: rxe.bad_lkey, ..spec },
        Profile { receive_too_small: rxe.receive_too_small, ..spec },
        Profile { datagram_too_long: rxe.datagram_too_long, ..spec },
        Profile { read_without_depth: rxe.read_without_depth, ..spec },
        Profile { unaligned_atomic_refused_at_post: true, ..spec },
        Profile { access_error_event: false, ..spec },
        Profile { responder_errors_counted: false, ..spec },
        Profile { vendor_errors: cx5.vendor_errors, ..spec },
        Profile { vendor_errors: cx5.vendor_errors, ..rxe },
    ]);
    all
}

fn with(setup: Setup, profile: Profile) -> Setup {
    let mut setup = setup;
    setup.device.profile = profile;
    setup
}

fn each(check: impl Fn(Profile, Bench)) {
    for profile in profiles() {
        check(profile, with(Setup::rc(), profile).pair());
    }
}

/// Bytes that are held back are judged again when they are placed: of a region that has gone in between
/// nothing is touched, and the peer is told.
#[test]
fn bytes_that_were_held_back_are_judged_again() {
    let mut bench = with(Setup::rc(), Profile::STRICT).pair();
    let key = bench.register(B, 0..64, Access::LOCAL_WRITE | Access::REMOTE);
    let before = bench.bytes(B, 0..64);
    bench.inject(A, &Forge::write(Only, 0).range(0, key, 64).data(&[0xaa; 64]));
    // The second half is there, the first is not.
    assert_eq!(bench.bytes(B, 32..64), [0xaa; 32]);
    assert_eq!(bench.bytes(B, 0..32), before[..32]);
    bench.device(B).deregister(key).unwrap();
    let frames = bench.frames();
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert!(frames[0].contains("RemoteAccess"), "{frames:?}");
    assert_eq!(bench.bytes(B, 0..32), before[..32], "after deregistration nothing is written");
    assert_eq!(bench.state(B), Err);
}

#[test]
fn flags_of_good_completions() {
    each(|profile, mut bench| {
        let b = bench.remote(B);
        bench.recv(B, 7, 0..8);
        bench.recv(B, 8, 0..8);
        bench.recv(B, 9, 0..8);
        bench.post(A, wr(1, send()).at(0..8));
        bench.post(A, wr(2, send_imm(5)).at(0..8));
        bench.post(A, wr(3, b.write_imm(0, 6)).at(0..8));
        bench.run();
        let flags = |wcs: Vec<Wc>| wcs.iter().map(|wc| wc.flags).collect::<Vec<_>>();
        let (none, imm) = (WcFlags::empty(), WcFlags::WITH_IMM);
        let sent = if profile.imm_flag_on_send { imm } else { none };
        let grh = if profile.grh_flag_on_connected { WcFlags::GRH } else { none };
        assert_eq!(flags(bench.sent(A)), [none, sent, sent]);
        assert_eq!(flags(bench.received(B)), [grh, grh | imm, grh | imm]);
    });
}

/// A failed completion: whether all but four of its fields are as poison has them.
fn is_poisoned(wc: &Wc, was_send: bool) -> bool {
    let opcode_lies = ((wc.opcode as u8) < 128) != was_send;
    opcode_lies && wc.byte_len == 0xdead_a5a5 && wc.imm_data == 0xdead_a5a5
}

#[test]
fn what_is_undefined_in_failed_completions() {
    each(|profile, mut bench| {
        bench.recv(B, 7, 0..8);
        bench.recv(B, 8, 0..8);
        bench.post(A, wr(1, send()).at(0..100));
        bench.post(A, wr(2, send()).at(0..100));
        bench.run();
        let (sent, received) = (bench.sent(A), bench.received(B));
        assert_eq!((sent.len(), received.len()), (2, 2));
        let sides = [(&sent, true, A), (&received, false, B)];
        for (wcs, was_send, end) in sides {
            for wc in wcs {
                assert_eq!(is_poisoned(wc, was_send), profile.poison, "{profile} {wc:?}");
                assert_eq!(wc.qp_num, bench.end(end).qp);
            }
        }
        let ids: Vec<_> = sent.iter().chain(&received).map(|wc| wc.wr_id).collect();
        assert_eq!(ids, [1, 2, 7, 8]);
    });
}

#[test]
fn a_receive_that_is_too_small() {
    each(|profile, mut bench| {
        bench.recv(B, 7, 0..8);
        bench.post(A, wr(1, send()).at(0..100));
        bench.run();
        let ReceiveTooSmall { responder, requester } = profile.receive_too_small;
        assert_eq!(bench.recvs(B), [(7, responder)]);
        assert_eq!(bench.sends(A), [(1, requester)]);
        let measured = (LocalQpOperationError, RemoteOperationError);
        assert_eq!((responder, requester) == measured, responder != LocalLengthError);
    });
}

#[test]
fn a_datagram_that_is_too_long() {
    for profile in profiles() {
        let mut bench = with(Setup::ud(), profile).pair();
        bench.recv(B, 7, 0..100);
        bench.inject(A, &Forge::send(Only, 0).count_up(0, 100));
        match profile.datagram_too_long {
            DatagramTooLong::Dropped => assert_eq!(bench.recvs(B), []),
            DatagramTooLong::FailsReceive(status) => assert_eq!(bench.recvs(B), [(7, status)]),
        }
        assert_eq!(bench.state(B), Rts);
        assert_eq!(bench.count(B, Counter::DropTooLong), 1);
    }
}

#[test]
fn a_read_that_may_never_be_open() {
    for profile in profiles() {
        let mut setup = with(Setup::rc(), profile);
        setup.attributes.max_rd_atomic = 0;
        for atomic in [false, true] {
            let mut bench = setup.pair();
            let b = bench.remote(B);
            let op = if atomic { b.add(0, 1) } else { b.read(0) };
            bench.post(A, wr(1, b.write(0)).at(0..8));
            bench.post(A, wr(2, op).at(0..8));
            bench.post(A, wr(3, b.write(0)).at(0..8));
            bench.run();
            match profile.read_without_depth {
                ReadWithoutDepth::Waits => {
                    assert_eq!(bench.sends(A), [(1, Success)]);
                    assert_eq!(bench.state(A), Rts);
                }
                ReadWithoutDepth::Fails(status) => {
                    let failed = [(2, status), (3, WorkRequestFlushed)];
                    assert_eq!(bench.sends(A), [&[(1, Success)][..], &failed].concat());
                    assert_eq!(bench.states(), (Err, Rts));
                }
            }
        }
    }
}

#[test]
fn an_atomic_at_an_odd_address() {
    each(|profile, mut bench| {
        let b = bench.remote(B);
        let posted = bench.try_post(A, &wr(1, b.add(4, 1)).at(0..8));
        assert_eq!(posted.is_err(), profile.unaligned_atomic_refused_at_post);
        bench.run();
        if posted.is_ok() {
            assert_eq!(bench.sends(A), [(1, WcStatus::RemoteInvalidRequest)]);
            assert_eq!(bench.states(), (Err, Err));
        }
    });
}

#[test]
fn what_the_responder_tells_and_counts() {
    each(|profile, mut bench| {
        let (b, qp) = (bench.remote(B), bench.end(B).qp);
        bench.post(A, wr(1, b.write(1 << 40)).at(0..8));
        bench.run();
        let event = profile.access_error_event.then_some(AsyncEvent::QpAccessError(qp));
        assert_eq!(bench.async_events(B), event.into_iter().collect::<Vec<_>>());
        let counted = u64::from(profile.responder_errors_counted);
        assert_eq!(bench.count(B, Counter::ResponderRemoteAccess), counted);
        assert_eq!(bench.count(A, Counter::RequesterRemoteAccess), 1);
    });
    each(|profile, mut bench| {
        let qp = bench.end(B).qp;
        bench.inject(A, &Forge::opcode(0x1f, 0));
        assert_eq!(bench.async_events(B), [AsyncEvent::QpRequestError(qp)], "in all profiles");
        let counted = u64::from(profile.responder_errors_counted);
        assert_eq!(bench.count(B, Counter::ResponderRemoteInvalidRequest), counted);
    });
}

fn post(bench: &mut Bench, request: Wr) -> Wc {
    bench.post(A, request);
    bench.run();
    let sent = bench.sent(A);
    assert_eq!(sent.len(), 1);
    sent[0]
}

#[test]
fn statuses_and_vendor_codes_of_failed_sends() {
    type Request = fn(&mut Bench) -> Wr;
    let (bad_lkey, range, write): (Request, Request, Request) = (
        |_| wr(1, send()).sge(BASE, 8, Key(0xdead_0000)),
        |bench| wr(1, send()).sge(BASE + (1 << 16), 8, bench.end(A).key),
        |bench| {
            let read_only = bench.register(A, 0..64, Access::empty());
            wr(1, bench.remote(B).read(0)).sge(BASE, 8, read_only)
        },
    );
    let (denied, forbidden): (Request, Request) = (
        |bench| wr(1, bench.remote(B).write(1 << 40)).at(0..8),
        |bench| {
            let none = |attr: &mut softrnic_model::verbs::QpAttributes| {
                attr.access = Access::empty();
            };
            bench.modify(B, QpAttributeMask::ACCESS_FLAGS, none).unwrap();
            wr(1, bench.remote(B).write(0)).at(0..8)
        },
    );
    let (silent, not_ready): (Request, Request) = (
        |bench| {
            bench.tap.rule(|_| Fate::Drop);
            wr(1, bench.remote(B).write(0)).at(0..8)
        },
        |_| wr(1, send()).at(0..8),
    );
    for profile in profiles() {
        let codes = profile.vendor_errors;
        let cases = [
            (bad_lkey, profile.bad_lkey, codes.bad_lkey),
            (range, profile.bad_lkey, codes.sge_out_of_range),
            (write, profile.bad_lkey, codes.no_local_write),
            (denied, WcStatus::RemoteAccessError, codes.remote_access),
            (forbidden, WcStatus::RemoteInvalidRequest, codes.remote_invalid_request),
            (silent, WcStatus::RetryExceeded, codes.retry_exceeded),
            (not_ready, WcStatus::RnrRetryExceeded, codes.rnr_retry_exceeded),
        ];
        for (request, status, code) in cases {
            let mut setup = with(Setup::rc(), profile);
            setup.attributes.rnr_retry = 1;
            let mut bench = setup.pair();
            let request = request(&mut bench);
            let wc = post(&mut bench, request);
            assert_eq!((wc.status, wc.vendor_err), (status, code), "{profile}");
            let flushed = post(&mut bench, wr(2, send()).at(0..8));
            assert_eq!(flushed.vendor_err, codes.flushed);
        }
        let mut bench = with(Setup::rc(), profile).pair();
        let b = bench.remote(B);
        let good = post(&mut bench, wr(1, b.write(0)).at(0..8));
        assert_eq!((good.status, good.vendor_err), (Success, 0));
    }
}

#[test]
fn memory_that_is_gone_is_a_local_protection_error_in_all() {
    each(|_, mut bench| {
        let end = bench.end(A);
        let memory = bench.fabric.host(end.host).memory.add(vec![0; 64]);
        let access = Access::LOCAL_WRITE;
        let spec =
            RegionSpec { pd: end.pd, memory, memory_offset: 0, addr: BASE, length: 64, access };
        let key = bench.device(A).register(spec).unwrap();
        bench.fabric.host(end.host).memory.unmap(memory);
        let b = bench.remote(B);
        let wc = post(&mut bench, wr(1, b.write(0)).sge(BASE, 8, key));
        assert_eq!(wc.status, WcStatus::LocalProtectionError);
    });
}
