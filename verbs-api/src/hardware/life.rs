//! Whether the device is still there, and what it tells without being asked.
//!
//! A thread takes the asynchronous events, so that a device that fails is noticed by a program that
//! never asks: every wait ends then, and every poll that finds nothing says so.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use softrnic_model::verbs::{AsyncEvent, CqId, QpNum, SrqId, VerbError};

use super::errno::{EIO, last_errno, refusal};
use super::layout::{Ptr, Zeroed, ibv_async_event, ibv_context, ibv_cq_ex, ibv_qp_ex, ibv_srq};
use super::library::Library;
use super::table::Handle;
use crate::machine::events::EventQueue;
use crate::provider::Verb;

/// What a dead device answers.
const DEAD: VerbError = VerbError::System(EIO, "the device has failed or is gone; open it anew");

/// The state that the context and its watcher share.
#[derive(Debug)]
pub(super) struct Life {
    failed: AtomicBool,
    /// Readable for good once the device has failed.
    alarm: OwnedFd,
    pub(super) events: EventQueue<AsyncEvent>,
}

impl Life {
    fn new() -> io::Result<Self> {
        Ok(Self {
            failed: AtomicBool::new(false),
            alarm: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            events: EventQueue::new()?,
        })
    }

    /// # Errors
    /// `EIO`: the device has failed.
    pub(super) fn judge(&self) -> Verb<()> {
        if self.failed.load(Ordering::Acquire) { Err(DEAD) } else { Ok(()) }
    }

    /// A descriptor that becomes readable when the device fails.
    pub(super) fn alarm(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// The device does not answer any more: ends all that wait.
    pub(super) fn fail(&self) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            self.events.push(AsyncEvent::DeviceFatal);
            // It can only fail at 2^64.
            _ = rustix::io::write(&self.alarm, &1_u64.to_ne_bytes());
            self.events.close();
        }
    }

    /// What the device says of a verb; that it cannot be reached any more concerns all verbs.
    pub(super) fn refused(&self, errno: i32, what: &'static str) -> VerbError {
        if errno == EIO {
            self.fail();
        }
        refusal(errno, what)
    }
}

/// The thread.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) life: Arc<Life>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Takes the events of `context` from now on.
    ///
    /// # Errors
    /// No more descriptors or threads.
    pub(super) fn start(library: &Arc<Library>, context: Handle<ibv_context>) -> io::Result<Self> {
        // SAFETY: the context is open, and this field is never written.
        let descriptor = unsafe { (*context.as_ptr()).async_fd };
        // SAFETY: it is open as long as the context.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        fcntl_setfl(descriptor, fcntl_getfl(descriptor)? | OFlags::NONBLOCK)?;
        let life = Arc::new(Life::new()?);
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        let watch = Watch {
            library: Arc::clone(library),
            context,
            life: Arc::clone(&life),
            stop: stop.try_clone()?,
        };
        let thread = std::thread::Builder::new().name("softrnic-events".into());
        let thread = thread.spawn(move || watch.run())?;
        Ok(Self { life, stop, thread: Some(thread) })
    }

    /// Ends the thread; the context may be closed then.
    pub(super) fn end(&mut self) {
        _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
        self.life.events.close();
    }
}

/// What the thread has.
struct Watch {
    library: Arc<Library>,
    context: Handle<ibv_context>,
    life: Arc<Life>,
    stop: OwnedFd,
}

impl Watch {
    fn run(&self) {
        // SAFETY: the context is not closed before this thread has ended.
        let descriptor = unsafe { BorrowedFd::borrow_raw((*self.context.as_ptr()).async_fd) };
        loop {
            let mut waiting = [
                PollFd::from_borrowed_fd(descriptor, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match poll(&mut waiting, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return self.life.fail(),
            }
            if !waiting[1].revents().is_empty() {
                return;
            }
            if !waiting[0].revents().is_empty() && !self.take_all() {
                return self.life.fail();
            }
        }
    }

    /// Takes the events that wait; `false` if there will be no more.
    fn take_all(&self) -> bool {
        loop {
            let mut event = ibv_async_event::zeroed();
            // SAFETY: the context is open, and the event is ours.
            let taken =
                unsafe { (self.library.ibv_get_async_event)(self.context.ptr(), &raw mut event) };
            if taken != 0 {
                return last_errno() == rustix::io::Errno::AGAIN.raw_os_error();
            }
            let meaning = meaning(&event);
            // SAFETY: it was got a moment ago; what it is about may be destroyed from now on.
            unsafe { (self.library.ibv_ack_async_event)(&raw mut event) };
            match meaning {
                Some(AsyncEvent::DeviceFatal) => return false,
                Some(event) => self.life.events.push(event),
                None => {}
            }
        }
    }
}

/// The number that this backend has given a completion queue: its `cq_context`.
pub(super) fn cq_number(context: *mut core::ffi::c_void) -> CqId {
    CqId(u32::try_from(context.addr()).unwrap_or(0))
}

/// An event in the words of this crate; `None` for those about objects that it does not make.
fn meaning(event: &ibv_async_event) -> Option<AsyncEvent> {
    let element = usize::try_from(event.element).unwrap_or(0);
    let cq = || {
        let cq = Ptr::new(core::ptr::with_exposed_provenance_mut::<ibv_cq_ex>(element))?;
        // SAFETY: a queue is not freed before its events have been acknowledged.
        Some(cq_number(unsafe { (*cq.as_ptr()).cq_context }))
    };
    let qp = || {
        let qp = Ptr::new(core::ptr::with_exposed_provenance_mut::<ibv_qp_ex>(element))?;
        // SAFETY: as above.
        Some(QpNum::new(unsafe { (*qp.as_ptr()).qp_base.qp_num }))
    };
    let srq = || {
        let srq = Ptr::new(core::ptr::with_exposed_provenance_mut::<ibv_srq>(element))?;
        // SAFETY: as above.
        let context = unsafe { (*srq.as_ptr()).srq_context };
        Some(SrqId(u32::try_from(context.addr()).unwrap_or(0)))
    };
    // The numbers of `ibv_event_type`.
    Some(match event.event_type {
        0 => AsyncEvent::CqError(cq()?),
        1 => AsyncEvent::QpFatal(qp()?),
        2 => AsyncEvent::QpRequestError(qp()?),
        3 => AsyncEvent::QpAccessError(qp()?),
        4 => AsyncEvent::CommunicationEstablished(qp()?),
        5 => AsyncEvent::SqDrained(qp()?),
        6 => AsyncEvent::PathMigrated(qp()?),
        7 => AsyncEvent::PathMigrationFailed(qp()?),
        8 => AsyncEvent::DeviceFatal,
        9 => AsyncEvent::PortActive,
        10 => AsyncEvent::PortError,
        11 => AsyncEvent::LidChange,
        12 => AsyncEvent::PkeyChange,
        13 => AsyncEvent::SubnetManagerChange,
        14 => AsyncEvent::SrqError(srq()?),
        15 => AsyncEvent::SrqLimitReached(srq()?),
        16 => AsyncEvent::LastWqeReached(qp()?),
        17 => AsyncEvent::ClientReregister,
        18 => AsyncEvent::GidChange,
        _ => return None,
    })
}
