//! Connection management over UDP, in one process: two devices, one connection manager. The same once more
//! with that of real devices, which the drop-in plays.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../udp/drop_in.rs"]
mod drop_in;
mod hardware;
mod typed;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use softrnic_verbs::cm::{
    CmEvent, CmEventKind, CmId, CmOption, CmPhase, ConnParam, ConnectionManager, EventChannelId,
    EventParam, PortSpace, RejectReason,
};
use softrnic_verbs::{Context, QpNum, QpState, QpType, emulated};

/// Two devices that reach each other, at 127.0.0.2 and 127.0.0.3.
fn pair() -> (Context, Context) {
    if drop_in::is_inside() {
        let [near, far] = drop_in::open_both().map(Context::new);
        return (near, far);
    }
    emulated::open_pair().unwrap()
}

/// Two devices and their connection manager.
struct World {
    cm: Arc<dyn ConnectionManager>,
    channel: EventChannelId,
}

impl World {
    fn new() -> Self {
        let (near, far) = pair();
        let cm = near.verbs().connection_manager().unwrap();
        cm.add_device(near.verbs()).unwrap();
        cm.add_device(far.verbs()).unwrap();
        let channel = cm.create_event_channel().unwrap();
        Self { cm, channel }
    }

    fn id(&self, space: PortSpace) -> CmId {
        self.cm.create_id(self.channel, space).unwrap()
    }

    fn event(&self) -> CmEvent {
        let event = self.cm.get_event(self.channel, Some(Duration::from_secs(20))).unwrap();
        event.expect("an event comes")
    }

    fn expect(&self, id: CmId, kind: CmEventKind) -> CmEvent {
        let event = self.event();
        assert_eq!((event.id, event.kind), (id, kind), "{event:?}");
        event
    }

    fn listen(&self, space: PortSpace, at: &str) -> (CmId, SocketAddr) {
        let id = self.id(space);
        self.cm.bind(id, at.parse().unwrap()).unwrap();
        self.cm.listen(id, 0).unwrap();
        let mut address = self.cm.query_id(id).unwrap().local.unwrap();
        if address.ip().is_unspecified() {
            address.set_ip([127, 0, 0, 3].into());
        }
        (id, address)
    }

    fn resolved(&self, space: PortSpace, to: SocketAddr) -> CmId {
        let id = self.id(space);
        let from = "127.0.0.2:0".parse().unwrap();
        self.cm.resolve_addr(id, Some(from), to, None).unwrap();
        self.expect(id, CmEventKind::AddrResolved);
        self.cm.resolve_route(id, None).unwrap();
        self.expect(id, CmEventKind::RouteResolved);
        id
    }

    fn request(&self, id: CmId, listener: CmId, param: &ConnParam) -> (CmId, ConnParam) {
        self.cm.connect(id, param).unwrap();
        let event = self.event();
        assert_eq!(event.kind, CmEventKind::ConnectRequest, "{event:?}");
        assert_eq!(event.listen_id, Some(listener));
        let EventParam::Conn(param) = event.param else { panic!("of a connection") };
        (event.id, *param)
    }
}

fn param(text: &str) -> ConnParam {
    ConnParam {
        private_data: text.into(),
        qp_num: QpNum::new(0x01_2345),
        responder_resources: 7,
        initiator_depth: 3,
        ..ConnParam::default()
    }
}

#[test]
fn a_connection_is_made_and_ends() {
    let world = World::new();
    let cm = &world.cm;
    let (listener, address) = world.listen(PortSpace::Tcp, "127.0.0.3:0");
    let near = world.resolved(PortSpace::Tcp, address);
    let (far, asked) = world.request(near, listener, &param("hello"));
    assert_eq!(asked.private_data[..6], *b"hello\0");
    assert_eq!(asked.private_data.len(), 56);
    assert_eq!((asked.responder_resources, asked.initiator_depth), (3, 7));
    let info = cm.query_id(far).unwrap();
    assert_eq!(info.local, Some(address));
    assert_eq!(info.peer, cm.query_id(near).unwrap().local);
    let (attributes, _) = cm.init_qp_attr(far, QpState::Rtr).unwrap();
    assert_eq!(attributes.dest_qp, QpNum::new(0x01_2345));
    assert!(cm.init_qp_attr(near, QpState::Rtr).is_err(), "the peer has not answered");
    cm.accept(far, &ConnParam { qp_num: QpNum::new(0x01_9999), ..param("welcome") }).unwrap();
    let EventParam::Conn(answer) = world.expect(near, CmEventKind::ConnectResponse).param else {
        panic!("of a connection");
    };
    assert_eq!((answer.private_data.len(), answer.qp_num), (196, QpNum::new(0x01_9999)));
    let (rts, _) = cm.init_qp_attr(far, QpState::Rts).unwrap();
    let (rtr, _) = cm.init_qp_attr(near, QpState::Rtr).unwrap();
    assert_eq!((rtr.rq_psn, rtr.max_dest_rd_atomic), (rts.sq_psn, 3));
    assert_eq!(rts.max_rd_atomic, 3, "the lower of 7 offered and 3 wanted");
    cm.establish(near).unwrap();
    world.expect(far, CmEventKind::Established);
    cm.disconnect(near).unwrap();
    world.expect(far, CmEventKind::Disconnected);
    cm.disconnect(far).unwrap();
    world.expect(near, CmEventKind::Disconnected);
    let mut ended = [world.event(), world.event()].map(|event| (event.id, event.kind));
    ended.sort_unstable();
    let exit = CmEventKind::TimewaitExit;
    assert_eq!(ended, [(near, exit), (far, exit)]);
    for id in [near, far, listener] {
        cm.destroy_id(id).unwrap();
    }
    cm.destroy_event_channel(world.channel).unwrap();
}

