//! The reference model against even simpler ones.
#![expect(clippy::cast_possible_truncation, reason = "tests")]

use proptest::prelude::*;
use softrnic_reference::{
    Access, Additions, Channel, Completion, Counts, Delivery, Fate, Keys, Kind, Memory, Outcome,
    Received, Receives, Refusal, Request, Rights, Status, Unreliable, Who,
};

const ACCESSES: [Access; 5] = [
    Access::LocalRead,
    Access::LocalWrite,
    Access::RemoteRead,
    Access::RemoteWrite,
    Access::RemoteAtomic,
];

fn rights(bits: u8) -> Rights {
    Rights {
        local_write: bits & 1 != 0,
        remote_read: bits & 2 != 0,
        remote_write: bits & 4 != 0,
        remote_atomic: bits & 8 != 0,
    }
}

proptest! {
    /// Byte by byte, near the end of all addresses: an access is allowed if each of its bytes is.
    #[test]
    fn ranges_are_those_of_their_bytes(
        base in 0_u64..24, size in 0_u64..24, address in 0_u64..48, len in 0_u64..24, top: bool,
    ) {
        let shift = if top { u64::MAX - 40 } else { 0 };
        prop_assume!(address.checked_add(shift).is_some());
        let mut keys = Keys::default();
        keys.register(7, 1, (0, base + shift, size), Rights::ALL);
        let who = Who { domain: 1, qp: 1 };
        let allowed = keys.judge(7, who, (address + shift, len), Access::RemoteWrite);
        let is_byte = |byte: u64| (base..base + size).contains(&byte);
        let each = (address..address + len).all(is_byte);
        let edge = len > 0 || (base..=base + size).contains(&address);
        prop_assert_eq!(allowed.is_ok(), each && edge);
        if let Ok((_, offset)) = allowed {
            prop_assert_eq!(offset, address - base);
        }
    }

    #[test]
    fn a_window_grants_no_more_than_what_it_was_bound_with(
        bits in 0_u8..16, access in 0_usize..5, qp in 0_u32..3, domain in 0_u32..2,
        address in 0_u64..40, len in 0_u64..40,
    ) {
        let mut keys = Keys::default();
        keys.register(1, 0, (3, 0, 32), Rights::ALL);
        keys.allocate_window(100, 0);
        let access = ACCESSES[access];
        let who = Who { domain, qp };
        prop_assert!(keys.judge(100, who, (10, 1), access).is_err());
        keys.bind((100, 101), Some(1), 1, (8, 8), rights(bits));
        let judged = keys.judge(101, who, (address, len), access);
        let local = matches!(access, Access::LocalRead | Access::LocalWrite);
        let granted = match access {
            Access::RemoteRead => bits & 2 != 0,
            Access::RemoteWrite => bits & 4 != 0,
            Access::RemoteAtomic => bits & 8 != 0,
            Access::LocalRead | Access::LocalWrite => false,
        };
        let inside = address >= 8 && address + len <= 16;
        prop_assert_eq!(judged.is_ok(), !local && granted && inside && qp == 1 && domain == 0);
        prop_assert_eq!(keys.judge(100, who, (10, 1), access), Err(Refusal::UnknownKey));
        keys.remove(1);
        prop_assert!(keys.judge(101, who, (address, len), access).is_err());
    }

    /// Against one `Option<u8>` a byte.
    #[test]
    fn memory_is_what_was_written_last(
        acts in proptest::collection::vec((0_usize..64, 0_usize..16, any::<u8>(), any::<bool>()), 0..40),
        probe in 0_usize..64, found: u8,
    ) {
        let mut memory = Memory::new(80);
        let mut bytes = [Some(0_u8); 80];
        for (at, len, byte, forget) in acts {
            if forget {
                memory.forget(at..at + len);
                bytes[at..at + len].fill(None);
            } else {
                memory.write(at, &vec![byte; len]);
                bytes[at..at + len].fill(Some(byte));
            }
        }
        let right = bytes[probe].is_none_or(|byte| byte == found);
        prop_assert_eq!(memory.compare(probe, &[found]).is_ok(), right);
        prop_assert_eq!(memory.knows(0..80), bytes.iter().all(Option::is_some));
    }

    /// A device that does everything right is never accused, whatever is signalled and wherever it
    /// fails; and one completion more, fewer or other is.
    #[test]
    fn a_channel_knows_right_from_wrong(
        signals in proptest::collection::vec(any::<bool>(), 1..12),
        fails_at in 0_usize..16, spoil in 0_usize..14, how in 0_u8..4,
    ) {
        let completions = honest(&signals, fails_at);
        prop_assert!(feed(&signals, fails_at, &completions).is_ok());
        let mut spoilt = completions.clone();
        prop_assume!(spoil < spoilt.len());
        match how {
            0 => { spoilt.insert(spoil, spoilt[spoil]); }
            1 if spoil + 1 < spoilt.len() => spoilt.swap(spoil, spoil + 1),
            2 => spoilt[spoil].status = Status::RemoteInvalid,
            _ => { spoilt.remove(spoil); }
        }
        prop_assert!(feed(&signals, fails_at, &spoilt).is_err());
    }

    #[test]
    fn additions_are_each_done_once(done in 0_u64..20, lost in 0_u64..5, twice in 0_u64..2) {
        let mut additions = Additions::default();
        for value in 0..done {
            additions.found(value).unwrap();
        }
        (0..lost).for_each(|_| additions.lost());
        for happened in 0..=lost {
            prop_assert!(additions.check(done + happened).is_ok());
        }
        prop_assert!(additions.check(done + lost + 1 + twice).is_err());
        if done > 0 {
            prop_assert!(additions.check(done - 1).is_err());
            prop_assert!(additions.found(done - 1).is_err());
        }
    }
}

