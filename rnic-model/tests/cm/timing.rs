//! Retries, giving up, patience, time wait.

use softrnic_model::Instant;
use softrnic_model::cm::message::{Answered, Message};
use softrnic_model::cm::{EventKind, State};

use crate::peer::{Play, config};

const MS: u64 = 1_000_000;

/// Lets time pass until nothing is due any more; returns when something was said, in milliseconds.
fn pass(play: &mut Play) -> Vec<(u64, Vec<&'static str>)> {
    let mut said = Vec::new();
    while let Some(due) = play.machine.next_deadline() {
        play.now = due;
        play.machine.on_time(due);
        let names: Vec<_> = play.said().iter().map(Message::name).collect();
        said.push((due.as_ns() / MS, names));
    }
    said
}

#[test]
fn what_is_not_answered_is_said_again_ever_more_rarely_and_given_up() {
    for (state, name) in [
        (State::ReqSent, "Req"),
        (State::RepSent, "Rep"),
        (State::DreqSent, "Dreq"),
        (State::SidrReqSent, "SidrReq"),
    ] {
        let mut play = Play::in_state(state);
        let said = pass(&mut play);
        let retries = usize::from(config().lifetimes.retries);
        let repeated: Vec<u64> =
            said.iter().filter(|(_, names)| *names == [name]).map(|(at, _)| *at).collect();
        assert_eq!(repeated.len(), retries, "{state:?}");
        assert_eq!(repeated[..5], [250, 750, 1_750, 3_750, 7_750], "{state:?}");
        assert!(
            (8_589..8_591).contains(&(repeated[7] - repeated[6])),
            "twice the response timeout at most"
        );
        let events: Vec<_> = play.events().into_iter().map(|event| event.kind).collect();
        let ends = [EventKind::Disconnected { timed_out: true }, EventKind::TimewaitExit];
        let fails = [EventKind::Unreachable];
        assert_eq!(events, if state == State::DreqSent { &ends[..] } else { &fails[..] });
        assert!(play.machine.is_empty());
        let rejected = said.iter().any(|(_, names)| *names == ["Rej"]);
        assert_eq!(rejected, matches!(state, State::ReqSent | State::RepSent), "{state:?}");
    }
}

#[test]
fn a_peer_that_asks_for_patience_gets_it_once() {
    let mut play = Play::in_state(State::ReqSent);
    play.hears(play.mra(Answered::Req));
    // 4.096 us * 2^22
    assert_eq!(play.machine.next_deadline().unwrap().as_ns() / MS, 17_179);
    play.now = Instant::from_ns(10_000 * MS);
    play.hears(play.mra(Answered::Req));
    assert_eq!(play.machine.next_deadline().unwrap().as_ns() / MS, 17_179);
    assert_eq!(pass(&mut play)[0], (17_179, vec!["Req"]));
}

#[test]
fn what_waits_for_the_program_waits_without_end() {
    for state in State::ALL {
        let waits = matches!(
            state,
            State::ReqRcvd
                | State::MraReqSent
                | State::RepRcvd
                | State::MraRepSent
                | State::Established
                | State::DreqRcvd
                | State::SidrReqRcvd
        );
        let play = Play::in_state(state);
        assert_eq!(play.machine.next_deadline().is_none(), waits, "{state:?}");
    }
}

#[test]
fn time_wait_ends_and_says_so() {
    let mut play = Play::in_state(State::Timewait);
    assert_eq!(pass(&mut play), [(1_000, vec![])]);
    let events = play.events();
    assert!(matches!(&events[..], [one] if one.kind == EventKind::TimewaitExit));
    assert!(play.machine.is_empty());
}
