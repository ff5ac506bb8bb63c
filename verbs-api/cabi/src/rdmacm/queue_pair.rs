//! Queue pairs of identifiers (`rdma_create_qp(3)`, `rdma_init_qp_attr(3)`).

use core::ffi::c_int;

use softrnic_model::verbs::{QpAttributeMask, QpState, QpType};

use super::{Id, done, made, transitions};
use crate::errno::{Errno, Result, guarded, number};
use crate::layout::{ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex};
use crate::object::{Object, Ptr, live};
use crate::objects::{Channel, Cq, Pd};
use crate::{completion, qp_ex, queue_pair as verbs};

/// `IBV_QP_INIT_ATTR_PD`, `IBV_QP_INIT_ATTR_XRCD`
const PD: u32 = 1;
const XRCD: u32 = 1 << 1;

/// `sizeof(struct ibv_sge)`
const ELEMENT_BYTES: u32 = 16;
/// Room that is not asked for ends here.
const ELEMENTS_MAX: u32 = 64;

/// A queue with a channel of its own, for programs that wait for completions one by one
/// (`rdma_get_send_comp(3)`).
pub(super) fn queue(id: &Object<Id>, entries: u32) -> Result<(Ptr<Channel>, Ptr<Cq>)> {
    let context = id.device()?.context;
    let channel = made(completion::create_comp_channel(Some(context)))?;
    let own: *mut core::ffi::c_void =
        core::ptr::with_exposed_provenance_mut(crate::convert::address(id.ptr().address()));
    let entries = c_int::try_from(entries)?;
    let cq = made(completion::create_cq(Some(context), entries, own, Some(channel), 0));
    if cq.is_err() {
        done(completion::destroy_comp_channel(Some(channel)))?;
    }
    Ok((channel, cq?))
}

/// Makes the queues that the program has not brought.
fn complete_queues(id: &Object<Id>, attr: &mut ibv_qp_init_attr_ex) -> Result<()> {
    let (had_send, had_recv) = id.see(|public| (public.id.send_cq, public.id.recv_cq));
    if attr.recv_cq.is_none() {
        if had_recv.is_none() && attr.cap.max_recv_wr != 0 {
            let (channel, cq) = queue(id, attr.cap.max_recv_wr)?;
            id.change(|public| {
                (public.id.recv_cq_channel, public.id.recv_cq) = (Some(channel), Some(cq));
            });
        }
        attr.recv_cq = id.see(|public| public.id.recv_cq);
    }
    if attr.send_cq.is_none() {
        if had_send.is_none() && attr.cap.max_send_wr != 0 {
            let (channel, cq) = queue(id, attr.cap.max_send_wr)?;
            id.change(|public| {
                (public.id.send_cq_channel, public.id.send_cq) = (Some(channel), Some(cq));
            });
        }
        attr.send_cq = id.see(|public| public.id.send_cq);
    }
    Ok(())
}

/// Ends the queues that the library made.
pub(super) fn destroy_queues(id: &Object<Id>) {
    let parts = id.change(|public| {
        let id = &mut public.id;
        [
            (id.recv_cq.take(), id.recv_cq_channel.take()),
            (id.send_cq.take(), id.send_cq_channel.take()),
        ]
    });
    for (cq, channel) in parts {
        // What the program still uses stays; there is nobody to tell.
        let _ = cq.map(|cq| completion::destroy_cq(Some(cq)));
        let _ = channel.map(|channel| completion::destroy_comp_channel(Some(channel)));
    }
}

