//! Shared receive queues (`ibv_create_srq(3)`).

use core::ffi::c_int;
use std::sync::Arc;

use softrnic_model::verbs::{SrqAttributes, SrqInit, XrcSrq};

use crate::completion::counts;
use crate::errno::{Errno, Result, pointer, status};
use crate::layout::{ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex};
use crate::object::{Ptr, live};
use crate::objects::{Context, Pd, Srq};
use crate::shared::Tally;

/// `ibv_srq_attr_mask`
const MAX_WR: u32 = 1;
const LIMIT: u32 = 1 << 1;

fn create(
    pd: Option<Ptr<Pd>>,
    srq_context: *mut core::ffi::c_void,
    attr: &mut ibv_srq_attr,
    xrc: Option<XrcSrq>,
) -> Result<Ptr<Srq>> {
    let domain = live(&pd)?;
    let ibv_srq_attr { max_wr, max_sge, .. } = *attr;
    let attributes = SrqAttributes { max_wr, max_sge, srq_limit: 0 };
    let init = SrqInit { pd: domain.id, attributes, xrc };
    let (id, granted) = domain.shared.device()?.create_srq_ex(&init)?;
    (attr.max_wr, attr.max_sge) = (granted.max_wr, granted.max_sge);
    let public = ibv_srq {
        context: domain.see(|pd| pd.context),
        srq_context,
        pd,
        handle: id.0,
        mutex: [0; 5],
        cond: [0; 6],
        events_completed: 0,
    };
    let shared = Arc::clone(&domain.shared);
    let srq = Ptr::new(public, Srq { shared, id, asynchronous: Tally::default() });
    if counts(domain) {
        domain.enter();
    }
    domain.shared.named().srqs.insert(id, srq);
    Ok(srq)
}

pub(crate) extern "C" fn create_srq(
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_srq_init_attr>,
) -> Option<Ptr<Srq>> {
    pointer(|| {
        let attr = attr.ok_or(Errno::INVALID)?;
        create(pd, attr.srq_context, &mut attr.attr, None)
    })
}

/// Basic ones and those for XRC; there is no tag matching.
pub(crate) extern "C" fn create_srq_ex(
    context: Option<Ptr<Context>>,
    attr: Option<&mut ibv_srq_init_attr_ex>,
) -> Option<Ptr<Srq>> {
    pointer(|| {
        /// `ibv_srq_init_attr_mask`, `ibv_srq_type`
        const TYPE: u32 = 1;
        const PD: u32 = 1 << 1;
        const XRCD: u32 = 1 << 2;
        const CQ: u32 = 1 << 3;
        const BASIC: u32 = 0;
        const XRC: u32 = 1;
        live(&context)?;
        let attr = attr.ok_or(Errno::INVALID)?;
        let mask = attr.comp_mask;
        if mask & !(TYPE | PD | XRCD | CQ) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let xrc = match attr.srq_type {
            _ if mask & TYPE == 0 => None,
            BASIC => None,
            XRC if mask & (XRCD | CQ) == XRCD | CQ => {
                Some(XrcSrq { xrcd: live(&attr.xrcd)?.id, cq: live(&attr.cq)?.id })
            }
            XRC => return Err(Errno::INVALID),
            _ => return Err(Errno::NOT_SUPPORTED),
        };
        create(attr.pd.filter(|_| mask & PD != 0), attr.srq_context, &mut attr.attr, xrc)
    })
}

/// The number by which requests of XRC name it.
pub(crate) extern "C" fn get_srq_num(srq: Option<Ptr<Srq>>, number: Option<&mut u32>) -> c_int {
    status(|| {
        let queue = live(&srq)?;
        *number.ok_or(Errno::INVALID)? = queue.shared.device()?.srq_number(queue.id)?.get();
        Ok(())
    })
}

pub(crate) extern "C" fn modify_srq(
    srq: Option<Ptr<Srq>>,
    attr: Option<&ibv_srq_attr>,
    mask: c_int,
) -> c_int {
    status(|| {
        let (queue, attr, mask) = (live(&srq)?, attr.ok_or(Errno::INVALID)?, mask.cast_unsigned());
        if mask & !(MAX_WR | LIMIT) != 0 {
            return Err(Errno::INVALID);
        }
        let limit = (mask & LIMIT != 0).then_some(attr.srq_limit);
        let max_wr = (mask & MAX_WR != 0).then_some(attr.max_wr);
        Ok(queue.shared.device()?.modify_srq(queue.id, limit, max_wr)?)
    })
}

pub(crate) extern "C" fn query_srq(
    srq: Option<Ptr<Srq>>,
    attr: Option<&mut ibv_srq_attr>,
) -> c_int {
    status(|| {
        let queue = live(&srq)?;
        let SrqAttributes { max_wr, max_sge, srq_limit } =
            queue.shared.device()?.query_srq(queue.id)?;
        *attr.ok_or(Errno::INVALID)? = ibv_srq_attr { max_wr, max_sge, srq_limit };
        Ok(())
    })
}

pub(crate) extern "C" fn destroy_srq(srq: Option<Ptr<Srq>>) -> c_int {
    status(|| {
        let queue = live(&srq)?;
        queue.shared.device()?.destroy_srq(queue.id)?;
        queue.shared.settle(
            |named| {
                named.srqs.remove(&queue.id);
            },
            &[&queue.asynchronous],
        );
        if let Some(pd) = queue.see(|srq| srq.pd)
            && let Ok(pd) = pd.get()
            && counts(pd)
        {
            pd.leave();
        }
        queue.ptr().retire();
        Ok(())
    })
}
