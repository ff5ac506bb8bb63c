//! The scenarios under other circumstances: the same answers, and packets that follow from them.

use std::time::Duration;

use softrnic_conformance::lab::{Connection, Endpoint, Family, Lab, Pace, SimulatedLab};
use softrnic_conformance::scenario::{
    Observation, Op, Outcome, Roles, Scenario, Session, Side, Stage, Work, sessions,
};
use softrnic_model::counters::Counter;
use softrnic_model::profile::Profile;
use softrnic_model::verbs::{
    AsyncEvent, Event, Key, Mtu, Psn, QpNum, QpState, QpType, RecvWr, SendFlags, SendOp, SendWr,
    Sge, Wc, WcStatus,
};
use softrnic_model::wire::{AtomicAckEth, Packet, Syndrome, rnr_timer_ns};

use crate::script;
use crate::wire;
use crate::world::{
    Ran, Run, SPEC, check_answers, check_packets, lab, may_complete, run, run_in, step, straight,
};

fn check_all(run: &Run, family: Family) {
    assert_eq!(run.len(), 57);
    for ran in run.values() {
        check_answers(ran, &SPEC, family);
        check_packets(ran, &SPEC, family);
    }
}

#[test]
fn roles_swapped() {
    for family in Family::ALL {
        check_all(&run(lab(Profile::SPEC, family), Roles::Swapped, &sessions()), family);
    }
}

#[test]
fn packets_in_bursts() {
    for family in Family::ALL {
        let lab = SimulatedLab::new(Profile::SPEC, family, Pace::Bursts);
        check_all(&run(lab, Roles::Straight, &sessions()), family);
    }
}

#[test]
fn every_session_wraps_its_sequence_numbers() {
    for first in [0xff_fffe, 0xff_ffff, 0x7f_ffff] {
        let sessions: Vec<_> =
            sessions().into_iter().map(|s| s.starting_at(Psn::new(first))).collect();
        check_all(&run(lab(Profile::SPEC, Family::V4), Roles::Straight, &sessions), Family::V4);
    }
}

/// Holds packets against those that follow from the work request. `at` is the distance of the
/// requester's sequence number from its first, which is moved on.
fn check_script(ran: &Ran, at: &mut u32) {
    let own = wire::names(&ran.ends, ran.first_psn);
    let lines = wire::by_sender(&ran.packets, &ran.ends[0])
        .map(|packets| packets.iter().map(|packet| script::line(packet, &own)).collect::<Vec<_>>());
    let expected = script::expected(&ran.observation, &ran.connection, *at);
    assert_eq!(lines, expected, "{}", ran.observation.scenario.name);
    *at += script::psns(&ran.observation.scenario.work, &ran.connection);
}

/// Whether both queue pairs are still usable after every scenario of a session.
fn goes_well(session: &Session) -> bool {
    let runs = straight(&SPEC, Family::V4);
    session.scenarios.iter().all(|s| runs[s.name].observation.states == [QpState::Rts; 2])
}

#[test]
fn both_ways_on_one_connection() {
    let mut ran = 0;
    for session in sessions().iter().filter(|session| goes_well(session)) {
        let mut lab = lab(Profile::SPEC, Family::V4);
        let mut stage = Stage::open(&mut lab, &session.connection, Roles::Straight).unwrap();
        let mut at = [0, 0];
        for scenario in &session.scenarios {
            for (roles, at) in Roles::ALL.into_iter().zip(&mut at) {
                let there = step(&mut stage, scenario, roles, &session.connection);
                check_answers(&there, &SPEC, Family::V4);
                check_script(&there, at);
                ran += 1;
            }
        }
        stage.close().unwrap();
    }
    // Everyday, wrap, a WRITE of nothing with a wrong key, UD, UC.
    assert_eq!(ran, 2 * (32 + 2 + 1 + 3 + 4));
}

