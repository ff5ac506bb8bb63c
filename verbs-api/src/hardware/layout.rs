//! The structs of libibverbs and librdmacm ([`softrnic_ffi`]) as they come from C: pointers lead to the public structs
//! that the names say, and functions are called at one's own risk.
#![expect(
    non_camel_case_types,
    reason = "the names of C, so that a reader finds them in the headers"
)]

use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;

use softrnic_ffi::{Absent, Cond, Mutex};

pub(super) use softrnic_ffi::Storage;

/// A pointer that libibverbs gave out, to something that has not been destroyed.
pub(super) type Ptr<T> = NonNull<T>;

/// What pointers lead to. Of a completion queue and a queue pair only the head need be there: the rest
/// belongs to the extended ones.
mod of {
    pub(super) use super::{
        ibv_ah as Ah, ibv_comp_channel as Channel, ibv_context as Context, ibv_cq_ex as Cq,
        ibv_dm as Dm, ibv_mr as Mr, ibv_mw as Mw, ibv_pd as Pd, ibv_qp_ex as Qp, ibv_srq as Srq,
        ibv_td as Td, ibv_xrcd as Xrcd, rdma_cm_event as Event, rdma_cm_id as Id,
        rdma_event_channel as EventChannel,
    };
}

/// `ibv_sge` has the layout of the device's own element, so lists are passed on as they are.
pub(super) type ibv_sge = softrnic_model::verbs::Sge;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ibv_sge>() == 16 && align_of::<ibv_sge>() == 8);
    assert!(offset_of!(ibv_sge, addr) == 0);
    assert!(offset_of!(ibv_sge, length) == 8);
    assert!(offset_of!(ibv_sge, lkey) == 12);
};

softrnic_ffi::work!();
softrnic_ffi::attributes!();
softrnic_ffi::objects!(unsafe extern "C");
softrnic_ffi::context!(unsafe extern "C");
softrnic_ffi::rdmacm!();

/// A struct of which every bit pattern is a value, the zero one above all.
///
/// # Safety
/// All bytes zero is a valid value.
pub(super) unsafe trait Zeroed: Sized {
    /// All fields 0 or NULL.
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
    ibv_ah_attr,
    ibv_async_event,
    ibv_cq_init_attr_ex,
    ibv_device_attr_ex,
    ibv_gid_entry,
    ibv_port_attr,
    ibv_qp_attr,
    ibv_qp_init_attr,
    ibv_qp_init_attr_ex,
    ibv_recv_wr,
    ibv_send_wr,
    ibv_srq_init_attr,
    ibv_srq_init_attr_ex,
    ibv_values_ex,
    ibv_wc,
    rdma_conn_param,
);
