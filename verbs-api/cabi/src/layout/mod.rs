//! The public structs of libibverbs ([`softrnic_ffi`]) as this library hands them out: pointers are
//! [`Ptr`]s, and functions are safe ones, for they are ours.
#![expect(
    non_camel_case_types,
    reason = "the names of C, so that a reader finds them in the headers"
)]

#[cfg(test)]
mod tests;
mod unions;

use core::ffi::{c_int, c_void};

pub(crate) use softrnic_ffi::{Absent, Cond, Mutex, layout};

use crate::object::Ptr;
use crate::objects as of;

/// `ibv_sge` has the layout of the device's own element, so lists are passed on as they are.
pub(crate) type ibv_sge = softrnic_model::verbs::Sge;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ibv_sge>() == 16 && align_of::<ibv_sge>() == 8);
    assert!(offset_of!(ibv_sge, addr) == 0);
    assert!(offset_of!(ibv_sge, length) == 8);
    assert!(offset_of!(ibv_sge, lkey) == 12);
};

softrnic_ffi::work!();
softrnic_ffi::attributes!();
softrnic_ffi::objects!(extern "C");
softrnic_ffi::context!(extern "C");

/// How far [`ibv_context`] is from the start of the record that it ends.
pub(crate) const CONTEXT_AT: usize = core::mem::offset_of!(verbs_context, context);
const _: () = assert!(CONTEXT_AT + size_of::<ibv_context>() == size_of::<verbs_context>());

/// Sizes that only some calls carry.
const _: () = {
    assert!(size_of::<ibv_qp_cap>() == 20);
    assert!(size_of::<Option<Ptr<of::Context>>>() == size_of::<*mut ibv_context>());
};

/// A struct of which every bit pattern is a value, the zero one above all.
///
/// # Safety
/// All bytes zero is a valid value.
pub(crate) unsafe trait Zeroed: Sized {
    /// All fields 0, NULL or absent.
    fn zeroed() -> Self {
        // SAFETY: the implementor's promise.
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! zeroed {
    ($($name:ty),* $(,)?) => { $(
        // SAFETY: integers, arrays of them, and pointers and functions that may be absent.
        unsafe impl Zeroed for $name {}
    )* };
}

zeroed!(
    ibv_ah,
    ibv_ah_attr,
    ibv_async_event,
    ibv_comp_channel,
    ibv_cq_ex,
    ibv_device,
    ibv_device_attr,
    ibv_device_attr_ex,
    ibv_dm,
    ibv_gid_entry,
    ibv_mr,
    ibv_mw,
    ibv_pd,
    ibv_port_attr,
    ibv_qp_attr,
    ibv_qp_cap,
    ibv_qp_ex,
    ibv_qp_init_attr,
    ibv_send_wr,
    ibv_srq,
    ibv_td,
    ibv_wc,
    ibv_xrcd,
    verbs_context,
);