#[test]
fn every_path_mtu() {
    for mtu in Mtu::ALL {
        for session in sessions() {
            let session = session.with_path_mtu(mtu);
            let mut lab = lab(Profile::SPEC, Family::V6);
            let mut stage = Stage::open(&mut lab, &session.connection, Roles::Straight).unwrap();
            let mut at = 0;
            for scenario in &session.scenarios {
                let ran = step(&mut stage, scenario, Roles::Straight, &session.connection);
                check_answers(&ran, &SPEC, Family::V6);
                check_script(&ran, &mut at);
            }
            stage.close().unwrap();
        }
    }
}

/// Only the last packet of a message is solicited.
#[test]
fn solicited_messages_of_several_packets() {
    let mut session = sessions().remove(0);
    session.scenarios.retain(|s| ["send3000", "write_imm_multi", "send_imm"].contains(&s.name));
    let mut lab = lab(Profile::SPEC, Family::V4);
    let mut stage = Stage::open(&mut lab, &session.connection, Roles::Straight).unwrap();
    let mut at = 0;
    for scenario in &session.scenarios {
        let scenario = Scenario { work: scenario.work.solicited(), ..*scenario };
        let ran = step(&mut stage, &scenario, Roles::Straight, &session.connection);
        check_answers(&ran, &SPEC, Family::V4);
        check_script(&ran, &mut at);
    }
    assert_eq!(at, 3 + 1 + 4);
    stage.close().unwrap();
}

/// Posts two receives, numbered 7 and 8.
fn post_two(lab: &mut SimulatedLab, at: &Endpoint) {
    for wr_id in [7, 8] {
        let sge = Sge { addr: at.buffer.addr, length: 64, lkey: at.buffer.lkey };
        lab.post_recv(at, &RecvWr { wr_id, sges: &[sge] }).unwrap();
    }
}

/// Takes what has completed: number and status.
fn told(lab: &mut SimulatedLab, at: &Endpoint) -> Vec<(u64, WcStatus)> {
    let wcs = lab.poll(at, 16, Duration::from_millis(1)).unwrap();
    wcs.iter().map(|wc| (wc.wr_id, wc.status)).collect()
}

/// Once a request has failed, the receives that are posted and those that will be are flushed, in
/// order, at each end that went to error, and nowhere else.
#[test]
fn receives_that_are_left_are_flushed() {
    use WcStatus::WorkRequestFlushed as Flushed;
    const FLUSHED: [(u64, WcStatus); 2] = [(7, Flushed), (8, Flushed)];
    let mut failed_ends = 0;
    for session in sessions().iter().filter(|session| !goes_well(session)) {
        let [scenario] = session.scenarios[..] else { panic!("errors have a connection each") };
        if scenario.receive.is_some() || scenario.name == "E_rnr_exceeded" {
            continue; // the receives posted here would be used up
        }
        let mut lab = lab(Profile::SPEC, Family::V4);
        let mut stage = Stage::open(&mut lab, &session.connection, Roles::Straight).unwrap();
        let ends = stage.ends(Roles::Straight);
        ends.iter().for_each(|end| post_two(stage.lab, end));
        let observation = stage.run(&scenario, Roles::Straight, may_complete(&scenario)).unwrap();
        for (side, end) in Side::ALL.into_iter().zip(&ends) {
            let Outcome::Completed(wcs) = &observation.outcomes[side as usize] else {
                panic!("{} is refused", scenario.name);
            };
            let failed = observation.states[side as usize] == QpState::Err;
            let expected = if failed { &FLUSHED[..] } else { &[] };
            let own = usize::from(side == Side::Requester);
            let before: Vec<_> = wcs[own..].iter().map(|wc| (wc.wr_id, wc.status)).collect();
            assert_eq!(before, expected, "{side} of {}", scenario.name);
            post_two(stage.lab, end);
            assert_eq!(told(stage.lab, end), expected, "{side} of {}", scenario.name);
            failed_ends += usize::from(failed);
        }
        stage.close().unwrap();
    }
    // Ten scenarios fail both ends, and one the requester alone.
    assert_eq!(failed_ends, 10 * 2 + 1);
}

