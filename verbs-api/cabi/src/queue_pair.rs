//! Queue pairs (`ibv_create_qp(3)`, `ibv_modify_qp(3)`, `ibv_query_qp(3)`).

use core::ffi::c_int;
use std::sync::Arc;

use softrnic_model::verbs::{Gid, QpAttributeMask, QpInit, QpType};

use crate::completion::counts;
use crate::convert::{qp_changes, qp_type};
use crate::errno::{Errno, Result, pointer, status};
use crate::layout::{
    Zeroed, ibv_ece, ibv_gid, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_rate_limit_attr,
};
use crate::object::{Ptr, live};
use crate::objects::{Pd, Qp};
use crate::shared::Tally;
use crate::work_list::WorkList;

/// Makes what the extended interface builds, by the sizes that were granted.
pub(crate) type MakeList<'a> = &'a dyn Fn(&ibv_qp_cap) -> WorkList;

/// Makes a queue pair and writes the granted sizes into `attr`. `functions` are those of the extended
/// interface, where they are wanted, and `building` makes what they build.
pub(crate) fn create(
    pd: Option<Ptr<Pd>>,
    attr: &mut ibv_qp_init_attr,
    functions: ibv_qp_ex,
    building: Option<MakeList<'_>>,
) -> Result<Ptr<Qp>> {
    let domain = live(&pd)?;
    let (send_cq, recv_cq) = (live(&attr.send_cq)?, live(&attr.recv_cq)?);
    let init = QpInit {
        pd: domain.id,
        qp_type: qp_type(attr.qp_type)?,
        send_cq: send_cq.id,
        recv_cq: recv_cq.id,
        srq: attr.srq.as_ref().map(|srq| srq.get().map(|srq| srq.id)).transpose()?,
        cap: (&attr.cap).into(),
        signal_all: attr.sq_sig_all != 0,
    };
    let (number, granted) = domain.shared.device()?.create_qp(&init)?;
    attr.cap = (&granted).into();
    let context = domain.see(|pd| pd.context);
    let qp_base = ibv_qp {
        context,
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        handle: number.get(),
        qp_num: number.get(),
        state: 0,
        qp_type: attr.qp_type,
        mutex: [0; 5],
        cond: [0; 6],
        events_completed: 0,
    };
    let qp = Ptr::new(
        ibv_qp_ex { qp_base, ..functions },
        Qp {
            shared: Arc::clone(&domain.shared),
            number,
            qp_type: init.qp_type,
            asynchronous: Tally::default(),
            building: building.map(|make| make(&attr.cap)),
        },
    );
    if counts(domain) {
        domain.enter();
    }
    domain.shared.named().qps.insert(number, qp);
    Ok(qp)
}

pub(crate) extern "C" fn create_qp(
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Option<Ptr<Qp>> {
    pointer(|| create(pd, attr.ok_or(Errno::INVALID)?, ibv_qp_ex::zeroed(), None))
}

pub(crate) extern "C" fn modify_qp(
    qp: Option<Ptr<Qp>>,
    attr: Option<&ibv_qp_attr>,
    mask: c_int,
) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        let (changes, mask) = qp_changes(attr.ok_or(Errno::INVALID)?, mask)?;
        pair.shared.device()?.modify_qp(pair.number, &changes, mask)?;
        if mask.contains(QpAttributeMask::STATE) {
            pair.change(|qp| qp.qp_base.state = changes.state as u32);
        }
        Ok(())
    })
}

/// Tells everything, whatever the mask asks for.
pub(crate) extern "C" fn query_qp(
    qp: Option<Ptr<Qp>>,
    attr: Option<&mut ibv_qp_attr>,
    _mask: c_int,
    init: Option<&mut ibv_qp_init_attr>,
) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        let (now, made) = pair.shared.device()?.query_qp(pair.number)?;
        *attr.ok_or(Errno::INVALID)? = (&now).into();
        pair.change(|qp| qp.qp_base.state = now.state as u32);
        let base = pair.see(|qp| qp.qp_base);
        *init.ok_or(Errno::INVALID)? = ibv_qp_init_attr {
            qp_context: base.qp_context,
            send_cq: base.send_cq,
            recv_cq: base.recv_cq,
            srq: base.srq,
            cap: (&now.cap).into(),
            qp_type: base.qp_type,
            sq_sig_all: made.signal_all.into(),
        };
        Ok(())
    })
}

pub(crate) extern "C" fn destroy_qp(qp: Option<Ptr<Qp>>) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        pair.shared.device()?.destroy_qp(pair.number)?;
        pair.shared.settle(
            |named| {
                named.qps.remove(&pair.number);
            },
            &[&pair.asynchronous],
        );
        if let Some(pd) = pair.see(|qp| qp.qp_base.pd)
            && let Ok(pd) = pd.get()
            && counts(pd)
        {
            pd.leave();
        }
        pair.ptr().retire();
        Ok(())
    })
}

/// A rate is kept and reported; bursts and packet sizes are not.
pub(crate) extern "C" fn modify_qp_rate_limit(
    qp: Option<Ptr<Qp>>,
    attr: Option<&ibv_qp_rate_limit_attr>,
) -> c_int {
    status(|| {
        live(&qp)?;
        attr.ok_or(Errno::INVALID)?;
        Err(Errno::NOT_SUPPORTED)
    })
}

pub(crate) extern "C" fn attach_mcast(
    qp: Option<Ptr<Qp>>,
    group: Option<&ibv_gid>,
    _lid: u16,
) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        let group = Gid(group.ok_or(Errno::INVALID)?.0);
        Ok(pair.shared.device()?.attach_mcast(pair.number, group)?)
    })
}

pub(crate) extern "C" fn detach_mcast(
    qp: Option<Ptr<Qp>>,
    group: Option<&ibv_gid>,
    _lid: u16,
) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        let group = Gid(group.ok_or(Errno::INVALID)?.0);
        Ok(pair.shared.device()?.detach_mcast(pair.number, group)?)
    })
}

/// The extended interface, of a queue pair that was made for it.
pub(crate) extern "C" fn qp_to_qp_ex(qp: Option<Ptr<Qp>>) -> Option<Ptr<Qp>> {
    qp.filter(|qp| qp.get().is_ok_and(|qp| qp.building.is_some()))
}

/// There is nothing to agree on with peers.
pub(crate) extern "C" fn query_ece(qp: Option<Ptr<Qp>>, ece: Option<&mut ibv_ece>) -> c_int {
    status(|| {
        live(&qp)?;
        *ece.ok_or(Errno::INVALID)? = ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 };
        Ok(())
    })
}

pub(crate) extern "C" fn set_ece(qp: Option<Ptr<Qp>>, ece: Option<&ibv_ece>) -> c_int {
    status(|| {
        live(&qp)?;
        let ece = ece.ok_or(Errno::INVALID)?;
        if ece.comp_mask != 0 || ece.vendor_id != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        Ok(())
    })
}

/// Whether the bytes of a message are placed in ascending order. They are, by an engine that copies
/// packet after packet, as long as none is lost; that is no promise.
pub(crate) extern "C" fn query_qp_data_in_order(
    qp: Option<Ptr<Qp>>,
    _opcode: u32,
    flags: u32,
) -> c_int {
    status(|| {
        live(&qp)?;
        if flags == 0 { Ok(()) } else { Err(Errno::NOT_SUPPORTED) }
    });
    0
}

const _: () = assert!(QpType::Rc as u32 == 2 && QpType::Uc as u32 == 3 && QpType::Ud as u32 == 4);
