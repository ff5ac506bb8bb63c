//! Who has which port of the connection manager. Pure: one table for the processes of a host (in the
//! port service) and one for the identifiers of a process.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use softrnic_model::cm::{ListenAt, ServiceId};

/// The ports that are given to who does not ask for one, as Linux has it
/// (`/proc/sys/net/ipv4/ip_local_port_range`).
pub const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

/// A port, or another service, at some addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// The service.
    pub service: ServiceId,
    /// At which addresses.
    pub at: ListenAt,
    /// Others may have it as well, as long as none of them listens.
    pub reuse: bool,
    /// Requests are taken there.
    pub listens: bool,
}

impl Reservation {
    /// Whether both cannot be at the same time.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        let shared = self.reuse && other.reuse && !(self.listens || other.listens);
        self.service == other.service && self.at.overlaps(other.at) && !shared
    }

    /// Whether it is of the same service and addresses.
    fn is_of(&self, service: ServiceId, at: ListenAt) -> bool {
        (self.service, self.at) == (service, at)
    }
}

/// Reservations and their owners.
#[derive(Debug)]
pub struct PortTable<O> {
    entries: BTreeMap<ServiceId, Vec<(O, Reservation)>>,
    /// Where to look for a free port next.
    next: u16,
}

impl<O: Copy + PartialEq> PortTable<O> {
    /// An empty table. The first port that is given out is somewhere after `seed`.
    #[must_use]
    pub fn new(seed: u16) -> Self {
        let count = EPHEMERAL.end() - EPHEMERAL.start() + 1;
        Self { entries: BTreeMap::new(), next: EPHEMERAL.start() + seed % count }
    }

    /// Who has something that conflicts, if anybody but those of whom `tolerates` says yes.
    pub fn conflict(&self, wanted: &Reservation, tolerates: impl Fn(O) -> bool) -> Option<O> {
        let entries = self.entries.get(&wanted.service)?;
        let others = entries.iter().filter(|(owner, _)| !tolerates(*owner));
        others.filter(|(_, had)| had.conflicts(wanted)).map(|(owner, _)| *owner).next()
    }

    /// Enters a reservation, or changes that of the same owner, service and addresses.
    pub fn insert(&mut self, owner: O, wanted: Reservation) {
        let entries = self.entries.entry(wanted.service).or_default();
        let same = entries
            .iter_mut()
            .find(|(of, had)| *of == owner && had.is_of(wanted.service, wanted.at));
        match same {
            Some((_, had)) => *had = wanted,
            None => entries.push((owner, wanted)),
        }
    }

    /// Ends a reservation.
    pub fn remove(&mut self, owner: O, service: ServiceId, at: ListenAt) {
        self.retain_of(service, |of, had| !(of == owner && had.is_of(service, at)));
    }

    /// Ends all reservations of an owner.
    pub fn remove_all(&mut self, owner: O) {
        self.entries.retain(|_, entries| {
            entries.retain(|(of, _)| *of != owner);
            !entries.is_empty()
        });
    }

    fn retain_of(&mut self, service: ServiceId, keep: impl Fn(O, &Reservation) -> bool) {
        if let Some(entries) = self.entries.get_mut(&service) {
            entries.retain(|(of, had)| keep(*of, had));
            if entries.is_empty() {
                self.entries.remove(&service);
            }
        }
    }

    /// A port that is free for this reservation, in place of port 0; `None` if all are taken.
    pub fn choose(
        &mut self,
        wanted: &Reservation,
        tolerates: impl Fn(O) -> bool,
    ) -> Option<Reservation> {
        let (space, _) = wanted.service.port()?;
        for _ in EPHEMERAL {
            let service = ServiceId::of_port(space, self.next);
            self.next =
                if self.next >= *EPHEMERAL.end() { *EPHEMERAL.start() } else { self.next + 1 };
            let chosen = Reservation { service, ..*wanted };
            // Nobody shares by accident, so a port that anybody has is passed over.
            if self.conflict(&Reservation { reuse: false, ..chosen }, &tolerates).is_none()
                && !self.entries.contains_key(&service)
            {
                return Some(chosen);
            }
        }
        None
    }

