//! The service: one thread that sleeps until a client, a packet for slot 0 or its keeper wants
//! something. Packets of members come by here only if they are of another user.

mod asked;
mod early;
mod farewell;
mod gsi;
mod ports;
mod requests;
mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};

use super::estate::{ClientRecord, Key, Record};
use super::gate::Gate;
use super::group::Group;
use super::keeper::Keeper;
use super::message::Answer;
use super::slots::ClientId;
use super::{Conversation, Place, Status, channel, sys};
use crate::UdpLink;
use crate::ports::{PortTable, Reservation};
use crate::udp::Relay;

/// How long a connection may live without becoming a member.
const STRANGER_MAX: Duration = Duration::from_secs(5);
/// How long members are waited for when somebody asks how they are doing.
const STATUS_PATIENCE: Duration = Duration::from_millis(250);
/// How long the sockets of an address are kept when nobody uses it any more: long enough for the
/// processes that did to end.
const LINGER: Duration = Duration::from_millis(500);
/// Connections that one user may have at a time.
const CONNECTIONS_MAX: usize = 300;
/// Connections that are taken in before clients have their turn.
const ARRIVALS_MAX: usize = 64;
/// Batches of packets for slot 0 that are looked at before clients have their turn.
const BATCHES_MAX: usize = 4;

/// How a service is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The UDP port.
    pub port: u16,
    /// Users who are served besides the service's own.
    pub allowed: Vec<u32>,
    /// End when there was no member for this long; `None` is never.
    pub idle: Option<Duration>,
}

/// Runs a service for this user in the foreground, until the process is asked to end.
///
/// # Errors
/// [`io::ErrorKind::AddrInUse`]: there is one already. Others as the system has them.
pub fn serve(settings: Settings) -> io::Result<()> {
    raise_limits();
    let listener = channel::listener(&channel::name_of(settings.port, own_uid()))?;
    let stop = sys::termination()?;
    let mut server = Server::new(settings, listener);
    server.keeper = Some(Keeper::start()?);
    server.tell_keeper();
    server.run(&stop)
}

/// Starts a service in the background and returns when clients can connect to it; does nothing if
/// there is one. For a process that ends soon: what it starts inherits nothing of it.
///
/// # Errors
/// As the system has them.
pub fn start_detached(settings: Settings) -> io::Result<()> {
    sys::bequeath_nothing();
    sys::unblock_signals()?;
    // It fails where this process leads a session already, and that is as good.
    let _ = setsid();
    raise_limits();
    let listener = match channel::listener(&channel::name_of(settings.port, own_uid())) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(()),
        listener => listener?,
    };
    // The keeper finds that it has no service, and starts one.
    let keeper = Keeper::start()?;
    keeper.keep(Key::Listener, Record::Listener(settings), listener.as_fd())
}

