//! Every message in every state, its IDs all right.

use softrnic_model::cm::message::{Answered, Message};
use softrnic_model::cm::{EventKind, State};

use crate::peer::Play;

/// What the peer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Req,
    MraReq,
    MraRep,
    RejReq,
    RejRep,
    RejOther,
    Rep,
    Rtu,
    Dreq,
    Drep,
    SidrReq,
    SidrRep,
    Lap,
    Apr,
}

const ALL: [Says; 14] = [
    Says::Req,
    Says::MraReq,
    Says::MraRep,
    Says::RejReq,
    Says::RejRep,
    Says::RejOther,
    Says::Rep,
    Says::Rtu,
    Says::Dreq,
    Says::Drep,
    Says::SidrReq,
    Says::SidrRep,
    Says::Lap,
    Says::Apr,
];

fn message(play: &Play, says: Says) -> Message {
    match says {
        Says::Req => play.req().into(),
        Says::MraReq => play.mra(Answered::Req).into(),
        Says::MraRep => play.mra(Answered::Rep).into(),
        Says::RejReq => play.rej(Answered::Req).into(),
        Says::RejRep => play.rej(Answered::Rep).into(),
        Says::RejOther => play.rej(Answered::Other).into(),
        Says::Rep => play.rep().into(),
        Says::Rtu => play.rtu().into(),
        Says::Dreq => play.dreq().into(),
        Says::Drep => play.drep().into(),
        Says::SidrReq => play.sidr_req().into(),
        Says::SidrRep => play.sidr_rep().into(),
        Says::Lap => play.lap().into(),
        Says::Apr => play.apr().into(),
    }
}

/// What follows: the new state (`None` if the connection is gone), what is said and what the program is
/// told.
type Follows = (Option<State>, &'static [&'static str], &'static [&'static str]);

/// The table of IBA 12.9.7 with the choices that are ours. Whatever is not here changes nothing.
fn expected(state: State, says: Says) -> Option<Follows> {
    use State as S;
    let follows: Follows = match (state, says) {
        (S::ReqSent, Says::MraReq) => (Some(S::MraReqRcvd), &[], &[]),
        (S::ReqSent | S::MraReqRcvd, Says::Rep) => (Some(S::RepRcvd), &[], &["reply"]),
        (S::ReqSent | S::MraReqRcvd, Says::RejReq | Says::RejOther) => (None, &[], &["rejected"]),
        (S::RepRcvd | S::MraRepSent, Says::Rep) => (Some(S::MraRepSent), &["Mra"], &[]),
        (S::ReqRcvd | S::MraReqSent, Says::Req) => (Some(S::MraReqSent), &["Mra"], &[]),
        (S::RepSent | S::MraRepRcvd, Says::Req) => (Some(state), &["Rep"], &[]),
        (S::RepSent, Says::MraRep) => (Some(S::MraRepRcvd), &[], &[]),
        (S::RepSent | S::MraRepRcvd, Says::Rtu) => (Some(S::Established), &[], &["established"]),
        (
            S::ReqRcvd | S::MraReqSent | S::RepSent | S::MraRepRcvd | S::RepRcvd | S::MraRepSent,
            Says::RejReq | Says::RejRep | Says::RejOther,
        ) => (None, &[], &["rejected"]),
        (S::RepSent | S::MraRepRcvd | S::Established, Says::Dreq) => {
            (Some(S::DreqRcvd), &[], &["disconnect request"])
        }
        (S::Established, Says::Rep) => (Some(S::Established), &["Rtu"], &[]),
        (S::Established | S::DreqSent, Says::RejReq | Says::RejRep | Says::RejOther) => {
            (Some(S::Timewait), &[], &["disconnected"])
        }
        (S::Established, Says::Lap) => (Some(S::Established), &["Apr"], &[]),
        (S::DreqSent, Says::Dreq) => (Some(S::Timewait), &["Drep"], &["disconnected"]),
        (S::DreqSent, Says::Drep) => (Some(S::Timewait), &[], &["disconnected"]),
        (S::Timewait, Says::Dreq) => (Some(S::Timewait), &["Drep"], &[]),
        // The peer's queue pair begins anew: it is told that the old connection is still known, and an
        // established one is ended.
        (S::Timewait, Says::Req) => (Some(S::Timewait), &["Rej"], &[]),
        (S::SidrReqSent, Says::SidrRep) => (None, &[], &["resolved"]),
        _ => return None,
    };
    Some(follows)
}