    /// Who takes requests for a service to an address: the best fit among those that `may` serve it.
    pub fn listener(
        &self,
        service: ServiceId,
        destination: Option<std::net::IpAddr>,
        may: impl Fn(O) -> bool,
    ) -> Option<O> {
        let entries = self.entries.get(&service)?;
        let fitting = entries.iter().filter(|(owner, had)| had.listens && may(*owner));
        let fitting = fitting.map(|(owner, had)| (had.at.fit(destination), *owner));
        let best = fitting.filter(|(fit, _)| *fit > 0).max_by_key(|(fit, _)| *fit);
        best.map(|(_, owner)| owner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use softrnic_model::cm::PortSpace;

    use super::*;

    const ONE: &str = "10.0.0.1";

    fn port(port: u16, at: ListenAt) -> Reservation {
        let service = ServiceId::of_port(PortSpace::Tcp, port);
        Reservation { service, at, reuse: false, listens: false }
    }

    fn one(text: &str) -> ListenAt {
        ListenAt::One(text.parse().unwrap())
    }

    #[test]
    fn a_port_is_had_once_at_an_address() {
        let mut table = PortTable::new(0);
        table.insert(1, port(7, one(ONE)));
        let taken = |table: &PortTable<i32>, wanted| table.conflict(&wanted, |_| false);
        for at in [one(ONE), ListenAt::V4, ListenAt::All] {
            assert_eq!(taken(&table, port(7, at)), Some(1), "{at:?}");
        }
        for at in [one("10.0.0.2"), ListenAt::V6, one("fd00::1")] {
            assert_eq!(taken(&table, port(7, at)), None, "{at:?}");
        }
        assert_eq!(taken(&table, port(8, one(ONE))), None);
        let udp = ServiceId::of_port(PortSpace::Udp, 7);
        assert_eq!(taken(&table, Reservation { service: udp, ..port(7, one(ONE)) }), None);
        assert_eq!(table.conflict(&port(7, one(ONE)), |owner| owner == 1), None);
        table.remove(1, port(7, one(ONE)).service, one(ONE));
        assert_eq!(taken(&table, port(7, ListenAt::All)), None);
    }

    #[test]
    fn those_who_share_a_port_share_no_listener() {
        let mut table = PortTable::new(0);
        let shared = Reservation { reuse: true, ..port(7, one(ONE)) };
        table.insert(1, shared);
        assert_eq!(table.conflict(&shared, |_| false), None);
        assert_eq!(table.conflict(&Reservation { reuse: false, ..shared }, |_| false), Some(1));
        assert_eq!(table.conflict(&Reservation { listens: true, ..shared }, |_| false), Some(1));
        table.insert(1, Reservation { listens: true, ..shared });
        assert_eq!(table.conflict(&shared, |_| false), Some(1));
    }

    #[test]
    fn requests_go_to_the_one_that_fits_best() {
        let mut table = PortTable::new(0);
        let listens = |at| Reservation { listens: true, ..port(7, at) };
        table.insert(1, listens(ListenAt::V4));
        table.insert(2, listens(one(ONE)));
        table.insert(3, port(7, one("10.0.0.3")));
        let service = listens(ListenAt::All).service;
        let to = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_eq!(table.listener(service, to(ONE), |_| true), Some(2));
        assert_eq!(table.listener(service, to("10.0.0.3"), |_| true), Some(1));
        assert_eq!(table.listener(service, to("fd00::1"), |_| true), None);
        assert_eq!(table.listener(service, to(ONE), |owner| owner != 2), Some(1));
        table.remove_all(1);
        assert_eq!(table.listener(service, to("10.0.0.3"), |_| true), None);
    }

    #[test]
    fn all_ephemeral_ports_can_be_had_each_once() {
        let mut table = PortTable::new(65_000);
        let mut seen = std::collections::BTreeSet::new();
        while let Some(chosen) = table.choose(&port(0, ListenAt::All), |_| false) {
            assert!(seen.insert(chosen.service));
            table.insert(1, chosen);
        }
        assert_eq!(seen.len(), EPHEMERAL.count());
    }
}
