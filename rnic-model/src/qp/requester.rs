//! The requester: turns posted send requests into request packets, in order, under a window.

use crate::Instant;
use crate::device::{FrameOut, Origin, Payload, Shared};
use crate::profile::ReadWithoutDepth;
use crate::queue::{SendQueue, SendWqe};
use crate::verbs::{Key, Psn, QpState, QpType, SendFlags, SendOp, WcStatus};
use crate::wire::{AtomicEth, Deth, Feth, Ieth, ImmDt, Operation, Place, Reth, Service};

use super::completer;
use super::credits::Credits;
use super::failure::Failure;
use super::headers::{self, Kind, bth, place};
use super::local;
use super::pace::Pace;
use super::pair::{Qp, route_of};
use super::window::{Reads, Window};

/// Why a queue pair does not send although it has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It does not pause.
    No,
    /// The peer had no receive posted; nothing leaves before this instant.
    Rnr { until: Instant },
}

/// A send request that cannot be carried out. It completes when those before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) wqe: u32,
    pub(crate) why: Failure,
}

/// State of the sending half. Requests are named by their count in the send queue:
/// `oldest <= next <= fresh <= sq.tail()`.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) sq: SendQueue,
    /// The oldest request that has not completed.
    pub(crate) oldest: u32,
    /// The request that is being sent.
    pub(crate) next: u32,
    /// Sequence numbers of `next` that have been used already.
    pub(crate) next_done: u32,
    /// The first request that has never been started.
    pub(crate) fresh: u32,
    /// Sequence number of the next packet to leave.
    pub(crate) next_psn: Psn,
    /// The oldest sequence number that is not acknowledged.
    pub(crate) una_psn: Psn,
    /// The sequence number after the highest that ever left.
    pub(crate) end_psn: Psn,
    pub(crate) reads: Reads,
    pub(crate) window: Window,
    pub(crate) pace: Pace,
    pub(crate) credits: Credits,
    pub(crate) pause: Pause,
    pub(crate) failed: Option<Failed>,
    /// When sending last went back without any progress since; answers to what left before that
    /// look like new losses for a while.
    pub(crate) went_back: Option<Instant>,
    pub(crate) retries_left: u8,
    pub(crate) rnr_retries_left: u8,
}

impl Requester {
    pub(crate) fn new(sq: SendQueue) -> Self {
        Self {
            sq,
            oldest: 0,
            next: 0,
            next_done: 0,
            fresh: 0,
            next_psn: Psn::new(0),
            una_psn: Psn::new(0),
            end_psn: Psn::new(0),
            reads: Reads::default(),
            window: Window::default(),
            pace: Pace::default(),
            credits: Credits::default(),
            pause: Pause::No,
            failed: None,
            went_back: None,
            retries_left: 0,
            rnr_retries_left: 0,
        }
    }

    /// Forgets all requests (a reset).
    pub(crate) fn reset(&mut self) {
        self.sq.clear();
        let tail = self.sq.tail();
        (self.oldest, self.next, self.fresh) = (tail, tail, tail);
        self.next_done = 0;
        self.reads = Reads::default();
        self.pause = Pause::No;
        self.pace = Pace::default();
        self.failed = None;
        self.went_back = None;
    }

    /// Sets the first sequence number (the move to RTS).
    // [rc-requester/first-psn] [attacks/psn-prediction]
    pub(crate) fn start(&mut self, psn: Psn) {
        (self.next_psn, self.una_psn, self.end_psn) = (psn, psn, psn);
        self.credits = Credits::default();
    }

    /// Packets under way.
    pub(crate) fn in_flight(&self) -> u32 {
        self.next_psn.offset_from(self.una_psn)
    }

    /// Whether requests were started and have not completed.
    pub(crate) fn is_busy(&self) -> bool {
        self.oldest != self.fresh
    }

    /// Resumes at the oldest sequence number that is not acknowledged. A request packet is made
    /// again from its work request; a READ asks only for what is missing.
    // [acknowledgement-retry/resend-same-psn]
    pub(crate) fn go_back(&mut self) {
        self.next = self.oldest;
        self.next_psn = self.una_psn;
        self.reads.clear();
        self.settle_next();
    }

