//! Where profiles differ. Each of these cases is about one of them and brings its own devices.

use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_model::verbs::{AsyncEvent, Key, QpState, Sge, Wc, WcFlags, WcOpcode, WcStatus};

use super::book::named;
use crate::case::{Case, Outcome, verbs};
use crate::lab::Connection;
use crate::stage::{End, Stage, send, wr};
use crate::{ensure, same};

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, profile, text) in SCRIPTS {
        all.push(named(&format!("profiles/{name}"), text).with_profile(profile));
    }
    for profile in Profile::ALL {
        let name = profile.name;
        let mut add = |rule: &str, act: fn(&mut Stage) -> Outcome| {
            all.push(verbs(format!("profiles/{rule}"), name, act).with_profile(profile));
        };
        add("failed-opcode", failed_opcode);
        add("failed-fields", failed_fields);
        add("undefined-fields", undefined_fields);
        add("grh-junk", grh_junk);
        add("grh-flag", grh_flag);
        add("imm-flag", imm_flag);
        add("bad-lkey", bad_lkey);
        add("receive-too-small", receive_too_small);
        add("datagram-too-long", datagram_too_long);
        add("access-error-event", access_error_event);
        add("unaligned-atomic", unaligned_atomic);
        add("read-without-depth", read_without_depth);
        add("vendor-codes", vendor_codes);
        add("responder-counters", responder_counters);
        add("placement-order", placement_order);
        add("acknowledged-is-placed", acknowledged_is_placed);
        add("completion-order", completion_order);
    }
    all
}

/// What a device under a profile answers to packets: name, profile, script.
const SCRIPTS: [(&str, Profile, &str); 6] = [
    (
        "answer-delay/strict",
        Profile::STRICT,
        "qp rc
              < WRITE_ONLY psn=0 data=8*0xaa ack
        +15us > ACK psn=0 msn=1",
    ),
    (
        "answer-delay/strict-makes-one-of-many",
        Profile::STRICT,
        "qp rc
        < WRITE_ONLY psn=0 data=8*0xaa ack
        < WRITE_ONLY psn=1 data=8*0xbb ack
        < WRITE_ONLY psn=2 data=8*0xcc ack
        >? ACK psn=0 msn=1
        >? ACK psn=1 msn=2
        > ACK psn=2 msn=3
        holds buf 8*0xcc",
    ),
    (
        "late-bytes-refused/strict",
        Profile::STRICT,
        "qp rc
        region mem len=64
        < WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa
        wait 1ms
        holds mem 8*0xaa
        dereg mem
        < WRITE_ONLY psn=1 va=mem rkey=mem data=8*0xbb ack
        > NAK_ACCESS psn=1
        in ERR
        holds mem 8*0xaa",
    ),
    (
        "late-bytes-without-answer/strict",
        Profile::STRICT,
        "qp rc
        < WRITE_ONLY psn=0 data=64*0xaa
        quiet
        holds buf 64*0xaa",
    ),
    (
        "late-bytes-without-answer/strict-uc",
        Profile::STRICT,
        "qp uc
        < WRITE_ONLY psn=0 data=64*0xaa
        quiet
        holds buf 64*0xaa",
    ),
    (
        "late-bytes-seen-by-what-follows/strict",
        Profile::STRICT,
        "qp rc
        < WRITE_ONLY psn=0 data=64*0xaa
        < READ_REQUEST psn=1 len=64
        > READ_RESPONSE_ONLY psn=1 data=64*0xaa",
    ),
];

fn profile(stage: &Stage) -> Outcome<Profile> {
    let none = || crate::case::Problem::NotApplicable("its profile is not known".into());
    stage.profile().copied().ok_or_else(none)
}

/// What undefined fields hold under a profile that poisons (docs/spec/profiles.md).
const POISON: u32 = 0xdead_a5a5;