/// The same for sends: what was posted behind the one that failed, and what is posted then.
#[test]
fn sends_that_are_left_are_flushed() {
    use WcStatus::{RemoteAccessError, WorkRequestFlushed as Flushed};
    let mut lab = lab(Profile::SPEC, Family::V4);
    let ends @ [own, peer] = lab.connect(&Connection::RC).unwrap();
    let sge = Sge { addr: own.buffer.addr, length: 64, lkey: own.buffer.lkey };
    let remote_addr = peer.buffer.addr;
    let post = |lab: &mut SimulatedLab, wr_id, rkey| {
        let op = SendOp::Write { remote_addr, rkey, imm: None };
        let wr = SendWr { wr_id, op, flags: SendFlags::empty(), sges: &[sge], ..SendWr::default() };
        lab.post_send(&own, &wr).unwrap();
    };
    let wrong = Key(peer.buffer.rkey.0 ^ 1);
    post(&mut lab, 1, wrong);
    post(&mut lab, 2, wrong);
    post(&mut lab, 3, peer.buffer.rkey);
    let expected = [(1, RemoteAccessError), (2, Flushed), (3, Flushed)];
    assert_eq!(told(&mut lab, &own), expected);
    post(&mut lab, 4, peer.buffer.rkey);
    assert_eq!(told(&mut lab, &own), [(4, Flushed)]);
    assert_eq!(lab.read(&peer), vec![0; peer.buffer.len], "nothing was written");
    ends.iter().for_each(|end| lab.destroy(end).unwrap());
}

/// Compare and swap that hit, and one that misses, each with what memory holds before it.
pub(crate) fn steps_of_compare_and_swap() -> [(Scenario, u64); 4] {
    const AT: u32 = 32_768;
    // What the responder's buffer holds there: byte i is 7 i + 1.
    let held = u64::from_ne_bytes([1, 8, 15, 22, 29, 36, 43, 50]);
    let (first, second) = (0xcafe_babe_dead_beef, 0x0123_4567_89ab_cdef);
    let swap =
        |compare, swap| Scenario::new("cas_hit", Work::compare_swap(compare, swap).from(AT).at(AT));
    [
        (swap(held, first), held),
        (swap(held, second), first), // misses
        (swap(first, second), first),
        (swap(second, second), second),
    ]
}

#[test]
fn a_compare_and_swap_that_hits() {
    let mut lab = lab(Profile::SPEC, Family::V4);
    let mut stage = Stage::open(&mut lab, &Connection::RC, Roles::Straight).unwrap();
    for (scenario, found) in steps_of_compare_and_swap() {
        let ran = step(&mut stage, &scenario, Roles::Straight, &Connection::RC);
        check_answers(&ran, &SPEC, Family::V4);
        let [_, answers] = wire::by_sender(&ran.packets, &ran.ends[0]);
        let answer = Packet::parse(&answers[0]).unwrap();
        assert_eq!(answer.atomic_ack_eth().map(AtomicAckEth::original), Some(found));
    }
    stage.close().unwrap();
}

#[test]
fn nothing_is_sent_again_before_the_rnr_timer_ends() {
    let runs = straight(&SPEC, Family::V4);
    for (name, naks_least) in [("rnr_then_ok", 100), ("E_rnr_exceeded", 2)] {
        let ran = &runs[name];
        let mut wait_until = None;
        let mut naks = 0;
        for tapped in &ran.packets {
            let packet = Packet::parse(&tapped.packet).unwrap();
            match packet.aeth().map(softrnic_model::wire::Aeth::syndrome) {
                Some(Syndrome::RnrNak { timer }) => {
                    assert_eq!(timer, ran.connection.min_rnr_timer);
                    naks += 1;
                    wait_until = Some(tapped.arrives_ns + rnr_timer_ns(timer));
                }
                Some(_) => {}
                None => assert!(wait_until.is_none_or(|until| tapped.at_ns >= until), "{name}"),
            }
        }
        assert!(naks >= naks_least, "{name}: {naks}");
    }
}

#[test]
fn the_same_run_twice_is_the_same() {
    let all = || {
        let runs = run(lab(Profile::SPEC, Family::V4), Roles::Straight, &sessions());
        runs.into_values().map(|ran| ran.packets).collect::<Vec<_>>()
    };
    assert!(all() == all());
}