fn name(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Request { .. } => "request",
        EventKind::Reply(_) => "reply",
        EventKind::Established => "established",
        EventKind::Rejected(_) => "rejected",
        EventKind::Unreachable => "unreachable",
        EventKind::DisconnectRequest => "disconnect request",
        EventKind::Disconnected { .. } => "disconnected",
        EventKind::TimewaitExit => "time wait is over",
        EventKind::ResolveRequest { .. } => "resolve request",
        EventKind::Resolved(_) => "resolved",
    }
}

/// Requests that have nothing to do with the connection: another one begins.
fn begins_another(state: State, says: Says) -> bool {
    // Before the peer's ID is known, its request is one like any other.
    let unknown = [State::ReqSent, State::MraReqRcvd, State::SidrReqSent, State::SidrReqRcvd]
        .contains(&state);
    says == Says::Req && unknown || says == Says::SidrReq && state != State::SidrReqRcvd
}

#[test]
fn every_message_in_every_state_does_what_the_table_says_and_nothing_else() {
    for state in State::ALL {
        for says in ALL {
            let mut play = Play::in_state(state);
            let before = play.machine.parameters(play.id).copied();
            let said_by_peer = message(&play, says);
            play.hears(said_by_peer);
            let got = play.machine.state(play.id);
            let said: Vec<_> = play.said().iter().map(Message::name).collect();
            let told: Vec<_> = play.events().iter().map(|event| name(&event.kind)).collect();
            if begins_another(state, says) {
                assert_eq!(got, Some(state), "{state:?} {says:?}");
                let request = if says == Says::Req { "request" } else { "resolve request" };
                assert_eq!(told, [request], "{state:?} {says:?}");
                continue;
            }
            match expected(state, says) {
                Some((next, says_then, tells)) => {
                    let follows = (got, &said[..], &told[..]);
                    assert_eq!(follows, (next, says_then, tells), "{state:?} {says:?}");
                }
                None => {
                    let unchanged = (got, play.machine.parameters(play.id).copied());
                    assert_eq!(unchanged, (Some(state), before), "{state:?} {says:?}");
                    assert!(said.is_empty() && told.is_empty(), "{state:?} {says:?}: {said:?}");
                }
            }
        }
    }
}

#[test]
fn every_command_in_every_state_is_done_or_refused() {
    use State as S;
    let accepts = [S::ReqRcvd, S::MraReqSent];
    let readies = [S::RepRcvd, S::MraRepSent];
    let hears = [S::RepSent, S::MraRepRcvd];
    let disconnects = [S::Established, S::DreqRcvd];
    let rejects = [
        S::ReqSent,
        S::MraReqRcvd,
        S::ReqRcvd,
        S::MraReqSent,
        S::RepSent,
        S::MraRepRcvd,
        S::RepRcvd,
        S::MraRepSent,
    ];
    for state in State::ALL {
        let at = || Play::in_state(state);
        let mut play = at();
        let (id, now) = (play.id, play.now);
        let accepted = play.machine.accept(now, id, &Default::default()).is_ok();
        assert_eq!(accepted, accepts.contains(&state), "accept in {state:?}");
        let mut play = at();
        assert_eq!(play.machine.ready(id).is_ok(), readies.contains(&state), "ready in {state:?}");
        let mut play = at();
        let heard = play.machine.heard_from_peer(id).is_ok();
        assert_eq!(heard, hears.contains(&state), "heard in {state:?}");
        let mut play = at();
        let ended = play.machine.disconnect(now, id).is_ok();
        assert_eq!(ended, disconnects.contains(&state), "disconnect in {state:?}");
        let mut play = at();
        let reason = softrnic_model::cm::RejectReason::CONSUMER_DEFINED;
        let rejected = play.machine.reject(now, id, reason, &[], Default::default()).is_ok();
        assert_eq!(rejected, rejects.contains(&state), "reject in {state:?}");
        let mut play = at();
        let answered = play.machine.answer(now, id, &Default::default(), 0).is_ok();
        assert_eq!(answered, state == S::SidrReqRcvd, "answer in {state:?}");
    }
}

