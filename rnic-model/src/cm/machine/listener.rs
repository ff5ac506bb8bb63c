//! Who listens, and how many requests may wait.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use super::Machine;
use super::admission::admits;
use crate::cm::{ListenAt, ServiceId};
use crate::verbs::Gid;

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// What to listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The program's number of the listener.
    pub tag: u64,
    /// Which service.
    pub service_id: ServiceId,
    /// At which addresses.
    pub at: ListenAt,
    /// Requests that may wait for an answer.
    pub backlog: u32,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) listen: Listen,
    /// Requests that wait, by peer.
    waiting: BTreeMap<Gid, u32>,
    waiting_total: u32,
}

impl Listener {
    /// Whether one more request of a peer may wait.
    pub(super) fn admits(&self, peer: Gid) -> bool {
        let own = self.waiting.get(&peer).copied().unwrap_or(0);
        admits(own, self.waiting_total, self.listen.backlog)
    }

    pub(super) fn add(&mut self, peer: Gid) {
        *self.waiting.entry(peer).or_default() += 1;
        self.waiting_total += 1;
    }

    pub(super) fn remove(&mut self, peer: Gid) {
        self.waiting_total = self.waiting_total.saturating_sub(1);
        if let Some(count) = self.waiting.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&peer);
            }
        }
    }
}

impl Machine {
    /// Listens to a service. Of several that fit a request, who has said the address takes it, then
    /// the oldest.
    pub fn listen(&mut self, listen: Listen) -> ListenerId {
        let id = ListenerId(self.next_listener);
        self.next_listener = self.next_listener.wrapping_add(1);
        let listener = Listener { listen, waiting: BTreeMap::new(), waiting_total: 0 };
        self.listeners.insert(id, listener);
        id
    }

    /// Listens no more. Requests that wait are the program's to answer all the same.
    pub fn unlisten(&mut self, id: ListenerId) {
        self.listeners.remove(&id);
    }

    /// Who listens, to what.
    pub fn listeners(&self) -> impl Iterator<Item = (ListenerId, &Listen)> {
        self.listeners.iter().map(|(id, listener)| (*id, &listener.listen))
    }

    /// Who is to answer a request.
    pub(super) fn listener_of(
        &self,
        service_id: ServiceId,
        destination: Option<IpAddr>,
    ) -> Option<ListenerId> {
        let fitting = self.listeners.iter().filter_map(|(id, listener)| {
            let fit = listener.listen.at.fit(destination);
            (listener.listen.service_id == service_id && fit > 0).then_some((fit, *id))
        });
        // Of equals the oldest.
        fitting.max_by_key(|(fit, id)| (*fit, core::cmp::Reverse(*id))).map(|(_, id)| id)
    }
}
