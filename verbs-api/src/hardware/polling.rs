//! Taking completions.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use softrnic_model::verbs::{CqId, VerbError, Wc};

use super::convert::completion;
use super::layout::{Ptr, Zeroed, ibv_cq_ex, ibv_wc};
use super::open::{CompletionQueue, HardwareContext};
use crate::provider::Verb;

/// Completions that are taken at a time.
const BATCH: usize = 16;

const UNPOLLABLE: &str = "the completion queue cannot be polled, or has overrun";

impl HardwareContext {
    /// A device that has failed and tells nothing more says so: what is still posted never completes.
    pub(super) fn poll(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
        let taken = self.cqs.with(cq.0, |cq| match cq.clock_khz {
            None => self.poll_plain(cq, into),
            Some(khz) => self.poll_stamped(cq.handle.ptr(), khz, into),
        })?;
        if taken == 0 && !into.is_empty() {
            self.life().judge()?;
        }
        Ok(taken)
    }

    fn poll_plain(&self, cq: &CompletionQueue, into: &mut [Wc]) -> Verb<usize> {
        // SAFETY: the context is open; libraries change functions only while it is being opened.
        let poll = unsafe { (*self.handle.as_ptr()).ops.poll_cq };
        let poll = poll.ok_or(VerbError::NotSupported("the device has no poll_cq"))?;
        let mut taken = 0;
        while taken < into.len() {
            let mut room = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
            let wanted = BATCH.min(into.len() - taken);
            let asked = c_int::try_from(wanted).unwrap_or(1);
            // SAFETY: the queue is there, and the room is as large as said.
            let got = unsafe { poll(Some(cq.handle.ptr()), asked, room.as_mut_ptr().cast()) };
            let Ok(got) = usize::try_from(got) else {
                // What has been taken is handed out; the error comes again.
                if taken > 0 {
                    break;
                }
                let errno = if got < -1 { -got } else { 22 };
                return Err(self.life().refused(errno, UNPOLLABLE));
            };
            for (place, wc) in into[taken..].iter_mut().zip(&room).take(got.min(wanted)) {
                // SAFETY: the device has written as many as it said.
                *place = completion(unsafe { wc.assume_init_ref() }, 0);
            }
            taken += got.min(wanted);
            if got < wanted {
                break;
            }
        }
        Ok(taken)
    }

    /// By the extended functions, which are the queue's own.
    fn poll_stamped(&self, cq: Ptr<ibv_cq_ex>, khz: u64, into: &mut [Wc]) -> Verb<usize> {
        /// `ENOENT`: there is none, or no more.
        const NONE: i32 = 2;
        if into.is_empty() {
            return Ok(0);
        }
        let missing = VerbError::NotSupported("the completion queue is not an extended one");
        // SAFETY: it was made by `ibv_create_cq_ex` and is there; its functions do not change.
        let extended = unsafe { *cq.as_ptr() };
        let (start, next) =
            (extended.start_poll.ok_or(missing)?, extended.next_poll.ok_or(missing)?);
        let end = extended.end_poll.ok_or(missing)?;
        let options = 0_u32; // the zero `ibv_poll_cq_attr`
        // SAFETY: as above; the struct of options is one number.
        match unsafe { start(Some(cq), &raw const options) } {
            0 => {}
            NONE => return Ok(0),
            errno => return Err(self.life().refused(errno, UNPOLLABLE)),
        }
        let mut taken = 0;
        loop {
            into[taken] = read_stamped(cq, khz);
            taken += 1;
            // SAFETY: polling has started and not ended.
            if taken == into.len() || unsafe { next(Some(cq)) } != 0 {
                break;
            }
        }
        // SAFETY: as above.
        unsafe { end(Some(cq)) };
        Ok(taken)
    }
}

/// The completion at which polling is.
fn read_stamped(cq: Ptr<ibv_cq_ex>, khz: u64) -> Wc {
    // SAFETY: the queue is there; the head has been filled in by the device.
    let now = unsafe { *cq.as_ptr() };
    let word = |read: Option<unsafe extern "C" fn(Option<Ptr<ibv_cq_ex>>) -> u32>| {
        // SAFETY: polling is at a completion, and these functions were asked for with the queue.
        read.map_or(0, |read| unsafe { read(Some(cq)) })
    };
    let mut wc = ibv_wc::zeroed();
    (wc.wr_id, wc.status) = (now.wr_id, now.status);
    wc.qp_num = word(now.read_qp_num);
    if wc.status != 0 {
        wc.vendor_err = word(now.read_vendor_err);
        return completion(&wc, 0);
    }
    wc.opcode = word(now.read_opcode);
    wc.wc_flags = word(now.read_wc_flags);
    wc.byte_len = word(now.read_byte_len);
    wc.imm_data = word(now.read_imm_data);
    wc.src_qp = word(now.read_src_qp);
    // SAFETY: as above.
    wc.sl = now.read_sl.map_or(0, |read| unsafe { read(Some(cq)) });
    // SAFETY: as above.
    let ticks = now.read_completion_ts.map_or(0, |read| unsafe { read(Some(cq)) });
    let ns = u128::from(ticks) * 1_000_000 / u128::from(khz.max(1));
    completion(&wc, u64::try_from(ns).unwrap_or(u64::MAX))
}
