//! Queue pairs: create, modify, query, destroy.

use alloc::boxed::Box;

use super::Device;
use super::shared::Shared;
use super::xrc::NO_XRCD;
use crate::qp::pace::Pace;
use crate::qp::pair::{Qp, route_of};
use crate::qp::requester::Requester;
use crate::qp::responder::Responder;
use crate::qp::window::Window;
use crate::qp::{Bounds, apply, check_modify, completer, flush};
use crate::queue::{RecvQueue, SendQueue};
use crate::timer::Timer;
use crate::verbs::{
    CqId, QpAttributeMask, QpAttributes, QpCapabilities, QpCreateFlags, QpInit, QpNum, QpState,
    QpType, VerbError,
};
use crate::wire::{Bth, Route};

const NO_QP: VerbError = VerbError::NoSuchObject("qp: no such queue pair");

impl Device {
    /// Makes a queue pair (`ibv_create_qp(3)`). [`Device::query_qp`] tells the sizes granted.
    ///
    /// # Errors
    /// EINVAL: objects that do not exist or sizes above the limits. ENOMEM: there are `max_qp`
    /// already. EOPNOTSUPP: a peculiarity that is not here.
    // [qp-states/created-in-reset]
    pub fn create_qp(&mut self, init: &QpInit) -> Result<QpNum, VerbError> {
        self.judge_init(init)?;
        self.qps.skip_reserved();
        // [qp-attributes/create-limit-count]
        let (index, num) = self.qps.vacancy().ok_or(VerbError::Full("max_qp queue pairs exist"))?;
        let init = granted(init);
        let cap = init.cap;
        if init.qp_type.sends() {
            self.shared.join_pd(init.pd)?;
        }
        self.count_user(&init, 1);
        let attr = QpAttributes { cap, ..QpAttributes::default() };
        let sq = SendQueue::new(cap.max_send_wr, cap.max_send_sge, cap.max_inline_data);
        let has_rq = init.qp_type.receives() && init.srq.is_none();
        let rq = has_rq.then(|| RecvQueue::new(cap.max_recv_wr, cap.max_recv_sge));
        self.qps.insert(Box::new(Qp {
            num,
            index,
            init,
            attr,
            route: Route::default(),
            pkey: Bth::DEFAULT_PKEY,
            rq,
            requester: Requester::new(sq),
            responder: Responder::new(),
            timer: Timer::default(),
            pace_timer: Timer::default(),
            handles: 1,
            listed: false,
        }));
        let count = self.qps.len();
        self.shared.timers.admit(index);
        self.shared.pace_timers.admit(index);
        self.ready.reserve(count.saturating_sub(self.ready.len()));
        Ok(num)
    }

    fn judge_init(&self, init: &QpInit) -> Result<(), VerbError> {
        match (init.qp_type, init.xrcd) {
            (QpType::XrcRecv, Some(xrcd)) => {
                self.shared.xrcds.get(xrcd).ok_or(NO_XRCD)?;
            }
            (QpType::XrcRecv, None) => {
                return Err(VerbError::Invalid("xrcd: an XRC target belongs to an XRC domain"));
            }
            (_, Some(_)) => {
                return Err(VerbError::Invalid("xrcd: only an XRC target belongs to one"));
            }
            (_, None) => {}
        }
        if !QpCreateFlags::all().contains(init.create_flags) {
            return Err(VerbError::NotSupported("create_flags: one that the device does not have"));
        }
        if !init.create_flags.is_empty() && init.qp_type != QpType::Ud {
            return Err(VerbError::Invalid("create_flags: only UD receives from multicast groups"));
        }
        if init.qp_type.sends() {
            self.judge_sender(init)?;
        }
        if init.qp_type.receives() {
            self.judge_receiver(init)?;
        }
        Ok(())
    }

    // [qp-attributes/create-limits] [qp-attributes/create-objects]
    fn judge_sender(&self, init: &QpInit) -> Result<(), VerbError> {
        let (shared, limits, cap) = (&self.shared, &self.shared.attributes, &init.cap);
        if shared.pds.get(init.pd).is_none() {
            return Err(VerbError::NoSuchObject("pd: no such protection domain"));
        }
        if shared.cqs.get(init.send_cq).is_none() {
            return Err(VerbError::NoSuchObject("send_cq: no such completion queue"));
        }
        if cap.max_send_wr > limits.max_qp_wr {
            return Err(VerbError::Invalid("max_send_wr: more than max_qp_wr"));
        }
        if cap.max_send_sge > limits.max_sge {
            return Err(VerbError::Invalid("max_send_sge: more than max_sge"));
        }
        if cap.max_inline_data > limits.max_inline_data {
            return Err(VerbError::Invalid("max_inline_data: more than the device takes"));
        }
        Ok(())
    }

