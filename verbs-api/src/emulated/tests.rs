//! The emulated device over a link that the test plays.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant as Clock};

use softrnic_model::Instant;
use softrnic_model::verbs::{
    Access, AsyncEvent, Gid, Mtu, PortState, Psn, QpNum, QpState, QpType, WcStatus,
};
use softrnic_model::wire::{Bth, HeaderBuf, Opcode, Reth, Route};
use softrnic_transport::{Link, LinkCounters, Outgoing, interfaces};

use super::membership::Membership;
use super::notices::Notices;
use super::surroundings::View;
use super::*;
use crate::buffer::Buffer;
use crate::machine::addresses::{GidTable, present};
use crate::{ConnectOptions, Cq, Endpoint, Mr, Qp, SendFlags, SendOp, SendWr};

/// What the link does.
mod plan {
    /// Takes every frame and brings none.
    pub(super) const SILENT: u8 = 0;
    pub(super) const FAILS: u8 = 1;
    pub(super) const PANICS: u8 = 2;
    /// Always says that something has arrived, after keeping the device busy.
    pub(super) const BUSY: u8 = 3;
}

/// A link that does as planned.
struct Played {
    plan: Arc<AtomicU8>,
    batches: Arc<AtomicU32>,
    post: Arc<Post>,
    socket: UdpSocket,
}

/// What lies in the link.
#[derive(Default)]
struct Post {
    /// Comes to the next program thread that looks; never to the engine.
    arriving: Mutex<Option<HeaderBuf>>,
    /// Frames that have left.
    left: AtomicU32,
}

impl Played {
    fn act(&self) -> io::Result<usize> {
        match self.plan.load(Ordering::SeqCst) {
            plan::FAILS => Err(io::Error::other("the cable is cut")),
            plan::PANICS => panic!("as planned"),
            plan::BUSY => {
                self.batches.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(500));
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

impl Link for Played {
    fn receive(
        &mut self,
        _now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        while self.socket.recv(&mut [0; 8]).is_ok() {}
        if std::thread::current().name() != Some("softrnic-engine")
            && let Some(packet) = self.post.arriving.lock().unwrap().take()
        {
            let (src, dst) = (ADDRESS.into(), ADDRESS.into());
            deliver(&Route { src, dst, ..Route::default() }, packet.as_slice());
            return Ok(1);
        }
        self.act()
    }
    fn ready(&self) -> bool {
        true
    }
    fn transmit(
        &mut self,
        _now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let filled = fill(&mut vec![0; frame.len]);
        self.post.left.fetch_add(filled.into(), Ordering::SeqCst);
        self.act().map(|_| ())
    }
    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }
    fn join(&mut self, _group: Gid) -> io::Result<()> {
        Ok(())
    }
    fn leave(&mut self, _group: Gid) {}
    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        each(&self.socket);
    }
    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

/// A device over such a link.
struct World {
    plan: Arc<AtomicU8>,
    /// How often the link has kept the device busy.
    batches: Arc<AtomicU32>,
    post: Arc<Post>,
    /// Where a datagram wakes the engine.
    bell: std::net::SocketAddr,
    device: Arc<EmulatedContext>,
    context: Context,
}

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));

