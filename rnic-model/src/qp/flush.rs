//! The ways into error: what is posted is flushed, in order.

use crate::counters::Counter;
use crate::device::Shared;
use crate::queue::{CqEntry, Slot};
use crate::verbs::{AsyncEvent, Key, QpNum, QpState, Wc, WcFlags, WcOpcode, WcStatus};

use super::completer;
use super::failure::Failure;
use super::pair::{Qp, Taken};

const FLUSHED: Failure = Failure::Status(WcStatus::WorkRequestFlushed);

/// Moves to the error state: every request that has not completed does so as flushed, the receive
/// that is being filled first (IBA 10.3.1, "Error state").
// [qp-states/err-flushes] [completions/flush-both-queues]
pub(crate) fn to_error(qp: &mut Qp, shared: &mut Shared) {
    if qp.state() == QpState::Err {
        return;
    }
    qp.attr.state = QpState::Err;
    shared.timers.set(&mut qp.timer, qp.index, None);
    qp.requester.failed = None;
    send_queue(qp, shared);
    // [completions/flush-partial-receive]
    if let Some(taken) = qp.responder.abandon() {
        fail_recv(qp, shared, taken, FLUSHED);
    }
    recv_queue(qp, shared);
    // [srq/last-wqe-event] [events/last-wqe]
    if qp.init.srq.is_some() {
        shared.raise(AsyncEvent::LastWqeReached(qp.num));
    }
}

/// A send request of an unreliable service failed: sending stops, receiving goes on.
// [uc/local-error-sqe] [ud/local-error-sqe] [qp-states/sqe-receives]
pub(crate) fn to_send_error(qp: &mut Qp, shared: &mut Shared) {
    qp.attr.state = QpState::Sqe;
    send_queue(qp, shared);
}

/// Flushes every send request that has not completed.
pub(crate) fn send_queue(qp: &mut Qp, shared: &mut Shared) {
    let tail = qp.requester.sq.tail();
    while qp.requester.oldest != tail {
        let count = qp.requester.oldest;
        qp.requester.oldest = count.wrapping_add(1);
        completer::report(qp, shared, count, Some(FLUSHED));
    }
    qp.requester.next = tail;
    qp.requester.fresh = tail;
    qp.requester.next_done = 0;
    qp.requester.reads.clear();
}

/// Flushes every receive request of the queue pair's own queue; a shared one keeps its own.
pub(crate) fn recv_queue(qp: &mut Qp, shared: &mut Shared) {
    // [srq/qp-error-keeps]
    if qp.init.srq.is_some() {
        return;
    }
    while let Some(taken) = qp.take_recv(shared, None) {
        fail_recv(qp, shared, taken, FLUSHED);
    }
}

/// Reports a receive request that failed, and frees its record.
pub(crate) fn fail_recv(qp: &mut Qp, shared: &mut Shared, taken: Taken, why: Failure) {
    let mut wc = Wc {
        wr_id: qp.recv_wqe(shared, taken).wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        flags: WcFlags::empty(),
        vendor_err: 0,
        byte_len: 0,
        imm_data: 0,
        invalidated_rkey: Key(0),
        qp_num: qp.num,
        src_qp: QpNum::new(0),
        pkey_index: 0,
        timestamp: 0,
        sl: 0,
    };
    why.mark(&mut wc, &shared.profile);
    shared.count(Counter::ResponderCqeError);
    if wc.status == WcStatus::WorkRequestFlushed {
        shared.count(Counter::ResponderCqeFlush);
    }
    let cq = qp.recv_cq(shared, taken);
    qp.release_recv(shared, taken);
    shared.complete(cq, CqEntry { wc, slot: Slot::Receive }, true);
}