    // [srq/recv-caps-ignored]
    fn judge_receiver(&self, init: &QpInit) -> Result<(), VerbError> {
        let (shared, limits, cap) = (&self.shared, &self.shared.attributes, &init.cap);
        if shared.cqs.get(init.recv_cq).is_none() {
            return Err(VerbError::NoSuchObject("recv_cq: no such completion queue"));
        }
        if let Some(srq) = init.srq {
            const NO_SRQ: VerbError = VerbError::NoSuchObject("srq: no such shared receive queue");
            if shared.srqs.get(srq).ok_or(NO_SRQ)?.xrc.is_some() {
                return Err(VerbError::Invalid("srq: it is for XRC targets only"));
            }
        } else if cap.max_recv_wr > limits.max_qp_wr {
            return Err(VerbError::Invalid("max_recv_wr: more than max_qp_wr"));
        } else if cap.max_recv_sge > limits.max_sge {
            return Err(VerbError::Invalid("max_recv_sge: more than max_sge"));
        }
        Ok(())
    }

    fn count_user(&mut self, init: &QpInit, by: i32) {
        let count = |users: &mut u32| *users = users.wrapping_add_signed(by);
        for cq in completes_in(init) {
            if let Some(cq) = self.shared.cqs.get_mut(cq) {
                count(&mut cq.users);
            }
        }
        if let Some(srq) = init.srq.and_then(|srq| self.shared.srqs.get_mut(srq)) {
            count(&mut srq.users);
        }
        if let Some(xrcd) = init.xrcd {
            self.shared.count_user_of_xrcd(xrcd, by);
        }
    }

    /// Changes a queue pair (`ibv_modify_qp(3)`): all of what is asked, or nothing.
    ///
    /// # Errors
    /// EINVAL: no such queue pair, no such step, attributes missing, not allowed or out of range.
    pub fn modify_qp(
        &mut self,
        qp: QpNum,
        attributes: &QpAttributes,
        mask: QpAttributeMask,
    ) -> Result<(), VerbError> {
        let qp = self.qps.get_mut(qp).ok_or(NO_QP)?;
        let shared = &mut self.shared;
        let bounds = Bounds {
            device: &shared.attributes,
            port: &shared.port_attributes(),
            gids: &shared.port.gids,
        };
        let from = qp.state();
        let to = check_modify(qp.init.qp_type, from, mask, attributes, &bounds)?;
        let route = if mask.contains(QpAttributeMask::AV) {
            route_of(shared, &attributes.path, qp.num)?
        } else {
            qp.route
        };
        apply(mask & !QpAttributeMask::STATE, attributes, &mut qp.attr);
        if mask.contains(QpAttributeMask::RATE_LIMIT) {
            qp.requester.pace = Pace::default();
        }
        qp.route = route;
        if let Some(&pkey) = shared.port.pkeys.get(usize::from(qp.attr.pkey_index)) {
            qp.pkey = pkey;
        }
        enter(qp, shared, from, to, mask);
        let index = qp.index;
        self.mark_ready(index);
        self.fail_overrun();
        Ok(())
    }

    /// What a queue pair is and where it stands (`ibv_query_qp(3)`).
    ///
    /// # Errors
    /// EINVAL: no such queue pair.
    // [qp-states/query-state]
    pub fn query_qp(&self, qp: QpNum) -> Result<(QpAttributes, QpInit), VerbError> {
        let qp = self.qps.get(qp).ok_or(NO_QP)?;
        let attr = QpAttributes {
            current_state: qp.attr.state,
            sq_psn: qp.requester.next_psn,
            rq_psn: qp.responder.expected(),
            ..qp.attr
        };
        Ok((attr, qp.init))
    }

    /// The numbers of all queue pairs, in order of their places.
    pub fn qp_numbers(&self) -> impl Iterator<Item = QpNum> {
        self.qps.iter().map(|qp| qp.num)
    }

