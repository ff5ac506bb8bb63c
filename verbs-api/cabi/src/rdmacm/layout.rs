//! The public structs of librdmacm (`rdma/rdma_cma.h`), as tables of offsets like those of libibverbs.

use core::ffi::{c_char, c_int, c_void};

use softrnic_ffi::Storage;

use crate::layout::{ibv_ah_attr, ibv_gid, ibv_sa_path_rec};
use crate::object::Ptr;

/// What pointers lead to.
mod of {
    pub(super) use super::super::{Event, EventChannel, Id};
    pub(super) use crate::objects::{Channel, Context, Cq, Pd, Qp, Srq};
}

softrnic_ffi::rdmacm!();
