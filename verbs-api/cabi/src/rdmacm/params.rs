//! What a program says about a connection that it wants or takes (`struct rdma_conn_param`).

use softrnic_model::verbs::{QpNum, QpType};
use softrnic_verbs::cm::ConnParam;

use super::Id;
use super::layout::rdma_conn_param;
use crate::convert::{array, qp_type};
use crate::errno::{Errno, Result};
use crate::object::Object;

/// `RDMA_MAX_RESP_RES`, `RDMA_MAX_INIT_DEPTH`: as many as can be.
pub(super) const AS_MANY_AS_CAN_BE: u8 = 0xff;

/// Retries where the program does not say how many: all.
const RETRIES: u8 = 7;
/// Three bits.
const RETRIES_MASK: u8 = 7;

/// # Errors
/// `EINVAL`: more READs than the device has, or nothing to tell which queue pair.
pub(super) fn judge(id: &Object<Id>, param: Option<&rdma_conn_param>) -> Result<()> {
    if id.is_datagram() {
        return Ok(());
    }
    let Some(param) = param else {
        return if id.see(|public| public.id.qp.is_some()) { Ok(()) } else { Err(Errno::INVALID) };
    };
    let device = id.device()?;
    let fits = |asked: u8, most: u8| asked == AS_MANY_AS_CAN_BE || asked <= most;
    if fits(param.responder_resources, device.max_responder_resources)
        && fits(param.initiator_depth, device.max_initiator_depth)
    {
        Ok(())
    } else {
        Err(Errno::INVALID)
    }
}

/// What is said to the peer: of the identifier's own queue pair if it has one, else of the one that the
/// program names. READs are those of the identifier's state.
pub(super) fn outgoing(id: &Object<Id>, param: Option<&rdma_conn_param>) -> Result<ConnParam> {
    let (mut private_data, ece, responder_resources, initiator_depth) = {
        let mut state = id.state();
        let data = core::mem::take(&mut state.connect_data);
        (data, state.local_ece, state.responder_resources, state.initiator_depth)
    };
    if let Some(param) = param {
        private_data.extend_from_slice(private_bytes(param)?);
    }
    let said = |of: fn(&rdma_conn_param) -> u8, usual: u8| param.map_or(usual, of);
    let mut own = ConnParam {
        private_data,
        responder_resources,
        initiator_depth,
        flow_control: said(|param| param.flow_control, 1) != 0,
        retry_count: said(|param| param.retry_count, RETRIES) & RETRIES_MASK,
        rnr_retry_count: said(|param| param.rnr_retry_count, RETRIES) & RETRIES_MASK,
        srq: said(|param| param.srq, 0) != 0,
        qp_num: QpNum::new(param.map_or(0, |param| param.qp_num)),
        qp_type: qp_type(id.qp_type()).unwrap_or(QpType::Rc),
        qkey: 0,
        ece,
    };
    if let Some(qp) = id.see(|public| public.id.qp) {
        let qp = qp.get()?;
        own.qp_num = qp.number;
        own.qp_type = qp.qp_type;
        own.srq = qp.see(|public| public.qp_base.srq.is_some());
    }
    Ok(own)
}

fn private_bytes(param: &rdma_conn_param) -> Result<&[u8]> {
    array(param.private_data.cast(), param.private_data_len.into())
}