    /// Removes a queue pair. Its completions that were not polled are gone. An XRC target that is
    /// open more than once ([`Device::open_qp`]) is closed once and stays.
    ///
    /// # Errors
    /// EINVAL: no such queue pair. EBUSY: it is attached to a multicast group.
    // [qp-states/destroy] [xrc/target-shared]
    pub fn destroy_qp(&mut self, num: QpNum) -> Result<(), VerbError> {
        let qp = self.qps.get_mut(num).ok_or(NO_QP)?;
        if qp.handles > 1 {
            qp.handles -= 1;
            return Ok(());
        }
        // [ud/multicast-destroy-busy]
        if self.shared.groups.iter().any(|group| group.members.contains(&num)) {
            return Err(VerbError::Busy("qp: it is attached to a multicast group"));
        }
        let Some(mut qp) = self.qps.remove(num) else { return Err(NO_QP) };
        if qp.listed {
            self.ready.retain(|&index| index != qp.index);
            self.burst = 0;
        }
        give_back_receives(&mut qp, &mut self.shared);
        purge_completions(&qp, &mut self.shared);
        // [windows-invalidation/type2-qp-destroyed]
        self.shared.protection.unbind_windows_of_qp(num);
        self.count_user(&qp.init, -1);
        if qp.init.qp_type.sends() {
            self.shared.leave_pd(qp.init.pd);
        }
        Ok(())
    }
}

/// The completion queues of a queue pair.
pub(super) fn completes_in(init: &QpInit) -> impl Iterator<Item = CqId> + use<> {
    let sends = init.qp_type.sends().then_some(init.send_cq);
    let receives = init.qp_type.receives().then_some(init.recv_cq);
    [sends, receives].into_iter().flatten()
}

/// What is granted of what was asked: what the type does not have is not there.
fn granted(init: &QpInit) -> QpInit {
    let QpInit { qp_type, mut cap, .. } = *init;
    let srq = init.srq.filter(|_| qp_type.receives());
    if srq.is_some() || !qp_type.receives() {
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    }
    if !qp_type.sends() {
        cap = QpCapabilities::default();
    }
    QpInit { srq, cap, ..*init }
}

/// What a step of state brings with it.
fn enter(qp: &mut Qp, shared: &mut Shared, from: QpState, to: QpState, mask: QpAttributeMask) {
    match (from, to) {
        (_, QpState::Reset) => reset(qp, shared),
        (_, QpState::Err) => flush::to_error(qp, shared),
        // [connection-setup/psn-cross]
        (QpState::Init, QpState::Rtr) => {
            qp.responder.start(qp.attr.rq_psn, qp.attr.max_dest_rd_atomic);
        }
        (QpState::Rtr, QpState::Rts) => {
            qp.requester.start(qp.attr.sq_psn);
            qp.requester.window = Window::new(shared.window_bytes, qp.attr.path_mtu);
        }
        // [qp-attributes/depth-while-open]
        _ if mask.contains(QpAttributeMask::MAX_DEST_RD_ATOMIC) => {
            qp.responder.set_depth(qp.attr.max_dest_rd_atomic);
        }
        _ => {}
    }
    if from == QpState::Sqd && to != QpState::Sqd {
        qp.attr.sq_drained_event = false;
    }
    if !matches!(to, QpState::Reset | QpState::Err) {
        // [qp-states/sqe-to-rts] [qp-states/sqd-resumes]
        qp.attr.state = to;
        qp.requester.retries_left = qp.attr.retry_count;
        qp.requester.rnr_retries_left = qp.attr.rnr_retry;
    }
    if to == QpState::Sqd {
        completer::settle(qp, shared);
    }
}

/// Back to the state after creation: queues empty, completions forgotten.
// [qp-states/to-reset-forgets] [connection-setup/reconnect]
fn reset(qp: &mut Qp, shared: &mut Shared) {
    shared.timers.set(&mut qp.timer, qp.index, None);
    qp.requester.reset();
    give_back_receives(qp, shared);
    if let Some(rq) = &mut qp.rq {
        while let Some(slot) = rq.take() {
            rq.release(slot);
        }
    }
    qp.responder = Responder::new();
    purge_completions(qp, shared);
    // [qp-states/reset-attributes]
    let cap = qp.attr.cap;
    qp.attr = QpAttributes { cap, ..QpAttributes::default() };
    qp.route = Route::default();
}

/// A receive request that was being filled goes back to its queue's free records.
fn give_back_receives(qp: &mut Qp, shared: &mut Shared) {
    if let Some(slot) = qp.responder.abandon() {
        qp.release_recv(shared, slot);
    }
}

fn purge_completions(qp: &Qp, shared: &mut Shared) {
    for cq in completes_in(&qp.init) {
        if let Some(cq) = shared.cqs.get_mut(cq) {
            cq.purge(qp.num);
        }
    }
}