/// A send that is refused by its peer, and a receive that is flushed.
fn failures(stage: &Stage) -> Outcome<[Wc; 2]> {
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&a, 7, 0, 64)?;
    let mut write = a.write(&b, 0);
    if let softrnic_model::verbs::SendOp::Write { rkey, .. } = &mut write {
        *rkey = Key(rkey.0.wrapping_add(1));
    }
    stage.post(&a, &wr(1, write).at(0, 8))?;
    let failed = stage.completes(&a, 1, WcStatus::RemoteAccessError)?;
    let flushed = stage.receives(&a, 7, WcStatus::WorkRequestFlushed)?;
    Ok([failed, flushed])
}

fn failed_opcode(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [failed, flushed] = failures(stage)?;
    let expected = match (profile.poison, profile.failed_opcode_is_zero) {
        (true, _) => [WcOpcode::RecvRdmaWithImm, WcOpcode::BindMw],
        (false, true) => [WcOpcode::Send, WcOpcode::Send],
        (false, false) => [WcOpcode::RdmaWrite, WcOpcode::Recv],
    };
    same!(
        [failed.opcode, flushed.opcode],
        expected,
        "opcodes of a failed WRITE and a flushed receive"
    );
    Ok(())
}

fn failed_fields(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    for wc in failures(stage)? {
        let fields = (wc.byte_len, wc.imm_data, wc.invalidated_rkey.0, wc.src_qp.get(), wc.flags);
        let poisoned = (POISON, POISON, POISON, POISON & 0xff_ffff, WcFlags::all());
        let expected = if profile.poison { poisoned } else { (0, 0, 0, 0, WcFlags::empty()) };
        same!(fields, expected, "fields of request {} that mean nothing", wc.wr_id);
    }
    Ok(())
}

fn undefined_fields(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&b, 7, 0, 64)?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    let sent = stage.completes(&a, 1, WcStatus::Success)?;
    let received = stage.receives(&b, 7, WcStatus::Success)?;
    let junk = if profile.poison { POISON } else { 0 };
    same!((sent.imm_data, received.imm_data), (junk, junk), "immediates where there is none");
    same!(received.invalidated_rkey, Key(junk), "the key where none is invalidated");
    if !profile.grh_flag_on_connected {
        same!(received.src_qp.get(), junk & 0xff_ffff, "the sender of what is no datagram");
    }
    same!(sent.byte_len, if profile.poison { POISON } else { 8 }, "the length of a SEND");
    same!(received.byte_len, 8, "the length of the receive");
    Ok(())
}

fn datagram(stage: &Stage, len: u32) -> Outcome<[End; 2]> {
    let ends = stage.connect(&Connection::UD)?;
    stage.recv(&ends[1], 7, 0, len)?;
    Ok(ends)
}

fn grh_junk(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = datagram(stage, 128)?;
    if a.gid.as_v4().is_none() {
        let why = "the devices speak IPv6, whose header fills all 40 bytes";
        return Err(crate::case::Problem::NotApplicable(why.into()));
    }
    stage.post(&a, &wr(1, a.datagram(&b, Connection::UD.qkey)).at(0, 8))?;
    stage.receives(&b, 7, WcStatus::Success)?;
    let front = b.bytes(0, 20)?;
    if profile.poison {
        let kinds = front.iter().collect::<std::collections::BTreeSet<_>>().len();
        ensure!(kinds > 4, "20 bytes in front of the IPv4 header are no junk: {front:02x?}");
    } else {
        same!(front, vec![0; 20], "bytes in front of the IPv4 header");
    }
    same!(b.bytes(20, 1)?, vec![0x45], "the first byte of the IPv4 header");
    same!(b.bytes(40, 8)?, a.bytes(0, 8)?, "the payload");
    Ok(())
}

fn grh_flag(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&b, 7, 0, 64)?;
    stage.post(&a, &wr(1, send()).at(0, 8))?;
    let received = stage.receives(&b, 7, WcStatus::Success)?;
    same!(
        received.flags.contains(WcFlags::GRH),
        profile.grh_flag_on_connected,
        "the GRH flag on RC"
    );
    Ok(())
}

