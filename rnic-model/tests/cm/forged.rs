//! Messages whose IDs do not all belong to the connection change nothing.

use softrnic_model::cm::message::{Answered, Message};
use softrnic_model::cm::{CommId, RejectReason, State};
use softrnic_model::verbs::QpNum;

use crate::peer::{Play, THEM};

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    OwnId,
    PeersId,
    Address,
    QueuePair,
    Exchange,
}

const ALL: [Wrong; 5] =
    [Wrong::OwnId, Wrong::PeersId, Wrong::Address, Wrong::QueuePair, Wrong::Exchange];

fn spoil(message: Message, wrong: Wrong) -> Option<Message> {
    let bump = |id: CommId| CommId(id.0 ^ 0x10);
    macro_rules! ids {
        ($message:ident) => {
            match wrong {
                Wrong::OwnId => $message.remote_comm_id = bump($message.remote_comm_id),
                Wrong::PeersId => $message.local_comm_id = bump($message.local_comm_id),
                Wrong::Address | Wrong::Exchange => {}
                Wrong::QueuePair => return None,
            }
        };
    }
    Some(match message {
        Message::Rej(mut rej) => {
            ids!(rej);
            rej.into()
        }
        Message::Rep(mut rep) => {
            ids!(rep);
            rep.into()
        }
        Message::Rtu(mut rtu) => {
            ids!(rtu);
            rtu.into()
        }
        Message::Mra(mut mra) => {
            ids!(mra);
            mra.into()
        }
        Message::Drep(mut drep) => {
            ids!(drep);
            drep.into()
        }
        Message::Dreq(mut dreq) => {
            if wrong == Wrong::QueuePair {
                dreq.remote_qpn = QpNum::new(0x77);
            } else {
                ids!(dreq);
            }
            dreq.into()
        }
        Message::Req(_)
        | Message::SidrReq(_)
        | Message::SidrRep(_)
        | Message::Lap(_)
        | Message::Apr(_) => return None,
    })
}

/// Before the peer has told its ID, its first message tells it; and an exchange says nothing about a
/// connection that both know.
fn is_no_forgery(state: State, message: &Message, wrong: Wrong) -> bool {
    let first = matches!(state, State::ReqSent | State::MraReqRcvd);
    match wrong {
        Wrong::PeersId => first,
        Wrong::Exchange => !(first || matches!(message, Message::SidrRep(_))),
        Wrong::OwnId | Wrong::Address | Wrong::QueuePair => false,
    }
}

#[test]
fn a_message_of_which_one_thing_is_wrong_changes_nothing() {
    let mut tried = 0;
    for state in State::ALL {
        for which in 0..8 {
            for wrong in ALL {
                let mut play = Play::in_state(state);
                let message: Message = match which {
                    0 => play.rej(Answered::Req).into(),
                    1 => play.rej(Answered::Rep).into(),
                    2 => play.rej(Answered::Other).into(),
                    3 => play.rep().into(),
                    4 => play.dreq().into(),
                    5 => play.drep().into(),
                    6 => play.rtu().into(),
                    _ => play.mra(Answered::Rep).into(),
                };
                let Some(forged) = spoil(message, wrong) else { continue };
                if is_no_forgery(state, &forged, wrong) {
                    continue;
                }
                let before = play.machine.parameters(play.id).copied();
                let exchange = play.exchange ^ u64::from(wrong == Wrong::Exchange) << 40;
                let from = if wrong == Wrong::Address { [10, 0, 0, 66] } else { THEM };
                play.hears_in(exchange, from, forged);
                let after =
                    (play.machine.state(play.id), play.machine.parameters(play.id).copied());
                assert_eq!(after, (Some(state), before), "{state:?} {which} {wrong:?}");
                assert!(play.events().is_empty(), "{state:?} {which} {wrong:?}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 350, "{tried}");
}

#[test]
fn a_request_of_another_address_is_no_repetition_and_ends_no_connection() {
    let mut play = Play::in_state(State::Established);
    play.hears_in(play.exchange, [10, 0, 0, 66], play.req());
    assert_eq!(play.machine.state(play.id), Some(State::Established));
    assert!(play.said().is_empty());
}

#[test]
fn who_gives_up_before_it_has_heard_our_id_is_understood() {
    for state in [State::ReqRcvd, State::MraReqSent, State::RepSent] {
        let mut play = Play::in_state(state);
        let mut rej = play.rej(Answered::Other);
        rej.remote_comm_id = CommId(0);
        rej.reason = RejectReason::TIMEOUT;
        rej.info.0[..8].copy_from_slice(&0x0202_u64.to_be_bytes());
        let mut other = rej.clone();
        other.info.0[7] ^= 1;
        play.hears(other);
        assert_eq!(play.machine.state(play.id), Some(state), "another adapter's");
        play.hears(rej);
        assert_eq!(play.machine.state(play.id), None, "{state:?}");
    }
}
