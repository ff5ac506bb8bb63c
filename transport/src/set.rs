//! Several links as one: a device with more than one address, or whose addresses come and go.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;

use softrnic_model::verbs::Gid;
use softrnic_model::wire::{ICRC_LEN, Route};
use softrnic_model::{Filled, Instant};

use crate::{Link, LinkCounters, Outgoing, PACKET_LEN_MAX};

/// Links by the GID that they send from.
pub struct LinkSet {
    links: Vec<(Gid, Box<dyn Link>)>,
    groups: Vec<Membership>,
    /// What the links that were removed had counted, and frames that had none to leave by.
    past: LinkCounters,
    /// What has come another way than by a link.
    handed_in: VecDeque<(Route, Vec<u8>)>,
    /// Where a frame without a link is made, so that the device moves on.
    scratch: Box<[u8; PACKET_LEN_MAX]>,
}

/// A group that was joined, and the link that listens to it; none while none can.
struct Membership {
    group: Gid,
    by: Option<Gid>,
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
        Self {
            links,
            groups: Vec::new(),
            past: LinkCounters::default(),
            handed_in: VecDeque::new(),
            scratch: Box::new([0; PACKET_LEN_MAX]),
        }
    }

    /// Adds the link of an address that has come. Groups that no link could listen to are joined
    /// through it if it can.
    pub fn insert(&mut self, gid: Gid, link: Box<dyn Link>) {
        self.remove(gid);
        self.links.push((gid, link));
        self.rejoin();
    }

    /// Removes the link of an address that is gone. Its groups move to another link of their
    /// family, if there is one; frames from its address are lost from now on.
    pub fn remove(&mut self, gid: Gid) {
        let Some(at) = self.links.iter().position(|(own, _)| *own == gid) else { return };
        let (_, link) = self.links.remove(at);
        self.past.merge(&link.counters());
        for membership in self.groups.iter_mut().filter(|membership| membership.by == Some(gid)) {
            membership.by = None;
        }
        self.rejoin();
    }

    /// A packet that somebody else has received for this host, its ICRC checked and removed. It arrives
    /// with the next batch, past the same taps as all others.
    pub fn hand_in(&mut self, route: Route, packet: Vec<u8>) {
        self.past.rx_packets += 1;
        // In the datagram the ICRC was behind it.
        self.past.rx_bytes += u64::try_from(packet.len() + ICRC_LEN).unwrap_or(0);
        self.handed_in.push_back((route, packet));
    }

    fn rejoin(&mut self) {
        for membership in self.groups.iter_mut().filter(|membership| membership.by.is_none()) {
            membership.by = join_any(&mut self.links, membership.group).ok();
        }
    }
}

/// Joins by the first link of the family, and says which.
fn join_any(links: &mut [(Gid, Box<dyn Link>)], group: Gid) -> io::Result<Gid> {
    let v4 = group.as_v4().is_some();
    let link = links.iter_mut().find(|(gid, _)| gid.as_v4().is_some() == v4);
    let (gid, link) = link.ok_or(io::Error::new(
        io::ErrorKind::AddrNotAvailable,
        "the device has no address of the group's family",
    ))?;
    link.join(group)?;
    Ok(*gid)
}

