//! Posting work, and polling for its completion.

use super::Device;
use crate::counters::Counter;
use crate::qp::flush;
use crate::queue::Slot;
use crate::verbs::{
    CqId, QpNum, QpState, RecvWr, SendOp, SendWr, SrqId, VerbError, Wc, check_recv, check_send,
};

const NO_QP: VerbError = VerbError::NoSuchObject("qp: no such queue pair");

impl Device {
    /// Posts a send request (`ibv_post_send(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue pair, a state that takes none, or a request that is wrong in itself.
    /// ENOMEM: the queue is full; poll completions first.
    pub fn post_send(&mut self, qp: QpNum, wr: &SendWr<'_>) -> Result<(), VerbError> {
        let qp = self.qps.get_mut(qp).ok_or(NO_QP)?;
        let length = check_send(qp.init.qp_type, qp.state(), &qp.attr.cap, wr)?;
        if self.shared.profile.unaligned_atomic_refused_at_post
            && let SendOp::CompareSwap { remote_addr, .. } | SendOp::FetchAdd { remote_addr, .. } =
                wr.op
            && !remote_addr.is_multiple_of(8)
        {
            return Err(VerbError::Invalid("remote_addr: an atomic's is a multiple of 8"));
        }
        if let SendOp::SendTo { .. } = wr.op
            && length > self.shared.port.mtu.bytes()
        {
            return Err(VerbError::Invalid("sges: a datagram is not longer than the port's MTU"));
        }
        if !qp.requester.sq.post(wr, length) {
            return Err(VerbError::Full("the send queue is full; poll completions first"));
        }
        match qp.state() {
            QpState::Err | QpState::Sqe => flush::send_queue(qp, &mut self.shared),
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Rts | QpState::Sqd => {
                self.shared.counters.add(Counter::RdmaSends);
            }
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
    pub fn post_recv(&mut self, qp: QpNum, wr: &RecvWr<'_>) -> Result<(), VerbError> {
        let qp = self.qps.get_mut(qp).ok_or(NO_QP)?;
        check_recv(qp.state(), qp.attr.cap.max_recv_sge, wr)?;
        let rq = qp.rq.as_mut().ok_or(VerbError::Invalid(
            "qp: it takes receives from its shared receive queue",
        ))?;
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
        check_recv(QpState::Rts, srq.sge_max, wr)?;
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
        let queue = self
            .shared
            .cqs
            .get_mut(cq)
            .ok_or(VerbError::NoSuchObject("cq: no such completion queue"))?;
        let mut taken = 0;
        for place in out {
            let Some(entry) = queue.pop() else { break };
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
