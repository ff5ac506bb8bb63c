//! A link whose frames somebody watches.

use std::fmt;
use std::io;
use std::net::UdpSocket;

use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;
use softrnic_model::{Filled, Instant};

use super::{Direction, Line};
use crate::LinkSet;
use crate::link::{Link, LinkCounters, Outgoing};

/// Who watches frames pass. Any closure of this form may.
pub trait Watcher: Send {
    /// A frame passes; `damage` is the bit of it that a fault rule wants flipped.
    fn saw(&mut self, line: &Line<'_>, damage: Option<u32>);
}

impl<F: FnMut(&Line<'_>, Option<u32>) + Send> Watcher for F {
    fn saw(&mut self, line: &Line<'_>, damage: Option<u32>) {
        self(line, damage);
    }
}

/// A link that shows every frame that passes to a [`Watcher`].
pub struct Watch<L, W> {
    inner: L,
    pub(super) watcher: W,
}

impl<L: Link, W: Watcher> Watch<L, W> {
    /// Shows what passes `inner` to `watcher`.
    pub const fn around(inner: L, watcher: W) -> Self {
        Self { inner, watcher }
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, for what is particular to it, such as joining a multicast group.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }
}

impl<L: fmt::Debug, W> fmt::Debug for Watch<L, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<L: Link, W: Watcher> Link for Watch<L, W> {
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let Self { inner, watcher } = self;
        inner.receive(now, &mut |route, packet| {
            let line = Line { at: now, direction: Direction::Received, route, packet };
            watcher.saw(&line, None);
            deliver(route, packet);
        })
    }

    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let Self { inner, watcher } = self;
        inner.transmit(now, frame, &mut |packet| {
            let filled = fill(packet);
            if filled {
                let (route, direction) = (&frame.route, Direction::Sent);
                watcher.saw(&Line { at: now, direction, route, packet }, frame.damage);
            }
            filled
        })
    }

    fn transmit_run(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> Filled,
    ) -> io::Result<()> {
        let Self { inner, watcher } = self;
        inner.transmit_run(now, frame, &mut |packet| {
            let filled = fill(packet);
            if filled != Filled::Not {
                let (route, direction) = (&frame.route, Direction::Sent);
                watcher.saw(&Line { at: now, direction, route, packet }, frame.damage);
            }
            filled
        })
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.inner.flush(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        self.inner.join(group)
    }

    fn leave(&mut self, group: Gid) {
        self.inner.leave(group);
    }

    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        self.inner.sockets(each);
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }

    fn as_set(&mut self) -> Option<&mut LinkSet> {
        self.inner.as_set()
    }
}
