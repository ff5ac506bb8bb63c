//! Completion channels and asynchronous events.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use softrnic_verbs::{
    Access, AsyncEvent, CompletionChannel, CqModeration, QpAttributeMask, QpAttributes, QpState,
    QpType, SendFlags, SendOp, SendWr, WcStatus,
};

use crate::world::{End, PATIENCE, World, builder, connect, pair, patient, pattern};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// A world whose far end reports to a channel.
fn with_channel() -> (World, CompletionChannel) {
    let (near, far) = pair();
    let channel = far.create_comp_channel().unwrap();
    let cq = channel.create_cq(64).unwrap();
    let world = World { near: End::new(near, QpType::Rc, 3), far: End::on(far, QpType::Rc, 5, cq) };
    connect(&world.near.qp, &world.far.qp, &patient());
    for wr_id in 0..32 {
        world.far.qp.recv(wr_id, world.far.sge(0, 64)).unwrap();
    }
    (world, channel)
}

fn send(end: &End, flags: SendFlags) {
    let op = SendOp::Send { imm: None, invalidate: None };
    let flags = flags | SendFlags::SIGNALED;
    let wr = SendWr { wr_id: 1, op, flags, sges: &[end.sge(0, 8)], ..SendWr::default() };
    end.qp.post_send(&[wr]).unwrap();
    end.success();
}

fn is_readable(descriptor: &OwnedFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    let wait = Timespec::try_from(wait).unwrap();
    poll(&mut polled, Some(&wait)).unwrap() == 1
}

#[test]
fn a_wait_ends_when_the_time_is_over() {
    let (world, channel) = with_channel();
    for wait in [Duration::ZERO, Duration::from_millis(30)] {
        let started = Instant::now();
        assert_eq!(channel.wait(Some(wait)).unwrap(), None);
        let waited = started.elapsed();
        assert!(waited >= wait && waited < wait + Duration::from_secs(5), "{waited:?}");
    }
    assert_eq!(world.far.context.next_async_event(AT_ONCE).unwrap(), None);
}

#[test]
fn an_armed_queue_sends_one_event_and_only_for_what_comes_after() {
    let (world, channel) = with_channel();
    let (near, far) = (&world.near, &world.far);
    send(near, SendFlags::empty());
    assert_eq!(channel.wait(AT_ONCE).unwrap(), None, "not armed");
    far.cq.arm(false).unwrap();
    assert_eq!(channel.wait(AT_ONCE).unwrap(), None, "what was there before tells nothing");
    send(near, SendFlags::empty());
    send(near, SendFlags::empty());
    assert_eq!(channel.wait(PATIENCE).unwrap(), Some(far.cq.id()));
    assert_eq!(channel.wait(Some(Duration::from_millis(20))).unwrap(), None, "once");
    assert_eq!((0..3).map(|_| far.success().wr_id).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn solicited_ones_and_failures_wake_who_waits_for_them() {
    let (world, channel) = with_channel();
    let (near, far) = (&world.near, &world.far);
    far.cq.arm(true).unwrap();
    send(near, SendFlags::empty());
    assert_eq!(channel.wait(Some(Duration::from_millis(20))).unwrap(), None);
    send(near, SendFlags::SOLICITED);
    assert!(channel.wait(PATIENCE).unwrap().is_some());
    far.cq.arm(true).unwrap();
    far.qp.move_to(QpState::Err).unwrap();
    assert!(channel.wait(PATIENCE).unwrap().is_some(), "a flush is a failure");
}

#[test]
fn the_descriptor_is_readable_while_events_wait() {
    let (world, channel) = with_channel();
    let (near, far) = (&world.near, &world.far);
    let descriptor = channel.descriptor().unwrap();
    far.cq.arm(false).unwrap();
    assert!(!is_readable(&descriptor, Duration::ZERO));
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| is_readable(&descriptor, PATIENCE.unwrap()));
        std::thread::sleep(Duration::from_millis(20));
        send(near, SendFlags::empty());
        assert!(sleeper.join().unwrap());
    });
    assert!(is_readable(&descriptor, Duration::ZERO), "until it is taken");
    assert_eq!(channel.wait(AT_ONCE).unwrap(), Some(far.cq.id()));
    assert!(!is_readable(&descriptor, Duration::ZERO));
}