#[test]
fn who_lets_go_says_what_the_peer_has_to_know() {
    for state in State::ALL {
        let mut play = Play::in_state(state);
        play.machine.release(play.now, play.id);
        let said: Vec<_> = play.said().iter().map(Message::name).collect();
        let expected: &[&str] = match state {
            State::ReqSent
            | State::MraReqRcvd
            | State::ReqRcvd
            | State::MraReqSent
            | State::RepSent
            | State::MraRepRcvd
            | State::RepRcvd
            | State::MraRepSent => &["Rej"],
            State::Established => &["Dreq"],
            State::DreqRcvd => &["Drep"],
            State::DreqSent | State::Timewait | State::SidrReqSent => &[],
            State::SidrReqRcvd => &["SidrRep"],
        };
        assert_eq!(said, expected, "{state:?}");
        // What goes on goes on without the program, and ends.
        play.hears(play.drep());
        let far = softrnic_model::Instant::from_ns(3_600_000_000_000);
        play.machine.on_time(far);
        assert!(play.machine.is_empty(), "{state:?}");
        assert!(play.events().is_empty(), "{state:?}");
    }
}

/// Who speaks for a program that is gone says what the program would have said, and knows of every
/// change that matters.
#[test]
fn what_is_left_to_say_is_what_letting_go_would_say() {
    for state in State::ALL {
        let mut play = Play::in_state(state);
        let changed: Vec<_> = std::iter::from_fn(|| play.machine.next_change()).collect();
        assert!(changed.contains(&play.id), "{state:?}");
        let words = play.machine.parting(play.id).unwrap().words();
        play.machine.release(play.now, play.id);
        let said = play.said_mads();
        if state == State::DreqRcvd {
            // The peer asks again, and who is there then agrees.
            assert!(words.is_empty());
            continue;
        }
        // After a REP the disconnection is only said a moment later.
        let refused_late = matches!(state, State::RepSent | State::MraRepRcvd);
        let first: Vec<_> = match (words.once, words.until_answered) {
            (Some(once), Some(_)) if refused_late => vec![once],
            (once, _) if state == State::DreqSent => once.into_iter().collect(),
            (once, again) => once.into_iter().chain(again).collect(),
        };
        assert_eq!(said, first, "{state:?}");
        let ends = refused_late || matches!(state, State::Established | State::DreqSent);
        assert_eq!(words.until_answered.is_some(), ends, "{state:?}");
    }
}

#[test]
fn a_queue_pair_that_begins_anew_ends_the_connection_that_it_had() {
    let mut play = Play::in_state(State::Established);
    let req = softrnic_model::cm::message::Req {
        local_comm_id: softrnic_model::cm::CommId(0x0200_0999),
        ..play.req()
    };
    play.hears(req);
    let said = play.said();
    let [Message::Rej(rej), Message::Dreq(_)] = &said[..] else { panic!("{said:?}") };
    assert_eq!(rej.reason, softrnic_model::cm::RejectReason::STALE_CONN);
    assert_eq!(play.machine.state(play.id), Some(State::DreqSent));
}

#[test]
fn read_depths_are_the_lower_of_both_wishes() {
    let play = Play::in_state(State::RepRcvd);
    let agreed = play.machine.parameters(play.id).unwrap();
    // We offer 4 and want 2; they want 9 and offer 1.
    assert_eq!((agreed.responder_resources, agreed.initiator_depth), (4, 1));
    let mut play = Play::in_state(State::ReqRcvd);
    play.accept();
    let agreed = *play.machine.parameters(play.id).unwrap();
    // They offer 3 and want 5; we say 9 to both.
    assert_eq!((agreed.responder_resources, agreed.initiator_depth), (5, 3));
    let said = play.said();
    let [Message::Rep(rep)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((rep.responder_resources, rep.initiator_depth), (5, 3));
}

#[test]
fn a_question_that_is_repeated_gets_the_same_answer_and_asks_nobody() {
    let mut play = Play::in_state(State::ReqRcvd);
    let reason = softrnic_model::cm::RejectReason::CONSUMER_DEFINED;
    play.machine.reject(play.now, play.id, reason, &[], Default::default()).unwrap();
    let first = play.said_mads();
    play.hears(play.req());
    assert_eq!(play.said_mads(), first);
    assert!(play.events().is_empty());
    let mut play = Play::in_state(State::SidrReqRcvd);
    play.machine.answer(play.now, play.id, &Default::default(), 0).unwrap();
    let first = play.said_mads();
    play.hears(play.sidr_req());
    assert_eq!(play.said_mads(), first);
    assert!(play.events().is_empty());
}
