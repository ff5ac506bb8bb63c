//! Taking leave of the peers of a process that is gone, from what it has left in its will: what is
//! established is disconnected until the peer agrees, what was under way is refused. A kernel does the
//! same for its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use softrnic_model::cm::mad::Mad;
use softrnic_model::cm::message::{Drep, Dreq, Message, Rej};
use softrnic_model::cm::{CommId, Parting};
use softrnic_model::wire::Route;

use super::gsi::transmit;
use super::{Client, Server};
use crate::Link;
use crate::service::{Place, will};

/// How often a message that waits for an answer is sent.
const TRIES: u8 = 7;
/// After how long it is sent again; each further time takes twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(250);
/// From one connection to the next: peers have queues of some hundreds.
const PACE: Duration = Duration::from_micros(50);
/// Messages that are sent before clients have their turn.
const AT_ONCE: usize = 64;
/// Connections of all who are gone; of more the peers find out by themselves.
const FAREWELLS_MAX: usize = 1 << 17;

/// An end of a connection: its address and ID.
type Key = (Place, CommId);

/// What is left to be said about one connection.
#[derive(Debug)]
struct Farewell {
    route: Route,
    peer: CommId,
    once: Option<Box<Mad>>,
    until_answered: Option<Box<Mad>>,
    tries_left: u8,
    wait: Duration,
    due: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Farewells {
    open: BTreeMap<Key, Farewell>,
    due: BTreeSet<(Instant, Key)>,
    /// When the next one may begin.
    begins: Option<Instant>,
}

impl Farewells {
    fn add(&mut self, now: Instant, place: Place, parting: &Parting) {
        let words = parting.words();
        if self.open.len() >= FAREWELLS_MAX || words.is_empty() {
            return;
        }
        let key = (place, parting.local);
        let farewell = Farewell {
            // What is said goes from a socket of the service.
            route: Route { src_port: 0, ..parting.route },
            peer: parting.remote,
            once: words.once.map(Box::new),
            until_answered: words.until_answered.map(Box::new),
            tries_left: TRIES,
            wait: FIRST_RETRY,
            due: self.begins.map_or(now, |begins| begins.max(now)),
        };
        self.begins = Some(farewell.due + PACE);
        self.end(key);
        self.due.insert((farewell.due, key));
        self.open.insert(key, farewell);
    }

    fn end(&mut self, key: Key) {
        if let Some(farewell) = self.open.remove(&key) {
            self.due.remove(&(farewell.due, key));
        }
    }

