//! Queue pairs whose requests are built call by call (`ibv_create_qp_ex(3)`, `ibv_wr_post(3)`).

use core::ffi::{c_int, c_void};

use softrnic_model::verbs::{
    Key, Placement, QpCreateFlags, QpNum, QpType, Selectivity, SendOp, Sge, SrqNum,
};

use crate::convert::{array, bind, qp_type, send_flags, send_nowhere};
use crate::errno::{Errno, Result, guarded, pointer, status};
use crate::layout::{
    Zeroed, ibv_data_buf, ibv_mw_bind_info, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex,
};
use crate::object::{Object, Ptr, live};
use crate::objects::{Ah, Context, Mw, Qp};
use crate::queue_pair::{Extended, Wanted, create};
use crate::work_list::WorkList;

/// `ibv_qp_create_send_ops_flags`
mod operations {
    pub(super) const RDMA_WRITE: u64 = 1;
    pub(super) const RDMA_WRITE_WITH_IMM: u64 = 1 << 1;
    pub(super) const SEND: u64 = 1 << 2;
    pub(super) const SEND_WITH_IMM: u64 = 1 << 3;
    pub(super) const RDMA_READ: u64 = 1 << 4;
    pub(super) const ATOMIC_CMP_AND_SWP: u64 = 1 << 5;
    pub(super) const ATOMIC_FETCH_AND_ADD: u64 = 1 << 6;
    pub(super) const LOCAL_INV: u64 = 1 << 7;
    pub(super) const BIND_MW: u64 = 1 << 8;
    pub(super) const SEND_WITH_INV: u64 = 1 << 9;

    pub(super) const FLUSH: u64 = 1 << 11;
    pub(super) const ATOMIC_WRITE: u64 = 1 << 12;

    const DATAGRAM: u64 = SEND | SEND_WITH_IMM;
    const UNRELIABLE: u64 =
        DATAGRAM | RDMA_WRITE | RDMA_WRITE_WITH_IMM | LOCAL_INV | BIND_MW | SEND_WITH_INV;
    const RELIABLE: u64 =
        UNRELIABLE | RDMA_READ | ATOMIC_CMP_AND_SWP | ATOMIC_FETCH_AND_ADD | FLUSH | ATOMIC_WRITE;

    /// What a type of queue pair can do.
    pub(super) const fn of(qp_type: super::QpType) -> u64 {
        match qp_type {
            super::QpType::Rc | super::QpType::XrcSend => RELIABLE,
            super::QpType::Uc => UNRELIABLE,
            super::QpType::Ud => DATAGRAM,
            super::QpType::XrcRecv => 0,
        }
    }
}

pub(crate) extern "C" fn create_qp_ex(
    context: Option<Ptr<Context>>,
    attr: Option<&mut ibv_qp_init_attr_ex>,
) -> Option<Ptr<Qp>> {
    pointer(|| {
        /// `ibv_qp_init_attr_mask`
        const PD: u32 = 1;
        const XRCD: u32 = 1 << 1;
        const CREATE_FLAGS: u32 = 1 << 2;
        const SEND_OPS_FLAGS: u32 = 1 << 6;
        live(&context)?;
        let attr = attr.ok_or(Errno::INVALID)?;
        let mask = attr.comp_mask;
        let has = |bit| mask & bit != 0;
        if mask & !(PD | XRCD | CREATE_FLAGS | SEND_OPS_FLAGS) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let create_flags = if has(CREATE_FLAGS) { attr.create_flags } else { 0 };
        let create_flags = QpCreateFlags::from_bits(create_flags).ok_or(Errno::NOT_SUPPORTED)?;
        let operations = if has(SEND_OPS_FLAGS) { attr.send_ops_flags } else { 0 };
        if operations & !operations::of(qp_type(attr.qp_type)?) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let mut init = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        if operations & operations::ATOMIC_WRITE != 0 {
            // The bytes of an atomic write come with the call.
            init.cap.max_inline_data = init.cap.max_inline_data.max(ATOMIC_BYTES);
        }
        let wanted = Wanted {
            context,
            pd: attr.pd.filter(|_| has(PD)),
            xrcd: attr.xrcd.filter(|_| has(XRCD)),
            create_flags,
            attr: &mut init,
        };
        let qp = create(wanted, |cap| {
            let (requests, elements) = (cap.max_send_wr, cap.max_send_sge);
            let list = WorkList::new(operations, requests, elements, cap.max_inline_data);
            has(SEND_OPS_FLAGS).then(|| Extended { functions: functions(), list })
        })?;
        attr.cap = init.cap;
        Ok(qp)
    })
}

