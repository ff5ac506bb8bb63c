//! Chains of work requests, posted in batches.

use core::ffi::c_int;
use core::mem::MaybeUninit;

use softrnic_model::verbs::{RecvWr, SendWr};
use softrnic_verbs::PostError;

use super::batch::{Batch, InlineRoom};
use super::memory::put_if_wanted;
use super::requests::{receive_request, send_request};
use crate::errno::{Errno, Result, guarded};
use crate::layout::{ibv_recv_wr, ibv_send_wr};
use crate::object::Object;
use crate::objects::Qp;

/// Requests posted at a time.
pub(crate) const BATCH: usize = 16;
/// Inline bytes of them; no device takes more in one request.
const INLINE_MAX: usize = 4096;

/// The request at `at`, if there is one.
#[expect(unsafe_code, reason = "C passes chains")]
#[inline]
fn request<'a, T>(at: *mut T) -> Option<&'a T> {
    // SAFETY: C vouches for the chain for as long as the call lasts.
    unsafe { at.as_ref() }
}

/// Where a batch ended.
enum End<W> {
    /// At the end of the chain.
    Chain,
    /// It is full, and goes on here.
    Full(*mut W),
    /// Before a request that is wrong.
    Refused(*mut W, Errno),
}

/// Tells C which request was refused.
fn report<W>(post: Result<core::result::Result<(), (*mut W, Errno)>>, bad: *mut *mut W) -> c_int {
    match post {
        Ok(Ok(())) => 0,
        Ok(Err((wr, Errno(errno)))) => {
            put_if_wanted(bad, wr);
            errno
        }
        Err(Errno(errno)) => errno,
    }
}

/// `ibv_post_send(3)`
#[inline]
pub(crate) fn post_sends(
    qp: &Object<Qp>,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    report(guarded(|| Ok(try_sends(qp, first))), bad)
}

fn try_sends(
    qp: &Object<Qp>,
    first: *mut ibv_send_wr,
) -> core::result::Result<(), (*mut ibv_send_wr, Errno)> {
    let device = qp.shared.device().map_err(|errno| (first, errno))?;
    let mut next = first;
    loop {
        let mut inline = [const { MaybeUninit::uninit() }; INLINE_MAX];
        let mut room = InlineRoom::new(&mut inline);
        let mut batch = Batch::<SendWr<'_>, BATCH>::new();
        let mut origins = Batch::<*mut ibv_send_wr, BATCH>::new();
        let end = loop {
            let Some(wr) = request(next) else { break End::Chain };
            if batch.is_full() {
                break End::Full(next);
            }
            let whole = room.left() == INLINE_MAX;
            match send_request(wr, qp.qp_type, &mut room) {
                Ok(Some(request)) => batch.push(request),
                // Too much for what others have left, or for any batch.
                Ok(None) if whole => break End::Refused(next, Errno::INVALID),
                Ok(None) => break End::Full(next),
                Err(errno) => break End::Refused(next, errno),
            };
            origins.push(next);
            next = wr.next;
        };
        let posted = device.post_send(qp.number, batch.as_slice());
        match judge(posted, origins.as_slice(), first, end)? {
            Some(rest) => next = rest,
            None => return Ok(()),
        }
    }
}

/// Posts a chain of receives by `post`.
#[inline]
pub(crate) fn post_receives(
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<core::result::Result<(), PostError>>,
) -> c_int {
    report(guarded(|| Ok(try_receives(first, post))), bad)
}

fn try_receives(
    first: *mut ibv_recv_wr,
    post: impl Fn(&[RecvWr<'_>]) -> Result<core::result::Result<(), PostError>>,
) -> core::result::Result<(), (*mut ibv_recv_wr, Errno)> {
    let mut next = first;
    loop {
        let mut batch = Batch::<RecvWr<'_>, BATCH>::new();
        let mut origins = Batch::<*mut ibv_recv_wr, BATCH>::new();
        let end = loop {
            let Some(wr) = request(next) else { break End::Chain };
            if batch.is_full() {
                break End::Full(next);
            }
            match receive_request(wr) {
                Ok(request) => batch.push(request),
                Err(errno) => break End::Refused(next, errno),
            };
            origins.push(next);
            next = wr.next;
        };
        let posted = post(batch.as_slice()).map_err(|errno| (first, errno))?;
        match judge(posted, origins.as_slice(), first, end)? {
            Some(rest) => next = rest,
            None => return Ok(()),
        }
    }
}

/// What comes after a batch: the rest of the chain, nothing, or the request that was refused.
fn judge<W>(
    posted: core::result::Result<(), PostError>,
    origins: &[*mut W],
    first: *mut W,
    end: End<W>,
) -> core::result::Result<Option<*mut W>, (*mut W, Errno)> {
    if let Err(PostError { index, error }) = posted {
        return Err((origins.get(index).copied().unwrap_or(first), error.into()));
    }
    match end {
        End::Chain => Ok(None),
        End::Full(rest) => Ok(Some(rest)),
        End::Refused(wr, errno) => Err((wr, errno)),
    }
}
