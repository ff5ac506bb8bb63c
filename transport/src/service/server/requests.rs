//! What clients ask of the service. A client that talks nonsense is told so and sent away; nobody
//! else notices.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use super::{Asker, CONNECTIONS_MAX, Client, STATUS_PATIENCE, Server};
use crate::service::estate::{Key, Record};
use crate::service::group::Group;
use crate::service::keeper::Keeper;
use crate::service::message::{Answer, MESSAGE_MAX, PLACES_MAX, ROWS_MAX, Request};
use crate::service::slots::{ClientId, Slots, choose};
use crate::service::{Place, Refusal, Row, channel, sys, will};

/// Addresses that one user may use at a time: the service's own, and any other.
const PLACES_OF_OWN_MAX: usize = 1024;
const PLACES_OF_OTHERS_MAX: usize = 64;

/// What becomes of a client after a request.
pub(super) enum Outcome {
    Stays,
    Leaves,
}

impl Server {
    /// Whether a user may connect, and why not.
    pub(super) fn judge(&self, uid: u32) -> Option<Refusal> {
        // Root may look at everything, which it could do anyway.
        if !self.serves(uid) && uid != 0 {
            return Some(Refusal::NotAllowed);
        }
        let connected = self.clients.values().filter(|client| client.uid == uid).count();
        (connected >= CONNECTIONS_MAX).then_some(Refusal::TooMany)
    }

    fn serves(&self, uid: u32) -> bool {
        uid == self.uid || self.settings.allowed.contains(&uid)
    }

    /// How many slots of an address one user may have.
    fn share(&self) -> usize {
        let others = self.settings.allowed.iter().filter(|uid| **uid != self.uid);
        (Slots::MAX - 1) / (1 + others.collect::<BTreeSet<_>>().len())
    }

    /// Takes one message of a client, so that no client keeps the others waiting.
    pub(super) fn serve_client(&mut self, id: ClientId) {
        let Some(client) = self.clients.get(&id) else { return };
        let mut buffer = [0; MESSAGE_MAX];
        // Descriptors that it sends along are not taken, and so the kernel closes them.
        let request = match channel::receive(&client.connection, &mut buffer) {
            Ok(Some(bytes)) => Request::from_bytes(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(Refusal::Malformed)
            }
            Ok(None) | Err(_) => return self.remove(id),
        };
        let outcome = match request {
            Ok((sequence, request)) => self.carry_out(id, sequence, request),
            Err(why) => {
                let _ = client.say(&Answer::Refused(why), 0, &[]);
                Outcome::Leaves
            }
        };
        if matches!(outcome, Outcome::Leaves) {
            self.remove(id);
        }
    }

    fn carry_out(&mut self, id: ClientId, sequence: u16, request: Request) -> Outcome {
        let Some(client) = self.clients.get_mut(&id) else { return Outcome::Leaves };
        match request {
            Request::Attach { program, device, slot, places } => {
                client.about.program = program;
                client.about.device = device;
                self.attach(id, sequence, slot, &places)
            }
            Request::Detach(place) => {
                self.detach(id, place);
                Outcome::Stays
            }
            Request::Gsi(wanted) => self.take_gsi(id, sequence, wanted),
            Request::Status(status, conversations) => {
                client.status = Some(status);
                client.conversations = conversations;
                for asker in &mut self.askers {
                    asker.waits_for.remove(&id);
                }
                self.answer_askers();
                Outcome::Stays
            }
            Request::List => {
                self.ask_all(id, sequence);
                Outcome::Stays
            }
            Request::Reserve(wanted) => self.reserve(id, sequence, wanted),
            Request::Release(service, at) => {
                self.release_port(id, service, at);
                Outcome::Stays
            }
            Request::Leave => Outcome::Leaves,
        }
    }

    /// A client that does not take its answer is sent away.
    pub(super) fn answer(
        &self,
        id: ClientId,
        answer: &Answer,
        sequence: u16,
        sockets: &[OwnedFd],
    ) -> Outcome {
        let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let client = self.clients.get(&id);
        match client.map(|client| client.say(answer, sequence, &sockets)) {
            Some(Ok(())) => Outcome::Stays,
            Some(Err(_)) | None => Outcome::Leaves,
        }
    }

