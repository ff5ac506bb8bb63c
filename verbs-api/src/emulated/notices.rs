//! Word from the system that something about its interfaces has changed.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::Notices;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use silent::Notices;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use polling::{Event, PollMode, Poller};
    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

    /// Links, IPv4 addresses, IPv6 addresses: bits 0, 4 and 8 of the groups (`rtnetlink(7)`).
    const GROUPS: u32 = 1 | 1 << 4 | 1 << 8;

    /// A socket that is readable after a change. What it says is not looked at: whoever is told
    /// asks for the whole list.
    #[derive(Debug)]
    pub(in super::super) struct Notices(OwnedFd);

    impl Notices {
        /// # Errors
        /// The system has no such socket; ask for the list from time to time instead.
        pub(in super::super) fn new() -> io::Result<Self> {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
            Ok(Self(socket))
        }

        /// Lets `poller` wake with `key` for as long as something has not been taken.
        #[expect(unsafe_code, reason = "the poller wants to be told before a socket goes")]
        pub(in super::super) fn watch(&self, poller: &Poller, key: usize) -> io::Result<()> {
            // SAFETY: the owner drops the poller before this.
            unsafe { poller.add_with_mode(&self.fd(), Event::readable(key), PollMode::Level) }
        }

        /// Takes all that has been said.
        pub(in super::super) fn take(&self) {
            let mut word = [0; 4096];
            loop {
                match recv(&self.0, &mut word[..], RecvFlags::empty()) {
                    // Words were lost for want of room: the socket goes on.
                    Ok(_) | Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
            }
        }

        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod silent {
    use std::io;

    use polling::Poller;

    /// None: this system says nothing.
    #[derive(Debug)]
    pub(in super::super) enum Notices {}

    impl Notices {
        /// # Errors
        /// Always.
        pub(in super::super) fn new() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in super::super) fn watch(&self, _poller: &Poller, _key: usize) -> io::Result<()> {
            match *self {}
        }

        pub(in super::super) fn take(&self) {
            match *self {}
        }
    }
}
