//! Queue pairs (`ibv_create_qp(3)`, `ibv_modify_qp(3)`, `ibv_query_qp(3)`).

use core::ffi::c_int;
use std::sync::Arc;

use softrnic_model::verbs::{
    CqId, Gid, PdId, QpAttributeMask, QpAttributes, QpCreateFlags, QpInit, QpNum, QpType,
};

use crate::completion::counts;
use crate::convert::{qp_changes, qp_type};
use crate::errno::{Errno, Result, pointer, status};
use crate::layout::{
    Zeroed, ibv_ece, ibv_gid, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_rate_limit_attr,
};
use crate::object::{Object, Ptr, live};
use crate::objects::{Context, Cq, Pd, Qp, Xrcd};
use crate::shared::{Shared, Tally};
use crate::work_list::WorkList;

/// The interface by which requests are built call by call: its functions, and the list that they build,
/// made for the sizes that were granted.
pub(crate) struct Extended {
    pub(crate) functions: ibv_qp_ex,
    pub(crate) list: WorkList,
}

/// A queue pair, but for what C sees of it.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: QpNum,
    pub(crate) qp_type: QpType,
    pub(crate) extended: Option<Extended>,
}

/// Makes the record of a queue pair, which events may name from then on.
pub(crate) fn record(qp_base: ibv_qp, parts: Parts) -> Ptr<Qp> {
    let Parts { shared, number, qp_type, extended } = parts;
    let (functions, building) = match extended {
        Some(Extended { functions, list }) => (functions, Some(list)),
        None => (ibv_qp_ex::zeroed(), None),
    };
    let private = Qp {
        shared: Arc::clone(&shared),
        number,
        qp_type,
        asynchronous: Tally::default(),
        building,
    };
    let qp = Ptr::new(ibv_qp_ex { qp_base, ..functions }, private);
    shared.named().qps.insert(number, qp);
    qp
}

/// What a queue pair is made of. The parts that its type does not have are not looked at.
pub(crate) struct Wanted<'a> {
    pub(crate) context: Option<Ptr<Context>>,
    pub(crate) pd: Option<Ptr<Pd>>,
    pub(crate) xrcd: Option<Ptr<Xrcd>>,
    pub(crate) create_flags: QpCreateFlags,
    pub(crate) attr: &'a mut ibv_qp_init_attr,
}

/// Makes a queue pair and writes the granted sizes into the attributes.
pub(crate) fn create(
    wanted: Wanted<'_>,
    extended: impl FnOnce(&ibv_qp_cap) -> Option<Extended>,
) -> Result<Ptr<Qp>> {
    let Wanted { context, pd, xrcd, create_flags, attr } = wanted;
    let qp_type = qp_type(attr.qp_type)?;
    let domain = pd.as_ref().filter(|_| qp_type.sends()).map(Ptr::get).transpose()?;
    let shared = match domain {
        Some(domain) => Arc::clone(&domain.shared),
        None if qp_type.sends() => return Err(Errno::INVALID),
        None => Arc::clone(&live(&context)?.shared),
    };
    // Numbers mean something on their own device only.
    let own = |of: &Shared| of.is_same_device(&shared);
    let queue = |cq: &Option<Ptr<Cq>>, has: bool| match has {
        true => live(cq).and_then(|cq| own(&cq.shared).map(|()| cq.id)),
        false => Ok(CqId(0)),
    };
    let srq = attr.srq.as_ref().filter(|_| qp_type.receives());
    let init = QpInit {
        pd: domain.map_or(PdId(0), |domain| domain.id),
        qp_type,
        send_cq: queue(&attr.send_cq, qp_type.sends())?,
        recv_cq: queue(&attr.recv_cq, qp_type.receives())?,
        srq: srq
            .map(|srq| srq.get().and_then(|srq| own(&srq.shared).map(|()| srq.id)))
            .transpose()?,
        xrcd: xrcd
            .as_ref()
            .map(|xrcd| xrcd.get().and_then(|xrcd| own(&xrcd.shared).map(|()| xrcd.id)))
            .transpose()?,
        cap: (&attr.cap).into(),
        signal_all: attr.sq_sig_all != 0,
        create_flags,
    };
    let (number, granted) = shared.device()?.create_qp(&init)?;
    attr.cap = (&granted).into();
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
    let extended = extended(&attr.cap);
    let qp = record(qp_base, Parts { shared, number, qp_type, extended });
    if let Some(domain) = domain
        && counts(domain)
    {
        domain.enter();
    }
    Ok(qp)
}

pub(crate) extern "C" fn create_qp(
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Option<Ptr<Qp>> {
    pointer(|| {
        let context = live(&pd)?.see(|pd| pd.context);
        let create_flags = QpCreateFlags::empty();
        let attr = attr.ok_or(Errno::INVALID)?;
        let wanted = Wanted { context, pd, xrcd: None, create_flags, attr };
        create(wanted, |_| None)
    })
}

/// Attributes that programs set although the type does not have them, as they are used to set them for
/// RC; the kernel's interface leaves them out as well.
const fn not_of(qp_type: QpType) -> QpAttributeMask {
    match qp_type {
        QpType::XrcSend => {
            QpAttributeMask::MAX_DEST_RD_ATOMIC.union(QpAttributeMask::MIN_RNR_TIMER)
        }
        QpType::XrcRecv => QpAttributeMask::MAX_QP_RD_ATOMIC
            .union(QpAttributeMask::RETRY_CNT)
            .union(QpAttributeMask::RNR_RETRY),
        QpType::Rc | QpType::Uc | QpType::Ud => QpAttributeMask::empty(),
    }
}

/// Changes a queue pair, and shows C the state that it has then.
pub(crate) fn modify(
    pair: &Object<Qp>,
    changes: &QpAttributes,
    mask: QpAttributeMask,
) -> Result<()> {
    pair.shared.device()?.modify_qp(pair.number, changes, mask)?;
    if mask.contains(QpAttributeMask::STATE) {
        pair.change(|qp| qp.qp_base.state = changes.state as u32);
    }
    Ok(())
}

pub(crate) extern "C" fn modify_qp(
    qp: Option<Ptr<Qp>>,
    attr: Option<&ibv_qp_attr>,
    mask: c_int,
) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        let (changes, mask) = qp_changes(attr.ok_or(Errno::INVALID)?, mask)?;
        modify(pair, &changes, mask.difference(not_of(pair.qp_type)))
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
                // An XRC target may be open more than once.
                if named.qps.get(&pair.number) == Some(&pair.ptr()) {
                    named.qps.remove(&pair.number);
                }
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

/// Only the rate itself: bursts and packet sizes cannot be asked for.
pub(crate) extern "C" fn modify_qp_rate_limit(
    qp: Option<Ptr<Qp>>,
    attr: Option<&ibv_qp_rate_limit_attr>,
) -> c_int {
    status(|| {
        let pair = live(&qp)?;
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.max_burst_sz != 0 || attr.typical_pkt_sz != 0 || attr.comp_mask != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let changes = QpAttributes { rate_limit: attr.rate_limit, ..QpAttributes::default() };
        Ok(pair.shared.device()?.modify_qp(pair.number, &changes, QpAttributeMask::RATE_LIMIT)?)
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

/// Whether the bytes of a message are placed in ascending order. As long as no packet is lost they are,
/// which is no promise.
pub(crate) extern "C" fn query_qp_data_in_order(
    _: Option<Ptr<Qp>>,
    _opcode: u32,
    _flags: u32,
) -> c_int {
    0
}

const _: () = assert!(QpType::Rc as u32 == 2 && QpType::Uc as u32 == 3 && QpType::Ud as u32 == 4);
