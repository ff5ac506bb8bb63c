//! Asking, answering, and what follows until the end (`rdma_connect(3)`, `rdma_accept(3)`, …).

use core::ffi::c_int;

use softrnic_model::cm::RejectReason;
use softrnic_model::verbs::{QpAttributeMask, QpAttributes, QpState, QpType};

use super::super::convert::qp_attributes;
use super::super::layout::{Zeroed, ibv_ece, ibv_qp_attr, rdma_conn_param};
use super::ids::Id;
use super::{HardwareManager, done};
use crate::cm::{Cm, CmError, CmId, CmPhase, ConnParam, Ece};
use crate::device::PORT;

/// The Q_Key that the kernel gives to datagram services (`RDMA_UDP_QKEY`).
const UDP_QKEY: u32 = 0x0123_4567;

/// Bytes of private data that fit: with a request, with the answer yes, with the answer no; of connections
/// and of datagrams.
const REQUEST: [usize; 2] = [56, 180];
const YES: [usize; 2] = [196, 136];
const NO: [usize; 2] = [148, 136];

/// # Errors
/// `EINVAL`: too much private data.
fn judge_private_data(id: &Id, data: &[u8], most: [usize; 2]) -> Cm<()> {
    let most = most[usize::from(id.space.is_datagram())];
    if data.len() <= most {
        return Ok(());
    }
    Err(CmError::invalid(format!("more than {most} bytes of private data")))
}

/// # Errors
/// `EOPNOTSUPP`: the kernel does not connect such queue pairs.
fn judge_type(id: &Id, qp_type: QpType) -> Cm<()> {
    // Of a datagram service the type is not said anywhere.
    if id.space.is_datagram() || qp_type == QpType::Rc {
        return Ok(());
    }
    Err(CmError::not_supported("the kernel's connection manager connects RC queue pairs only"))
}

/// As C has it. It is only read, and no longer than the private data is there.
fn as_c(param: &ConnParam) -> Cm<rdma_conn_param> {
    let len = u8::try_from(param.private_data.len());
    Ok(rdma_conn_param {
        private_data: param.private_data.as_ptr().cast(),
        private_data_len: len.map_err(|_| CmError::invalid("too much private data"))?,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control.into(),
        retry_count: param.retry_count.min(7),
        rnr_retry_count: param.rnr_retry_count.min(7),
        srq: param.srq.into(),
        qp_num: param.qp_num.get(),
    })
}

impl HardwareManager {
    /// What the vendor's library wants to tell its like.
    fn say_ece(&self, id: &Id, ece: Ece) -> Cm<()> {
        if ece == Ece::default() {
            return Ok(());
        }
        let set = self.library.rdma_set_local_ece;
        let set =
            set.ok_or_else(|| CmError::not_supported("the library has no rdma_set_local_ece"))?;
        let mut ece = ibv_ece { vendor_id: ece.vendor_id, options: ece.options, comp_mask: 0 };
        // SAFETY: the identifier is there, and the place is ours.
        done(unsafe { set(id.ptr(), &raw mut ece) }, "rdma_set_local_ece")
    }

    pub(super) fn ask_peer(&self, id: CmId, param: &ConnParam) -> Cm<()> {
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        known.require(&[CmPhase::RouteResolved])?;
        judge_type(known, param.qp_type)?;
        judge_private_data(known, &param.private_data, REQUEST)?;
        self.say_ece(known, param.ece)?;
        let mut said = as_c(param)?;
        // SAFETY: the identifier is there, and what it is told is ours.
        let returned = unsafe { (self.library.rdma_connect)(known.ptr(), &raw mut said) };
        done(returned, "rdma_connect")?;
        known.phase = CmPhase::Connecting;
        Ok(())
    }

    pub(super) fn say_yes(&self, id: CmId, param: &ConnParam) -> Cm<()> {
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        known.require(&[CmPhase::Requested])?;
        judge_type(known, param.qp_type)?;
        judge_private_data(known, &param.private_data, YES)?;
        let datagram = known.space.is_datagram();
        if datagram && ![0, UDP_QKEY].contains(&param.qkey) {
            return Err(CmError::not_supported("the kernel gives datagram services their Q_Key"));
        }
        self.say_ece(known, param.ece)?;
        let mut said = as_c(param)?;
        // SAFETY: as above.
        let returned = unsafe { (self.library.rdma_accept)(known.ptr(), &raw mut said) };
        done(returned, "rdma_accept")?;
        known.phase = if datagram { CmPhase::Established } else { CmPhase::Accepting };
        Ok(())
    }

    pub(super) fn say_ready(&self, id: CmId) -> Cm<()> {
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        known.require(&[CmPhase::Responded])?;
        // SAFETY: the identifier is there.
        done(unsafe { (self.library.rdma_establish)(known.ptr()) }, "rdma_establish")?;
        known.phase = CmPhase::Established;
        Ok(())
    }

    pub(super) fn say_no(&self, id: CmId, reason: RejectReason, private_data: &[u8]) -> Cm<()> {
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        judge_private_data(known, private_data, NO)?;
        let reject = match reason {
            RejectReason::CONSUMER_DEFINED => Some(self.library.rdma_reject),
            RejectReason::VENDOR_OPTION_NOT_SUPPORTED => self.library.rdma_reject_ece,
            _ => None,
        };
        let reject = reject.ok_or_else(|| {
            CmError::not_supported(format!("the kernel does not let programs say: {reason}"))
        })?;
        let len = u8::try_from(private_data.len()).unwrap_or(0);
        // SAFETY: the identifier is there, and the data as long as said.
        let returned = unsafe { reject(known.ptr(), private_data.as_ptr().cast(), len) };
        done(returned, "rdma_reject")?;
        known.phase = CmPhase::Disconnected;
        Ok(())
    }

    pub(super) fn say_bye(&self, id: CmId) -> Cm<()> {
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        // SAFETY: the identifier is there.
        done(unsafe { (self.library.rdma_disconnect)(known.ptr()) }, "rdma_disconnect")?;
        known.phase = CmPhase::Disconnected;
        Ok(())
    }

    pub(super) fn heard_from_peer(&self, id: CmId) -> Cm<()> {
        /// `IBV_EVENT_COMM_EST`
        const COMMUNICATION_ESTABLISHED: c_int = 4;
        self.call(id, "rdma_notify", |library, id| {
            // SAFETY: the identifier is there.
            unsafe { (library.rdma_notify)(id, COMMUNICATION_ESTABLISHED) }
        })
    }

    pub(super) fn attributes_for(
        &self,
        id: CmId,
        state: QpState,
    ) -> Cm<(QpAttributes, QpAttributeMask)> {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = state as u32;
        let mut mask: c_int = 0;
        self.call(id, "rdma_init_qp_attr", |library, id| {
            // SAFETY: the identifier is there, and the places are ours.
            unsafe { (library.rdma_init_qp_attr)(id, &raw mut attr, &raw mut mask) }
        })?;
        let attributes = qp_attributes(&attr)
            .ok_or_else(|| CmError::invalid("rdma_init_qp_attr: a state that is none"))?;
        // The port stands in the path, or where the mask says.
        let port = [attr.port_num, attr.ah_attr.port_num].into_iter().find(|port| *port != 0);
        let attributes = QpAttributes { port: port.unwrap_or(PORT), ..attributes };
        Ok((attributes, QpAttributeMask::from_bits_truncate(mask.cast_unsigned())))
    }
}