#[test]
fn a_sleeper_on_the_descriptor_is_not_kept_waiting_by_the_poll_before() {
    // Arm, poll, sleep: the poll must not make the engine believe that somebody polls.
    let (world, channel) = with_channel();
    let (near, far) = (&world.near, &world.far);
    let descriptor = channel.descriptor().unwrap();
    let sleep = || {
        far.cq.arm(false).unwrap();
        assert!(far.is_idle());
        let started = Instant::now();
        near.qp.send(1, near.sge(0, 8)).unwrap();
        assert!(is_readable(&descriptor, PATIENCE.unwrap()));
        let slept = started.elapsed();
        channel.wait(AT_ONCE).unwrap();
        far.success();
        near.success();
        far.qp.recv(0, far.sge(0, 64)).unwrap();
        slept
    };
    // A relaxed engine would look after a millisecond. On a busy machine many are late all the same.
    let prompt = (0..200).map(|_| sleep()).filter(|slept| *slept < Duration::from_micros(900));
    assert_eq!(prompt.take(10).count(), 10);
}

#[test]
fn a_channel_in_use_is_busy_and_forgets_queues_that_go() {
    let (world, channel) = with_channel();
    let verbs = world.far.context.verbs();
    assert_eq!(verbs.destroy_comp_channel(channel.id()).unwrap_err().errno(), 16);
    let second = channel.create_cq(4).unwrap();
    let qp = builder(&world.far.pd, QpType::Rc, &second).build().unwrap();
    qp.recv(1, world.far.sge(0, 8)).unwrap();
    second.arm(false).unwrap();
    qp.move_to(QpState::Err).unwrap();
    drop((qp, second));
    assert_eq!(channel.wait(AT_ONCE).unwrap(), None);
}

#[test]
fn a_peer_that_breaks_rules_is_reported() {
    let world = World::new(QpType::Rc);
    let (near, far) = (&world.near, &world.far);
    let async_fd = far.context.verbs().async_fd().unwrap();
    let readable = far.pd.register(pattern(64, 0), Access::REMOTE_READ).unwrap();
    near.qp.write(1, near.sge(0, 8), readable.remote(0)).unwrap();
    near.failure(WcStatus::RemoteAccessError);
    assert!(is_readable(&async_fd, PATIENCE.unwrap()));
    assert_eq!(far.event(), AsyncEvent::QpAccessError(far.qp.num()));
    assert!(!is_readable(&async_fd, Duration::ZERO));
    assert_eq!(far.qp.query().unwrap().0.state, QpState::Err);
}

#[test]
fn the_first_packet_before_rts_is_reported() {
    let world = World::new(QpType::Rc);
    let (near, far) = (&world.near, &world.far);
    let qps = [near, far].map(|end| builder(&end.pd, QpType::Rc, &end.cq).build().unwrap());
    let [near_qp, far_qp] = &qps;
    near_qp.connect(&far_qp.endpoint().unwrap()).unwrap();
    // The far end stops at RTR.
    let peer = near_qp.endpoint().unwrap();
    let attributes = QpAttributes {
        state: QpState::Rtr,
        path: far_qp.path_to(peer.gid),
        path_mtu: peer.mtu,
        dest_qp: peer.qp_num,
        rq_psn: peer.psn,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
        ..QpAttributes::default()
    };
    let mask = QpAttributeMask::STATE
        | QpAttributeMask::AV
        | QpAttributeMask::PATH_MTU
        | QpAttributeMask::DEST_QPN
        | QpAttributeMask::RQ_PSN
        | QpAttributeMask::MAX_DEST_RD_ATOMIC
        | QpAttributeMask::MIN_RNR_TIMER;
    far_qp.modify(&attributes, mask).unwrap();
    near_qp.write(1, near.sge(0, 8), far.mr.remote(0)).unwrap();
    near.success();
    assert_eq!(far.event(), AsyncEvent::CommunicationEstablished(far_qp.num()));
}