    /// Makes `next` and `next_done` agree with `next_psn`, which has been moved.
    pub(crate) fn settle_next(&mut self) {
        while self.next != self.fresh {
            let wqe = self.sq.wqe(self.next);
            let done = self.next_psn.offset_from(wqe.first_psn);
            if done < wqe.packets {
                self.next_done = done;
                return;
            }
            self.next = self.next.wrapping_add(1);
        }
        self.next_done = 0;
    }
}

/// What a request needs before it may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It may leave.
    Ready,
    /// It was carried out at once (a bind or an invalidate).
    Done,
    /// It has to wait for others.
    Waits,
    /// It cannot be carried out.
    Fails(Failure),
}

/// Makes the next request packet, if one may leave now.
// [rc-requester/order]
pub(crate) fn next_frame(qp: &mut Qp, shared: &mut Shared, frame: &mut FrameOut) -> bool {
    loop {
        if !may_send(qp) || !is_in_pace(qp, shared) {
            return false;
        }
        let count = qp.requester.next;
        if count == qp.requester.fresh {
            match start(qp, shared, count) {
                Start::Ready => {}
                Start::Done => continue,
                Start::Waits => return false,
                // [rc-requester/local-error-in-turn]
                Start::Fails(why) => {
                    qp.requester.failed = Some(Failed { wqe: count, why });
                    completer::settle(qp, shared);
                    continue;
                }
            }
        }
        return match qp.init.qp_type {
            QpType::Ud => datagram(qp, shared, count, frame),
            QpType::Rc | QpType::Uc | QpType::XrcSend => connected(qp, count, frame),
            // It has no send queue.
            QpType::XrcRecv => false,
        };
    }
}

/// Whether the rate limit lets a packet leave now; if not, its time will come.
fn is_in_pace(qp: &mut Qp, shared: &mut Shared) -> bool {
    let free_at = qp.requester.pace.free_at();
    if qp.attr.rate_limit == 0 || free_at <= shared.now {
        return true;
    }
    shared.pace_timers.set(&mut qp.pace_timer, qp.index, Some(free_at));
    false
}

// [qp-states/rts-both] [qp-states/sqd-drains]
fn may_send(qp: &Qp) -> bool {
    let requester = &qp.requester;
    let sends = match qp.state() {
        QpState::Rts => requester.next != requester.sq.tail(),
        // A drained queue finishes what it has started.
        QpState::Sqd => requester.next != requester.fresh,
        QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe | QpState::Err => false,
    };
    sends
        && requester.pause == Pause::No
        && requester.failed.is_none_or(|failed| failed.wqe != requester.next)
}

/// Starts the request with this count: checks its memory, gives it sequence numbers.
fn start(qp: &mut Qp, shared: &mut Shared, count: u32) -> Start {
    let wqe = *qp.requester.sq.wqe(count);
    // [rc-requester/fence] [windows-invalidation/invalidate-waits-reads]
    if wqe.flags.contains(SendFlags::FENCE) && !qp.requester.reads.is_empty() {
        return Start::Waits;
    }
    let packets = match wqe.op {
        SendOp::BindMw { .. } | SendOp::LocalInvalidate { .. } => {
            // They wait for READs before them, which may still use the key at the peer's side.
            // [windows-invalidation/bind-order] [windows-invalidation/bind-completion]
            // [windows-invalidation/local-invalidate]
            return match local::execute(qp, shared, &wqe) {
                Ok(()) => {
                    assign(qp, count, 0);
                    qp.requester.next = qp.requester.fresh;
                    completer::settle(qp, shared);
                    Start::Done
                }
                Err(why) => Start::Fails(why),
            };
        }
        // [rc-requester/read-depth-zero]
        op if op.has_own_answer() && qp.attr.max_rd_atomic == 0 => {
            return match shared.profile.read_without_depth {
                ReadWithoutDepth::Waits => Start::Waits,
                ReadWithoutDepth::Fails(status) => Start::Fails(status.into()),
            };
        }
        SendOp::SendTo { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. } => 1,
        SendOp::Send { .. } | SendOp::Write { .. } | SendOp::Read { .. } => {
            // [rc-requester/read-takes-responses] [rc-requester/zero-length]
            wqe.length.div_ceil(qp.attr.path_mtu.bytes()).max(1)
        }
    };
    let takes_receive = matches!(wqe.op, SendOp::Send { .. } | SendOp::Write { imm: Some(_), .. });
    if !has_room(qp, &wqe, 0, packets)
        || takes_receive && !qp.requester.credits.admits(qp.requester.in_flight() == 0)
    {
        return Start::Waits;
    }
    // All of it is judged before the first packet leaves, and each piece once more as it is copied.
    // [rc-requester/local-keys-at-send]
    if let Err(why) = local::check_message(qp, shared, count, &wqe) {
        return Start::Fails(why);
    }
    let is_read = matches!(wqe.op, SendOp::Read { .. });
    let messages = if is_read { qp.requester.window.read_parts(packets) } else { 1 };
    qp.requester.credits.started(messages);
    assign(qp, count, packets);
    Start::Ready
}