/// What every profile must agree on: the number of completions, their numbers and statuses.
#[test]
fn profiles_differ_only_where_nothing_is_said() {
    let told = |profile: Profile| {
        let runs = run(lab(profile, Family::V4), Roles::Straight, &sessions());
        let wcs = |outcome: &Outcome| match outcome {
            Outcome::Completed(wcs) => wcs.iter().map(|wc| (wc.wr_id, wc.status)).collect(),
            Outcome::Refused(errno) => panic!("refused with {errno}"),
        };
        let told =
            |(name, ran): (&'static str, Ran)| (name, ran.observation.outcomes.each_ref().map(wcs));
        runs.into_iter().map(told).collect::<Vec<(_, [Vec<_>; 2])>>()
    };
    let spec = told(Profile::SPEC);
    assert_eq!(told(Profile::STRICT), spec);
    assert_eq!(told(Profile::CX5), spec);
}

/// The events at the responder after a scenario that ended as observed.
pub(crate) fn events_of_responder(observation: &Observation, responder: QpNum) -> Vec<Event> {
    let status = match &observation.outcomes[0] {
        Outcome::Completed(wcs) => wcs.first().map(|wc| wc.status),
        Outcome::Refused(_) => None,
    };
    let completed = observation.outcomes[1] != Outcome::Completed(Vec::new());
    match status {
        Some(WcStatus::RemoteAccessError) => {
            vec![Event::Async(AsyncEvent::QpAccessError(responder))]
        }
        Some(WcStatus::RemoteInvalidRequest) if !completed => {
            vec![Event::Async(AsyncEvent::QpRequestError(responder))]
        }
        _ => Vec::new(),
    }
}

/// A responder's program learns of a violation by an event, for no completion tells it.
#[test]
fn refused_access_raises_an_event() {
    for ran in straight(&SPEC, Family::V4).values() {
        let expected = events_of_responder(&ran.observation, ran.ends[1].qp);
        let name = ran.observation.scenario.name;
        assert_eq!(ran.events[0], [], "{name}: the requester has its completion");
        assert_eq!(ran.events[1], expected, "{name}");
    }
}

/// The counters of messages count messages: SENDs that completed, and receives that succeeded.
#[test]
fn messages_are_counted() {
    for (profile, family) in [(Profile::SPEC, Family::V4), (Profile::RXE, Family::V6)] {
        let mut lab = lab(profile, family);
        let run = run_in(&mut lab, Roles::Straight, &sessions());
        let count = |side: Side, counts: &dyn Fn(&Scenario, &Wc) -> bool| {
            let completed = |ran: &Ran| match &ran.observation.outcomes[side as usize] {
                Outcome::Completed(wcs) => {
                    wcs.iter().filter(|wc| counts(&ran.observation.scenario, wc)).count()
                }
                Outcome::Refused(_) => 0,
            };
            run.values().map(completed).sum::<usize>() as u64
        };
        let sends = count(Side::Requester, &|scenario, _| matches!(scenario.work.op, Op::Send(_)));
        let receives = count(Side::Responder, &|_, wc| wc.status == WcStatus::Success);
        assert!(sends > 15 && receives > 15, "{sends} {receives}");
        let counted = |device, counter| lab.device(device).counters().get(counter);
        assert_eq!(counted(0, Counter::RdmaSends), sends, "{profile}");
        assert_eq!(counted(1, Counter::RdmaReceives), receives, "{profile}");
        assert_eq!((counted(1, Counter::RdmaSends), counted(0, Counter::RdmaReceives)), (0, 0));
    }
}

#[test]
fn no_datagram_is_acknowledged_or_asks_for_it() {
    for ran in straight(&SPEC, Family::V6).values() {
        if ran.connection.qp_type == QpType::Rc {
            continue;
        }
        for tapped in &ran.packets {
            let packet = Packet::parse(&tapped.packet).unwrap();
            assert!(!packet.bth.ack_req());
            assert_eq!(tapped.route.src, ran.ends[0].gid);
        }
    }
}