/// What an atomic write writes.
const ATOMIC_BYTES: u32 = 8;

fn functions() -> ibv_qp_ex {
    ibv_qp_ex {
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        wr_send_tso: Some(wr_send_tso),
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_xrc_srqn: Some(wr_set_xrc_srqn),
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        wr_atomic_write: Some(wr_atomic_write),
        wr_flush: Some(wr_flush),
        ..ibv_qp_ex::zeroed()
    }
}

fn list(qp: &Object<Qp>) -> Result<&WorkList> {
    qp.building.as_ref().ok_or(Errno::INVALID)
}

/// Does something with the list; a queue pair that is gone has none.
#[inline]
fn with(qp: &Option<Ptr<Qp>>, act: impl FnOnce(&Object<Qp>, &WorkList)) {
    let _ = guarded(|| {
        let qp = live(qp)?;
        act(qp, list(qp)?);
        Ok(())
    });
}

/// Begins a request with the number and flags that the program has put into the queue pair.
#[inline]
fn begin(qp: &Option<Ptr<Qp>>, needs: u64, op: impl FnOnce(&Object<Qp>) -> Result<SendOp>) {
    with(qp, |qp, list| {
        let (wr_id, flags) = qp.see(|qp| (qp.wr_id, qp.wr_flags));
        let allowed = list.operations & needs != 0;
        let op = if allowed { op(qp) } else { Err(Errno::INVALID) };
        list.request(wr_id, send_flags(flags), op);
    });
}

extern "C" fn wr_start(qp: Option<Ptr<Qp>>) {
    with(&qp, |_, list| list.start());
}

extern "C" fn wr_complete(qp: Option<Ptr<Qp>>) -> c_int {
    status(|| {
        let qp = live(&qp)?;
        list(qp)?.complete(|wrs| {
            qp.shared.device()?.post_send(qp.number, wrs).map_err(|post| post.error.into())
        })
    })
}

extern "C" fn wr_abort(qp: Option<Ptr<Qp>>) {
    with(&qp, |_, list| list.abort());
}

extern "C" fn wr_rdma_write(qp: Option<Ptr<Qp>>, rkey: u32, remote_addr: u64) {
    let op = SendOp::Write { remote_addr, rkey: Key(rkey), imm: None };
    begin(&qp, operations::RDMA_WRITE, |_| Ok(op));
}

extern "C" fn wr_rdma_write_imm(qp: Option<Ptr<Qp>>, rkey: u32, remote_addr: u64, imm: u32) {
    let op = SendOp::Write { remote_addr, rkey: Key(rkey), imm: Some(u32::from_be(imm)) };
    begin(&qp, operations::RDMA_WRITE_WITH_IMM, |_| Ok(op));
}

extern "C" fn wr_rdma_read(qp: Option<Ptr<Qp>>, rkey: u32, remote_addr: u64) {
    begin(&qp, operations::RDMA_READ, |_| Ok(SendOp::Read { remote_addr, rkey: Key(rkey) }));
}

extern "C" fn wr_atomic_cmp_swp(
    qp: Option<Ptr<Qp>>,
    rkey: u32,
    remote_addr: u64,
    compare: u64,
    swap: u64,
) {
    let op = SendOp::CompareSwap { remote_addr, rkey: Key(rkey), compare, swap };
    begin(&qp, operations::ATOMIC_CMP_AND_SWP, |_| Ok(op));
}

extern "C" fn wr_atomic_fetch_add(qp: Option<Ptr<Qp>>, rkey: u32, remote_addr: u64, add: u64) {
    let op = SendOp::FetchAdd { remote_addr, rkey: Key(rkey), add };
    begin(&qp, operations::ATOMIC_FETCH_AND_ADD, |_| Ok(op));
}

extern "C" fn wr_local_inv(qp: Option<Ptr<Qp>>, rkey: u32) {
    begin(&qp, operations::LOCAL_INV, |_| Ok(SendOp::LocalInvalidate { key: Key(rkey) }));
}

extern "C" fn wr_bind_mw(
    qp: Option<Ptr<Qp>>,
    mw: Option<Ptr<Mw>>,
    rkey: u32,
    info: Option<&ibv_mw_bind_info>,
) {
    begin(&qp, operations::BIND_MW, |_| bind(&mw, rkey, info.ok_or(Errno::INVALID)?));
}