/// Whether window and read depth let a request's next packet leave; `done` of its `packets` have.
// [rc-requester/read-depth] [flush-placement/count-as-reads]
fn has_room(qp: &Qp, wqe: &SendWqe, done: u32, packets: u32) -> bool {
    let requester = &qp.requester;
    let (psns, is_read) = match wqe.op {
        SendOp::Read { .. } => (requester.window.read_packets(done, packets), true),
        SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. } => (1, true),
        SendOp::Send { .. }
        | SendOp::SendTo { .. }
        | SendOp::Write { .. }
        | SendOp::BindMw { .. }
        | SendOp::LocalInvalidate { .. } => (1, false),
    };
    !qp.init.qp_type.is_reliable()
        || requester.window.admits(requester.in_flight(), psns)
            && !(is_read && requester.reads.len() >= usize::from(qp.attr.max_rd_atomic))
}

fn assign(qp: &mut Qp, count: u32, packets: u32) {
    let first_psn = qp.requester.next_psn;
    let wqe = qp.requester.sq.wqe_mut(count);
    wqe.first_psn = first_psn;
    wqe.packets = packets;
    qp.requester.fresh = count.wrapping_add(1);
    qp.requester.next_done = 0;
}

/// A request packet of a connected service.
fn connected(qp: &Qp, count: u32, frame: &mut FrameOut) -> bool {
    let wqe = qp.requester.sq.wqe(count);
    if !has_room(qp, wqe, qp.requester.next_done, wqe.packets) {
        return false;
    }
    match wqe.op {
        SendOp::Send { .. } | SendOp::Write { .. } => message_packet(qp, count, wqe, frame),
        SendOp::Read { remote_addr, rkey } => read_request(qp, wqe, remote_addr, rkey, frame),
        SendOp::CompareSwap { remote_addr, rkey, compare, swap } => {
            let eth = AtomicEth::new(remote_addr, rkey, swap, compare);
            single_request(qp, wqe, Operation::CompareSwap, 1, true, frame);
            frame.header.push(&eth);
        }
        SendOp::FetchAdd { remote_addr, rkey, add } => {
            let eth = AtomicEth::new(remote_addr, rkey, add, 0);
            single_request(qp, wqe, Operation::FetchAdd, 1, true, frame);
            frame.header.push(&eth);
        }
        // [flush-placement/atomic-write-format]
        SendOp::AtomicWrite { remote_addr, rkey } => {
            single_request(qp, wqe, Operation::AtomicWrite, 1, true, frame);
            frame.header.push(&Reth::new(remote_addr, rkey, wqe.length));
            frame.payload = Payload::Message { wqe: count, offset: 0 };
            frame.payload_len = wqe.length;
        }
        // [flush-placement/flush-format]
        SendOp::Flush { remote_addr, rkey, length, placement, selectivity } => {
            single_request(qp, wqe, Operation::Flush, 1, true, frame);
            frame.header.push(&Feth::new(placement.bits(), selectivity as u8));
            frame.header.push(&Reth::new(remote_addr, rkey, length));
        }
        // Neither ever starts here: they are refused at post, or done when they start.
        SendOp::SendTo { .. } | SendOp::BindMw { .. } | SendOp::LocalInvalidate { .. } => {
            return false;
        }
    }
    true
}