impl World {
    fn new() -> Self {
        let socket = UdpSocket::bind((ADDRESS, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let bell = socket.local_addr().unwrap();
        let plan = Arc::new(AtomicU8::new(plan::SILENT));
        let batches = Arc::new(AtomicU32::new(0));
        let post = Arc::new(Post::default());
        let link = Played {
            plan: Arc::clone(&plan),
            batches: Arc::clone(&batches),
            post: Arc::clone(&post),
            socket,
        };
        let config = EmulatedConfig::new(ADDRESS);
        let addresses = present(&[ADDRESS], &interfaces::all().unwrap());
        let mut table = GidTable::default();
        addresses.iter().for_each(|address| table.insert(*address));
        let view = View { addresses, state: PortState::Active, mtu: Mtu::B1024 };
        // With word from the system, as usual: an engine that looks around now and then by itself
        // would cover up wake-ups that are missed.
        let notices = Notices::new().ok();
        let membership = Membership::Alone;
        let link = Box::new(link);
        let device =
            EmulatedContext::start(config, &view, table, link, 1 << 20, notices, membership);
        let device = Arc::new(device.unwrap());
        Self { plan, batches, post, bell, context: Context::new(device.clone()), device }
    }

    fn plan(&self, plan: u8) {
        self.plan.store(plan, Ordering::SeqCst);
    }

    /// Lets the engine see that something has arrived.
    fn ring(&self) {
        UdpSocket::bind((ADDRESS, 0)).unwrap().send_to(&[0], self.bell).unwrap();
    }

    /// A queue pair that is connected to nobody, with one receive posted.
    fn qp(&self, cq: &Cq, timeout: u8) -> (Qp, Mr) {
        let pd = self.context.alloc_pd().unwrap();
        let mr = pd.register(Buffer::new(64).unwrap(), Access::LOCAL_WRITE).unwrap();
        let qp = pd.create_qp(QpType::Rc, cq).build().unwrap();
        qp.recv(1, mr.sge(0, 8)).unwrap();
        let peer = Endpoint {
            gid: ADDRESS.into(),
            qp_num: QpNum::new(0x0099_0099),
            psn: Psn::new(0),
            mtu: Mtu::B1024,
            responder_depth: 1,
        };
        let options = ConnectOptions { timeout, retry_count: 0, ..ConnectOptions::default() };
        qp.connect_with(&peer, &options).unwrap();
        (qp, mr)
    }

    /// Everything that is posted has been flushed and the program has been told, once.
    fn assert_failed(&self, cq: &Cq, posted: usize, why: &str) {
        let event = self.context.next_async_event(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(event, Some(AsyncEvent::DeviceFatal));
        for _ in 0..posted {
            let completion = cq.poll_one().unwrap().expect("a flush for each request");
            assert_eq!(completion.status, WcStatus::WorkRequestFlushed);
        }
        assert_eq!(cq.poll_one().unwrap(), None);
        assert_eq!(self.context.next_async_event(Some(Duration::ZERO)).unwrap(), None);
        let failure = self.device.failure().unwrap();
        assert!(failure.contains(why), "{failure}");
    }
}

#[test]
fn when_the_link_fails_in_a_verb_everything_is_flushed() {
    let world = World::new();
    let channel = world.context.create_comp_channel().unwrap();
    let cq = channel.create_cq(16).unwrap();
    let (qp, mr) = world.qp(&cq, 0);
    qp.send(2, mr.sge(0, 8)).unwrap();
    cq.arm(false).unwrap();
    world.plan(plan::FAILS);
    qp.send(3, mr.sge(0, 8)).unwrap();
    assert_eq!(channel.wait(Some(Duration::from_secs(20))).unwrap(), Some(cq.id()));
    world.assert_failed(&cq, 3, "the cable is cut");
    assert_eq!(qp.query().unwrap().0.state, QpState::Err);
    qp.send(4, mr.sge(0, 8)).unwrap();
    let late = cq.poll_one().unwrap().expect("what is posted now is flushed at once");
    assert_eq!((late.wr_id, late.status), (4, WcStatus::WorkRequestFlushed));
}

#[test]
fn a_queue_pair_made_after_the_failure_fails_too() {
    let world = World::new();
    let cq = world.context.create_cq(16).unwrap();
    let (qp, mr) = world.qp(&cq, 0);
    world.plan(plan::FAILS);
    qp.send(2, mr.sge(0, 8)).unwrap();
    world.assert_failed(&cq, 2, "the cable is cut");
    let fresh = mr.pd().create_qp(QpType::Rc, &cq).build().unwrap();
    assert_eq!(fresh.query().unwrap().0.state, QpState::Err);
    fresh.recv(5, mr.sge(0, 8)).unwrap();
    assert_eq!(cq.poll_one().unwrap().unwrap().status, WcStatus::WorkRequestFlushed);
}

#[test]
fn when_the_link_fails_in_the_engine_a_sleeper_is_woken() {
    for (plan, why) in [(plan::FAILS, "the cable is cut"), (plan::PANICS, "panicked")] {
        let world = World::new();
        let channel = world.context.create_comp_channel().unwrap();
        let cq = channel.create_cq(16).unwrap();
        let (qp, mr) = world.qp(&cq, 0);
        qp.send(2, mr.sge(0, 8)).unwrap();
        cq.arm(false).unwrap();
        let woken = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| channel.wait(Some(Duration::from_secs(20))).unwrap());
            world.plan(plan);
            world.ring();
            sleeper.join().unwrap()
        });
        assert_eq!(woken, Some(cq.id()), "{why}");
        world.assert_failed(&cq, 2, why);
    }
}

#[test]
fn a_verb_that_panics_leaves_a_device_that_says_so() {
    let world = World::new();
    let cq = world.context.create_cq(16).unwrap();
    let (qp, mr) = world.qp(&cq, 0);
    world.plan(plan::PANICS);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        qp.send(2, mr.sge(0, 8)).unwrap();
    }));
    assert!(panicked.is_err());
    world.assert_failed(&cq, 2, "panicked");
}

