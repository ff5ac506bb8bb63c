//! Shared receive queues (`ibv_create_srq(3)`).

use core::ffi::c_int;
use std::sync::Arc;

use softrnic_model::verbs::SrqAttributes;

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
) -> Result<Ptr<Srq>> {
    let domain = live(&pd)?;
    let ibv_srq_attr { max_wr, max_sge, .. } = *attr;
    let wanted = SrqAttributes { max_wr, max_sge, srq_limit: 0 };
    let (id, granted) = domain.shared.device()?.create_srq(domain.id, &wanted)?;
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
        create(pd, attr.srq_context, &mut attr.attr)
    })
}

/// Of the extended kinds there is none but the basic one.
pub(crate) extern "C" fn create_srq_ex(
    context: Option<Ptr<Context>>,
    attr: Option<&mut ibv_srq_init_attr_ex>,
) -> Option<Ptr<Srq>> {
    pointer(|| {
        /// `IBV_SRQ_INIT_ATTR_TYPE`, `_PD`; `IBV_SRQT_BASIC`
        const TYPE: u32 = 1;
        const PD: u32 = 1 << 1;
        const BASIC: u32 = 0;
        live(&context)?;
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.comp_mask & TYPE != 0 && attr.srq_type != BASIC {
            return Err(Errno::NOT_SUPPORTED);
        }
        if attr.comp_mask & !(TYPE | PD) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        create(attr.pd.filter(|_| attr.comp_mask & PD != 0), attr.srq_context, &mut attr.attr)
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