impl Link for LinkSet {
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let mut delivered = self.handed_in.len();
        for (route, packet) in self.handed_in.drain(..) {
            deliver(&route, &packet);
        }
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
        self.transmit_run(now, frame, &mut |out| match fill(out) {
            true => Filled::Once,
            false => Filled::Not,
        })
    }

    fn transmit_run(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> Filled,
    ) -> io::Result<()> {
        if let Some((_, link)) = self.links.iter_mut().find(|(gid, _)| *gid == frame.route.src) {
            return link.transmit_run(now, frame, fill);
        }
        // The address is gone: the frame is lost, as on a wire that was cut.
        let mut filled = Filled::AndMore;
        while filled == Filled::AndMore
            && let Some(packet) = self.scratch.get_mut(..frame.len)
        {
            self.past.tx_failed += 1;
            filled = fill(packet);
        }
        Ok(())
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.links.iter_mut().try_for_each(|(_, link)| link.flush(now))
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.links.iter().filter_map(|(_, link)| link.next_deadline()).min()
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        if self.groups.iter().any(|joined| joined.group == group) {
            return Ok(());
        }
        let by = join_any(&mut self.links, group)?;
        self.groups.push(Membership { group, by: Some(by) });
        Ok(())
    }

    fn leave(&mut self, group: Gid) {
        self.groups.retain(|joined| joined.group != group);
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
        let mut sum = self.past;
        for (_, link) in &self.links {
            sum.merge(&link.counters());
        }
        sum
    }

    fn as_set(&mut self) -> Option<&mut LinkSet> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Counts what leaves and tells which groups it listens to.
    #[derive(Default)]
    struct Plain {
        groups: Arc<Mutex<Vec<Gid>>>,
        sent: u64,
    }

    impl Link for Plain {
        fn receive(
            &mut self,
            _now: Instant,
            _deliver: &mut dyn FnMut(&Route, &[u8]),
        ) -> io::Result<usize> {
            Ok(0)
        }
        fn ready(&self) -> bool {
            true
        }
        fn transmit(
            &mut self,
            _now: Instant,
            frame: Outgoing,
            fill: &mut dyn FnMut(&mut [u8]) -> bool,
        ) -> io::Result<()> {
            self.sent += u64::from(fill(&mut vec![0; frame.len]));
            Ok(())
        }
        fn flush(&mut self, _now: Instant) -> io::Result<()> {
            Ok(())
        }
        fn join(&mut self, group: Gid) -> io::Result<()> {
            self.groups.lock().unwrap().push(group);
            Ok(())
        }
        fn leave(&mut self, group: Gid) {
            self.groups.lock().unwrap().retain(|joined| *joined != group);
        }
        fn sockets(&self, _each: &mut dyn FnMut(&UdpSocket)) {}
        fn counters(&self) -> LinkCounters {
            LinkCounters { tx_packets: self.sent, ..LinkCounters::default() }
        }
    }

    fn gid(last: u8) -> Gid {
        Gid::from_v4([10, 0, 0, last])
    }

    fn send(set: &mut LinkSet, from: Gid) -> LinkCounters {
        let route = Route { src: from, dst: gid(99), ..Route::default() };
        let frame = Outgoing { route, len: 16, damage: None };
        let mut filled = 0;
        set.transmit(Instant::ZERO, frame, &mut |_| {
            filled += 1;
            true
        })
        .unwrap();
        assert_eq!(filled, 1, "the device moves on, sent or not");
        set.counters()
    }

    #[test]
    fn frames_leave_by_their_source_and_are_lost_without_it() {
        let mut set = LinkSet::new(Vec::new());
        assert_eq!(send(&mut set, gid(1)).tx_failed, 1);
        set.insert(gid(1), Box::new(Plain::default()));
        set.insert(gid(2), Box::new(Plain::default()));
        send(&mut set, gid(1));
        assert_eq!(send(&mut set, gid(2)).tx_packets, 2);
        set.remove(gid(2));
        let counters = send(&mut set, gid(2));
        assert_eq!((counters.tx_packets, counters.tx_failed), (2, 2), "nothing is forgotten");
    }

    #[test]
    fn what_others_have_received_arrives_once_and_passes_the_taps() {
        use crate::tap::{FaultRules, Faults};
        let rules = FaultRules::parse("drop=#2,side=rx").unwrap();
        let mut link = Faults::new(LinkSet::new(Vec::new()), rules);
        // Of what a packet has to have, the rules look at the opcode and the queue pair.
        for n in 1..=3 {
            link.as_set().unwrap().hand_in(Route::default(), vec![n; 20]);
        }
        let mut got = Vec::new();
        let mut receive = || {
            link.receive(Instant::ZERO, &mut |_, packet| got.push(packet[0])).unwrap();
            link.counters()
        };
        receive();
        let counters = receive();
        assert_eq!(got, [1, 3]);
        assert_eq!((counters.rx_packets, counters.rx_bytes, counters.faults_dropped), (3, 72, 1));
    }

    #[test]
    fn groups_move_to_a_link_that_can() {
        let group = Gid::from_v4([239, 1, 1, 1]);
        let heard: [Arc<Mutex<Vec<Gid>>>; 3] = Default::default();
        let plain = |n: usize| Box::new(Plain { groups: Arc::clone(&heard[n]), sent: 0 });
        let listening =
            || heard.iter().map(|groups| groups.lock().unwrap().len()).collect::<Vec<_>>();
        let mut set = LinkSet::new(Vec::new());
        assert!(set.join(group).is_err(), "no address");
        set.insert(gid(1), plain(0));
        set.insert(gid(2), plain(1));
        set.join(group).unwrap();
        set.join(group).unwrap();
        assert_eq!(listening(), [1, 0, 0]);
        set.remove(gid(1));
        assert_eq!(listening(), [1, 1, 0], "the first link went with its membership");
        set.remove(gid(2));
        set.insert(gid(3), plain(2));
        assert_eq!(listening(), [1, 1, 1]);
        set.leave(group);
        assert_eq!(listening(), [1, 1, 0]);
    }
}
