//! The service in a thread of the test, without a keeper, and clients that behave and that do not.

mod leave;

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use softrnic_model::cm::ip::IpHeader;
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::{Dreq, Message, Req, Rtu};
use softrnic_model::cm::{CommId, ListenAt, PortSpace, RejectReason, ServiceId};
use softrnic_model::verbs::{Gid, QpNum};
use softrnic_model::wire::Route;

use super::message::{Answer, MESSAGE_MAX, Request};
use super::server::Server;
use super::*;
use crate::ports::Reservation;
use crate::{Link, Outgoing, UdpConfig, UdpLink};

const PATIENCE: Duration = Duration::from_secs(20);

/// A service of its own port. It ends with this.
struct World {
    port: u16,
    net: u8,
    /// Keeps the port from others.
    _reserved: UdpSocket,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl World {
    fn new() -> Self {
        Self::allowing(Vec::new())
    }

    fn allowing(allowed: Vec<u32>) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let reserved = UdpSocket::bind("127.255.0.2:0").unwrap();
        let port = reserved.local_addr().unwrap().port();
        let listener = channel::listener(&channel::name_of(port, uid())).unwrap();
        let settings = Settings { port, allowed, idle: None };
        let (stop, stopped) = rustix::pipe::pipe().map(|(read, write)| (write, read)).unwrap();
        let server = Server::new(settings, listener);
        let thread = std::thread::spawn(move || server.run(&stopped));
        let net = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { port, net, _reserved: reserved, stop: Some(stop), thread: Some(thread) }
    }

    fn place(&self, host: u8) -> Place {
        Place::new(Ipv4Addr::new(127, 87, self.net, host).into(), 0)
    }

    fn join(&self, hosts: &[u8]) -> (Member, Vec<Granted>) {
        let places: Vec<_> = hosts.iter().map(|host| self.place(*host)).collect();
        Member::join(self.port, "test", &places).unwrap()
    }

    /// A member of one address, and its socket.
    fn one(&self, host: u8) -> (Member, UdpSocket) {
        let (member, mut sockets) = self.join(&[host]);
        (member, sockets.pop().unwrap().unwrap())
    }

    fn connect(&self) -> OwnedFd {
        member::connect(self.port, uid()).unwrap().expect("there is a service")
    }

    /// The slots of all members.
    fn slots(&self) -> Vec<u8> {
        let listing = member::list(&self.connect()).unwrap().unwrap();
        let mut slots: Vec<u8> = listing.members.iter().map(|row| row.slot).collect();
        slots.sort_unstable();
        slots
    }

