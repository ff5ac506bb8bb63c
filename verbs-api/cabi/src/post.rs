//! The data path: what inline code of the headers calls through `context->ops`.

use core::ffi::c_int;

use crate::convert::{poll, post_receives, post_sends, put_if_wanted};
use crate::errno::{Errno, guarded};
use crate::layout::{ibv_recv_wr, ibv_send_wr, ibv_wc};
use crate::object::{Ptr, live};
use crate::objects::{Cq, Qp, Srq};

pub(crate) extern "C" fn post_send(
    qp: Option<Ptr<Qp>>,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    match live(&qp) {
        Ok(qp) => post_sends(qp, first, bad),
        Err(errno) => refuse(errno, first, bad),
    }
}

pub(crate) extern "C" fn post_recv(
    qp: Option<Ptr<Qp>>,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    match live(&qp) {
        Ok(qp) => {
            post_receives(first, bad, |wrs| Ok(qp.shared.device()?.post_recv(qp.number, wrs)))
        }
        Err(errno) => refuse(errno, first, bad),
    }
}

pub(crate) extern "C" fn post_srq_recv(
    srq: Option<Ptr<Srq>>,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    match live(&srq) {
        Ok(srq) => {
            post_receives(first, bad, |wrs| Ok(srq.shared.device()?.post_srq_recv(srq.id, wrs)))
        }
        Err(errno) => refuse(errno, first, bad),
    }
}

fn refuse<W>(Errno(errno): Errno, first: *mut W, bad: *mut *mut W) -> c_int {
    put_if_wanted(bad, first);
    errno
}

/// How many completions there were, or a negative errno.
pub(crate) extern "C" fn poll_cq(cq: Option<Ptr<Cq>>, wanted: c_int, into: *mut ibv_wc) -> c_int {
    match guarded(|| poll(live(&cq)?, wanted, into)) {
        Ok(taken) => taken,
        Err(Errno(errno)) => -errno,
    }
}
