//! Completions.

use core::ffi::c_int;

use softrnic_model::verbs::{Wc, WcFlags};
use softrnic_verbs::provider;

use super::memory::put;
use crate::errno::Result;
use crate::layout::ibv_wc;
use crate::object::Object;
use crate::objects::Cq;

/// Completions taken from the device at a time.
const BATCH: usize = 16;

/// `imm_data` of C: immediate data in network order, or the key that was invalidated.
#[inline]
pub(crate) const fn immediate(wc: &Wc) -> u32 {
    if wc.flags.contains(WcFlags::WITH_INV) { wc.invalidated_rkey.0 } else { wc.imm_data.to_be() }
}

impl From<&Wc> for ibv_wc {
    #[inline]
    fn from(wc: &Wc) -> Self {
        Self {
            wr_id: wc.wr_id,
            status: wc.status as u32,
            opcode: wc.opcode as u32,
            vendor_err: wc.vendor_err,
            byte_len: wc.byte_len,
            imm_data: immediate(wc),
            qp_num: wc.qp_num.get(),
            src_qp: wc.src_qp.get(),
            wc_flags: wc.flags.bits().into(),
            pkey_index: wc.pkey_index,
            slid: 0,
            sl: wc.sl,
            dlid_path_bits: 0,
        }
    }
}

/// Takes up to `wanted` completions into the array at `into`.
#[inline]
pub(crate) fn poll(cq: &Object<Cq>, wanted: c_int, into: *mut ibv_wc) -> Result<c_int> {
    let device = cq.shared.device()?;
    let wanted = usize::try_from(wanted)?;
    if wanted == 1 {
        return poll_into(device, cq, &mut [Wc::default()], into, 0);
    }
    let mut room = [Wc::default(); BATCH];
    let mut taken = 0;
    while taken < wanted {
        let room = &mut room[..BATCH.min(wanted - taken)];
        let asked = room.len();
        let got = match poll_into(device, cq, room, into, taken) {
            // What has been taken is handed out; the error comes again.
            Err(_) if taken > 0 => break,
            got => usize::try_from(got?)?,
        };
        taken += got;
        if got < asked {
            break;
        }
    }
    Ok(c_int::try_from(taken)?)
}

#[inline]
fn poll_into(
    device: &dyn provider::Context,
    cq: &Object<Cq>,
    room: &mut [Wc],
    into: *mut ibv_wc,
    at: usize,
) -> Result<c_int> {
    let taken = device.poll_cq(cq.id, room)?;
    for (index, wc) in room.iter().take(taken).enumerate() {
        put(into, at + index, wc.into());
    }
    Ok(c_int::try_from(taken)?)
}