/// One packet of a SEND or WRITE.
// [rc-requester/one-message-at-a-time]
fn message_packet(qp: &Qp, count: u32, wqe: &SendWqe, frame: &mut FrameOut) {
    let service = qp.service();
    let mtu = qp.attr.path_mtu;
    let done = qp.requester.next_done;
    let offset = done << mtu.shift();
    // [rc-requester/segmentation]
    let payload_len = (wqe.length - offset).min(mtu.bytes());
    let (begins, ends) = (done == 0, done + 1 == wqe.packets);
    let (operation, imm, invalidate) = match wqe.op {
        SendOp::Send { imm, invalidate } => (Operation::Send, imm, invalidate),
        SendOp::Write { imm, .. } => (Operation::Write, imm, None),
        SendOp::SendTo { .. }
        | SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. }
        | SendOp::BindMw { .. }
        | SendOp::LocalInvalidate { .. } => (Operation::Send, None, None),
    };
    // [rc-requester/immediate-last] [rc-requester/invalidate-last]
    let (imm, invalidate) = (imm.filter(|_| ends), invalidate.filter(|_| ends));
    let kind = Kind::new(service, operation, place(begins, ends))
        .with(imm.is_some(), invalidate.is_some());
    // [rc-requester/ack-req-at-end] [packet-format/ack-req-reliable-only] [uc/no-ack-req]
    let ack_req = qp.init.qp_type.is_reliable()
        && (ends
            || qp.requester.window.wants_ack()
            || Pace::is_slow(mtu.bytes(), qp.attr.rate_limit));
    // [rc-requester/solicited-last]
    let bth = bth(qp, kind, qp.attr.dest_qp, qp.requester.next_psn, payload_len)
        .with_ack_req(ack_req)
        .with_solicited(ends && wqe.flags.contains(SendFlags::SOLICITED));
    let origin = Origin::Request { psns: 1, ends_request: ends };
    headers::request(qp, wqe, origin, &bth, frame);
    // [rc-requester/reth-once]
    if let (SendOp::Write { remote_addr, rkey, .. }, true) = (wqe.op, begins) {
        frame.header.push(&Reth::new(remote_addr, rkey, wqe.length));
    }
    if let Some(imm) = imm {
        frame.header.push(&ImmDt::new(imm));
    }
    if let Some(key) = invalidate {
        frame.header.push(&Ieth::new(key));
    }
    frame.payload = Payload::Message { wqe: count, offset };
    frame.payload_len = payload_len;
}

/// A READ request for what is missing of the message, or of the part that is due: a long READ is
/// asked for in parts, so that its responses never overrun the receive buffer.
// [read-atomic/read-resumes]
fn read_request(qp: &Qp, wqe: &SendWqe, remote_addr: u64, rkey: Key, frame: &mut FrameOut) {
    let requester = &qp.requester;
    let missing = wqe.packets - requester.next_done;
    let psns = requester.window.read_packets(requester.next_done, wqe.packets);
    let mtu = qp.attr.path_mtu;
    let offset = requester.next_done << mtu.shift();
    let left = wqe.length - offset;
    let len = if psns == missing { left } else { psns << mtu.shift() };
    single_request(qp, wqe, Operation::ReadRequest, psns, psns == missing, frame);
    frame.header.push(&Reth::new(remote_addr.wrapping_add(u64::from(offset)), rkey, len));
}

/// The headers that a request of one packet begins with.
/// The headers that a request of one packet begins with; a payload that it has is of whole words.
fn single_request(
    qp: &Qp,
    wqe: &SendWqe,
    operation: Operation,
    psns: u32,
    ends_request: bool,
    frame: &mut FrameOut,
) {
    let kind = Kind::new(qp.service(), operation, Place::Only);
    let bth = bth(qp, kind, qp.attr.dest_qp, qp.requester.next_psn, 0).with_ack_req(true);
    headers::request(qp, wqe, Origin::Request { psns, ends_request }, &bth, frame);
}