fn request(id: usize, signaled: bool, fails_at: usize) -> Request<(), ()> {
    let outcome =
        if id == fails_at { Outcome::Fails(Status::RemoteAccess) } else { Outcome::Succeeds };
    let what = Received::message(id as u32);
    let delivers = (id != fails_at).then_some(Delivery { what, carries: () });
    Request {
        id: id as u64,
        kind: Kind::Send,
        signaled,
        answer: None,
        outcome,
        delivers,
        carries: (),
    }
}

/// What a device says that does everything right.
fn honest(signals: &[bool], fails_at: usize) -> Vec<Completion> {
    let of = |id: usize, status| Completion { id: id as u64, status, kind: Kind::Send, bytes: 0 };
    let mut all = Vec::new();
    for (id, signaled) in signals.iter().enumerate() {
        match id.cmp(&fails_at) {
            std::cmp::Ordering::Less if *signaled => all.push(of(id, Status::Success)),
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => all.push(of(id, Status::RemoteAccess)),
            std::cmp::Ordering::Greater => all.push(of(id, Status::Flushed)),
        }
    }
    all
}

fn feed(
    signals: &[bool],
    fails_at: usize,
    completions: &[Completion],
) -> Result<(), softrnic_reference::Violation> {
    let mut channel = Channel::default();
    for (id, signaled) in signals.iter().enumerate() {
        channel.post(request(id, *signaled, fails_at));
    }
    for id in 0..fails_at.min(signals.len()) {
        channel.arrive(&Received::message(id as u32))?;
    }
    let mut next = 0;
    for completion in completions {
        channel.complete(completion, |retired| {
            assert_eq!(retired.id, next, "in order");
            next += 1;
            let behind = retired.id > fails_at as u64;
            assert_eq!(retired.fate == Fate::NotDone, behind, "{retired:?}");
            Ok(())
        })?;
    }
    if channel.is_idle() { Ok(()) } else { Err(softrnic_reference::Violation("left".into())) }
}

#[test]
fn messages_arrive_in_order_and_once() {
    let of = Received::message;
    let mut channel = Channel::default();
    (0..3).for_each(|id| channel.post(request(id, true, 9)));
    channel.arrive(&of(0)).unwrap();
    assert!(channel.clone().arrive(&of(0)).is_err(), "twice");
    assert!(channel.clone().arrive(&of(2)).is_err(), "overtaken");
    channel.arrive(&of(1)).unwrap();
    channel.arrive(&of(2)).unwrap();
    assert!(channel.arrive(&of(2)).is_err(), "nobody has sent it");
}

