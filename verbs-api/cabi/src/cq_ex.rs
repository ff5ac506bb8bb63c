//! Completion queues that are read field by field (`ibv_create_cq_ex(3)`).

use core::ffi::{c_int, c_void};
use std::time::{SystemTime, UNIX_EPOCH};

use softrnic_model::verbs::Wc;

use crate::completion::{Wanted, create};
use crate::convert::immediate;
use crate::errno::{Errno, Result, guarded, pointer, status};
use crate::layout::{Zeroed, ibv_cq_ex, ibv_cq_init_attr_ex};
use crate::object::{Object, Ptr, live};
use crate::objects::{Context, Cq};

/// `ibv_create_cq_wc_flags` that can be read. Of the others nothing is known: VLANs, flow tags, tag
/// matching.
const READABLE: u64 = STANDARD | TIMESTAMP | WALLCLOCK;
/// `IBV_WC_STANDARD_FLAGS`, `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP`, `…_TIMESTAMP_WALLCLOCK`
const STANDARD: u64 = (1 << 7) - 1;
const TIMESTAMP: u64 = 1 << 7;
const WALLCLOCK: u64 = 1 << 11;

pub(crate) extern "C" fn create_cq_ex(
    context: Option<Ptr<Context>>,
    attr: Option<&ibv_cq_init_attr_ex>,
) -> Option<Ptr<Cq>> {
    pointer(|| {
        /// `IBV_CQ_INIT_ATTR_MASK_FLAGS`, `_PD`
        const FLAGS: u32 = 1;
        const PD: u32 = 1 << 1;
        /// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`: a promise that is not needed.
        const SINGLE_THREADED: u32 = 1;
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.comp_mask & !(FLAGS | PD) != 0 || attr.wc_flags & !READABLE != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if attr.comp_mask & FLAGS != 0 && attr.flags & !SINGLE_THREADED != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let wanted = Wanted {
            entries: attr.cqe,
            cq_context: attr.cq_context,
            channel: attr.channel,
            comp_vector: attr.comp_vector,
            timestamps: attr.wc_flags & (TIMESTAMP | WALLCLOCK) != 0,
            parent: if attr.comp_mask & PD != 0 { attr.parent_domain } else { None },
        };
        create(context, &wanted, functions())
    })
}

fn functions() -> ibv_cq_ex {
    ibv_cq_ex {
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_none),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_no_byte),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: None,
        read_flow_tag: None,
        read_tm_info: None::<extern "C" fn(Option<Ptr<Cq>>, *mut c_void)>,
        read_completion_wallclock_ns: Some(read_completion_wallclock_ns),
        ..ibv_cq_ex::zeroed()
    }
}

/// Takes the next completion.
///
/// # Errors
/// `ENOENT`: there is none.
fn take(cq: &Object<Cq>) -> Result<()> {
    let mut taken = [Wc::default()];
    if cq.shared.device()?.poll_cq(cq.id, &mut taken)? == 0 {
        return Err(Errno(libc::ENOENT));
    }
    let [wc] = taken;
    cq.polling.set(wc);
    cq.change(|public| (public.wr_id, public.status) = (wc.wr_id, wc.status as u32));
    Ok(())
}

extern "C" fn start_poll(cq: Option<Ptr<Cq>>, attr: *const u32) -> c_int {
    status(|| {
        let cq = live(&cq)?;
        if crate::convert::array(attr, usize::from(!attr.is_null()))?.iter().any(|mask| *mask != 0)
        {
            return Err(Errno::INVALID);
        }
        cq.polling.turn.take();
        // C calls the end only after a start that found something.
        take(cq).inspect_err(|_| cq.polling.turn.give())
    })
}

extern "C" fn next_poll(cq: Option<Ptr<Cq>>) -> c_int {
    status(|| take(live(&cq)?))
}

extern "C" fn end_poll(cq: Option<Ptr<Cq>>) {
    let _ = guarded(|| {
        live(&cq)?.polling.turn.give();
        Ok(())
    });
}

/// Reads from the completion at hand; 0 of a queue that is gone.
#[inline]
fn read<T: Default>(cq: &Option<Ptr<Cq>>, of: impl FnOnce(&Wc) -> T) -> T {
    live(cq).map_or_else(|_| T::default(), |cq| of(&cq.polling.current()))
}

extern "C" fn read_opcode(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, |wc| wc.opcode as u32)
}

extern "C" fn read_vendor_err(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, |wc| wc.vendor_err)
}

extern "C" fn read_byte_len(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, |wc| wc.byte_len)
}

extern "C" fn read_imm_data(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, immediate)
}

extern "C" fn read_qp_num(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, |wc| wc.qp_num.get())
}

extern "C" fn read_src_qp(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, |wc| wc.src_qp.get())
}

extern "C" fn read_wc_flags(cq: Option<Ptr<Cq>>) -> u32 {
    read(&cq, |wc| wc.flags.bits().into())
}

extern "C" fn read_completion_ts(cq: Option<Ptr<Cq>>) -> u64 {
    read(&cq, |wc| wc.timestamp)
}

/// The time of day at which it completed: as long before now as the device's clock says.
extern "C" fn read_completion_wallclock_ns(cq: Option<Ptr<Cq>>) -> u64 {
    let time = guarded(|| {
        let cq = live(&cq)?;
        let age = cq.shared.device()?.query_clock()?.saturating_sub(cq.polling.current().timestamp);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| Errno::INVALID)?;
        Ok(u64::try_from(now.as_nanos())?.saturating_sub(age))
    });
    time.unwrap_or(0)
}

extern "C" fn read_sl(cq: Option<Ptr<Cq>>) -> u8 {
    read(&cq, |wc| wc.sl)
}

/// LIDs are InfiniBand's.
extern "C" fn read_none(_: Option<Ptr<Cq>>) -> u32 {
    0
}

extern "C" fn read_no_byte(_: Option<Ptr<Cq>>) -> u8 {
    0
}