fn imm_flag(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&b, 7, 0, 64)?;
    let op = softrnic_model::verbs::SendOp::Send { imm: Some(5), invalidate: None };
    stage.post(&a, &wr(1, op).at(0, 8))?;
    let sent = stage.completes(&a, 1, WcStatus::Success)?;
    same!(sent.flags.contains(WcFlags::WITH_IMM), profile.imm_flag_on_send, "the flag on the SEND");
    let received = stage.receives(&b, 7, WcStatus::Success)?;
    same!(received.imm_data, 5, "the immediate");
    Ok(())
}

fn bad_lkey(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, _b] = stage.connect(&Connection::RC)?;
    stage.post(&a, &wr(1, send()).at(0, 8).lkey(Key(a.region.lkey().0.wrapping_add(1))))?;
    stage.completes(&a, 1, profile.bad_lkey)?;
    Ok(())
}

fn receive_too_small(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection::RC)?;
    stage.recv(&b, 7, 0, 8)?;
    stage.post(&a, &wr(1, send()).at(0, 64))?;
    stage.completes(&a, 1, profile.receive_too_small.requester)?;
    stage.receives(&b, 7, profile.receive_too_small.responder)?;
    Ok(())
}

fn datagram_too_long(stage: &mut Stage) -> Outcome {
    use softrnic_model::profile::DatagramTooLong;
    let profile = profile(stage)?;
    let [a, b] = datagram(stage, 44)?;
    stage.post(&a, &wr(1, a.datagram(&b, Connection::UD.qkey)).at(0, 8))?;
    match profile.datagram_too_long {
        DatagramTooLong::Dropped => {
            stage.completes(&a, 1, WcStatus::Success)?;
            stage.stays_idle(&b)?;
        }
        DatagramTooLong::FailsReceive(status) => {
            stage.receives(&b, 7, status)?;
        }
    }
    Ok(())
}

fn access_error_event(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection::RC)?;
    let (remote_addr, rkey) = b.remote(0);
    let op = softrnic_model::verbs::SendOp::Write {
        remote_addr,
        rkey: Key(rkey.0.wrapping_add(1)),
        imm: None,
    };
    stage.post(&a, &wr(1, op).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::RemoteAccessError)?;
    stage.gets_into(&b, QpState::Err)?;
    stage.settle();
    let events = stage.events(1)?;
    let raised = events.contains(&AsyncEvent::QpAccessError(b.qp));
    same!(raised, profile.access_error_event, "whether the responder's program is told");
    Ok(())
}

fn unaligned_atomic(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection::RC)?;
    let add = wr(1, a.fetch_add(&b, 4, 1)).at(0, 8);
    if profile.unaligned_atomic_refused_at_post {
        let refused = stage.try_post(&a, &add).map_err(|error| error.errno_name());
        same!(refused, Err("EINVAL"), "an atomic to an address that is no multiple of 8");
    } else {
        stage.post(&a, &add)?;
        stage.completes(&a, 1, WcStatus::RemoteInvalidRequest)?;
    }
    Ok(())
}

fn read_without_depth(stage: &mut Stage) -> Outcome {
    use softrnic_model::profile::ReadWithoutDepth;
    let profile = profile(stage)?;
    let [a, b] = stage.connect(&Connection { read_depth: 0, ..Connection::RC })?;
    stage.post(&a, &wr(1, a.read(&b, 0)).at(0, 8))?;
    match profile.read_without_depth {
        ReadWithoutDepth::Waits => stage.stays_idle(&a),
        ReadWithoutDepth::Fails(status) => stage.completes(&a, 1, status).map(|_| ()),
    }
}

