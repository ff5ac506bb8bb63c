//! What others can make a machine remember is bounded, and no peer can have all of it.

use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::{Message, Req};
use softrnic_model::cm::{CommId, EventKind, Guid, RejectReason, State};
use softrnic_model::verbs::QpNum;

use crate::peer::{Play, SERVICE, config, route_from};

fn request(play: &Play, n: u32) -> Req {
    Req {
        local_comm_id: CommId(n + 1),
        local_ca_guid: Guid(77),
        local_qpn: QpNum::new(n % 0xff_0000 + 2),
        ..play.req()
    }
}

fn hear(play: &mut Play, peer: [u8; 4], req: Req) {
    let mad = Message::from(req).to_mad(1, 0);
    play.machine.on_mad(play.now, &route_from(peer), &mad);
}

#[test]
fn a_flood_of_requests_fills_a_part_of_the_backlog_and_others_get_through() {
    let mut play = Play::new();
    for n in 0..100_000 {
        let req = request(&play, n);
        hear(&mut play, [10, 0, 0, 66], req);
        assert!(play.machine.len() <= 8);
    }
    assert_eq!(play.machine.len(), 7, "seven of eight");
    let answers = play.said();
    assert!(answers.is_empty(), "too many requests are not answered: {}", answers.len());
    assert_eq!(play.events().len(), 7);
    let req = play.req();
    play.hears(req);
    let events = play.events();
    assert!(matches!(&events[..], [one] if matches!(one.kind, EventKind::Request { .. })));
    assert!(play.machine.dropped() > 99_000);
}

#[test]
fn a_flood_that_is_taken_leaves_room_for_others() {
    let mut play = Play::new();
    for n in 0..10_000 {
        let req = request(&play, n);
        hear(&mut play, [10, 0, 0, 66], req);
        // The program takes all.
        for event in play.events() {
            play.machine.accept(play.now, event.id, &Default::default()).unwrap();
        }
        play.said();
    }
    let max = config().connections_max;
    let len = u32::try_from(play.machine.len()).unwrap();
    assert!(len <= max - max / 8, "{len} of {max}");
    let req = play.req();
    play.hears(req);
    assert_eq!(play.events().len(), 1);
}

#[test]
fn connections_that_have_ended_make_room() {
    let mut play = Play::new();
    let max = config().connections_max;
    for n in 0..3 * max {
        let req = request(&play, n);
        hear(&mut play, [10, 0, 0, 66], req);
        for event in play.events() {
            let EventKind::Request { .. } = event.kind else { continue };
            play.machine.accept(play.now, event.id, &Default::default()).unwrap();
            play.machine.heard_from_peer(event.id).unwrap();
            play.machine.disconnect(play.now, event.id).unwrap();
            let drep = softrnic_model::cm::message::Drep {
                local_comm_id: CommId(n + 1),
                remote_comm_id: event.id,
                ..Default::default()
            };
            let mad = Message::from(drep).to_mad(1, 0);
            play.machine.on_mad(play.now, &route_from([10, 0, 0, 66]), &mad);
            assert_eq!(play.machine.state(event.id), Some(State::Timewait));
            play.machine.release(play.now, event.id);
        }
        play.said();
    }
    let len = u32::try_from(play.machine.len()).unwrap();
    assert!(len <= max);
}

#[test]
fn requests_that_make_no_sense_are_refused_and_leave_nothing() {
    let mut play = Play::new();
    let good = play.req();
    for (req, reason) in [
        (Req { transport: 2, ..good.clone() }, RejectReason::INVALID_TRANSPORT_TYPE),
        (
            Req { transport: 3, extended_transport: 7, ..good.clone() },
            RejectReason::INVALID_TRANSPORT_TYPE,
        ),
        (Req { private_data: Bytes::default(), ..good.clone() }, RejectReason::CONSUMER_DEFINED),
        (
            Req { service_id: softrnic_model::cm::ServiceId(SERVICE.0 + 1), ..good },
            RejectReason::INVALID_SERVICE_ID,
        ),
    ] {
        play.hears(req);
        let said = play.said();
        assert!(matches!(&said[..], [Message::Rej(rej)] if rej.reason == reason), "{said:?}");
        assert!(play.machine.is_empty() && play.events().is_empty());
    }
}