#[test]
fn refusals_say_why() {
    let world = World::new();
    let cm = &world.cm;
    let (listener, address) = world.listen(PortSpace::Tcp, "127.0.0.3:0");
    // The program refuses.
    let near = world.resolved(PortSpace::Tcp, address);
    let (far, _) = world.request(near, listener, &param(""));
    cm.reject(far, RejectReason::CONSUMER_DEFINED, b"busy").unwrap();
    let event = world.expect(near, CmEventKind::Rejected);
    assert_eq!(event.status, 28);
    let EventParam::Conn(said) = event.param else { panic!("of a connection") };
    assert_eq!((&said.private_data[..4], said.private_data.len()), (&b"busy"[..], 148));
    // Nobody listens there.
    let mut nobody = address;
    nobody.set_port(address.port() ^ 1);
    let lost = world.resolved(PortSpace::Tcp, nobody);
    cm.connect(lost, &param("")).unwrap();
    assert_eq!(world.expect(lost, CmEventKind::Rejected).status, 8);
    // Nor in that port space.
    let wrong = world.resolved(PortSpace::Udp, address);
    cm.connect(wrong, &param("")).unwrap();
    assert_eq!(world.expect(wrong, CmEventKind::Unreachable).status, 1);
    // A listener goes with a request that nobody has taken.
    let late = world.resolved(PortSpace::Tcp, address);
    cm.connect(late, &param("")).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    cm.destroy_id(listener).unwrap();
    assert_eq!(world.expect(late, CmEventKind::Rejected).status, 28);
}

#[test]
fn datagram_services_are_resolved() {
    let world = World::new();
    let cm = &world.cm;
    let (listener, address) = world.listen(PortSpace::Udp, "0.0.0.0:0");
    let near = world.resolved(PortSpace::Udp, address);
    let ask = ConnParam { qp_type: QpType::Ud, ..param("who?") };
    cm.connect(near, &ask).unwrap();
    let event = world.event();
    assert_eq!((event.kind, event.listen_id), (CmEventKind::ConnectRequest, Some(listener)));
    let EventParam::Ud(asked) = event.param else { panic!("of datagrams") };
    assert_eq!((&asked.private_data[..5], asked.private_data.len()), (&b"who?\0"[..], 180));
    cm.accept(event.id, &ConnParam { qp_type: QpType::Ud, ..param("me") }).unwrap();
    let EventParam::Ud(answer) = world.expect(near, CmEventKind::Established).param else {
        panic!("of datagrams");
    };
    assert_eq!((answer.qp_num, answer.qkey), (QpNum::new(0x01_2345), 0x0123_4567));
    assert_eq!((&answer.private_data[..3], answer.private_data.len()), (&b"me\0"[..], 136));
}

#[test]
fn a_port_is_had_once() {
    let world = World::new();
    let cm = &world.cm;
    let bind = |id, at: &str| cm.bind(id, at.parse().unwrap());
    let errno = |result: Result<(), softrnic_verbs::cm::CmError>| result.unwrap_err().errno();
    let [a, b, c] = [0; 3].map(|_| world.id(PortSpace::Tcp));
    bind(a, "127.0.0.2:7471").unwrap();
    assert_eq!(errno(bind(b, "127.0.0.2:7471")), libc::EADDRINUSE);
    assert_eq!(errno(bind(b, "0.0.0.0:7471")), libc::EADDRINUSE);
    bind(b, "127.0.0.3:7471").unwrap();
    assert_eq!(errno(bind(a, "127.0.0.2:7472")), libc::EINVAL, "it has one");
    bind(world.id(PortSpace::Udp), "127.0.0.2:7471").unwrap();
    cm.destroy_id(a).unwrap();
    bind(c, "127.0.0.2:7471").unwrap();
    let [d, e] = [0; 2].map(|_| world.id(PortSpace::Tcp));
    for id in [d, e] {
        cm.set_option(id, CmOption::ReuseAddress(true)).unwrap();
        bind(id, "127.0.0.2:7480").unwrap();
    }
    assert_eq!(errno(cm.listen(d, 1)), libc::EADDRINUSE);
    cm.destroy_id(e).unwrap();
    cm.listen(d, 1).unwrap();
    assert_eq!(errno(bind(world.id(PortSpace::Tcp), "198.51.100.1:1")), libc::EADDRNOTAVAIL);
    // librdmacm takes any loopback address for all of them.
    if !drop_in::is_inside() {
        assert_eq!(errno(bind(world.id(PortSpace::Tcp), "127.0.0.9:1")), libc::ENODEV);
    }
}