    /// A client wants messages of the connection manager, or no more of them. Who wants them gets the
    /// file for what is to be said when it is gone.
    fn take_gsi(&mut self, id: ClientId, sequence: u16, wanted: bool) -> Outcome {
        let Some(client) = self.clients.get_mut(&id) else { return Outcome::Leaves };
        client.about.gsi = wanted;
        if wanted && client.will.is_none() {
            match will::new_file() {
                Ok(file) => client.will = Some(file),
                Err(_) => return self.answer(id, &Answer::Refused(Refusal::Busy), sequence, &[]),
            }
        }
        let copy = client.will.as_ref().filter(|_| wanted).map(File::try_clone);
        if let Some(client) = self.clients.get(&id) {
            self.keep_client(id, client);
            self.keep_will(id);
        }
        match copy.transpose() {
            Ok(file) => {
                let sockets: Vec<OwnedFd> = file.into_iter().map(OwnedFd::from).collect();
                self.answer(id, &Answer::Done, sequence, &sockets)
            }
            Err(_) => self.answer(id, &Answer::Refused(Refusal::Busy), sequence, &[]),
        }
    }

    /// Gives a client the sockets of addresses.
    fn attach(&mut self, id: ClientId, sequence: u16, wished: u8, places: &[Place]) -> Outcome {
        let granted = self.judge_attach(id, places);
        let granted = granted.and_then(|()| self.grant(id, wished, places));
        match granted {
            Ok((slot, granted)) => {
                let told = granted.iter().map(|one| one.as_ref().map(drop).map_err(|why| *why));
                let answer = Answer::Attached { slot, granted: told.collect() };
                let sockets: Vec<OwnedFd> = granted.into_iter().flatten().collect();
                self.answer(id, &answer, sequence, &sockets)
            }
            Err(why) => self.answer(id, &Answer::Refused(why), sequence, &[]),
        }
    }

    fn judge_attach(&self, id: ClientId, places: &[Place]) -> Result<(), Refusal> {
        let client = self.clients.get(&id).ok_or(Refusal::Malformed)?;
        if !self.serves(client.uid) {
            return Err(Refusal::NotAllowed);
        }
        // What is on its way to a client counts against this process: one answer at a time.
        if sys::unread(&client.connection).is_ok_and(|bytes| bytes != 0) {
            return Err(Refusal::Busy);
        }
        let all: BTreeSet<_> = client.about.places.iter().chain(places).collect();
        if all.len() > PLACES_MAX {
            return Err(Refusal::TooMany);
        }
        let used = self.groups.iter().filter(|(_, group)| group.slots.count_of(client.uid) > 0);
        let used: BTreeSet<_> = used.map(|(place, _)| place).chain(places).collect();
        let own = client.uid == self.uid;
        let max = if own { PLACES_OF_OWN_MAX } else { PLACES_OF_OTHERS_MAX };
        if used.len() > max { Err(Refusal::TooMany) } else { Ok(()) }
    }

    /// The slot of a client, and its socket of each of these addresses. At an address that it has
    /// already it gets the same socket again. Who has no slot yet may wish for one.
    fn grant(
        &mut self,
        id: ClientId,
        wished: u8,
        places: &[Place],
    ) -> Result<(u8, Vec<Result<OwnedFd, Refusal>>), Refusal> {
        let opened: Vec<_> = places.iter().map(|place| self.open_group(*place)).collect();
        let now = Instant::now();
        let share = self.share();
        let client = self.clients.get(&id).ok_or(Refusal::Malformed)?;
        let slot = match client.about.slot {
            0 if wished != 0 => wished,
            0 => {
                let usable = places.iter().zip(&opened).filter(|(_, opened)| opened.is_ok());
                let groups = usable.filter_map(|(place, _)| self.groups.get(place));
                let groups = groups.map(|group| &group.slots);
                choose(groups, client.uid, share, now).ok_or(Refusal::NoSlot)?
            }
            slot => slot,
        };
        let mut granted = Vec::new();
        for (place, opened) in places.iter().zip(opened) {
            granted.push(opened.and_then(|()| self.grant_one(id, slot, *place, now)));
        }
        self.note_unused(now);
        let client = self.clients.get_mut(&id).ok_or(Refusal::Malformed)?;
        for (place, granted) in places.iter().zip(&granted) {
            if granted.is_ok() && !client.about.places.contains(place) {
                client.about.places.push(*place);
            }
        }
        if granted.iter().any(Result::is_ok) {
            client.about.slot = slot;
        }
        let slot = client.about.slot;
        // The keeper knows before the client does, so that nobody else gets the slot.
        if let Some(client) = self.clients.get(&id) {
            self.keep_client(id, client);
        }
        Ok((slot, granted))
    }