    fn until_slots(&self, expected: &[u8]) {
        let started = Instant::now();
        while self.slots() != expected {
            assert!(started.elapsed() < PATIENCE, "{:?} never are {expected:?}", self.slots());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// That the service still does what it is there for.
    fn works(&self, host: u8) {
        let (member, socket) = self.one(host);
        let number = QpNum::from_parts(member.slot(), 7);
        send(self.place(host).ip, self.port, number);
        assert!(gets_something(&socket));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Something that looks like a packet to a queue pair.
fn send(ip: IpAddr, port: u16, number: QpNum) {
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bytes = [[0; 4], number.get().to_be_bytes(), [0; 4], [0; 4]].concat();
    from.send_to(&bytes, (ip, port)).unwrap();
}

fn gets_something(socket: &UdpSocket) -> bool {
    channel::wait(&[socket.as_fd()], Some(Duration::from_millis(300))).unwrap()[0]
}

#[test]
fn members_have_slots_of_their_own_and_the_same_one_everywhere() {
    let world = World::new();
    let (a, sockets_a) = world.join(&[1, 2]);
    let (b, sockets_b) = world.join(&[2, 3]);
    let (c, sockets_c) = world.join(&[3]);
    assert_eq!((a.slot(), b.slot(), c.slot()), (1, 2, 1), "c shares no address with a");
    for (host, member, socket) in [
        (1, &a, &sockets_a[0]),
        (2, &a, &sockets_a[1]),
        (2, &b, &sockets_b[0]),
        (3, &b, &sockets_b[1]),
        (3, &c, &sockets_c[0]),
    ] {
        send(world.place(host).ip, world.port, QpNum::from_parts(member.slot(), 99));
        assert!(gets_something(socket.as_ref().unwrap()), "{host} {}", member.slot());
    }
}

#[test]
fn addresses_come_and_go() {
    let world = World::new();
    let (mut a, _socket) = world.one(1);
    let (mut b, _other) = world.one(2);
    assert_eq!((a.slot(), b.slot()), (1, 1));
    assert_eq!(b.attach(world.place(1)).unwrap().unwrap_err(), Refusal::SlotTaken);
    let second = a.attach(world.place(3)).unwrap().unwrap();
    let again = a.attach(world.place(3)).unwrap().unwrap();
    send(world.place(3).ip, world.port, QpNum::from_parts(1, 5));
    assert!(gets_something(&second) && gets_something(&again), "it is one socket");
    let elsewhere = Place::new("198.51.100.7".parse().unwrap(), 0);
    assert_eq!(a.attach(elsewhere).unwrap().unwrap_err(), Refusal::AddressNotHere);
    a.detach(world.place(1));
    assert!(b.attach(world.place(1)).unwrap().is_ok(), "the slot is free there now");
    for ip in ["0.0.0.0", "255.255.255.255", "239.1.1.1", "::", "ff02::1"] {
        let place = Place::new(ip.parse().unwrap(), 0);
        assert_eq!(a.attach(place).unwrap().unwrap_err(), Refusal::AddressNotHere, "{ip}");
    }
}

#[test]
fn what_came_for_the_last_owner_of_a_slot_does_not_reach_the_next() {
    let world = World::new();
    let (_stays, _other) = world.one(1);
    let (member, socket) = world.one(1);
    assert_eq!(member.slot(), 2);
    drop((member, socket));
    world.until_slots(&[1]);
    send(world.place(1).ip, world.port, QpNum::from_parts(2, 5));
    // Others have been empty for longer.
    assert_eq!(world.one(1).0.slot(), 3);
    std::thread::sleep(Duration::from_millis(2100));
    let (member, socket) = world.one(1);
    assert_eq!(member.slot(), 2);
    assert!(!gets_something(&socket));
    send(world.place(1).ip, world.port, QpNum::from_parts(2, 5));
    assert!(gets_something(&socket));
}

#[test]
fn a_forked_childs_copy_of_the_connection_holds_no_slot() {
    let world = World::new();
    let (a, _socket) = world.one(1);
    let _copy = a.as_fd().try_clone_to_owned().unwrap();
    assert_eq!(world.slots(), [1]);
    drop(a);
    world.until_slots(&[]);
}

#[test]
fn the_port_is_free_again_soon_after_the_last_member() {
    let world = World::new();
    let at = (world.place(1).ip, world.port);
    let member = world.one(1);
    assert!(UdpSocket::bind(at).is_err());
    drop(member);
    let started = Instant::now();
    while UdpSocket::bind(at).is_err() {
        assert!(started.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn all_slots_of_an_address_can_be_had_and_no_more() {
    let world = World::new();
    let members: Vec<_> = (0..255).map(|_| world.one(1)).collect();
    let mut slots: Vec<u8> = members.iter().map(|(member, _)| member.slot()).collect();
    slots.sort_unstable();
    assert!((1..=255).eq(slots));
    let refused = Member::join(world.port, "one too many", &[world.place(1)]).unwrap_err();
    assert!(matches!(refused, JoinError::Refused(Refusal::NoSlot)), "{refused:?}");
    assert_eq!(world.one(2).0.slot(), 1, "another address has slots of its own");
    let (last, socket) = &members[254];
    send(world.place(1).ip, world.port, QpNum::from_parts(last.slot(), 0xffff));
    assert_eq!(gets_something(socket), last.slot() != 255, "0xffffff is multicast");
}

/// Somebody at another address who sends management datagrams.
struct Sender {
    link: UdpLink,
    route: Route,
}

impl Sender {
    fn new(world: &World, to: u8) -> Self {
        let mut config = UdpConfig::new(world.place(9).ip).with_port(world.port);
        config.source_ports = 1;
        let link = UdpLink::open(&config).unwrap();
        let dst = Gid::from(world.place(to).ip);
        let route = Route { src: link.gid(), dst, hop_limit: 64, ..Route::default() };
        Self { link, route }
    }

    fn packet(&mut self, bytes: &[u8], damage: Option<u32>) {
        let frame = Outgoing { route: self.route, len: bytes.len(), damage };
        let fill = &mut |packet: &mut [u8]| {
            packet.copy_from_slice(bytes);
            true
        };
        self.link.transmit(softrnic_model::Instant::ZERO, frame, fill).unwrap();
        self.link.flush(softrnic_model::Instant::ZERO).unwrap();
    }

    fn says(&mut self, message: impl Into<Message>) {
        self.packet(&packet_of(&message.into()), None);
    }

    /// What is said to it, if anything comes soon.
    fn hears(&mut self) -> Option<Message> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut heard = None;
            let deliver = &mut |_: &Route, packet: &[u8]| {
                heard = Message::parse(&packet[20..]).ok().map(|(_, message)| message);
            };
            self.link.receive(softrnic_model::Instant::ZERO, deliver).unwrap();
            if heard.is_some() || Instant::now() > deadline {
                return heard;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn packet_of(message: &Message) -> Vec<u8> {
    let header = softrnic_model::device::mad_header(softrnic_model::verbs::Psn::new(0));
    [header.as_slice(), &message.to_mad(7, 0)].concat()
}

fn heard(member: &mut Member) -> Message {
    let Notice::Gsi { packet, .. } = notice(member) else { panic!("it is one") };
    Message::parse(&packet[20..]).unwrap().1
}

fn port(port: u16, at: ListenAt) -> Reservation {
    let service = ServiceId::of_port(PortSpace::Tcp, port);
    Reservation { service, at, reuse: false, listens: true }
}

/// A request for a port at an address.
fn request(port: u16, at: IpAddr) -> Req {
    let header = IpHeader { source_port: 1, source: at, destination: at };
    Req {
        local_comm_id: CommId(0x0900_0001),
        service_id: ServiceId::of_port(PortSpace::Tcp, port),
        private_data: Bytes::of(&header.to_bytes()).unwrap(),
        ..Req::default()
    }
}

#[test]
fn requests_go_to_who_listens_and_all_else_to_the_slot_that_it_names() {
    let world = World::new();
    let at = world.place(1).ip;
    let (mut a, _a) = world.one(1);
    let (mut b, _b) = world.one(1);
    let (mut c, _c) = world.one(2);
    for member in [&mut a, &mut b, &mut c] {
        member.listen_gsi().unwrap();
    }
    a.reserve(port(7, ListenAt::V4)).unwrap().unwrap();
    b.reserve(port(8, ListenAt::One(at))).unwrap().unwrap();
    c.reserve(port(9, ListenAt::All)).unwrap().unwrap();
    let mut sender = Sender::new(&world, 1);
    sender.says(request(7, at));
    assert!(matches!(heard(&mut a), Message::Req(req) if req == request(7, at)));
    sender.says(request(8, at));
    assert!(matches!(heard(&mut b), Message::Req(_)));
    // A request is repeated until it is answered: it goes to who had it, though nobody listens now.
    b.release(port(8, ListenAt::One(at)).service, ListenAt::One(at));
    world.works(6);
    sender.says(request(8, at));
    assert!(matches!(heard(&mut b), Message::Req(_)));
    // Nobody listens to one, at this address, or at all.
    for (port, at) in [(8, world.place(3).ip), (9, at), (10, at)] {
        sender.says(request(port, at));
        let Some(Message::Rej(rej)) = sender.hears() else { panic!("it is refused") };
        assert_eq!(
            (rej.reason, rej.remote_comm_id),
            (RejectReason::INVALID_SERVICE_ID, CommId(0x0900_0001))
        );
    }
    let rtu = |slot| Rtu { remote_comm_id: CommId::from_parts(slot, 5), ..Rtu::default() };
    for member in [&mut a, &mut b] {
        sender.says(rtu(member.slot()));
        assert!(matches!(heard(member), Message::Rtu(_)));
    }
    // A slot that nobody has: a disconnection is agreed to.
    let dreq = Dreq { remote_comm_id: CommId::from_parts(200, 5), ..Dreq::default() };
    sender.says(rtu(200));
    sender.says(dreq);
    assert!(
        matches!(sender.hears(), Some(Message::Drep(drep)) if drep.local_comm_id.slot() == 200)
    );
    // What is damaged or of another kind stays out.
    let good = packet_of(&rtu(a.slot()).into());
    sender.packet(&good, Some(300));
    for (at, value) in [(7, 0), (0, 4), (12, 0), (21, 8), (24, 1)] {
        let mut bad = good.clone();
        bad[at] = value;
        sender.packet(&bad, None);
    }
    sender.packet(&good[..64], None);
    sender.says(rtu(b.slot()));
    assert!(matches!(heard(&mut b), Message::Rtu(_)));
    assert_eq!((a.notice().unwrap(), c.notice().unwrap()), (None, None));
    // Who has gone listens no more.
    drop(a);
    world.works(3);
    sender.says(request(7, at));
    assert!(matches!(sender.hears(), Some(Message::Rej(_))));
    // One that does not read keeps nobody from reading.
    for _ in 0..2000 {
        sender.says(rtu(c.slot()));
        sender.says(rtu(b.slot()));
    }
    while b.notice().unwrap().is_some() {}
    world.works(4);
}

#[test]
fn a_request_waits_a_moment_for_who_will_listen() {
    let world = World::new();
    let at = world.place(1).ip;
    let (mut a, _a) = world.one(1);
    a.listen_gsi().unwrap();
    let mut sender = Sender::new(&world, 1);
    let (listening, bound) =
        (port(7, ListenAt::V4), Reservation { listens: false, ..port(7, ListenAt::V4) });
    // A moment is over quickly where others have the processor.
    let heard = (0..20).any(|_| {
        sender.says(request(7, at));
        a.reserve(bound).unwrap().unwrap();
        a.reserve(listening).unwrap().unwrap();
        let came = channel::wait(&[a.as_fd()], Some(Duration::from_millis(300))).unwrap()[0];
        if !came {
            a.release(listening.service, listening.at);
            assert!(matches!(sender.hears(), Some(Message::Rej(_))));
        }
        came
    });
    assert!(heard, "it is refused, however soon somebody listens");
    assert!(matches!(self::heard(&mut a), Message::Req(req) if req == request(7, at)));
    sender.says(request(8, at));
    assert!(matches!(sender.hears(), Some(Message::Rej(_))), "nobody came");
    world.works(2);
}

#[test]
fn a_flood_of_requests_leaves_others_their_turn() {
    let world = World::new();
    let at = world.place(1).ip;
    let (mut a, _a) = world.one(1);
    a.listen_gsi().unwrap();
    a.reserve(port(7, ListenAt::All)).unwrap().unwrap();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flood = {
        let mut sender = Sender::new(&world, 1);
        let (stop, request) = (stop.clone(), request(7, at));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                sender.says(request.clone());
            }
        })
    };
    let mut config = UdpConfig::new(world.place(8).ip).with_port(world.port);
    config.source_ports = 1;
    let link = UdpLink::open(&config).unwrap();
    let route = Route { src: link.gid(), dst: at.into(), hop_limit: 64, ..Route::default() };
    let mut other = Sender { link, route };
    let mut got = 0;
    let deadline = Instant::now() + PATIENCE;
    while got < 10 && Instant::now() < deadline {
        other.says(request(7, at));
        std::thread::sleep(Duration::from_millis(5));
        while let Some(Notice::Gsi { route: from, .. }) = a.notice().unwrap() {
            got += u32::from(from.src == route.src);
        }
    }
    stop.store(true, Ordering::Relaxed);
    flood.join().unwrap();
    assert!(got >= 10, "{got}");
}

#[test]
fn ports_are_given_out_each_once_and_kept_by_the_next_service() {
    let world = World::new();
    let (mut a, _a) = world.one(1);
    let (mut b, _b) = world.one(1);
    let any = Reservation { listens: false, ..port(0, ListenAt::V4) };
    let chosen: Vec<ServiceId> = (0..100)
        .map(|n| if n % 2 == 0 { &mut a } else { &mut b }.reserve(any).unwrap().unwrap())
        .collect();
    let different: std::collections::BTreeSet<_> = chosen.iter().collect();
    assert_eq!(different.len(), 100);
    for service in &chosen {
        let (space, number) = service.port().unwrap();
        assert_eq!(space, PortSpace::Tcp);
        assert!(crate::ports::EPHEMERAL.contains(&number));
    }
    a.release(chosen[0], ListenAt::V4);
    // More than one may have.
    let mut had = a.reserve(any).unwrap();
    for _ in 0..2000 {
        had = a.reserve(any).unwrap();
    }
    assert_eq!(had, Err(Refusal::TooMany));
    assert!(b.reserve(any).unwrap().is_ok());
}

fn notice(member: &mut Member) -> Notice {
    channel::wait(&[member.as_fd()], Some(PATIENCE)).unwrap();
    member.notice().unwrap().expect("something is said")
}

#[test]
fn members_tell_how_they_are_doing_and_who_does_not_answer_is_not_waited_for() {
    let world = World::new();
    let (mut a, _a) = world.one(1);
    let (_silent, _b) = world.one(1);
    let reporter = std::thread::spawn(move || {
        assert_eq!(notice(&mut a), Notice::StatusWanted);
        a.report(&Status { queue_pairs: 3, dropped: 9, ..Status::default() }, Vec::new());
        a
    });
    let all = services().unwrap();
    let listed = all.iter().find(|one| (one.port, one.uid) == (world.port, uid())).unwrap();
    let listing = listed.listing.as_ref().unwrap();
    assert_eq!((listing.service, listing.keeper), (std::process::id(), 0));
    let [told, silent] = &listing.members[..] else { panic!("{listing:?}") };
    assert_eq!((told.pid, told.uid, told.slot), (std::process::id(), uid(), 1));
    assert_eq!(told.places, [world.place(1)]);
    assert_eq!(told.status.map(|status| (status.queue_pairs, status.dropped)), Some((3, 9)));
    assert_eq!((silent.slot, silent.status, silent.device.as_str()), (2, None, "test"));
    drop(reporter.join().unwrap());
}

#[test]
fn bursts_to_two_slots_are_not_mixed() {
    const COUNT: usize = 60;
    let world = World::new();
    let members: Vec<_> = (0..17).map(|_| world.one(1)).collect();
    let config = |host| UdpConfig::new(world.place(host).ip).with_port(world.port);
    let adopt = |(member, socket): (Member, UdpSocket)| {
        (member.slot(), UdpLink::adopt(socket, &config(1)).unwrap(), member)
    };
    let mut receivers: Vec<_> = members.into_iter().map(adopt).collect();
    let mut link = UdpLink::open(&config(9)).unwrap();
    let dst = Gid::from(world.place(1).ip);
    let route = Route { src: link.gid(), dst, hop_limit: 64, ..Route::default() };
    let now = softrnic_model::Instant::ZERO;
    // Runs of several frames to a slot, so that there is something to join, in turn; some slots
    // have to share a source port.
    for turn in 0..COUNT / 3 {
        for (slot, ..) in &receivers {
            for within in 0..3 {
                let mark = (turn * 3 + within).to_le_bytes()[0];
                let fill = &mut |packet: &mut [u8]| {
                    packet.fill(mark);
                    let number = QpNum::from_parts(*slot, 7).get();
                    packet[4..8].copy_from_slice(&number.to_be_bytes());
                    true
                };
                while !link.ready() {
                    link.flush(now).unwrap();
                }
                let frame = Outgoing { route, len: 1036, damage: None };
                link.transmit(now, frame, fill).unwrap();
            }
        }
        link.flush(now).unwrap();
    }
    assert!(link.counters().tx_calls < link.counters().tx_packets, "something was joined");
    for (slot, receiver, _) in &mut receivers {
        let mut marks = Vec::new();
        let started = Instant::now();
        while marks.len() < COUNT && started.elapsed() < PATIENCE {
            receiver
                .receive(now, &mut |_, packet| {
                    assert_eq!(packet[5], *slot, "a frame for another slot");
                    marks.push(usize::from(packet[63]));
                })
                .unwrap();
        }
        assert!((0..COUNT).eq(marks), "slot {slot}");
    }
}

/// What the service says to `bytes` before it closes the connection, if it does.
fn say(world: &World, bytes: &[u8]) -> (Vec<Answer>, bool) {
    let connection = world.connect();
    channel::send(&connection, bytes, &[]).unwrap();
    answers(&connection)
}

fn answers(connection: &OwnedFd) -> (Vec<Answer>, bool) {
    let (mut answers, mut buffer) = (Vec::new(), [0; MESSAGE_MAX]);
    loop {
        if !channel::wait(&[connection.as_fd()], Some(Duration::from_millis(300))).unwrap()[0] {
            return (answers, false);
        }
        match channel::receive(connection, &mut buffer) {
            Ok(Some(bytes)) => answers.push(Answer::from_bytes(bytes).unwrap().1),
            Ok(None) => return (answers, true),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                return (answers, true);
            }
        }
    }
}

#[test]
fn nonsense_closes_the_connection_it_came_by_and_no_other() {
    let world = World::new();
    let (mut good, socket) = world.one(1);
    let malformed = vec![Answer::Refused(Refusal::Malformed)];
    let list = Request::List.to_bytes(1);
    for bytes in [
        vec![message::VERSION],
        vec![message::VERSION, 99, 0, 0],
        [&list[..], &[0]].concat(),
        vec![message::VERSION; MESSAGE_MAX],
        vec![message::VERSION; MESSAGE_MAX + 1],
        vec![message::VERSION; 100_000],
    ] {
        assert_eq!(say(&world, &bytes), (malformed.clone(), true), "{} bytes", bytes.len());
    }
    let newer = vec![Answer::Refused(Refusal::Version(message::VERSION + 1))];
    assert_eq!(say(&world, &[message::VERSION + 1, 1, 2, 3]), (newer, true));
    send(world.place(1).ip, world.port, QpNum::from_parts(good.slot(), 1));
    assert!(gets_something(&socket));
    good.listen_gsi().unwrap();
}

#[test]
fn descriptors_that_are_sent_along_go_nowhere() {
    let world = World::new();
    let (read, write) = rustix::pipe::pipe().unwrap();
    let connection = world.connect();
    for _ in 0..50 {
        channel::send(&connection, &Request::List.to_bytes(1), &[write.as_fd(); 10]).unwrap();
        let answer = answers_one(&connection);
        assert!(matches!(answer, Answer::Listed { .. }), "{answer:?}");
    }
    // No copy is left in this process, the service's: the pipe ends with the last one.
    drop(write);
    assert_eq!(rustix::io::read(&read, &mut [0; 1]).unwrap(), 0);
    world.works(1);
}

fn answers_one(connection: &OwnedFd) -> Answer {
    let mut buffer = [0; MESSAGE_MAX];
    channel::wait(&[connection.as_fd()], Some(PATIENCE)).unwrap();
    let bytes = channel::receive(connection, &mut buffer).unwrap().expect("an answer");
    Answer::from_bytes(bytes).unwrap().1
}

#[test]
fn who_floods_and_does_not_read_is_sent_away() {
    let world = World::new();
    let (_good, _socket) = world.one(1);
    let flooder = world.connect();
    let place = world.place(2);
    let attach = Request::Attach {
        program: "f".into(),
        device: "f".into(),
        slot: 0,
        places: vec![place; 64],
    };
    let (attach, list) = (attach.to_bytes(1), Request::List.to_bytes(1));
    let started = Instant::now();
    let mut sent = 0;
    loop {
        let bytes = if sent % 2 == 0 { &attach } else { &list };
        let flags = rustix::net::SendFlags::NOSIGNAL;
        let mut none = rustix::net::SendAncillaryBuffer::default();
        match rustix::net::sendmsg(&flooder, &[IoSlice::new(bytes)], &mut none, flags) {
            Ok(_) => sent += 1,
            Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
            Err(error) => {
                let gone = [rustix::io::Errno::PIPE, rustix::io::Errno::CONNRESET];
                assert!(gone.contains(&error), "{error}");
                break;
            }
        }
        assert!(started.elapsed() < PATIENCE, "it is still served after {sent} requests");
    }
    // Descriptors were sent with one answer at most: an answer that is not read holds up others.
    let mut descriptors = Vec::new();
    let mut buffer = [0; MESSAGE_MAX];
    while let Ok(Some(_)) = channel::receive_with(&flooder, &mut buffer, &mut descriptors) {}
    assert!(descriptors.len() <= 64, "{}", descriptors.len());
    world.works(3);
}

#[test]
fn connections_of_one_user_are_counted_and_strangers_do_not_stay() {
    let world = World::new();
    let strangers: Vec<_> = (0..300).map(|_| world.connect()).collect();
    let (said, closed) = answers(&world.connect());
    assert_eq!((said, closed), (vec![Answer::Refused(Refusal::TooMany)], true));
    let started = Instant::now();
    loop {
        match Member::join(world.port, "test", &[world.place(1)]) {
            Ok(_) => break,
            Err(JoinError::Refused(Refusal::TooMany)) => {}
            Err(error) => panic!("{error}"),
        }
        assert!(started.elapsed() < PATIENCE, "strangers stay");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(answers(&strangers[0]).1, "a stranger is sent away");
}

#[test]
fn addresses_of_one_device_are_limited() {
    let world = World::new();
    let places = |from: u16, count: u16| -> Vec<Place> {
        let ip = |n: u16| {
            let [high, low] = n.to_be_bytes();
            Place::new(Ipv4Addr::new(127, 88, high, low).into(), 0)
        };
        (from..from + count).map(ip).collect()
    };
    let (mut member, sockets) = Member::join(world.port, "test", &places(1, 64)).unwrap();
    assert_eq!(sockets.iter().filter(|socket| socket.is_ok()).count(), 64);
    let [one_more] = places(65, 1)[..] else { panic!("one") };
    assert_eq!(member.attach(one_more).unwrap().unwrap_err(), Refusal::TooMany);
    member.detach(places(1, 1)[0]);
    assert!(member.attach(one_more).unwrap().is_ok());
}
