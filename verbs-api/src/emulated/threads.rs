//! Threads of a device. They run in somebody else's program, whose signals are none of their
//! business.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that takes no signals but those of its own faults.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    // A thread begins with the mask of the one that started it.
    let _blocked = signals::Blocked::new();
    Builder::new().name(name.into()).spawn(run)
}

/// Asks the scheduler to let this thread run soon when it is woken, for a short time. Its work is a
/// few microseconds, and whoever waits for it may be spinning on the processor that it needs. Where
/// the kernel does not know of this (Linux before 6.12), nothing changes.
pub(super) fn be_prompt() {
    #[cfg(target_os = "linux")]
    prompt::ask();
}

#[cfg(target_os = "linux")]
mod prompt {
    #![expect(unsafe_code, reason = "a system call that no crate has")]

    use std::ptr::{from_mut, from_ref};

    /// `struct sched_attr` (`sched_setattr(2)`), as it was at first.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        /// Of ordinary threads, the slice in nanoseconds.
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    const SIZE: u32 = 48;
    const _: () = assert!(size_of::<Attributes>() == SIZE as usize);
    /// The shortest slice that there is.
    const SLICE_NS: u64 = 100_000;

    pub(super) fn ask() {
        let mut attributes = Attributes::default();
        // SAFETY: it fills in no more than `SIZE` bytes.
        let got = unsafe {
            libc::syscall(libc::SYS_sched_getattr, 0, from_mut(&mut attributes), SIZE, 0)
        };
        // An ordinary thread stays one.
        if got == 0 && attributes.policy == libc::SCHED_OTHER.cast_unsigned() {
            attributes.size = SIZE;
            attributes.runtime = SLICE_NS;
            // SAFETY: it reads `SIZE` bytes. Should it fail, the thread is as prompt as any.
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, from_ref(&attributes), 0) };
        }
    }
}

#[cfg(unix)]
mod signals {
    #![expect(unsafe_code, reason = "signal masks")]

    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    /// What a fault of the thread itself raises: blocking it would end the process.
    const OWN: [libc::c_int; 5] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

    /// While it lives, this thread takes no others; then its mask is as before.
    pub(super) struct Blocked(libc::sigset_t);

    impl Blocked {
        pub(super) fn new() -> Self {
            let mut all = MaybeUninit::uninit();
            let mut before = MaybeUninit::uninit();
            // SAFETY: the first call fills `all`; with valid sets and signals none of these fails, and
            // the last fills `before`.
            unsafe {
                libc::sigfillset(all.as_mut_ptr());
                for signal in OWN {
                    libc::sigdelset(all.as_mut_ptr(), signal);
                }
                libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
                Self(before.assume_init())
            }
        }
    }

    impl Drop for Blocked {
        fn drop(&mut self) {
            // SAFETY: the set is one that was filled in by the system.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
        }
    }
}

#[cfg(not(unix))]
mod signals {
    pub(super) struct Blocked;

    impl Blocked {
        pub(super) const fn new() -> Self {
            Self
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    /// The mask of blocked signals of the thread that asks (`proc_pid_status(5)`).
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        u64::from_str_radix(line, 16).unwrap()
    }

    #[test]
    fn a_thread_takes_no_signals_and_its_maker_goes_on_as_before() {
        let before = blocked();
        let inside = super::spawn("quiet", blocked).unwrap().join().unwrap();
        assert_eq!(blocked(), before);
        let bit = |signal: i32| 1_u64 << (signal - 1);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGCHLD, libc::SIGUSR1] {
            assert_ne!(inside & bit(signal), 0, "{signal}");
        }
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            assert_eq!(inside & bit(signal), 0, "{signal}");
        }
    }
}