#[test]
fn a_deadline_that_is_set_while_the_engine_falls_asleep_is_kept() {
    let world = World::new();
    let channel = world.context.create_comp_channel().unwrap();
    let cq = channel.create_cq(16).unwrap();
    for round in 0..100 {
        // 65 us without an answer, and no retry: nobody but the engine can notice.
        let (qp, mr) = world.qp(&cq, 4);
        cq.arm(false).unwrap();
        // Meet the engine at different points of its way to sleep.
        let start = Clock::now();
        while start.elapsed() < Duration::from_micros(round * 3) {}
        qp.send(2, mr.sge(0, 8)).unwrap();
        let event = channel.wait(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(event, Some(cq.id()), "round {round}");
        let failed = cq.poll_one().unwrap().unwrap();
        assert_eq!((failed.wr_id, failed.status), (2, WcStatus::RetryExceeded));
        assert_eq!(cq.poll_one().unwrap().unwrap().status, WcStatus::WorkRequestFlushed);
    }
}

/// An empty SEND that wants an acknowledgement.
fn knock(qp: &Qp, psn: u32) -> HeaderBuf {
    let mut packet = HeaderBuf::new();
    packet.push(&Bth::new(Opcode(0x04), qp.num(), Psn::new(psn)).with_ack_req(true));
    packet
}

#[test]
fn what_a_poll_leaves_owed_leaves_although_the_program_never_looks_again() {
    // Without a deadline, and while the engine sleeps until one that is far.
    for far in [false, true] {
        let world = World::new();
        let cq = world.context.create_cq(256).unwrap();
        let (qp, mr) = world.qp(&cq, if far { 24 } else { 0 });
        if far {
            qp.send(2, mr.sge(0, 8)).unwrap();
        }
        for round in 0..100 {
            if round > 0 {
                qp.recv(1, mr.sge(0, 8)).unwrap();
            }
            let before = world.post.left.load(Ordering::SeqCst);
            *world.post.arriving.lock().unwrap() = Some(knock(&qp, round));
            // Meet the engine while it sleeps, and at different points of its way to sleep.
            match round % 4 {
                0 => std::thread::sleep(Duration::from_millis(5)),
                _ => world.ring(),
            }
            let start = Clock::now();
            while start.elapsed() < Duration::from_micros(u64::from(round) * 3) {}
            while cq.poll_one().unwrap().is_none() {}
            let polled = Clock::now();
            while world.post.left.load(Ordering::SeqCst) == before {
                assert!(polled.elapsed() < Duration::from_secs(5), "round {round}, far: {far}");
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn events_about_what_is_gone_are_not_kept() {
    let world = World::new();
    let cq = world.context.create_cq(16).unwrap();
    for _ in 0..10 {
        let (qp, mr) = world.qp(&cq, 0);
        let at = mr.remote(0);
        // A WRITE that says 1 byte and brings none.
        let mut wrong = HeaderBuf::new();
        wrong.push(&Bth::new(Opcode(0x0a), qp.num(), Psn::new(0)));
        wrong.push(&Reth::new(at.addr, at.rkey, 1));
        *world.post.arriving.lock().unwrap() = Some(wrong);
        while qp.query().unwrap().0.state != QpState::Err {
            let _ = cq.poll_one().unwrap();
        }
    }
    let event = world.context.next_async_event(Some(Duration::ZERO)).unwrap();
    assert_eq!(event, None, "all queue pairs are gone");
}

#[test]
fn of_an_interface_that_comes_and_goes_the_latest_is_kept() {
    let world = World::new();
    for _ in 0..1000 {
        for state in [PortState::Down, PortState::Active] {
            let mut core = world.device.shared.lock();
            core.device.set_port_state(state);
            core.dispatch();
        }
    }
    let next = || world.context.next_async_event(Some(Duration::ZERO)).unwrap();
    assert_eq!(next(), Some(AsyncEvent::PortError));
    assert_eq!(next(), Some(AsyncEvent::PortActive));
    assert_eq!(next(), None);
}

#[test]
fn an_event_wakes_a_sleeper_although_others_poll() {
    let world = World::new();
    let channel = world.context.create_comp_channel().unwrap();
    let (slept_on, polled) = (channel.create_cq(4).unwrap(), world.context.create_cq(4).unwrap());
    let (qp, mr) = world.qp(&slept_on, 8);
    slept_on.arm(false).unwrap();
    qp.send(2, mr.sge(0, 8)).unwrap();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| channel.wait(Some(Duration::from_secs(20))).unwrap());
        while !sleeper.is_finished() {
            assert_eq!(polled.poll_one().unwrap(), None);
        }
        assert_eq!(sleeper.join().unwrap(), Some(slept_on.id()));
    });
}

#[test]
fn verbs_get_their_turn_while_the_engine_is_busy() {
    let world = World::new();
    world.plan(plan::BUSY);
    world.ring();
    // Until it is at work.
    while world.batches.load(Ordering::SeqCst) < 10 {
        std::thread::yield_now();
    }
    let before = world.batches.load(Ordering::SeqCst);
    for _ in 0..100 {
        // Meet the engine while it has the device.
        std::thread::sleep(Duration::from_micros(200));
        world.context.port().unwrap();
    }
    // Each waits for the batch under way and not for many, as chance would have it.
    let waited = world.batches.load(Ordering::SeqCst) - before;
    assert!(waited < 300, "100 verbs waited for {waited} batches");
    let World { device, context, .. } = world;
    let closing = Clock::now();
    drop((device, context));
    assert!(closing.elapsed() < Duration::from_secs(5), "a device under fire is closed");
}

#[test]
fn a_destroyed_channel_sends_sleepers_away() {
    let world = World::new();
    let verbs = Arc::clone(world.context.verbs());
    let channel = verbs.create_comp_channel().unwrap();
    let sleeper = {
        let verbs = Arc::clone(&verbs);
        std::thread::spawn(move || verbs.get_cq_event(channel, None))
    };
    std::thread::sleep(Duration::from_millis(20));
    verbs.destroy_comp_channel(channel).unwrap();
    assert_eq!(sleeper.join().unwrap().unwrap_err().errno(), 22);
}

/// In the child nothing must wait, touch the parent's engine, or return into the test harness.
#[cfg(target_os = "linux")]
#[test]
#[expect(unsafe_code, reason = "forks")]
fn a_forked_child_is_refused_and_leaves_the_parent_alone() {
    let world = World::new();
    let channel = world.context.create_comp_channel().unwrap();
    let cq = channel.create_cq(16).unwrap();
    let (qp, mr) = world.qp(&cq, 10);
    // SAFETY: the child calls verbs that are refused, drops, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = world.context.port().is_err_and(|error| error.source.errno() == 22);
        drop((qp, mr, cq, channel, world));
        // SAFETY: ends the process without running anything of the parent's.
        unsafe { libc::_exit(if refused { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made, and writes to a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
    cq.arm(false).unwrap();
    qp.send(2, mr.sge(0, 8)).unwrap();
    assert!(channel.wait(Some(Duration::from_secs(20))).unwrap().is_some(), "the engine is well");
}

/// Elsewhere nobody tells which memory is read-only.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_is_reregistered_is_judged_by_the_rights_that_it_gets() {
    use crate::provider::{MemoryRange, Reregistration};
    static CONSTANT: [u8; 64] = [1; 64];
    let world = World::new();
    let verbs = world.context.verbs();
    let pd = verbs.alloc_pd().unwrap();
    let range = MemoryRange { base: CONSTANT.as_ptr().cast_mut(), len: CONSTANT.len() };
    #[expect(unsafe_code, reason = "registers a constant")]
    // SAFETY: it is there for ever and only read.
    let keys = unsafe { verbs.reg_mr(pd, range, 0, Access::REMOTE_READ) }.unwrap();
    let access = Some(Access::LOCAL_WRITE);
    for memory in [None, Some((range, 0))] {
        let change = Reregistration { access, memory, ..Reregistration::default() };
        #[expect(unsafe_code, reason = "changes nothing, for it is refused")]
        // SAFETY: as above.
        let refused = unsafe { verbs.rereg_mr(keys.lkey, &change) };
        assert!(refused.is_err_and(|error| error.errno() == 14));
    }
    verbs.dereg_mr(keys.lkey).unwrap();
}

#[test]
fn a_list_is_posted_up_to_the_request_that_is_refused() {
    let world = World::new();
    let cq = world.context.create_cq(16).unwrap();
    let (qp, mr) = world.qp(&cq, 0);
    let sges = [mr.sge(0, 8)];
    let op = SendOp::Send { imm: None, invalidate: None };
    let good =
        SendWr { wr_id: 2, op, flags: SendFlags::SIGNALED, sges: &sges, ..SendWr::default() };
    let bad = SendWr { inline: &[1], ..good };
    let refused = qp.post_send(&[good, bad, good]).unwrap_err();
    assert_eq!((refused.index, refused.error.errno()), (1, 22));
    qp.move_to(QpState::Err).unwrap();
    assert_eq!(cq.poll_one().unwrap().unwrap().wr_id, 2, "the one before is posted");
    assert_eq!(cq.poll_one().unwrap().unwrap().wr_id, 1, "then the receive, nothing else");
    assert_eq!(cq.poll_one().unwrap(), None);
}