/// Goes on where another service has stopped; the keeper is at the standard input.
///
/// # Errors
/// As the system has them; the keeper starts another one.
pub fn resume() -> io::Result<()> {
    let stop = sys::termination()?;
    let channel = io::stdin().as_fd().try_clone_to_owned()?;
    restore::from_keeper(channel)?.run(&stop)
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A socket for each slot of each address, and a connection for each process: more descriptors
/// than programs usually need.
fn raise_limits() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Then there is room for fewer.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// A connected process.
#[derive(Debug)]
struct Client {
    connection: OwnedFd,
    pid: u32,
    uid: u32,
    since: Instant,
    about: ClientRecord,
    status: Option<Status>,
    /// What it is about, as it has said last.
    conversations: Vec<Conversation>,
    /// Its ports of the connection manager.
    ports: Vec<Reservation>,
    /// What is to be said for it when it is gone.
    will: Option<File>,
}

/// Somebody who wants to know how all members are doing.
#[derive(Debug)]
struct Asker {
    client: ClientId,
    sequence: u16,
    until: Instant,
    /// Who has not answered yet.
    waits_for: BTreeSet<ClientId>,
}

/// The service.
#[derive(Debug)]
pub(super) struct Server {
    settings: Settings,
    uid: u32,
    listener: OwnedFd,
    pub(super) keeper: Option<Keeper>,
    clients: BTreeMap<ClientId, Client>,
    groups: BTreeMap<Place, Group>,
    /// Groups that nobody uses, and since when.
    unused: BTreeMap<Place, Instant>,
    askers: Vec<Asker>,
    relay: Relay,
    ports: PortTable<ClientId>,
    gate: Gate,
    /// Requests for which nobody listens yet.
    early: Vec<early::Early>,
    asked: asked::Asked,
    farewells: farewell::Farewells,
    next_client: u64,
    started: Instant,
    /// Since when there is no member.
    alone_since: Option<Instant>,
}

/// What can wake the service.
#[derive(Clone, Copy, Debug)]
enum Source {
    Stop,
    Keeper,
    Listener,
    Group(Place),
    Relay(Place, u8),
    Client(ClientId),
}

impl Server {
    pub(super) fn new(settings: Settings, listener: OwnedFd) -> Self {
        let now = Instant::now();
        Self {
            settings,
            uid: own_uid(),
            listener,
            keeper: None,
            clients: BTreeMap::new(),
            groups: BTreeMap::new(),
            unused: BTreeMap::new(),
            askers: Vec::new(),
            relay: Relay::new(),
            ports: PortTable::new((std::process::id() & 0xffff) as u16),
            gate: Gate::default(),
            early: Vec::new(),
            asked: asked::Asked::default(),
            farewells: farewell::Farewells::default(),
            next_client: 1,
            started: now,
            alone_since: Some(now),
        }
    }

    /// Serves until `stop` is readable or nobody has come for long enough.
    pub(super) fn run(mut self, stop: &impl AsFd) -> io::Result<()> {
        loop {
            let now = Instant::now();
            self.keep_time(now);
            let idle = |idle| self.alone_since.is_some_and(|since| now >= since + idle);
            if self.settings.idle.is_some_and(idle) && self.farewells.is_empty() {
                break;
            }
            let ready = self.wait(stop.as_fd(), now)?;
            if ready.iter().any(|source| matches!(source, Source::Stop)) {
                break;
            }
            for source in ready {
                match source {
                    Source::Stop => {}
                    Source::Keeper => self.hear_keeper()?,
                    Source::Listener => self.accept(),
                    Source::Group(place) => self.take_packets(place),
                    Source::Relay(place, slot) => self.forward(place, slot),
                    Source::Client(client) => self.serve_client(client),
                }
            }
        }
        self.end();
        Ok(())
    }

    /// Sockets go before the name does: a service that has the name can have the port.
    fn end(mut self) {
        if let Some(keeper) = self.keeper.take() {
            keeper.farewell();
        }
        self.groups.clear();
    }

    fn wait(&self, stop: BorrowedFd<'_>, now: Instant) -> io::Result<Vec<Source>> {
        let mut sources = vec![Source::Stop, Source::Listener];
        let mut sockets = vec![stop, self.listener.as_fd()];
        if let Some(keeper) = &self.keeper {
            sources.push(Source::Keeper);
            sockets.push(keeper.as_fd());
        }
        for group in self.groups.values() {
            for socket in group.link.iter().flat_map(UdpLink::receivers) {
                sources.push(Source::Group(group.place()));
                sockets.push(socket.as_fd());
            }
            for (slot, socket, _) in group.relays() {
                sources.push(Source::Relay(group.place(), slot));
                sockets.push(socket.as_fd());
            }
        }
        for (id, client) in &self.clients {
            sources.push(Source::Client(*id));
            sockets.push(client.connection.as_fd());
        }
        let timeout = self.next_deadline().map(|at| at.saturating_duration_since(now));
        let ready = channel::wait(&sockets, timeout)?;
        Ok(sources.into_iter().zip(ready).filter_map(|(one, ready)| ready.then_some(one)).collect())
    }

    fn next_deadline(&self) -> Option<Instant> {
        let idle = self.alone_since.zip(self.settings.idle).map(|(since, idle)| since + idle);
        // Who has something left to say stays for that.
        let idle = idle.filter(|_| self.farewells.is_empty());
        let strangers = self.clients.values().filter(|client| client.about.slot == 0);
        let strangers = strangers.map(|client| client.since + STRANGER_MAX);
        let unused = self.unused.iter().filter(|(place, _)| !self.farewells.concern(**place));
        let unused = unused.map(|(_, since)| *since + LINGER);
        let askers = self.askers.iter().map(|asker| asker.until);
        let early = self.patience_ends();
        let farewells = self.farewells.next_due();
        let due = idle.into_iter().chain(strangers).chain(unused).chain(askers).chain(early);
        due.chain(farewells).min()
    }

    /// Does what is due.
    fn keep_time(&mut self, now: Instant) {
        self.askers.iter_mut().filter(|asker| asker.until <= now).for_each(|asker| {
            asker.waits_for.clear();
        });
        self.answer_askers();
        self.refuse_early(now);
        self.say_farewells(now);
        let stranger =
            |client: &Client| client.about.slot == 0 && client.since + STRANGER_MAX <= now;
        let strangers = self.clients.iter().filter(|(_, client)| stranger(client));
        for id in strangers.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(id);
        }
        let over = self.unused.iter().filter(|(_, since)| **since + LINGER <= now);
        let over = over.filter(|(place, _)| !self.farewells.concern(**place));
        for place in over.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.unused.remove(&place);
            self.close_group(place);
        }
        // Who only looks keeps nothing alive.
        if self.clients.values().any(|client| client.about.slot != 0) {
            self.alone_since = None;
        } else if self.alone_since.is_none() {
            self.alone_since = Some(now);
        }
    }

    fn close_group(&mut self, place: Place) {
        let Some(group) = self.groups.remove(&place) else { return };
        for (slot, _) in (0..=u8::MAX).zip(group.sockets()) {
            self.forget(Key::Socket(place, slot));
        }
    }

    /// Takes in those who wait, some at a time: there may be no end of them.
    fn accept(&mut self) {
        for _ in 0..ARRIVALS_MAX {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let connection = match accept_with(&self.listener, flags) {
                Ok(connection) => connection,
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => continue,
                Err(_) => {
                    // No descriptors left: some may become free, and there is no hurry.
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            };
            self.welcome(connection);
        }
    }

    fn welcome(&mut self, connection: OwnedFd) {
        let Ok((pid, uid)) = channel::peer_of(&connection) else { return };
        let refusal = self.judge(uid);
        let (since, about, status) = (Instant::now(), ClientRecord::default(), None);
        let (conversations, ports, will) = (Vec::new(), Vec::new(), None);
        let client =
            Client { connection, pid, uid, since, about, status, conversations, ports, will };
        if let Some(why) = refusal {
            // Said without being asked, and the connection ends.
            let _ = client.say(&Answer::Refused(why), 0, &[]);
            return;
        }
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.clients.insert(id, client);
    }

    fn hear_keeper(&mut self) -> io::Result<()> {
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        if let Ok(Some(_)) = keeper.hear() {
            return Ok(());
        }
        keeper.reap();
        self.keeper = Some(Keeper::start()?);
        self.tell_keeper();
        Ok(())
    }

    /// Tells a new keeper everything.
    fn tell_keeper(&self) {
        self.keep(Key::Listener, || Record::Listener(self.settings.clone()), &self.listener);
        for group in self.groups.values() {
            for (slot, socket) in (0..=u8::MAX).zip(group.sockets()) {
                let record = || Record::Socket(group.slots.uid(slot));
                self.keep(Key::Socket(group.place(), slot), record, socket);
            }
            for (slot, _, end) in group.relays() {
                self.keep(Key::Relay(group.place(), slot), || Record::Relay, end);
            }
        }
        for (id, client) in &self.clients {
            self.keep_client(*id, client);
            self.keep_all_ports(*id);
            self.keep_will(*id);
        }
    }

    /// Has the keeper hold something. If the keeper is gone it is started anew and told all.
    fn keep(&self, key: Key, record: impl FnOnce() -> Record, descriptor: &impl AsFd) {
        if let Some(keeper) = &self.keeper {
            let _ = keeper.keep(key, record(), descriptor.as_fd());
        }
    }

    fn keep_client(&self, id: ClientId, client: &Client) {
        let record = || Record::Client(client.about.clone());
        self.keep(Key::Client(id.0), record, &client.connection);
    }

    fn keep_will(&self, id: ClientId) {
        if let Some(file) = self.clients.get(&id).and_then(|client| client.will.as_ref()) {
            self.keep(Key::Will(id.0), || Record::Will, file);
        }
    }

    fn forget(&self, key: Key) {
        if let Some(keeper) = &self.keeper {
            keeper.forget(key);
        }
    }

    /// A client is gone, or is sent away.
    fn remove(&mut self, id: ClientId) {
        let now = Instant::now();
        let Some(client) = self.clients.remove(&id) else { return };
        self.forget(Key::Client(id.0));
        self.forget_ports(id, &client);
        self.forget(Key::Will(id.0));
        self.take_leave(now, &client);
        let mut ended = Vec::new();
        for group in self.groups.values_mut() {
            let place = group.place();
            ended.extend(group.free(id, now).into_iter().map(|slot| Key::Relay(place, slot)));
        }
        ended.into_iter().for_each(|key| self.forget(key));
        self.note_unused(now);
        for asker in &mut self.askers {
            asker.waits_for.remove(&id);
        }
        self.askers.retain(|asker| asker.client != id);
        self.answer_askers();
    }

    /// Groups that nobody uses are closed after a while. One that a process of another user has
    /// been in stays: that process may have kept its socket, and then nobody could open the group
    /// again.
    fn note_unused(&mut self, now: Instant) {
        for (place, group) in &self.groups {
            if group.slots.is_used() {
                self.unused.remove(place);
            } else if group.slots.is_of(self.uid) {
                self.unused.entry(*place).or_insert(now);
            }
        }
    }

    /// Packets for a member that has no socket of its own.
    fn forward(&mut self, place: Place, slot: u8) {
        if let Some((socket, end)) = self.groups.get(&place).and_then(|group| group.relay(slot)) {
            for _ in 0..BATCHES_MAX {
                if !self.relay.forward(socket, end) {
                    return;
                }
            }
        }
    }
}

impl Client {
    fn say(
        &self,
        answer: &Answer,
        sequence: u16,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        channel::send(&self.connection, &answer.to_bytes(sequence), descriptors)
    }
}