/// Bit 31 of a work request's Q_Key asks for the queue pair's own (IBA 10.2.5).
// [ud/qkey-own] [attacks/qkey-privileged]
const OWN_QKEY: u32 = 1 << 31;

/// A datagram. When its address handle is gone the request fails.
fn datagram(qp: &mut Qp, shared: &mut Shared, count: u32, frame: &mut FrameOut) -> bool {
    let &SendWqe { op, length, flags, .. } = qp.requester.sq.wqe(count);
    let SendOp::SendTo { ah, remote_qpn, remote_qkey, imm } = op else { return false };
    // [ud/ah-by-handle] [ud/ah-pd]
    let path = shared.ahs.get(ah).filter(|ah| ah.pd == qp.init.pd).map(|ah| ah.path);
    let Some(route) = path.and_then(|path| route_of(shared, &path, qp.num).ok()) else {
        qp.requester.failed =
            Some(Failed { wqe: count, why: WcStatus::LocalQpOperationError.into() });
        completer::settle(qp, shared);
        return false;
    };
    let kind = Kind::new(Service::Ud, Operation::Send, Place::Only).with(imm.is_some(), false);
    let psn = qp.requester.next_psn;
    let bth =
        bth(qp, kind, remote_qpn, psn, length).with_solicited(flags.contains(SendFlags::SOLICITED));
    let qkey = if remote_qkey & OWN_QKEY == 0 { remote_qkey } else { qp.attr.qkey };
    frame.begin(qp, Origin::Request { psns: 1, ends_request: true }, psn, &bth);
    frame.route = route;
    // [ud/deth]
    frame.header.push(&Deth::new(qkey, qp.num));
    if let Some(imm) = imm {
        frame.header.push(&ImmDt::new(imm));
    }
    frame.payload = Payload::Message { wqe: count, offset: 0 };
    frame.payload_len = length;
    true
}

/// Whether this is still the next packet to leave.
pub(crate) fn is_due(qp: &Qp, frame: &FrameOut) -> bool {
    may_send(qp) && frame.psn == qp.requester.next_psn
}

/// Bytes around a packet that count for a rate limit: ICRC, UDP and IPv4 header.
const FRAMING: usize = 32;

/// The packet has left: moves on, and completes what needs no answer.
pub(crate) fn sent(
    qp: &mut Qp,
    shared: &mut Shared,
    now: Instant,
    bytes: usize,
    (psns, ends_request): (u32, bool),
) {
    if qp.attr.rate_limit != 0 {
        qp.requester.pace.sent(now, bytes + FRAMING, qp.attr.rate_limit);
    }
    let requester = &mut qp.requester;
    let is_read = requester.sq.wqe(requester.next).op.has_own_answer();
    requester.next_psn = requester.next_psn.plus(psns);
    if requester.next_psn.distance_from(requester.end_psn) > 0 {
        requester.end_psn = requester.next_psn;
    }
    if is_read {
        requester.reads.push(requester.next_psn);
    }
    requester.window.sent(ends_request);
    if ends_request {
        requester.next = requester.next.wrapping_add(1);
        // When sending again, binds and invalidates in between are done already.
        requester.settle_next();
    } else {
        requester.next_done += psns;
    }
    if qp.init.qp_type.is_reliable() {
        completer::start_timer(qp, shared, now);
    } else {
        // [uc/completes-when-sent] [ud/completes-when-sent]
        qp.requester.una_psn = qp.requester.next_psn;
        completer::settle(qp, shared);
    }
}

/// The payload could not be read: the request fails in its turn.
pub(crate) fn not_sent(qp: &mut Qp, shared: &mut Shared, why: Failure) {
    qp.requester.failed = Some(Failed { wqe: qp.requester.next, why });
    completer::settle(qp, shared);
}
