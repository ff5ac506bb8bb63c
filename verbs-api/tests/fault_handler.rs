//! The handler of SIGSEGV and SIGBUS that registered memory needs leaves all other faults to whom
//! they belong. Each case runs in a process of its own, for a signal handler belongs to all of it.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![expect(unsafe_code, reason = "installs signal handlers and faults on purpose")]
#![expect(clippy::expect_used, reason = "a test may fail like this")]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::env;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::ptr;

use softrnic_model::{Memory as _, MemoryFault};
use softrnic_verbs::host_memory::{HostMemory, Native};

const CASE: &str = "SOFTRNIC_TEST_CASE";
const SURVIVED: i32 = 40;
const PLAIN: i32 = 41;
const WITH_INFO: i32 = 42;
const WRONG_INFO: i32 = 43;

const CASES: &[(&str, fn())] = &[
    ("with_info_then_fault", || {
        set(libc::SIGSEGV, with_info as *const () as usize, libc::SA_SIGINFO);
        table_survives_own_faults();
        fault();
    }),
    ("plain_then_fault", || {
        set(libc::SIGSEGV, plain as *const () as usize, 0);
        table_survives_own_faults();
        fault();
    }),
    ("default_then_fault", || {
        set(libc::SIGSEGV, libc::SIG_DFL, 0);
        table_survives_own_faults();
        fault();
    }),
    ("default_then_sent", || {
        set(libc::SIGBUS, libc::SIG_DFL, 0);
        table_survives_own_faults();
        send(libc::SIGBUS);
    }),
    ("ignored_then_fault", || {
        set(libc::SIGSEGV, libc::SIG_IGN, 0);
        table_survives_own_faults();
        fault();
    }),
    ("ignored_then_sent", || {
        set(libc::SIGSEGV, libc::SIG_IGN, 0);
        table_survives_own_faults();
        send(libc::SIGSEGV);
        table_survives_own_faults();
    }),
    ("sent_to_handler", || {
        set(libc::SIGSEGV, plain as *const () as usize, 0);
        table_survives_own_faults();
        send(libc::SIGSEGV);
    }),
    ("once_then_default", || {
        set(libc::SIGSEGV, count as *const () as usize, libc::SA_RESETHAND);
        table_survives_own_faults();
        send(libc::SIGSEGV);
        assert_eq!(COUNT.load(Ordering::Relaxed), 1);
        send(libc::SIGSEGV);
    }),
    ("taken_later_without_handing_on", || {
        table_survives_own_faults();
        set(libc::SIGSEGV, plain as *const () as usize, 0);
        table_survives_own_faults();
        fault();
    }),
    ("taken_later_and_handing_on", || {
        set(libc::SIGSEGV, with_info as *const () as usize, libc::SA_SIGINFO);
        table_survives_own_faults();
        // Takes the signal, hands on to us, and is found beneath us afterwards: no circle.
        let before = set(libc::SIGSEGV, hands_on as *const () as usize, libc::SA_SIGINFO);
        BEFORE.store(before, Ordering::Relaxed);
        table_survives_own_faults();
        table_survives_own_faults();
        fault();
    }),
    ("taken_again_and_again", || {
        for _ in 0..20 {
            set(libc::SIGSEGV, with_info as *const () as usize, libc::SA_SIGINFO);
            let _ = HostMemory::<Native>::new();
        }
        fault();
    }),
    ("stack_overflow_is_still_reported", || {
        table_survives_own_faults();
        std::hint::black_box(recurse(0));
    }),
];

