//! Several links as one: a device with more than one address.

use std::io;
use std::net::UdpSocket;

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_model::wire::Route;

use crate::{Link, LinkCounters, Outgoing};

/// Links by the GID that they send from.
pub struct LinkSet {
    links: Vec<(Gid, Box<dyn Link>)>,
    unroutable: u64,
}

impl std::fmt::Debug for LinkSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.links.iter().map(|(gid, _)| gid)).finish()
    }
}

impl LinkSet {
    /// A frame leaves through the link whose GID is its source.
    #[must_use]
    pub fn new(links: Vec<(Gid, Box<dyn Link>)>) -> Self {
        Self { links, unroutable: 0 }
    }
}

impl Link for LinkSet {
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let mut delivered = 0;
        for (_, link) in &mut self.links {
            delivered += link.receive(now, deliver)?;
        }
        Ok(delivered)
    }

    fn ready(&self) -> bool {
        self.links.iter().all(|(_, link)| link.ready())
    }

    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        if let Some((_, link)) = self.links.iter_mut().find(|(gid, _)| *gid == frame.route.src) {
            return link.transmit(now, frame, fill);
        }
        // The address is gone: the frame is lost, as on a wire that was cut.
        self.unroutable += 1;
        fill(&mut vec![0; frame.len]);
        Ok(())
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.links.iter_mut().try_for_each(|(_, link)| link.flush(now))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.links.iter().filter_map(|(_, link)| link.next_deadline()).min()
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        let v4 = group.as_v4().is_some();
        let link = self.links.iter_mut().find(|(gid, _)| gid.as_v4().is_some() == v4);
        let (_, link) = link.ok_or(io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "the device has no address of the group's family",
        ))?;
        link.join(group)
    }

    fn leave(&mut self, group: Gid) {
        for (_, link) in &mut self.links {
            link.leave(group);
        }
    }

    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        for (_, link) in &self.links {
            link.sockets(each);
        }
    }

    fn counters(&self) -> LinkCounters {
        let mut sum = LinkCounters { tx_failed: self.unroutable, ..LinkCounters::default() };
        for (_, link) in &self.links {
            sum.merge(&link.counters());
        }
        sum
    }
}
