//! Posting work, and polling for its completion.

use super::Device;
use crate::qp::{check_atomic_alignment, check_recv, check_send, check_srq_recv, flush};
use crate::queue::Slot;
use crate::verbs::{CqId, QpNum, QpState, RecvWr, SendWr, SrqId, VerbError, Wc};

const NO_QP: VerbError = VerbError::NoSuchObject("qp: no such queue pair");

impl Device {
    /// Posts a send request (`ibv_post_send(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue pair, a state that takes none, or a request that is wrong in itself.
    /// ENOMEM: the queue is full; poll completions first.
    pub fn post_send(&mut self, qp: QpNum, wr: &SendWr<'_>) -> Result<(), VerbError> {
        let qp = self.qps.get_mut(qp).ok_or(NO_QP)?;
        let mtu = self.shared.port.mtu;
        let length = check_send(qp.init.qp_type, qp.state(), &qp.attr.cap, mtu, wr)?;
        if self.shared.profile.unaligned_atomic_refused_at_post {
            check_atomic_alignment(&wr.op)?;
        }
        if !qp.requester.sq.post(wr, length) {
            return Err(VerbError::Full("the send queue is full; poll completions first"));
        }
        // [qp-states/err-post-flushed]
        if matches!(qp.state(), QpState::Err | QpState::Sqe) {
            flush::send_queue(qp, &mut self.shared);
        }
        if !qp.listed {
            qp.listed = true;
            self.ready.push_back(qp.index);
        }
        self.fail_overrun();
        Ok(())
    }

    /// Posts a receive request (`ibv_post_recv(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue pair, one with a shared receive queue, the reset state, or too many
    /// elements. ENOMEM: the queue is full.
    // [qp-states/init-receives-wait]
    pub fn post_recv(&mut self, qp: QpNum, wr: &RecvWr<'_>) -> Result<(), VerbError> {
        let qp = self.qps.get_mut(qp).ok_or(NO_QP)?;
        check_recv(qp.init.qp_type, qp.state(), qp.init.srq, &qp.attr.cap, wr)?;
        let rq = qp.rq.as_mut().ok_or(NO_QP)?;
        if !rq.post(wr) {
            return Err(VerbError::Full("the receive queue is full"));
        }
        if qp.state() == QpState::Err {
            flush::recv_queue(qp, &mut self.shared);
            self.fail_overrun();
        }
        Ok(())
    }

    /// Posts a receive request to a shared receive queue (`ibv_post_srq_recv(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue, or too many elements. ENOMEM: the queue is full.
    pub fn post_srq_recv(&mut self, srq: SrqId, wr: &RecvWr<'_>) -> Result<(), VerbError> {
        let srq = self
            .shared
            .srqs
            .get_mut(srq)
            .ok_or(VerbError::NoSuchObject("srq: no such shared receive queue"))?;
        check_srq_recv(&srq.attributes(), wr)?;
        // [srq/full]
        if srq.queue.post(wr) {
            Ok(())
        } else {
            Err(VerbError::Full("the shared receive queue is full"))
        }
    }

    /// Takes completions (`ibv_poll_cq(3)`), at most as many as `out` holds, and returns how many.
    ///
    /// # Errors
    /// EINVAL: no such queue.
    pub fn poll_cq(&mut self, cq: CqId, out: &mut [Wc]) -> Result<usize, VerbError> {
        let order = self.shared.profile.completions;
        let queue = self
            .shared
            .cqs
            .get_mut(cq)
            .ok_or(VerbError::NoSuchObject("cq: no such completion queue"))?;
        let mut taken = 0;
        for place in out {
            let Some(entry) = queue.take_next(order) else { break };
            if let Slot::Send(count) = entry.slot
                && let Some(qp) = self.qps.get_mut(entry.wc.qp_num)
            {
                qp.requester.sq.free_through(count);
            }
            *place = entry.wc;
            taken += 1;
        }
        Ok(taken)
    }
}
