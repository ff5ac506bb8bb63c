//! What is said for a process that is gone.

use softrnic_model::cm::message::{Drep, Message};
use softrnic_model::cm::{CommId, Guid, Parting, State};

use super::*;

fn parting(sender: &Sender, slot: u8, index: u32, state: State) -> Parting {
    Parting {
        state,
        local: CommId::from_parts(slot, index),
        remote: CommId(index + 100),
        remote_qpn: Some(QpNum::new(0x99)),
        exchange: 3,
        own_exchange: 4,
        guid: Guid(5),
        route: Route { src: sender.route.dst, dst: sender.route.src, ..sender.route },
    }
}

/// What comes within a second.
fn all_heard(sender: &mut Sender) -> Vec<Message> {
    let (mut heard, end) = (Vec::new(), Instant::now() + Duration::from_secs(1));
    while Instant::now() < end {
        let deliver = &mut |_: &Route, packet: &[u8]| {
            heard.extend(Message::parse(&packet[20..]).map(|(_, message)| message));
        };
        sender.link.receive(softrnic_model::Instant::ZERO, deliver).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    heard
}

#[test]
fn peers_of_a_process_that_is_gone_are_told_and_nobody_else() {
    let world = World::new();
    let mut sender = Sender::new(&world, 1);
    let (mut a, _a) = world.one(1);
    let mut will = a.listen_gsi().unwrap();
    let slot = a.slot();
    for (index, state) in [(1, State::ReqSent), (2, State::Timewait), (3, State::Established)] {
        let parting = parting(&sender, slot, index, state);
        will.note(parting.local, Some(&parting));
    }
    // What cannot be its own, whatever it writes: of another process, of another address.
    let other_slot = parting(&sender, slot + 1, 4, State::Established);
    let mut other_address = parting(&sender, slot, 5, State::Established);
    other_address.route.src = world.place(2).ip.into();
    for bad in [other_slot, other_address] {
        will.note(bad.local, Some(&bad));
    }
    assert_eq!(a.notice().unwrap(), None);
    drop((a, will));
    let heard = all_heard(&mut sender);
    let (refused, asked): (Vec<_>, Vec<_>) =
        heard.into_iter().partition(|message| matches!(message, Message::Rej(_)));
    let Message::Rej(rej) = &refused[..][0] else { panic!("it is one") };
    assert_eq!(
        (refused.len(), rej.local_comm_id, rej.reason.0),
        (1, CommId::from_parts(slot, 1), 4)
    );
    assert!(asked.len() >= 2, "it is asked again: {asked:?}");
    for message in asked {
        let Message::Dreq(dreq) = message else { panic!("{message:?}") };
        assert_eq!(dreq.local_comm_id, CommId::from_parts(slot, 3));
        assert_eq!((dreq.remote_comm_id, dreq.remote_qpn), (CommId(103), QpNum::new(0x99)));
    }
    let (local_comm_id, remote_comm_id) = (CommId(103), CommId::from_parts(slot, 3));
    sender.says(Drep { local_comm_id, remote_comm_id, ..Drep::default() });
    world.works(6);
    all_heard(&mut sender);
    assert!(all_heard(&mut sender).is_empty(), "it has agreed");
}

#[test]
fn two_that_are_gone_agree() {
    let world = World::new();
    let (here, there) = (Sender::new(&world, 1).route.dst, world.place(2).ip);
    let (mut a, socket_a) = world.one(1);
    let (mut b, socket_b) = world.one(2);
    let (mut of_a, mut of_b) = (a.listen_gsi().unwrap(), b.listen_gsi().unwrap());
    let end = |own: u32, peer: u32, src: Gid, dst: Gid| Parting {
        state: State::Established,
        local: CommId::from_parts(1, own),
        remote: CommId::from_parts(1, peer),
        remote_qpn: Some(QpNum::new(7)),
        exchange: 1,
        own_exchange: 2,
        guid: Guid(3),
        route: Route { src, dst, hop_limit: 64, ..Route::default() },
    };
    let (at_a, at_b) = (end(1, 2, here, there.into()), end(2, 1, there.into(), here));
    of_a.note(at_a.local, Some(&at_a));
    of_b.note(at_b.local, Some(&at_b));
    drop((a, socket_a, b, socket_b));
    // Sockets of an address go half a second after nothing is left to say there, which is tried for
    // sixteen seconds.
    let started = Instant::now();
    let free = || UdpSocket::bind((there, world.port)).is_ok();
    while !free() {
        assert!(started.elapsed() < Duration::from_secs(8), "they still talk");
        std::thread::sleep(Duration::from_millis(20));
    }
}