/// Makes a queue pair, brings it to where receives can be posted (datagrams: sends, too), and gives it to
/// the identifier.
fn create_extended(id: &Object<Id>, attr: &mut ibv_qp_init_attr_ex) -> Result<()> {
    let device = id.device()?;
    let (present, pd, srq) = id.see(|public| (public.id.qp, public.id.pd, public.id.srq));
    if present.is_some() {
        return Err(Errno::INVALID);
    }
    if attr.comp_mask & PD == 0 {
        attr.comp_mask |= PD;
        attr.pd = pd;
    } else if live(&attr.pd)?.see(|pd| pd.context) != Some(device.context) {
        // It must be of the context that identifiers have.
        return Err(Errno::INVALID);
    }
    if attr.qp_type == QpType::XrcRecv as u32 && attr.comp_mask & XRCD == 0 {
        attr.comp_mask |= XRCD;
        attr.xrcd = Some(device.xrcd()?);
    }
    if attr.srq.is_none() {
        attr.srq = srq;
    }
    // Devices put inline data where the elements would be, and programs count on that much.
    let elements = attr.cap.max_send_sge.saturating_mul(ELEMENT_BYTES);
    attr.cap.max_inline_data = attr.cap.max_inline_data.max(elements.min(ELEMENTS_MAX));
    let made = complete_queues(id, attr)
        .and_then(|()| made(qp_ex::create_qp_ex(Some(device.context), Some(attr))));
    let qp = made.inspect_err(|_| destroy_queues(id))?;
    id.change(|public| {
        public.id.qp = Some(qp);
        public.id.pd = attr.pd;
    });
    let ready = if attr.qp_type == QpType::Ud as u32 {
        transitions::to_datagrams(id)
    } else {
        transitions::to_init(id)
    };
    ready.inspect_err(|_| destroy(id))
}

/// The same, with what `ibv_create_qp` takes.
pub(super) fn create(
    id: &Object<Id>,
    pd: Option<Ptr<Pd>>,
    attr: &mut ibv_qp_init_attr,
) -> Result<()> {
    let mut extended = ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: if pd.is_some() { PD } else { 0 },
        pd,
        xrcd: None,
        create_flags: 0,
        max_tso_header: 0,
        rwq_ind_tbl: core::ptr::null_mut(),
        rx_hash_conf: [0; 3],
        source_qpn: 0,
        send_ops_flags: 0,
    };
    create_extended(id, &mut extended)?;
    attr.cap = extended.cap;
    attr.send_cq = extended.send_cq;
    attr.recv_cq = extended.recv_cq;
    attr.srq = extended.srq;
    Ok(())
}

/// Ends the queue pair and the queues that came with it, unless a shared receive queue has them, too.
pub(super) fn destroy(id: &Object<Id>) {
    super::multicast::detach_all(id);
    let (qp, srq) = id.change(|public| (public.id.qp.take(), public.id.srq));
    let _ = qp.map(|qp| verbs::destroy_qp(Some(qp)));
    if srq.is_none() {
        destroy_queues(id);
    }
}

pub(crate) extern "C" fn create_qp(
    id: Option<Ptr<Id>>,
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_qp_init_attr>,
) -> c_int {
    number(|| create(live(&id)?, pd, attr.ok_or(Errno::INVALID)?).map(|()| 0))
}

pub(crate) extern "C" fn create_qp_ex(
    id: Option<Ptr<Id>>,
    attr: Option<&mut ibv_qp_init_attr_ex>,
) -> c_int {
    number(|| create_extended(live(&id)?, attr.ok_or(Errno::INVALID)?).map(|()| 0))
}

pub(crate) extern "C" fn destroy_qp(id: Option<Ptr<Id>>) {
    let _ = guarded(|| {
        destroy(live(&id)?);
        Ok(())
    });
}

pub(crate) extern "C" fn init_qp_attr(
    id: Option<Ptr<Id>>,
    attr: Option<&mut ibv_qp_attr>,
    mask: Option<&mut c_int>,
) -> c_int {
    number(|| {
        let (id, attr) = (live(&id)?, attr.ok_or(Errno::INVALID)?);
        let mask = mask.ok_or(Errno::INVALID)?;
        let state = QpState::ALL.into_iter().find(|state| *state as u32 == attr.qp_state);
        let (attributes, names) = id.cm()?.init_qp_attr(id.number, state.ok_or(Errno::INVALID)?)?;
        *attr = (&attributes).into();
        *mask = bits(names);
        Ok(0)
    })
}

const fn bits(mask: QpAttributeMask) -> c_int {
    mask.bits().cast_signed()
}
