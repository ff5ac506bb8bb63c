//! Messages that are whole and make no sense.

use softrnic_model::cm::message::{Message, Rep, Req, SidrRep, SidrReq};
use softrnic_model::cm::{CommId, EventKind, RejectReason, State};
use softrnic_model::verbs::QpNum;

use crate::peer::Play;

/// Queue pairs that no connection can have: of management, and of groups.
const NONE: [u32; 3] = [0, 1, 0xff_ffff];

#[test]
fn requests_that_no_answer_could_name_are_ignored() {
    let mut play = Play::new();
    play.hears(Req { local_comm_id: CommId(0), ..play.req() });
    play.hears(SidrReq { request_id: CommId(0), ..play.sidr_req() });
    assert_eq!((play.said(), play.events().len()), (vec![], 0));
    assert_eq!((play.machine.len(), play.machine.dropped()), (0, 2));
    // The same with a name.
    play.hears(play.req());
    assert_eq!(play.events().len(), 1);
}

#[test]
fn queue_pairs_that_cannot_be_connected_are_refused() {
    for qpn in NONE.map(QpNum::new) {
        let mut play = Play::new();
        play.hears(Req { local_qpn: qpn, ..play.req() });
        let said = play.said();
        let [Message::Rej(rej)] = &said[..] else { panic!("{said:?}") };
        assert_eq!(rej.reason, RejectReason::UNSUPPORTED, "{qpn:?}");
        assert!(play.machine.is_empty() && play.events().is_empty());
        let mut play = Play::in_state(State::ReqSent);
        play.hears(Rep { local_qpn: qpn, ..play.rep() });
        let said = play.said();
        let [Message::Rej(rej)] = &said[..] else { panic!("{said:?}") };
        assert_eq!(rej.reason, RejectReason::UNSUPPORTED, "{qpn:?}");
        let events = play.events();
        assert!(matches!(&events[..], [one] if matches!(one.kind, EventKind::Rejected(_))));
        assert!(play.machine.is_empty());
    }
}

/// A request that found no room is as if it had never come: when there is room its repetition is the
/// first one, and its program is asked once.
#[test]
fn a_request_that_is_repeated_while_there_is_no_room_is_taken_when_there_is() {
    let mut play = Play::new();
    let request = |play: &Play, n: u32| Req {
        local_comm_id: CommId(n + 1),
        local_qpn: QpNum::new(n + 100),
        ..play.req()
    };
    // The listener has room for eight, of which one peer gets seven.
    (0..20).for_each(|n| play.hears(request(&play, n)));
    let asked = play.events();
    assert_eq!((asked.len(), play.said().len()), (7, 0));
    for _ in 0..3 {
        play.hears(request(&play, 9));
        assert!(play.events().is_empty() && play.said().is_empty(), "no room, and no answer");
    }
    let reason = RejectReason::CONSUMER_DEFINED;
    play.machine.reject(play.now, asked[0].id, reason, &[], Default::default()).unwrap();
    play.forget();
    play.hears(request(&play, 9));
    assert_eq!(play.events().len(), 1);
    // From now on it is one that waits: its peer is asked for patience.
    play.hears(request(&play, 9));
    let said = play.said();
    assert!(play.events().is_empty() && matches!(&said[..], [Message::Mra(_)]), "{said:?}");
}

#[test]
fn the_answer_about_a_datagram_service_says_whose_options_it_has() {
    let mut play = Play::in_state(State::SidrReqRcvd);
    let mut rep = SidrRep { qpn: QpNum::new(0x12_3456), ..SidrRep::default() };
    rep.set_vendor_id(0xab_cdef);
    play.machine.answer(play.now, play.id, &rep, 0x1234_5678).unwrap();
    let mad = play.said_mads()[0];
    assert_eq!(mad[20..24], [0x12, 0x34, 0x56, 0x78], "the attribute modifier");
    assert_eq!(mad[24 + 6..24 + 12], [0xab, 0xcd, 0x12, 0x34, 0x56, 0xef]);
    let Ok((_, Message::SidrRep(read))) = Message::parse(&mad) else { panic!("it is one") };
    assert_eq!((read.vendor_id(), read.qpn), (0xab_cdef, rep.qpn));
}