#[test]
fn a_drained_send_queue_is_reported() {
    let world = World::new(QpType::Rc);
    let (near, far) = (&world.near, &world.far);
    near.qp.write(1, near.sge(0, 100_000), far.mr.remote(0)).unwrap();
    let attributes =
        QpAttributes { state: QpState::Sqd, sq_drained_event: true, ..QpAttributes::default() };
    let mask = QpAttributeMask::STATE | QpAttributeMask::EN_SQD_ASYNC_NOTIFY;
    near.qp.modify(&attributes, mask).unwrap();
    assert_eq!(near.event(), AsyncEvent::SqDrained(near.qp.num()));
    near.success();
    near.qp.write(2, near.sge(0, 8), far.mr.remote(0)).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(near.is_idle(), "it waits");
    near.qp.move_to(QpState::Rts).unwrap();
    assert_eq!(near.success().wr_id, 2);
}

#[test]
fn a_queue_that_overruns_is_dead_and_so_are_its_queue_pairs() {
    let (near, far) = pair();
    let cq = near.create_cq(4).unwrap();
    let near = End::on(near, QpType::Rc, 3, cq);
    let far = End::new(far, QpType::Rc, 5);
    connect(&near.qp, &far.qp, &patient());
    let capacity = u64::from(near.cq.entries());
    for wr_id in 0..=capacity {
        near.qp.write(wr_id, near.sge(0, 8), far.mr.remote(0)).unwrap();
    }
    assert_eq!(near.event(), AsyncEvent::CqError(near.cq.id()));
    for wr_id in 0..capacity {
        assert_eq!(near.success().wr_id, wr_id, "what was queued stays");
    }
    assert_eq!(near.cq.poll_one().unwrap_err().source.errno(), 22);
    assert_eq!(near.qp.query().unwrap().0.state, QpState::Err);
}

#[test]
fn descriptors_are_not_inherited() {
    let (world, channel) = with_channel();
    let asynchronous = world.far.context.verbs().async_fd().unwrap();
    for descriptor in [channel.descriptor().unwrap(), asynchronous] {
        let flags = rustix::io::fcntl_getfd(&descriptor).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn events_can_be_fewer_than_completions_and_a_wait_ends_by_itself() {
    let (near, far) = pair();
    let channel = far.create_comp_channel().unwrap();
    let cq = channel.create_cq(64).unwrap();
    let near = End::new(near, QpType::Rc, 1);
    let far = End::on(far, QpType::Rc, 2, cq);
    connect(&near.qp, &far.qp, &patient());
    let verbs = far.context.verbs();
    for wr_id in 0..6 {
        far.qp.recv(wr_id, far.sge(0, 8)).unwrap();
    }
    let send = |count: u64| {
        for wr_id in 0..count {
            near.qp.send(wr_id, near.sge(0, 8)).unwrap();
            near.success();
        }
    };
    let event = |ms: u64| {
        let patience = Some(Duration::from_millis(ms));
        verbs.get_cq_event(channel.id(), patience).unwrap()
    };
    far.cq.moderate(CqModeration { count: 3, period_us: 0 }).unwrap();
    verbs.req_notify_cq(far.cq.id(), false).unwrap();
    send(2);
    assert_eq!(event(50), None, "two are not three");
    send(1);
    assert_eq!(event(60_000), Some(far.cq.id()));
    // Nobody polls or posts: the engine has to see to it that the event comes.
    far.cq.moderate(CqModeration { count: 100, period_us: 2_000 }).unwrap();
    verbs.req_notify_cq(far.cq.id(), false).unwrap();
    send(1);
    let started = Instant::now();
    assert_eq!(event(60_000), Some(far.cq.id()));
    assert!(started.elapsed() < Duration::from_secs(30));
}