fn send(qp: &Object<Qp>, imm: Option<u32>) -> SendOp {
    match qp.qp_type {
        QpType::Ud => send_nowhere(imm),
        QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
            SendOp::Send { imm, invalidate: None }
        }
    }
}

extern "C" fn wr_send(qp: Option<Ptr<Qp>>) {
    begin(&qp, operations::SEND, |qp| Ok(send(qp, None)));
}

extern "C" fn wr_send_imm(qp: Option<Ptr<Qp>>, imm: u32) {
    begin(&qp, operations::SEND_WITH_IMM, |qp| Ok(send(qp, Some(u32::from_be(imm)))));
}

extern "C" fn wr_send_inv(qp: Option<Ptr<Qp>>, rkey: u32) {
    let op = SendOp::Send { imm: None, invalidate: Some(Key(rkey)) };
    begin(&qp, operations::SEND_WITH_INV, |_| Ok(op));
}

extern "C" fn wr_send_tso(qp: Option<Ptr<Qp>>, _: *mut c_void, _: u16, _: u16) {
    begin(&qp, 0, |_| Err(Errno::NOT_SUPPORTED));
}

extern "C" fn wr_atomic_write(qp: Option<Ptr<Qp>>, rkey: u32, at: u64, bytes: *const c_void) {
    let op = SendOp::AtomicWrite { remote_addr: at, rkey: Key(rkey) };
    begin(&qp, operations::ATOMIC_WRITE, |_| Ok(op));
    wr_set_inline_data(qp, bytes, ATOMIC_BYTES as usize);
}

extern "C" fn wr_flush(
    qp: Option<Ptr<Qp>>,
    rkey: u32,
    remote_addr: u64,
    len: usize,
    placement: u8,
    level: u8,
) {
    begin(&qp, operations::FLUSH, |_| {
        Ok(SendOp::Flush {
            remote_addr,
            rkey: Key(rkey),
            length: u32::try_from(len)?,
            placement: Placement::from_bits(placement).ok_or(Errno::INVALID)?,
            selectivity: match level {
                0 => Selectivity::Range,
                1 => Selectivity::Region,
                _ => return Err(Errno::INVALID),
            },
        })
    });
}

extern "C" fn wr_set_ud_addr(qp: Option<Ptr<Qp>>, to: Option<Ptr<Ah>>, qpn: u32, qkey: u32) {
    with(&qp, |_, list| {
        list.amend(|op| match op {
            SendOp::SendTo { ah, remote_qpn, remote_qkey, .. } => {
                (*ah, *remote_qpn, *remote_qkey) = (live(&to)?.id, QpNum::new(qpn), qkey);
                Ok(())
            }
            SendOp::Send { .. }
            | SendOp::Write { .. }
            | SendOp::Read { .. }
            | SendOp::CompareSwap { .. }
            | SendOp::FetchAdd { .. }
            | SendOp::AtomicWrite { .. }
            | SendOp::Flush { .. }
            | SendOp::BindMw { .. }
            | SendOp::LocalInvalidate { .. } => Err(Errno::INVALID),
        });
    });
}

extern "C" fn wr_set_xrc_srqn(qp: Option<Ptr<Qp>>, number: u32) {
    with(&qp, |_, list| list.shared_queue(SrqNum::new(number)));
}

extern "C" fn wr_set_sge(qp: Option<Ptr<Qp>>, lkey: u32, addr: u64, length: u32) {
    with(&qp, |_, list| list.elements(&[Sge { addr, length, lkey: Key(lkey) }]));
}

extern "C" fn wr_set_sge_list(qp: Option<Ptr<Qp>>, len: usize, first: *const Sge) {
    with(&qp, |_, list| match array(first, len) {
        Ok(sges) => list.elements(sges),
        Err(errno) => list.note(errno),
    });
}

extern "C" fn wr_set_inline_data(qp: Option<Ptr<Qp>>, addr: *const c_void, length: usize) {
    let at = addr.expose_provenance() as u64;
    with(&qp, |_, list| list.inline([(at, length)].into_iter()));
}

extern "C" fn wr_set_inline_data_list(qp: Option<Ptr<Qp>>, len: usize, first: *const ibv_data_buf) {
    with(&qp, |_, list| match array(first, len) {
        Ok(pieces) => {
            let piece =
                |piece: &ibv_data_buf| (piece.addr.expose_provenance() as u64, piece.length);
            list.inline(pieces.iter().map(piece));
        }
        Err(errno) => list.note(errno),
    });
}
