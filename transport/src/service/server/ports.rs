//! Ports of the connection manager: which process has which.

use super::requests::Outcome;
use super::{Client, Server};
use crate::ports::Reservation;
use crate::service::Refusal;
use crate::service::estate::{Key, Record};
use crate::service::message::Answer;
use crate::service::slots::ClientId;
use softrnic_model::cm::{ListenAt, ServiceId};

/// Reservations that one process may have.
const PORTS_MAX: usize = 1024;
/// Reservations in one record for the keeper.
pub(super) const PORTS_IN_RECORD: usize = 64;

impl Server {
    /// A process wants a port.
    pub(super) fn reserve(&mut self, id: ClientId, sequence: u16, wanted: Reservation) -> Outcome {
        let granted = self.grant_port(id, wanted);
        let answer = match granted {
            Ok(granted) => Answer::Reserved(granted.service),
            Err(why) => Answer::Refused(why),
        };
        let outcome = self.answer(id, &answer, sequence, &[]);
        // Behind the answer, for which the process waits.
        if granted.is_ok_and(|granted| granted.listens) {
            self.hand_early();
        }
        outcome
    }

    fn grant_port(&mut self, id: ClientId, wanted: Reservation) -> Result<Reservation, Refusal> {
        let client = self.clients.get(&id).ok_or(Refusal::Malformed)?;
        let (uid, pid) = (client.uid, client.pid);
        if client.about.slot == 0 {
            return Err(Refusal::Malformed);
        }
        let known = |had: &Reservation| (had.service, had.at) == (wanted.service, wanted.at);
        if client.ports.len() >= PORTS_MAX && !client.ports.iter().any(known) {
            return Err(Refusal::TooMany);
        }
        // The devices of one process do not compete; its own connection manager sees to that. All
        // addresses are those of a process: who has none of them does not compete either.
        let (clients, places) = (&self.clients, &client.about.places);
        let is_own = |other: ClientId| {
            let same = |other: &Client| pid != 0 && (other.pid, other.uid) == (pid, uid);
            let apart = |other: &Client| !other.about.places.iter().any(|at| places.contains(at));
            other == id || clients.get(&other).is_some_and(|other| same(other) || apart(other))
        };
        let granted = match wanted.service.port() {
            Some((_, 0)) => {
                self.ports.choose(&wanted, |_| false).ok_or(Refusal::PortInUse(None))?
            }
            Some(_) | None => match self.ports.conflict(&wanted, is_own) {
                Some(other) => {
                    let other = clients.get(&other).map(|other| other.uid);
                    return Err(Refusal::PortInUse(other.filter(|other| *other != uid)));
                }
                // A port that processes share is shared by those of one user.
                None if self.is_of_others(&wanted, uid) => {
                    return Err(Refusal::PortInUse(None));
                }
                None => wanted,
            },
        };
        self.enter_port(id, granted);
        Ok(granted)
    }

    /// Whether a process of another user has the port, shared or not.
    fn is_of_others(&self, wanted: &Reservation, uid: u32) -> bool {
        let alone = Reservation { reuse: false, ..*wanted };
        let same_user =
            |other: ClientId| self.clients.get(&other).is_some_and(|other| other.uid == uid);
        self.ports.conflict(&alone, same_user).is_some()
    }

    pub(super) fn enter_port(&mut self, id: ClientId, granted: Reservation) {
        self.ports.insert(id, granted);
        let Some(client) = self.clients.get_mut(&id) else { return };
        let same = |had: &Reservation| (had.service, had.at) == (granted.service, granted.at);
        let at = client.ports.iter().position(same).unwrap_or(client.ports.len());
        match client.ports.get_mut(at) {
            Some(had) => *had = granted,
            None => client.ports.push(granted),
        }
        self.keep_ports(id, at);
    }

    /// A process gives a port back.
    pub(super) fn release_port(&mut self, id: ClientId, service: ServiceId, at: ListenAt) {
        self.ports.remove(id, service, at);
        let Some(client) = self.clients.get_mut(&id) else { return };
        let same = |had: &Reservation| (had.service, had.at) == (service, at);
        let Some(place) = client.ports.iter().position(same) else { return };
        client.ports.swap_remove(place);
        let last = client.ports.len();
        self.keep_ports(id, place);
        self.keep_ports(id, last);
    }

    /// Has the keeper hold the record in which reservation number `at` of a process is.
    fn keep_ports(&self, id: ClientId, at: usize) {
        let Some(client) = self.clients.get(&id) else { return };
        let Ok(number) = u8::try_from(at / PORTS_IN_RECORD) else { return };
        let key = Key::Ports(id.0, number);
        match client.ports.chunks(PORTS_IN_RECORD).nth(usize::from(number)) {
            Some(some) => self.keep(key, || Record::Ports(some.to_vec()), &client.connection),
            None => self.forget(key),
        }
    }

    /// Tells a new keeper all of a process.
    pub(super) fn keep_all_ports(&self, id: ClientId) {
        let records = self.clients.get(&id).map_or(0, |client| client.ports.len());
        (0..records).step_by(PORTS_IN_RECORD).for_each(|at| self.keep_ports(id, at));
    }

    /// A process is gone.
    pub(super) fn forget_ports(&mut self, id: ClientId, client: &Client) {
        self.ports.remove_all(id);
        for number in 0..client.ports.len().div_ceil(PORTS_IN_RECORD) {
            if let Ok(number) = u8::try_from(number) {
                self.forget(Key::Ports(id.0, number));
            }
        }
    }
}
