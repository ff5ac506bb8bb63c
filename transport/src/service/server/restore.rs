//! A service that goes on where another one has stopped.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::Instant;

use super::{Client, Server};
use crate::ports::Reservation;
use crate::service::Place;
use crate::service::channel;
use crate::service::estate::{ClientRecord, Key, Record, Word};
use crate::service::group::Group;
use crate::service::keeper::Keeper;
use crate::service::slots::ClientId;

/// The socket of a slot and whose it is.
type Held = (Option<u32>, UdpSocket);

/// Makes a service of what a keeper tells at `channel`.
pub(super) fn from_keeper(channel: OwnedFd) -> io::Result<Server> {
    let keeper = Keeper::at(channel);
    let mut server = None;
    let mut sockets: BTreeMap<Place, Vec<Held>> = BTreeMap::new();
    let mut clients: Vec<(u64, ClientRecord, OwnedFd)> = Vec::new();
    let mut relays: Vec<(Place, u8, OwnedFd)> = Vec::new();
    let mut ports: Vec<(u64, Vec<Reservation>)> = Vec::new();
    let mut wills: Vec<(u64, OwnedFd)> = Vec::new();
    loop {
        let (word, descriptor) = keeper.hear()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match (word, descriptor) {
            (Word::Keep(Key::Listener, Record::Listener(settings)), Some(listener)) => {
                server = Some(Server::new(settings, listener));
            }
            // They come in the order of the slots.
            (Word::Keep(Key::Socket(place, _), Record::Socket(uid)), Some(socket)) => {
                sockets.entry(place).or_default().push((uid, socket.into()));
            }
            (Word::Keep(Key::Client(id), Record::Client(about)), Some(connection)) => {
                clients.push((id, about, connection));
            }
            (Word::Keep(Key::Relay(place, slot), Record::Relay), Some(end)) => {
                relays.push((place, slot, end));
            }
            (Word::Keep(Key::Ports(client, _), Record::Ports(some)), Some(_)) => {
                ports.push((client, some));
            }
            (Word::Keep(Key::Will(client), Record::Will), Some(file)) => {
                wills.push((client, file));
            }
            (Word::Complete, _) => break,
            (Word::Keep(..) | Word::Forget(_) | Word::Farewell, _) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
    let mut server = server.ok_or(io::ErrorKind::InvalidData)?;
    server.keeper = Some(keeper);
    for (place, held) in sockets {
        server.adopt_group(place, held)?;
    }
    for (place, slot, end) in relays {
        if let Some(group) = server.groups.get_mut(&place) {
            group.restore_relay(slot, end);
        }
    }
    for (id, about, connection) in clients {
        server.adopt_client(ClientId(id), about, connection)?;
    }
    for (client, some) in ports {
        some.into_iter().for_each(|port| server.enter_port(ClientId(client), port));
    }
    for (client, file) in wills {
        if let Some(client) = server.clients.get_mut(&ClientId(client)) {
            client.will = Some(file.into());
        }
    }
    server.note_unused(Instant::now());
    Ok(server)
}

impl Server {
    fn adopt_group(&mut self, place: Place, held: Vec<Held>) -> io::Result<()> {
        let (uids, sockets): (Vec<_>, Vec<_>) = held.into_iter().unzip();
        let mut group = Group::around(place, self.settings.port, sockets);
        // The last service may have died between making a socket and steering to it.
        group.steer()?;
        for (slot, uid) in (0..=u8::MAX).zip(uids) {
            if let Some(uid) = uid {
                group.slots.take(slot, uid, None);
            }
        }
        self.groups.insert(place, group);
        Ok(())
    }

    fn adopt_client(
        &mut self,
        id: ClientId,
        about: ClientRecord,
        connection: OwnedFd,
    ) -> io::Result<()> {
        let (pid, uid) = channel::peer_of(&connection)?;
        for place in &about.places {
            if let Some(group) = self.groups.get_mut(place) {
                group.take(about.slot, uid, id);
            }
        }
        let (since, status) = (Instant::now(), None);
        let (conversations, ports, will) = (Vec::new(), Vec::new(), None);
        self.clients.insert(
            id,
            Client { connection, pid, uid, since, about, status, conversations, ports, will },
        );
        self.next_client = self.next_client.max(id.0 + 1);
        self.alone_since = None;
        Ok(())
    }
}
