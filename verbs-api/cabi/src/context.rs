//! Opening and closing (`ibv_open_device(3)`), and joining an open device by its descriptor
//! (`ibv_import_device(3)`).

use core::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use rustix::fs::{MemfdFlags, fstat, memfd_create};

use crate::device_list::Device;
use crate::errno::{Errno, Result, guarded, pointer, status};
use crate::layout::{Zeroed, ibv_context, ibv_context_ops, verbs_context};
use crate::object::{Ptr, live};
use crate::objects::Context;
use crate::shared::Shared;
use crate::{
    completion, cq_ex, device_memory, domain, extended, memory, post, qp_ex, query, queue_pair,
    shared_receive, windows,
};

/// How many completion vectors programs may choose from. They make no difference: one engine thread
/// serves all.
const COMPLETION_VECTORS: c_int = 8;
/// `__VERBS_ABI_IS_EXTENDED`
const ABI_IS_EXTENDED: usize = usize::MAX;

const OPS: fn() -> ibv_context_ops = || ibv_context_ops {
    _before_alloc_mw: [None; 7],
    alloc_mw: Some(windows::alloc_mw),
    bind_mw: Some(windows::bind_mw),
    dealloc_mw: Some(windows::dealloc_mw),
    _compat_create_cq: None,
    poll_cq: Some(post::poll_cq),
    req_notify_cq: Some(completion::req_notify_cq),
    _before_post_srq_recv: [None; 7],
    post_srq_recv: Some(post::post_srq_recv),
    _before_post_send: [None; 4],
    post_send: Some(post::post_send),
    post_recv: Some(post::post_recv),
    _after_post_recv: [None; 5],
};

/// What inline code of the headers finds. What is absent is answered by the headers with `EOPNOTSUPP`.
fn table(context: ibv_context) -> verbs_context {
    verbs_context {
        query_port: Some(query::query_port_sized),
        advise_mr: Some(memory::advise_mr),
        alloc_null_mr: Some(device_memory::alloc_null_mr),
        reg_dm_mr: Some(device_memory::reg_dm_mr),
        alloc_dm: Some(device_memory::alloc_dm),
        free_dm: Some(device_memory::free_dm),
        modify_qp_rate_limit: Some(queue_pair::modify_qp_rate_limit),
        alloc_parent_domain: Some(domain::alloc_parent_domain),
        dealloc_td: Some(domain::dealloc_td),
        alloc_td: Some(domain::alloc_td),
        modify_cq: Some(completion::modify_cq),
        query_rt_values: Some(query::query_rt_values),
        create_cq_ex: Some(cq_ex::create_cq_ex),
        query_device_ex: Some(query::query_device_ex),
        create_qp_ex: Some(qp_ex::create_qp_ex),
        create_srq_ex: Some(shared_receive::create_srq_ex),
        open_qp: Some(extended::open_qp),
        get_srq_num: Some(shared_receive::get_srq_num),
        open_xrcd: Some(extended::open_xrcd),
        close_xrcd: Some(extended::close_xrcd),
        sz: size_of::<verbs_context>(),
        context,
        ..verbs_context::zeroed()
    }
}

/// An open device of this process.
struct Open {
    /// Of the descriptor that stands for it.
    inode: Inode,
    device: Ptr<Device>,
    shared: Weak<Shared>,
}

static OPEN: Mutex<Vec<Open>> = Mutex::new(Vec::new());

#[derive(Clone, Copy, PartialEq, Eq)]
struct Inode(u64, u64);

impl Inode {
    fn of(descriptor: impl std::os::fd::AsFd) -> Result<Self> {
        let stat = fstat(descriptor).map_err(std::io::Error::from)?;
        Ok(Self(stat.st_dev, stat.st_ino))
    }
}

/// Makes a context for a device that is open; `command` stands for it.
fn context(device: Ptr<Device>, shared: Arc<Shared>, command: OwnedFd) -> Result<Ptr<Context>> {
    let asynchronous = shared.device()?.async_fd()?;
    let public = ibv_context {
        device: core::ptr::with_exposed_provenance_mut(crate::convert::address(device.address())),
        ops: OPS(),
        cmd_fd: command.as_raw_fd(),
        async_fd: asynchronous.as_raw_fd(),
        num_comp_vectors: COMPLETION_VECTORS,
        mutex: [0; 5],
        abi_compat: ABI_IS_EXTENDED,
    };
    Ok(Ptr::new(table(public), Context { shared, _descriptors: [command, asynchronous] }))
}

pub(crate) extern "C" fn open_device(device: Option<Ptr<Device>>) -> Option<Ptr<Context>> {
    pointer(|| {
        let shared = live(&device)?.open()?;
        let device = device.ok_or(Errno::INVALID)?;
        let command =
            memfd_create("softrnic", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let inode = Inode::of(&command)?;
        at_exit();
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|open| open.shared.strong_count() != 0);
        open.push(Open { inode, device, shared: Arc::downgrade(&shared) });
        drop(open);
        context(device, shared, command)
    })
}

/// Many programs end without closing anything. A real device would have acknowledged what they have
/// been told of, so this one does.
extern "C" fn flush_all() {
    let _ = guarded(|| {
        let open = OPEN.try_lock().map_err(|_| Errno::BUSY)?;
        for shared in open.iter().filter_map(|open| open.shared.upgrade()) {
            shared.device()?.flush();
        }
        Ok(())
    });
}

#[expect(unsafe_code, reason = "registers a handler with the C library")]
fn at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is safe at any time, and the library is never unloaded. Without room
        // for it peers are told by their own timeouts.
        unsafe { libc::atexit(flush_all) };
    });
}

pub(crate) extern "C" fn import_device(descriptor: c_int) -> Option<Ptr<Context>> {
    pointer(|| {
        let command = duplicate(descriptor)?;
        let inode = Inode::of(&command)?;
        let found = {
            let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            let of_inode = open.iter().find(|open| open.inode == inode);
            of_inode.and_then(|open| Some((open.device, open.shared.upgrade()?)))
        };
        // Devices of other processes cannot be shared.
        let (device, shared) = found.ok_or(Errno::NOT_SUPPORTED)?;
        context(device, shared, command)
    })
}

#[expect(unsafe_code, reason = "C passes a descriptor by number")]
fn duplicate(descriptor: c_int) -> Result<OwnedFd> {
    if descriptor < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: it is looked at by a system call only, which refuses what is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(borrowed.try_clone_to_owned()?)
}

pub(crate) extern "C" fn close_device(context: Option<Ptr<Context>>) -> c_int {
    status(|| {
        live(&context)?;
        let context = context.ok_or(Errno::INVALID)?;
        if context.retire() { Ok(()) } else { Err(Errno::INVALID) }
    })
}
