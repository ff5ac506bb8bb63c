//! Packets for slot 0 of an address: connection management of all its processes. A request goes to
//! who listens, everything else to the slot that the communication ID names; the service keeps no
//! connections.

use softrnic_model::Instant;
use softrnic_model::cm::mad::{Mad, MadHeader};
use softrnic_model::cm::message::{Message, Target, answer_of_nobody, peek};
use softrnic_model::device::{mad_header, mad_of};
use softrnic_model::verbs::{Psn, QpNum};
use softrnic_model::wire::{Packet, Route};

use super::asked::Request;
use super::{BATCHES_MAX, Client, Server};
use crate::service::message::Answer;
use crate::service::slots::ClientId;
use crate::service::{Place, channel};
use crate::{Link, Outgoing, UdpLink};

/// What becomes of a packet.
enum Fate {
    /// It is no message of the connection manager.
    Dropped,
    Goes(ClientId),
    /// Nobody takes it yet.
    Waits,
    /// Nobody takes it; its sender is told.
    Nobody,
}

impl Server {
    /// Takes in what has come for slot 0 of an address.
    pub(super) fn take_packets(&mut self, place: Place) {
        // The link is taken out, so that the rest of the service can be asked while it is read.
        let link = self.groups.get_mut(&place).and_then(|group| group.link.take());
        let Some(mut link) = link else { return };
        let now = self.since_start();
        let (mut answers, mut early) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES_MAX {
            let got = link.receive(now, &mut |route, packet| match self
                .fate(place, now, route, packet)
            {
                Fate::Dropped => {}
                Fate::Goes(id) => self.hand_on(id, route, packet),
                Fate::Waits => early.push((*route, packet.to_vec())),
                Fate::Nobody => answers.extend(refusal(route, packet)),
            });
            if !matches!(got, Ok(1..)) {
                break;
            }
        }
        for (route, mad) in answers {
            transmit(&mut link, now, route, &mad);
        }
        // If that fails the peer asks again.
        let _ = link.flush(now);
        if let Some(group) = self.groups.get_mut(&place) {
            group.link = Some(link);
        }
        for (route, packet) in early {
            if self.has_patience() {
                self.hold(place, route, packet);
            } else {
                self.refuse(place, &route, &packet);
            }
        }
    }

    pub(super) fn since_start(&self) -> Instant {
        let now = self.started.elapsed().as_nanos();
        Instant::from_ns(u64::try_from(now).unwrap_or(u64::MAX))
    }

    /// Who listens for the request in a packet, and is handed it.
    pub(super) fn listener_of(
        &mut self,
        place: Place,
        route: &Route,
        packet: &[u8],
    ) -> Option<ClientId> {
        let parsed = Packet::parse(packet).ok()?;
        let mad = mad_of(&parsed).ok()?;
        let (target, destination) = peek(mad).ok()?;
        match target {
            Target::Service(service) => {
                self.taker_of(place, (route.src, transaction_of(mad), service, destination))
            }
            Target::Connection(_) => None,
        }
    }

    /// Who takes a request: who listens, or else who had it before and may have answered since.
    fn taker_of(&mut self, place: Place, request: Request) -> Option<ClientId> {
        let (_, _, service, destination) = request;
        let listener = self.ports.listener(service, destination, |id| self.takes(place, id));
        if let Some(id) = listener {
            self.asked.note(request, id);
        }
        listener.or_else(|| self.asked.taker(&request).filter(|id| self.takes(place, *id)))
    }

    fn takes(&self, place: Place, id: ClientId) -> bool {
        let client = self.clients.get(&id);
        client.is_some_and(|one| one.about.gsi && one.about.places.contains(&place))
    }

    /// The socket of the service at an address.
    pub(super) fn link_at(&mut self, place: Place) -> Option<&mut UdpLink> {
        self.groups.get_mut(&place).and_then(|group| group.link.as_mut())
    }

    /// Tells the sender of a packet that it is for nobody.
    pub(super) fn refuse(&mut self, place: Place, route: &Route, packet: &[u8]) {
        let now = self.since_start();
        if let Some((way, mad)) = refusal(route, packet)
            && let Some(link) = self.link_at(place)
        {
            transmit(link, now, way, &mad);
            // If that fails the peer asks again.
            let _ = link.flush(now);
        }
    }

    fn fate(&mut self, place: Place, now: Instant, route: &Route, packet: &[u8]) -> Fate {
        let parsed = Packet::parse(packet).ok().filter(|one| one.bth.dest_qp() == QpNum::GSI);
        let Some(mad) = parsed.and_then(|packet| mad_of(&packet).ok()) else {
            return Fate::Dropped;
        };
        let Ok((target, destination)) = peek(mad) else { return Fate::Dropped };
        let is_request = matches!(target, Target::Service(_));
        let taker = match target {
            Target::Service(service) => {
                if !self.gate.admits(route.src, now) {
                    return Fate::Dropped;
                }
                self.taker_of(place, (route.src, transaction_of(mad), service, destination))
            }
            Target::Connection(id) => {
                let message = || Message::parse(mad).ok().map(|(_, message)| message);
                if self.farewells.hear(place, id, route, message) {
                    return Fate::Nobody;
                }
                let group = self.groups.get(&place);
                let holder = group.and_then(|group| group.slots.holder(id.slot()));
                holder.filter(|id| self.takes(place, *id))
            }
        };
        match taker {
            Some(id) => Fate::Goes(id),
            None if is_request => Fate::Waits,
            None => Fate::Nobody,
        }
    }

    pub(super) fn hand_on(&self, id: ClientId, route: &Route, packet: &[u8]) {
        let Some(Client { connection, .. }) = self.clients.get(&id) else { return };
        let bytes = Answer::Gsi { route: *route, packet: packet.to_vec() }.to_bytes(0);
        // Who does not read in time misses it, as in a full receive queue; peers ask again.
        let _ = channel::send(connection, &bytes, &[]);
    }
}

fn transaction_of(mad: &[u8]) -> u64 {
    MadHeader::parse(mad).map_or(0, |(header, _)| header.transaction)
}

/// What a host says to a message that is for nobody.
fn refusal(route: &Route, packet: &[u8]) -> Option<(Route, Mad)> {
    let packet = Packet::parse(packet).ok()?;
    let (header, message) = Message::parse(mad_of(&packet).ok()?).ok()?;
    let answer = answer_of_nobody(&header, &message)?;
    let back = Route { src: route.dst, dst: route.src, src_port: 0, hop_limit: 64, ..*route };
    Some((back, answer))
}

pub(super) fn transmit(link: &mut UdpLink, now: Instant, route: Route, mad: &Mad) {
    let header = mad_header(Psn::new(0));
    let head = header.as_slice();
    let frame = Outgoing { route, len: head.len() + mad.len(), damage: None };
    let _ = link.transmit(now, frame, &mut |out| {
        out[..head.len()].copy_from_slice(head);
        out[head.len()..].copy_from_slice(mad);
        true
    });
}