/// What must become of the process: an exit code, or a signal that ends it.
const EXPECTED: &[(&str, Result<i32, i32>)] = &[
    ("with_info_then_fault", Ok(WITH_INFO)),
    ("plain_then_fault", Ok(PLAIN)),
    ("default_then_fault", Err(libc::SIGSEGV)),
    ("default_then_sent", Err(libc::SIGBUS)),
    ("ignored_then_fault", Err(libc::SIGSEGV)),
    ("ignored_then_sent", Ok(SURVIVED)),
    ("sent_to_handler", Ok(PLAIN)),
    ("once_then_default", Err(libc::SIGSEGV)),
    ("taken_later_without_handing_on", Ok(PLAIN)),
    ("taken_later_and_handing_on", Ok(WITH_INFO)),
    ("taken_again_and_again", Ok(WITH_INFO)),
    ("stack_overflow_is_still_reported", Err(libc::SIGABRT)),
];

#[test]
fn foreign_faults_go_where_they_went_before() {
    assert_eq!(CASES.len(), EXPECTED.len());
    for &(case, expected) in EXPECTED {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CASE, case)
            .output()
            .unwrap();
        assert_eq!(outcome(child.status), expected, "{case}: {child:?}");
        if case == "stack_overflow_is_still_reported" {
            let said = String::from_utf8_lossy(&child.stderr);
            assert!(said.contains("has overflowed its stack"), "{said}");
        }
    }
}

fn outcome(status: ExitStatus) -> Result<i32, i32> {
    status.code().ok_or_else(|| status.signal().unwrap_or(0))
}

/// The other side of the test above; without the variable it has nothing to do.
#[test]
fn child() {
    let Ok(name) = env::var(CASE) else { return };
    let (_, case) = CASES.iter().find(|(known, _)| *known == name).unwrap();
    case();
    std::process::exit(SURVIVED);
}

/// A page without rights.
fn forbidden() -> *mut u8 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping where the kernel likes.
    let page = unsafe { libc::mmap(ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(page, libc::MAP_FAILED);
    page.cast()
}

fn table_survives_own_faults() {
    let mut table = HostMemory::<Native>::new();
    // SAFETY: nobody else knows the page.
    let added = unsafe { table.add(forbidden(), 4096, None) };
    let id = added.expect("there is room");
    assert_eq!(table.read(id, 0, &mut [0; 64]), Err(MemoryFault));
    assert_eq!(table.write(id, 8, &[0; 1024]), Err(MemoryFault));
    assert_eq!(table.fetch_add(id, 8, 1), Err(MemoryFault));
}

/// A fault that is none of ours.
fn fault() {
    // SAFETY: none; this is to fault.
    unsafe { forbidden().write_volatile(1) };
}

fn send(signal: c_int) {
    // To this thread: a signal to the process may be taken by another one, later.
    // SAFETY: no preconditions.
    unsafe { libc::raise(signal) };
}

/// Sets a handler and returns the one before.
fn set(signal: c_int, handler: usize, flags: c_int) -> usize {
    // SAFETY: all zeros are a `sigaction`.
    let mut action = unsafe { core::mem::zeroed::<libc::sigaction>() };
    let mut before = action;
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: both point to a `sigaction`; the handlers here have the types their flags ask for.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, &raw mut before) }, 0);
    before.sa_sigaction
}

extern "C" fn plain(_: c_int) {
    // SAFETY: async-signal-safe.
    unsafe { libc::_exit(PLAIN) };
}

extern "C" fn with_info(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the arguments of a handler.
    let known = signal == libc::SIGSEGV && unsafe { (*info).si_code } == 2 && !context.is_null();
    // SAFETY: async-signal-safe. The code 2 is SEGV_ACCERR.
    unsafe { libc::_exit(if known { WITH_INFO } else { WRONG_INFO }) };
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: c_int) {
    COUNT.fetch_add(1, Ordering::Relaxed);
}

static BEFORE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn hands_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what `sigaction` told to be an SA_SIGINFO handler.
    let before: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
        unsafe { core::mem::transmute(BEFORE.load(Ordering::Relaxed)) };
    before(signal, info, context);
}

#[expect(unconditional_recursion, reason = "overflows the stack on purpose")]
fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + std::hint::black_box(frame)[0]
}