    fn grant_one(
        &mut self,
        id: ClientId,
        slot: u8,
        place: Place,
        now: Instant,
    ) -> Result<OwnedFd, Refusal> {
        let share = self.share();
        let uid = self.clients.get(&id).map(|client| client.uid).ok_or(Refusal::Malformed)?;
        let group = self.groups.get_mut(&place).ok_or(Refusal::AddressNotHere)?;
        if group.slots.holder(slot) != Some(id) {
            group.slots.fit(slot, uid, share, now).ok_or(Refusal::SlotTaken)?;
        }
        group.grow_to(slot)?;
        let socket =
            if uid == self.uid { group.hand_out(slot)? } else { group.hand_out_relay(slot)? };
        group.take(slot, uid, id);
        self.keep_group(place);
        Ok(socket)
    }

    /// Makes the group of an address, unless there is one.
    fn open_group(&mut self, place: Place) -> Result<(), Refusal> {
        if let Some(group) = self.groups.get_mut(&place) {
            group.listen();
            return Ok(());
        }
        let broadcast = place.ip == std::net::Ipv4Addr::BROADCAST;
        if place.ip.is_unspecified() || place.ip.is_multicast() || broadcast {
            return Err(Refusal::AddressNotHere);
        }
        let group = Group::open(place, self.settings.port)?;
        self.groups.insert(place, group);
        Ok(())
    }

    /// Has the keeper hold all sockets of a group.
    fn keep_group(&self, place: Place) {
        let Some(group) = self.groups.get(&place) else { return };
        for (slot, socket) in (0..=u8::MAX).zip(group.sockets()) {
            let record = || Record::Socket(group.slots.uid(slot));
            self.keep(Key::Socket(place, slot), record, socket);
        }
        for (slot, _, end) in group.relays() {
            self.keep(Key::Relay(place, slot), || Record::Relay, end);
        }
    }

    fn detach(&mut self, id: ClientId, place: Place) {
        let now = Instant::now();
        if let Some(client) = self.clients.get_mut(&id) {
            client.about.places.retain(|known| *known != place);
        }
        if let Some(client) = self.clients.get(&id) {
            self.keep_client(id, client);
        }
        let group = self.groups.get_mut(&place);
        let ended = group.map_or_else(Vec::new, |group| group.free(id, now));
        ended.into_iter().for_each(|slot| self.forget(Key::Relay(place, slot)));
        self.note_unused(now);
    }

    /// Asks all members how they are doing, for `client`.
    fn ask_all(&mut self, client: ClientId, sequence: u16) {
        let mut waits_for = BTreeSet::new();
        for (id, member) in self.clients.iter_mut().filter(|(_, member)| member.about.slot != 0) {
            member.status = None;
            member.conversations.clear();
            if member.say(&Answer::StatusWanted, 0, &[]).is_ok() {
                waits_for.insert(*id);
            }
        }
        let until = Instant::now() + STATUS_PATIENCE;
        self.askers.retain(|asker| asker.client != client);
        self.askers.push(Asker { client, sequence, until, waits_for });
        self.answer_askers();
    }

    /// Answers those who wait for nobody any more.
    pub(super) fn answer_askers(&mut self) {
        while let Some(at) = self.askers.iter().position(|asker| asker.waits_for.is_empty()) {
            let Asker { client, sequence, .. } = self.askers.swap_remove(at);
            let keeper = self.keeper.as_ref().map_or(0, Keeper::process);
            let listed = Answer::Listed { service: std::process::id(), keeper };
            let members = self.clients.values().filter(|member| member.about.slot != 0);
            let rows: Vec<Row> = members.map(Client::row).collect();
            let rows = rows.chunks(ROWS_MAX).map(|rows| Answer::Rows(rows.to_vec()));
            for answer in rows.chain([listed]) {
                if matches!(self.answer(client, &answer, sequence, &[]), Outcome::Leaves) {
                    self.remove(client);
                    break;
                }
            }
        }
    }
}

impl Client {
    fn row(&self) -> Row {
        let about = &self.about;
        Row {
            pid: self.pid,
            uid: self.uid,
            slot: about.slot,
            program: about.program.clone(),
            device: about.device.clone(),
            places: about.places.clone(),
            status: self.status,
            conversations: self.conversations.clone(),
        }
    }
}