fn vendor_codes(stage: &mut Stage) -> Outcome {
    let codes = profile(stage)?.vendor_errors;
    let [failed, flushed] = failures(stage)?;
    same!(failed.vendor_err, codes.remote_access, "the code of a remote access error");
    same!(flushed.vendor_err, codes.flushed, "the code of a flush");
    let [a, _b] = stage.connect(&Connection::RC)?;
    let outside = Sge { addr: a.region.addr().wrapping_add(1 << 40), ..a.sge(0, 8) };
    let wr = softrnic_model::verbs::SendWr {
        wr_id: 2,
        op: send(),
        flags: softrnic_model::verbs::SendFlags::SIGNALED,
        sges: &[outside],
        ..Default::default()
    };
    stage.verbs(0).post_send(a.qp, &[wr])?;
    let wc = stage.take(&a, a.send_cq, 1)?[0];
    same!(wc.vendor_err, codes.sge_out_of_range, "the code of an element outside its region");
    Ok(())
}

fn responder_counters(stage: &mut Stage) -> Outcome {
    let profile = profile(stage)?;
    failures(stage)?;
    let none = || crate::case::Problem::NotApplicable("the device counts nothing".into());
    let count = stage.counter(1, "resp_remote_access_errors").ok_or_else(none)?;
    same!(
        count,
        u64::from(profile.responder_errors_counted),
        "access errors that the responder counts"
    );
    Ok(())
}

/// Watches the last byte of a WRITE, as a wrong program does: where the profile is strict the first
/// byte is not there when the last one is.
fn placement_order(stage: &mut Stage) -> Outcome {
    let strict =
        profile(stage)?.placement == softrnic_model::profile::PlacementOrder::LastBytesFirst;
    let [a, b] = stage.connect(&Connection::RC)?;
    a.store(0, &[0xee; 64])?;
    let mut torn = 0;
    for round in 0..20_u64 {
        b.store(0, &[0; 64])?;
        stage.post(&a, &wr(round, a.write(&b, 0)).at(0, 64))?;
        stage
            .becomes_closely(|| Ok(b.bytes(63, 1)? == [0xee]), || "the WRITE never comes".into())?;
        torn += u32::from(b.bytes(0, 1)? != [0xee]);
        stage.completes(&a, round, WcStatus::Success)?;
    }
    if strict {
        ensure!(torn > 0, "the first byte was always there when the last one was");
    } else {
        same!(torn, 0, "WRITEs of which the last byte was seen before the first");
    }
    Ok(())
}

fn acknowledged_is_placed(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&Connection::RC)?;
    a.store(0, &[0xee; 3000])?;
    for round in 0..20_u64 {
        b.store(0, &[0; 3000])?;
        stage.post(&a, &wr(round, a.write(&b, 0)).at(0, 3000))?;
        stage.completes(&a, round, WcStatus::Success)?;
        same!(b.bytes(0, 3000)?, vec![0xee; 3000], "memory when the WRITE has completed");
    }
    Ok(())
}

/// Completions of two queue pairs in one queue: those of each are in order, and where the profile is
/// strict those of the later one come first.
fn completion_order(stage: &mut Stage) -> Outcome {
    use softrnic_model::profile::CompletionOrder;
    let strict = profile(stage)?.completions == CompletionOrder::LatestQueueFirst;
    let (cq, _) = stage.verbs(0).create_cq(64, None)?;
    let pair = || {
        let first = stage.end_with(0, &Connection::RC, |init| init.send_cq = cq)?;
        stage.join(&Connection::RC, [first, stage.end(1, &Connection::RC)?])
    };
    let ([a, b], [c, d]) = (pair()?, pair()?);
    for id in [1, 2] {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(0, 8))?;
    }
    stage.pass(Duration::from_millis(5));
    for id in [11, 12] {
        stage.post(&c, &wr(id, c.write(&d, 0)).at(0, 8))?;
    }
    stage.settle();
    let all = stage.take(&a, cq, 4)?;
    let ids: Vec<u64> = all.iter().map(|wc| wc.wr_id).collect();
    let expected = if strict { [11, 12, 1, 2] } else { [1, 2, 11, 12] };
    same!(ids, expected, "the order of completions");
    Ok(())
}