#[test]
fn silence_and_interruptions_are_for_those_who_announce_them() {
    let lost = Completion { id: 0, status: Status::RetryExceeded, kind: Kind::Send, bytes: 0 };
    let flushed = Completion { status: Status::Flushed, ..lost };
    let mut channel = Channel::default();
    channel.post(request(0, true, 9));
    assert!(channel.clone().complete(&lost, |_| Ok(())).is_err());
    assert!(channel.clone().complete(&flushed, |_| Ok(())).is_err());
    let (mut silent, mut interrupted) = (channel.clone(), channel);
    silent.allow_silence();
    silent
        .complete(&lost, |retired| {
            assert_eq!(retired.fate, Fate::Unknown);
            Ok(())
        })
        .unwrap();
    assert!(silent.is_broken() && silent.is_idle());
    silent.arrive(&Received::message(0)).unwrap();
    interrupted.interrupt();
    interrupted.complete(&flushed, |_| Ok(())).unwrap();
    assert!(interrupted.is_idle(), "a message that may or may not arrive is not waited for");
}

#[test]
fn receives_are_taken_in_order_unless_they_are_shared() {
    let mut own = Receives::new(false);
    let mut shared = Receives::new(true);
    for id in 0..3 {
        own.post(id, id * 10);
        shared.post(id, id * 10);
    }
    assert!(own.clone().take(1).is_err());
    assert_eq!((own.take(0), shared.take(2), shared.take(0)), (Ok(0), Ok(20), Ok(0)));
    assert!(shared.take(2).is_err());
    assert_eq!(shared.flush(1), Ok(10));
    assert_eq!(own.flush(1), Ok(10));
    assert!(own.take(2).is_err(), "nothing is filled once others were flushed");
}

#[test]
fn unreliable_messages_come_whole_and_not_more_often_than_they_were_sent() {
    let mut way = Unreliable::default();
    let what = Received::message(3);
    way.sent(&what, vec![1, 2, 3]);
    assert!(way.arrived(&what, &[1, 2, 4], true).is_err());
    way.arrived(&what, &[1, 2, 3], false).unwrap();
    assert!(way.clone().arrived(&what, &[1, 2, 3], false).is_err());
    way.arrived(&what, &[1, 2, 3], true).unwrap();
}

#[test]
fn counts_are_held_against_counters() {
    let mut counts = Counts::default();
    let completion = Completion { id: 0, status: Status::Success, kind: Kind::Send, bytes: 0 };
    counts.send(&completion);
    counts.retired(Kind::Send, false);
    counts.send(&Completion { status: Status::Flushed, ..completion });
    counts.retired(Kind::Send, true);
    counts.receive(Status::Success);
    counts.receive(Status::LocalLength);
    counts.send(&Completion { status: Status::RemoteAccess, ..completion });
    counts.came.saw(&[0x04; 12], false);
    counts.sent.saw(&RNR_NAK, false);
    let right = [
        ("rdma_sends", 1),
        ("rdma_recvs", 1),
        ("req_cqe_error", 2),
        ("req_cqe_flush_error", 1),
        ("req_remote_access_errors", 1),
        ("resp_cqe_error", 1),
        ("rcvd_pkts", 1),
        ("sent_pkts", 1),
        ("send_rnr_err", 1),
        ("ack_deferred", 1),
    ];
    let device = |name: &str| right.iter().find(|(known, _)| *known == name).map_or(0, |one| one.1);
    assert_eq!(counts.check(&device), Ok(()));
    // Two more of anything are too many.
    for name in Counts::names() {
        let wrong = |asked: &str| device(asked) + 2 * u64::from(asked == name);
        let said = counts.check(&wrong).unwrap_err().to_string();
        assert!(said.contains("counter") || said.contains("were dropped"), "{name}: {said}");
    }
}

/// An acknowledgement whose syndrome says that there is no receive.
const RNR_NAK: [u8; 16] = [0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0];

#[test]
fn what_a_failure_may_change_is_bounded() {
    let mut counts = Counts { failures: 1, counts_refusals: true, ..Counts::default() };
    counts.sent.saw(&RNR_NAK, false);
    let of = |rnr: u64| {
        move |name: &str| if name == "send_rnr_err" { rnr } else { u64::from(name == "sent_pkts") }
    };
    for (rnr, is_right) in [(0, false), (1, true), (3, true), (4, false)] {
        assert_eq!(counts.check(&of(rnr)).is_ok(), is_right, "{rnr}");
    }
}