    /// Whether there is something left to say at an address.
    pub(super) fn concern(&self, place: Place) -> bool {
        let next = self.open.range((place, CommId(0))..).next();
        next.is_some_and(|((at, _), _)| *at == place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What is to be said now, some of it.
    fn take_due(&mut self, now: Instant) -> Vec<(Place, Route, Box<Mad>)> {
        let mut said = Vec::new();
        while let Some(&(at, key)) = self.due.first()
            && at <= now
            && said.len() < AT_ONCE
        {
            self.due.pop_first();
            let Some(farewell) = self.open.get_mut(&key) else { continue };
            let route = farewell.route;
            said.extend(farewell.once.take().map(|mad| (key.0, route, mad)));
            match (&farewell.until_answered, farewell.tries_left.checked_sub(1)) {
                (Some(mad), Some(left)) => {
                    said.push((key.0, route, mad.clone()));
                    farewell.tries_left = left;
                    farewell.due = now + farewell.wait;
                    farewell.wait *= 2;
                    self.due.insert((farewell.due, key));
                }
                (None, _) | (_, None) => drop(self.open.remove(&key)),
            }
        }
        said
    }

    /// Whether a message for `id` is from the peer of a connection whose end is gone, and says that the
    /// peer knows: that was the farewell.
    pub(super) fn hear(
        &mut self,
        place: Place,
        id: CommId,
        from: &Route,
        message: impl FnOnce() -> Option<Message>,
    ) -> bool {
        let key = (place, id);
        let Some(farewell) = self.open.get(&key).filter(|open| open.route.dst == from.src) else {
            return false;
        };
        let Some(
            Message::Drep(Drep { local_comm_id, .. })
            | Message::Dreq(Dreq { local_comm_id, .. })
            | Message::Rej(Rej { local_comm_id, .. }),
        ) = message()
        else {
            return false;
        };
        let known = local_comm_id == farewell.peer;
        if known {
            self.end(key);
        }
        known
    }
}

impl Server {
    /// A process is gone: its peers are to know.
    pub(super) fn take_leave(&mut self, now: Instant, client: &Client) {
        let Some(file) = &client.will else { return };
        for parting in will::read(file) {
            if let Some(place) = client.place_of(&parting) {
                self.farewells.add(now, place, &parting);
            }
        }
    }

    /// Says what is due.
    pub(super) fn say_farewells(&mut self, now: Instant) {
        let since_start = self.since_start();
        let said = self.farewells.take_due(now);
        let places: BTreeSet<Place> = said.iter().map(|(place, ..)| *place).collect();
        for (place, route, mad) in said {
            if let Some(link) = self.link_at(place) {
                transmit(link, since_start, route, &mad);
            }
        }
        for place in places {
            if let Some(link) = self.link_at(place) {
                // If that fails it is said again.
                let _ = link.flush(since_start);
            }
        }
    }
}

impl Client {
    /// The address of this client from which a connection was; none if it cannot have been one of this
    /// client's, whatever that has written.
    fn place_of(&self, parting: &Parting) -> Option<Place> {
        let (own, peer) = (IpAddr::from(parting.route.src), IpAddr::from(parting.route.dst));
        let sane =
            own.is_ipv4() == peer.is_ipv4() && !peer.is_unspecified() && !peer.is_multicast();
        let its = self.about.slot != 0 && parting.local.slot() == self.about.slot;
        let place = self.about.places.iter().find(|place| place.ip == own);
        place.filter(|_| sane && its).copied()
    }
}

#[cfg(test)]
mod tests {
    use softrnic_model::cm::{Guid, State};
    use softrnic_model::verbs::{Gid, QpNum};

    use super::*;

    fn place() -> Place {
        Place::new([127, 0, 0, 1].into(), 0)
    }

    fn parting(index: u32, state: State) -> Parting {
        let (src, dst) = (Gid::from_v4([127, 0, 0, 1]), Gid::from_v4([127, 0, 0, 2]));
        Parting {
            state,
            local: CommId::from_parts(1, index),
            remote: CommId(index + 7),
            remote_qpn: Some(QpNum::new(9)),
            exchange: 1,
            own_exchange: 2,
            guid: Guid(3),
            route: Route { src, dst, ..Route::default() },
        }
    }

    fn names(said: &[(Place, Route, Box<Mad>)]) -> Vec<&'static str> {
        said.iter().map(|(.., mad)| Message::parse(&**mad).unwrap().1.name()).collect()
    }

    #[test]
    fn a_disconnection_is_said_until_it_is_answered_by_the_peer() {
        let (mut farewells, start) = (Farewells::default(), Instant::now());
        farewells.add(start, place(), &parting(1, State::Established));
        assert_eq!(names(&farewells.take_due(start)), ["Dreq"]);
        assert!(farewells.take_due(start).is_empty());
        let later = start + FIRST_RETRY;
        assert_eq!(farewells.next_due(), Some(later));
        assert_eq!(names(&farewells.take_due(later)), ["Dreq"]);
        let id = CommId::from_parts(1, 1);
        let drep = |peer| Some(Drep { local_comm_id: peer, ..Drep::default() }.into());
        let from = |host| Route { src: Gid::from_v4([127, 0, 0, host]), ..Route::default() };
        assert!(!farewells.hear(place(), id, &from(3), || drep(CommId(8))), "another address");
        assert!(!farewells.hear(place(), id, &from(2), || drep(CommId(9))), "another ID");
        assert!(!farewells.is_empty() && farewells.concern(place()));
        assert!(farewells.hear(place(), id, &from(2), || drep(CommId(8))));
        assert!(farewells.is_empty() && farewells.next_due().is_none());
    }

    #[test]
    fn nobody_is_talked_to_for_ever() {
        let (mut farewells, start) = (Farewells::default(), Instant::now());
        farewells.add(start, place(), &parting(1, State::Established));
        let mut said = 0;
        while let Some(due) = farewells.next_due() {
            said += farewells.take_due(due).len();
            assert!(due < start + Duration::from_secs(60));
        }
        assert_eq!(said, usize::from(TRIES));
        assert!(farewells.is_empty());
    }

    #[test]
    fn each_state_has_its_words_and_many_connections_their_time() {
        for (state, expected) in [
            (State::ReqSent, &["Rej"][..]),
            (State::ReqRcvd, &["Rej"]),
            (State::RepSent, &["Rej", "Dreq"]),
            (State::DreqSent, &["Dreq"]),
            (State::SidrReqRcvd, &["SidrRep"]),
            (State::Timewait, &[]),
        ] {
            let (mut farewells, start) = (Farewells::default(), Instant::now());
            farewells.add(start, place(), &parting(1, state));
            assert_eq!(names(&farewells.take_due(start)), expected, "{state:?}");
        }
        let (mut farewells, start) = (Farewells::default(), Instant::now());
        (0..1000).for_each(|n| farewells.add(start, place(), &parting(n, State::Established)));
        assert_eq!(farewells.take_due(start).len(), 1);
        let said = farewells.take_due(start + PACE * 999).len();
        assert_eq!(said, AT_ONCE);
    }
}
