//! Shared receive queues of identifiers (`rdma_create_srq(3)`).

use core::ffi::c_int;

use softrnic_model::verbs::QpType;

use super::queue_pair::{destroy_queues, queue};
use super::{Id, made};
use crate::errno::{Errno, Result, guarded, number};
use crate::layout::{ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex};
use crate::object::{Object, Ptr, live};
use crate::objects::Pd;
use crate::shared_receive as verbs;

/// `ibv_srq_init_attr_mask`, `ibv_srq_type`
const TYPE: u32 = 1;
const PD: u32 = 1 << 1;
const XRCD: u32 = 1 << 2;
const CQ: u32 = 1 << 3;
const BASIC: u32 = 0;
const XRC: u32 = 1;

fn create(id: &Object<Id>, attr: &mut ibv_srq_init_attr_ex) -> Result<()> {
    let device = id.device()?;
    let (present, pd, queue_there) =
        id.see(|public| (public.id.srq, public.id.pd, public.id.recv_cq));
    if present.is_some() {
        return Err(Errno::INVALID);
    }
    if attr.comp_mask & PD == 0 {
        attr.comp_mask |= PD;
        attr.pd = pd;
    }
    if attr.comp_mask & TYPE != 0 && attr.srq_type == XRC {
        if attr.comp_mask & XRCD == 0 {
            attr.comp_mask |= XRCD;
            attr.xrcd = Some(device.xrcd()?);
        }
        if attr.comp_mask & CQ == 0 || attr.cq.is_none() {
            let cq = match queue_there {
                Some(cq) => cq,
                None => {
                    let (channel, cq) = queue(id, attr.attr.max_wr)?;
                    id.change(|public| {
                        (public.id.recv_cq_channel, public.id.recv_cq) = (Some(channel), Some(cq));
                    });
                    cq
                }
            };
            attr.comp_mask |= CQ;
            attr.cq = Some(cq);
        }
    }
    let srq = made(verbs::create_srq_ex(Some(device.context), Some(attr)));
    let srq = srq.inspect_err(|_| {
        if queue_there.is_none() {
            destroy_queues(id);
        }
    })?;
    id.change(|public| {
        public.id.srq = Some(srq);
        public.id.pd = attr.pd;
    });
    Ok(())
}

pub(crate) extern "C" fn create_srq(
    id: Option<Ptr<Id>>,
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_srq_init_attr>,
) -> c_int {
    number(|| {
        let (id, attr) = (live(&id)?, attr.ok_or(Errno::INVALID)?);
        let is_xrc = id.qp_type() == QpType::XrcRecv as u32;
        let mut extended = ibv_srq_init_attr_ex {
            srq_context: attr.srq_context,
            attr: attr.attr,
            comp_mask: TYPE | if pd.is_some() { PD } else { 0 },
            srq_type: if is_xrc { XRC } else { BASIC },
            pd,
            xrcd: None,
            cq: None,
            tm_cap: [0; 2],
        };
        create(id, &mut extended)?;
        let ibv_srq_attr { max_wr, max_sge, .. } = extended.attr;
        (attr.attr.max_wr, attr.attr.max_sge) = (max_wr, max_sge);
        Ok(0)
    })
}

pub(crate) extern "C" fn create_srq_ex(
    id: Option<Ptr<Id>>,
    attr: Option<&mut ibv_srq_init_attr_ex>,
) -> c_int {
    number(|| create(live(&id)?, attr.ok_or(Errno::INVALID)?).map(|()| 0))
}

/// Ends the queue, and those that came with it if no queue pair has them.
pub(super) fn destroy(id: &Object<Id>) {
    let (srq, qp) = id.change(|public| (public.id.srq.take(), public.id.qp));
    if let Some(srq) = srq
        && verbs::destroy_srq(Some(srq)) == 0
        && qp.is_none()
    {
        destroy_queues(id);
    }
}

pub(crate) extern "C" fn destroy_srq(id: Option<Ptr<Id>>) {
    let _ = guarded(|| {
        destroy(live(&id)?);
        Ok(())
    });
}