#[test]
fn events_move_with_their_identifier() {
    let world = World::new();
    let cm = &world.cm;
    let (listener, address) = world.listen(PortSpace::Tcp, "127.0.0.3:0");
    let near = world.resolved(PortSpace::Tcp, address);
    cm.connect(near, &param("")).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let other = cm.create_event_channel().unwrap();
    cm.migrate_id(listener, other).unwrap();
    let event = cm.get_event(other, Some(Duration::from_secs(10))).unwrap().unwrap();
    assert_eq!((event.kind, event.listen_id), (CmEventKind::ConnectRequest, Some(listener)));
    assert_eq!(cm.query_id(event.id).unwrap().channel, other);
    assert_eq!(cm.query_id(event.id).unwrap().phase, CmPhase::Requested);
    assert!(cm.destroy_event_channel(other).is_err(), "identifiers report to it");
    cm.destroy_id(event.id).unwrap();
    assert_eq!(world.expect(near, CmEventKind::Rejected).status, 28);
}

#[test]
fn events_wait_at_the_descriptor() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let world = World::new();
    let cm = &world.cm;
    let readable = |ms: i64| {
        let descriptor = cm.event_channel_fd(world.channel).unwrap();
        let wait = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&wait)).unwrap() == 1
    };
    let (_, address) = world.listen(PortSpace::Tcp, "127.0.0.3:0");
    assert!(!readable(0));
    let id = world.id(PortSpace::Tcp);
    cm.resolve_addr(id, None, address, None).unwrap();
    assert!(readable(10_000));
    world.expect(id, CmEventKind::AddrResolved);
    assert!(!readable(0));
    // What a layer above puts there waits like the others, and goes where its identifier goes.
    let posted = CmEvent {
        id,
        listen_id: None,
        kind: CmEventKind::AddrChange,
        status: 7,
        param: EventParam::None,
    };
    cm.post_event(posted.clone()).unwrap();
    assert!(readable(0));
    let other = cm.create_event_channel().unwrap();
    cm.migrate_id(id, other).unwrap();
    assert!(!readable(0));
    assert_eq!(cm.read_event(other).unwrap(), posted);
    assert_eq!(cm.get_event(other, Some(Duration::ZERO)).unwrap(), None);
    let descriptor = cm.event_channel_fd(other).unwrap();
    rustix::fs::fcntl_setfl(&descriptor, rustix::fs::OFlags::NONBLOCK).unwrap();
    let error = cm.read_event(other).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn who_waits_at_a_channel_that_goes_is_sent_away() {
    let world = World::new();
    let channel = world.cm.create_event_channel().unwrap();
    let waiting = {
        let cm = Arc::clone(&world.cm);
        std::thread::spawn(move || cm.get_event(channel, None))
    };
    std::thread::sleep(Duration::from_millis(50));
    world.cm.destroy_event_channel(channel).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap_err().errno(), libc::EINVAL);
    assert_eq!(world.cm.event_channel_fd(channel).unwrap_err().errno(), libc::EINVAL);
}

#[test]
fn what_is_wrong_is_refused() {
    let world = World::new();
    let cm = &world.cm;
    let id = world.id(PortSpace::Tcp);
    let errno = |result: Result<(), softrnic_verbs::cm::CmError>| result.unwrap_err().errno();
    assert_eq!(errno(cm.connect(id, &param(""))), libc::EINVAL, "nowhere to");
    assert_eq!(errno(cm.accept(id, &param(""))), libc::EINVAL, "nobody has asked");
    assert_eq!(errno(cm.establish(id)), libc::EINVAL);
    assert_eq!(errno(cm.disconnect(id)), libc::EINVAL);
    let (_, address) = world.listen(PortSpace::Tcp, "127.0.0.3:0");
    let ready = world.resolved(PortSpace::Tcp, address);
    let long = ConnParam { private_data: vec![1; 57], ..param("") };
    let error = cm.connect(ready, &long).unwrap_err();
    assert_eq!((error.errno(), error.text()), (libc::EINVAL, "more than 56 bytes of private data"));
    let gone = world.id(PortSpace::Tcp);
    cm.destroy_id(gone).unwrap();
    assert_eq!(errno(cm.disconnect(gone)), libc::EINVAL);
    assert_eq!(cm.destroy_id(gone).unwrap_err().errno(), libc::EINVAL);
}
