//! The handler of SIGSEGV and SIGBUS behind [`super::Guarded`].
//!
//! A fault whose instruction lies in the assembly continues at the assembly's own exit. Everything
//! else goes to whoever had the signal before, as if this handler were not there.
//!
//! **Another library may take the signal later.** If it hands on what it does not know, as it
//! should, nothing changes. If it does not, [`install`] puts a handler on top again: it is called at
//! every registration of memory, so only a fault between the two goes wrong. Each time it is
//! another function (a *level*) with a predecessor of its own, so that a handler that hands on to an
//! earlier level of ours never comes back to itself. After [`LEVELS`] rounds the newest one stays
//! where it is.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::{SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SA_SIGINFO, SIGBUS, SIGSEGV};

/// How often the handler can be put on top of others.
const LEVELS: usize = 8;

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

const HANDLERS: [Handler; LEVELS] = [
    on_fault::<0>,
    on_fault::<1>,
    on_fault::<2>,
    on_fault::<3>,
    on_fault::<4>,
    on_fault::<5>,
    on_fault::<6>,
    on_fault::<7>,
];

/// Who had the signal when a level was installed; null is nobody. Never freed: a handler may be
/// reading it.
type Predecessors = [AtomicPtr<libc::sigaction>; LEVELS];
static SEGV_BEFORE: Predecessors = [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS];
static BUS_BEFORE: Predecessors = [const { AtomicPtr::new(ptr::null_mut()) }; LEVELS];

/// Levels in use, for SIGSEGV and SIGBUS.
static USED: Mutex<[usize; 2]> = Mutex::new([0; 2]);

/// Sees to it that faults of the assembly come to us. Cheap when they do already: two system calls.
pub(super) fn install() {
    let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
    let [segv, bus] = &mut *used;
    put_on_top(SIGSEGV, &SEGV_BEFORE, segv);
    put_on_top(SIGBUS, &BUS_BEFORE, bus);
}

fn put_on_top(signal: c_int, before: &Predecessors, used: &mut usize) {
    let current = action_of(signal);
    if HANDLERS[..*used].iter().any(|ours| address_of(*ours) == current.sa_sigaction) {
        return;
    }
    let Some((handler, before)) = HANDLERS.get(*used).zip(before.get(*used)) else { return };
    // The predecessor is in place before the first signal can ask for it.
    before.store(Box::leak(Box::new(current)), Ordering::Release);
    let mut ours = current;
    ours.sa_sigaction = address_of(*handler);
    // What the predecessor wanted blocked stays blocked when we call it. An alternate stack is
    // needed by those that report stack overflows, and does no harm to others.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (current.sa_flags & (SA_NODEFER | SA_RESTART));
    let mut replaced = MaybeUninit::uninit();
    // SAFETY: both point to a `sigaction`; the handler has the signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(signal, &raw const ours, replaced.as_mut_ptr()) } != 0 {
        return;
    }
    *used += 1;
    // SAFETY: the call succeeded, so it was filled.
    let replaced = unsafe { replaced.assume_init() };
    if replaced.sa_sigaction != current.sa_sigaction {
        // Somebody else was at it between our two calls.
        before.store(Box::leak(Box::new(replaced)), Ordering::Release);
    }
}

fn address_of(handler: Handler) -> libc::sighandler_t {
    handler as *const () as libc::sighandler_t
}

/// Who has the signal now.
fn action_of(signal: c_int) -> libc::sigaction {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; the other points to a `sigaction`.
    unsafe { libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) };
    // SAFETY: all zeros are a `sigaction` too (SIG_DFL), if the call failed.
    unsafe { current.assume_init() }
}

extern "C" fn on_fault<const LEVEL: usize>(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes valid ones to a handler with SA_SIGINFO.
    let ours = unsafe { recover(info, context.cast()) };
    if !ours {
        let before = if signal == SIGBUS { &BUS_BEFORE } else { &SEGV_BEFORE };
        // SAFETY: the same arguments, and what was stored is what `sigaction` told.
        unsafe { hand_on(&before[LEVEL], signal, info, context) };
    }
}

/// Lets the interrupted code continue at the assembly's exit, if it is the assembly that faulted.
///
/// # Safety
/// The arguments of a handler.
unsafe fn recover(info: *const libc::siginfo_t, context: *mut libc::ucontext_t) -> bool {
    // SAFETY: as this function demands.
    if unsafe { was_sent(info) } {
        return false;
    }
    // SAFETY: as this function demands; nobody else looks at it while the handler runs.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let rip = &mut registers[libc::REG_RIP as usize];
    match super::continuation(rip.cast_unsigned()) {
        Some(exit) => {
            *rip = exit.cast_signed();
            true
        }
        None => false,
    }
}

/// Whether a process sent the signal; otherwise an instruction caused it.
///
/// # Safety
/// `info` is that of a handler.
unsafe fn was_sent(info: *const libc::siginfo_t) -> bool {
    // SAFETY: as this function demands.
    unsafe { (*info).si_code <= 0 }
}

/// Does what would have happened without us.
///
/// # Safety
/// The arguments of a handler; `before` holds null or an action that `sigaction` told.
unsafe fn hand_on(
    before: &AtomicPtr<libc::sigaction>,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: never freed once stored.
    let action = unsafe { before.load(Ordering::Acquire).as_ref() };
    let (handler, flags) = action.map_or((libc::SIG_DFL, 0), |a| (a.sa_sigaction, a.sa_flags));
    // SAFETY: as this function demands.
    let sent = unsafe { was_sent(info) };
    match handler {
        libc::SIG_IGN if sent => {}
        // A fault cannot be ignored: the kernel ends the process then, too.
        libc::SIG_DFL | libc::SIG_IGN => default(signal, sent),
        _ => {
            if flags & SA_RESETHAND != 0 {
                before.store(ptr::null_mut(), Ordering::Release);
            }
            if flags & SA_SIGINFO != 0 {
                // SAFETY: an action with SA_SIGINFO holds a handler of this type.
                let handler: Handler = unsafe { core::mem::transmute(handler) };
                handler(signal, info, context);
            } else {
                // SAFETY: an action without it holds a handler of this type.
                let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
                handler(signal);
            }
        }
    }
}

/// Ends the process by the signal. A fault happens again as soon as the handler returns; a signal
/// that was sent does not, so it is sent again.
fn default(signal: c_int, sent: bool) {
    // SAFETY: all zeros are the action SIG_DFL without flags.
    let action = unsafe { core::mem::zeroed::<libc::sigaction>() };
    // SAFETY: points to a `sigaction`; async-signal-safe.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if sent {
        // SAFETY: async-signal-safe.
        unsafe { libc::raise(signal) };
    }
}
