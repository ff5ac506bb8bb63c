//! A process' side of the service: it asks for a slot, and keeps it for as long as it stays
//! connected.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use softrnic_model::cm::{ListenAt, ServiceId};
use softrnic_model::wire::Route;

use super::launch::{self, LaunchError};
use super::message::{Answer, MESSAGE_MAX, PLACES_MAX, Request};
use super::{
    CONVERSATIONS_MAX, Conversation, Listing, Place, Refusal, Status, TRUST_VARIABLE, VARIABLE,
    Will, channel,
};
use crate::ports::Reservation;

/// How long a service may take to answer a process that starts.
const JOIN_PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take to answer a process that is at work.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long to wait before trying again.
const PAUSE: Duration = Duration::from_millis(2);
/// A service that was started and is not there is started again this often at most.
const STARTS_MAX: u32 = 3;
/// What the service says unasked is kept up to this number while an answer is waited for.
const NOTICES_MAX: usize = 64;

/// A membership in the port service: a slot, which ends with this value or with the process.
///
/// Dropping it gives the slot back; the sockets should be gone by then.
#[derive(Debug)]
pub struct Member {
    connection: OwnedFd,
    slot: u8,
    device: String,
    sequence: u16,
    notices: VecDeque<Notice>,
    process: u32,
    port: u16,
    /// Its ports of the connection manager.
    reserved: Vec<Reservation>,
    /// It takes packets to queue pair 1.
    gsi: bool,
}

/// What a member has again after the service was lost.
#[derive(Debug)]
pub struct Rejoined {
    /// The new membership.
    pub member: Member,
    /// The receiving socket of each address, in order.
    pub sockets: Vec<UdpSocket>,
    /// As [`Member::listen_gsi`] gives it, if the lost one took packets to queue pair 1.
    pub will: Option<Will>,
}

/// What the service says unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody wants to know how this member is doing: [`Member::report`].
    StatusWanted,
    /// A packet for queue pair 1, of which one header fits the ICRC that is removed
    /// ([`Member::listen_gsi`]).
    Gsi {
        /// How it came.
        route: Route,
        /// From the BTH to the end of the pad.
        packet: Vec<u8>,
    },
}

/// What comes of asking for an address: the receiving socket of the slot there.
pub type Granted = Result<UdpSocket, Refusal>;

/// Why a process is not a member.
#[derive(Debug)]
pub enum JoinError {
    /// There is no service and none can be started; the text says why.
    NoService(String),
    /// Somebody else has taken the name of a service of this user.
    Impostor {
        /// Its name in the abstract name space of unix sockets.
        name: String,
        /// Who: a process, 0 if it cannot be seen ..
        pid: u32,
        /// .. of this user.
        uid: u32,
    },
    /// The service refuses.
    Refused(Refusal),
    /// The system refuses, or the service does not answer.
    System(io::Error),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoService(why) => write!(f, "there is no port service: {why}"),
            Self::Impostor { name, uid: channel::NOBODY, .. } => write!(
                f,
                "whose port service has the name {name:?} cannot be told: this user namespace does \
                 not map all users of its network; set {VARIABLE}=off to do without a service"
            ),
            Self::Impostor { name, pid, uid } => write!(
                f,
                "process {pid} of user {uid} has the name of this user's port service (abstract \
                 unix socket {name:?}); end it, or set {VARIABLE}=off to do without a service"
            ),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::System(error) => write!(f, "the port service cannot be used: {error}"),
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::NoService(_) | Self::Impostor { .. } | Self::Refused(_) => None,
        }
    }
}

impl Member {
    /// Asks the service of `port` for a slot at these addresses, and starts it if there is none.
    /// `device` is a name for people. Gives the receiving socket of each address, in order.
    ///
    /// A service of this user is asked, then one of root and one of the user whom
    /// [`TRUST_VARIABLE`] names, if they are there.
    ///
    /// # Errors
    /// See [`JoinError`]. If all addresses are refused, for different reasons, the first one.
    pub fn join(
        port: u16,
        device: &str,
        places: &[Place],
    ) -> Result<(Self, Vec<Granted>), JoinError> {
        if !(1..=PLACES_MAX).contains(&places.len()) {
            return Err(JoinError::Refused(Refusal::TooMany));
        }
        Self::join_as(port, device, 0, places, Instant::now() + JOIN_PATIENCE)
    }

    /// Comes back after service and keeper have both ended: asks the next service, which it starts if
    /// nobody has, for the same slot, the same ports and packets to queue pair 1. The sockets that it
    /// had must be gone: as long as any member of the lost service has one, nobody gets a new one.
    ///
    /// # Errors
    /// See [`JoinError`]; it can be tried again.
    pub fn rejoin(&self, places: &[Place], patience: Duration) -> Result<Rejoined, JoinError> {
        let deadline = Instant::now() + patience;
        let (mut member, granted) =
            Self::join_as(self.port, &self.device, self.slot, places, deadline)?;
        let sockets: Result<Vec<_>, Refusal> = granted.into_iter().collect();
        let sockets = sockets.map_err(JoinError::Refused)?;
        for reservation in &self.reserved {
            member.reserve(*reservation).map_err(JoinError::System)?.map_err(JoinError::Refused)?;
        }
        let will = self.gsi.then(|| member.listen_gsi().map_err(JoinError::System)).transpose()?;
        Ok(Rejoined { member, sockets, will })
    }

    fn join_as(
        port: u16,
        device: &str,
        slot: u8,
        places: &[Place],
        deadline: Instant,
    ) -> Result<(Self, Vec<Granted>), JoinError> {
        let own = rustix::process::geteuid().as_raw();
        let mut starts = 0;
        loop {
            let mut failure = None;
            let mut own_is_there = false;
            for uid in trusted(own) {
                match Self::join_of(port, uid, device, slot, places, deadline) {
                    Attempt::Joined(member, sockets) => return Ok((member, sockets)),
                    Attempt::Nobody => {}
                    // It was about to end, or has just died.
                    Attempt::Again if uid == own => {
                        (own_is_there, failure) = (true, None);
                        break;
                    }
                    Attempt::Again => {}
                    Attempt::Failed(error) => {
                        own_is_there |= uid == own;
                        failure.get_or_insert(error);
                    }
                }
            }
            if Instant::now() >= deadline {
                let late = || JoinError::System(io::ErrorKind::TimedOut.into());
                return Err(failure.unwrap_or_else(late));
            }
            if let Some(error) = failure
                && (own_is_there || starts > 0)
            {
                return Err(error);
            }
            if own_is_there {
                std::thread::sleep(PAUSE);
                continue;
            }
            if starts == STARTS_MAX {
                return Err(JoinError::NoService("what should start it does not".into()));
            }
            starts += 1;
            launch::start(port).map_err(|error| match error {
                LaunchError::NotFound => JoinError::NoService(format!(
                    "no executable softrnic beside the program or on the path, and {VARIABLE} \
                     does not name one"
                )),
                LaunchError::Failed(program, why) => {
                    JoinError::NoService(format!("{}: {why}", program.display()))
                }
            })?;
        }
    }

    fn join_of(
        port: u16,
        uid: u32,
        device: &str,
        slot: u8,
        places: &[Place],
        deadline: Instant,
    ) -> Attempt {
        let connection = match connect(port, uid) {
            Ok(Some(connection)) => connection,
            Ok(None) => return Attempt::Nobody,
            Err(error) => return Attempt::Failed(error),
        };
        let mut member = Self {
            connection,
            slot,
            device: device.into(),
            sequence: 0,
            notices: VecDeque::new(),
            process: std::process::id(),
            port,
            reserved: Vec::new(),
            gsi: false,
        };
        match member.request(places, deadline) {
            Ok(Ok(sockets)) => {
                let refusal = sockets.iter().find_map(|socket| socket.as_ref().err());
                match refusal {
                    Some(why) if sockets.iter().all(Result::is_err) => {
                        Attempt::Failed(JoinError::Refused(*why))
                    }
                    Some(_) | None => Attempt::Joined(member, sockets),
                }
            }
            Ok(Err(why)) => Attempt::Failed(JoinError::Refused(why)),
            Err(error) if is_lost(&error) => Attempt::Again,
            Err(error) => Attempt::Failed(JoinError::System(error)),
        }
    }

    /// The slot: the high 8 bits of the queue pair numbers of this process.
    #[must_use]
    pub const fn slot(&self) -> u8 {
        self.slot
    }

    /// Asks for one more address; the slot is the same there.
    ///
    /// # Errors
    /// The connection is lost, or the service does not answer.
    pub fn attach(&mut self, place: Place) -> io::Result<Granted> {
        let granted = self.request(&[place], Instant::now() + PATIENCE)?;
        Ok(granted.and_then(|mut sockets| sockets.pop().unwrap_or(Err(Refusal::Malformed))))
    }

    /// Gives an address back. Its socket should be gone by then.
    pub fn detach(&mut self, place: Place) {
        // If the service is gone there is nothing to give back.
        let _ = channel::send(&self.connection, &Request::Detach(place).to_bytes(0), &[]);
    }

    /// Asks for the packets to queue pair 1 of its addresses, or for no more of them: messages of the
    /// connection manager that name its slot, and requests for what it listens to. They come as
    /// [`Notice::Gsi`]; who does not take them in time loses some. Gives the place to write down what
    /// is to be said to the peers of its connections when the process is gone, empty.
    ///
    /// # Errors
    /// The connection is lost, or the service does not answer.
    pub fn listen_gsi(&mut self) -> io::Result<Will> {
        let deadline = Instant::now() + PATIENCE;
        let mut files = Vec::new();
        match (self.ask(&Request::Gsi(true), deadline, &mut files)?, files.pop()) {
            (Answer::Done, Some(file)) => {
                self.gsi = true;
                Will::new(file.into())
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Asks for a port of the connection manager, or another service: port 0 is any that is free. For
    /// one that it has already, it changes what is said of it. Gives the service that it has now.
    ///
    /// # Errors
    /// The connection is lost, or the service does not answer.
    pub fn reserve(&mut self, wanted: Reservation) -> io::Result<Result<ServiceId, Refusal>> {
        let deadline = Instant::now() + PATIENCE;
        match self.ask(&Request::Reserve(wanted), deadline, &mut Vec::new())? {
            Answer::Reserved(service) => {
                self.reserved.retain(|had| (had.service, had.at) != (service, wanted.at));
                self.reserved.push(Reservation { service, ..wanted });
                Ok(Ok(service))
            }
            Answer::Refused(why) => Ok(Err(why)),
            Answer::Attached { .. }
            | Answer::Done
            | Answer::Gsi { .. }
            | Answer::StatusWanted
            | Answer::Rows(_)
            | Answer::Listed { .. } => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Gives a port back.
    pub fn release(&mut self, service: ServiceId, at: ListenAt) {
        self.reserved.retain(|had| (had.service, had.at) != (service, at));
        // If the service is gone there is nothing to give back.
        let _ = channel::send(&self.connection, &Request::Release(service, at).to_bytes(0), &[]);
    }

    /// Whether the service has said something that was put aside while an answer was waited for.
    #[must_use]
    pub fn has_notice(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Tells how it is going, when [`Notice::StatusWanted`] has asked for it.
    /// No more than [`CONVERSATIONS_MAX`] listeners and connections are told.
    pub fn report(&self, status: &Status, mut conversations: Vec<Conversation>) {
        conversations.truncate(CONVERSATIONS_MAX);
        let report = Request::Status(*status, conversations);
        // Who asked does without.
        let _ = channel::send(&self.connection, &report.to_bytes(0), &[]);
    }

    /// What the service has said unasked, if anything. Never blocks.
    ///
    /// # Errors
    /// The connection is lost: service and keeper have both ended. The sockets go on, but nobody
    /// sees to it that they are reached.
    pub fn notice(&mut self) -> io::Result<Option<Notice>> {
        if let Some(notice) = self.notices.pop_front() {
            return Ok(Some(notice));
        }
        let mut buffer = [0; MESSAGE_MAX];
        loop {
            let bytes = match channel::receive(&self.connection, &mut buffer) {
                Ok(bytes) => bytes.ok_or(io::ErrorKind::ConnectionReset)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            // An answer that nobody waits for any more came too late.
            if let Ok((_, answer)) = Answer::from_bytes(bytes)
                && let Some(notice) = notice_of(answer)
            {
                return Ok(Some(notice));
            }
        }
    }

    /// Asks for addresses until the service has time.
    fn request(
        &mut self,
        places: &[Place],
        deadline: Instant,
    ) -> io::Result<Result<Vec<Granted>, Refusal>> {
        let (program, device) = (program_name(), self.device.clone());
        let slot = self.slot;
        let request = Request::Attach { program, device, slot, places: places.to_vec() };
        loop {
            let mut sockets = Vec::new();
            match self.ask(&request, deadline, &mut sockets)? {
                Answer::Attached { slot, granted } => {
                    if granted.len() != places.len()
                        || sockets.len() != granted.iter().filter(|one| one.is_ok()).count()
                    {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    self.slot = slot;
                    let mut sockets = sockets.into_iter().map(UdpSocket::from);
                    let socket = |granted: Result<(), Refusal>| {
                        granted.and_then(|()| sockets.next().ok_or(Refusal::Malformed))
                    };
                    return Ok(Ok(granted.into_iter().map(socket).collect()));
                }
                Answer::Refused(Refusal::Busy) if Instant::now() < deadline => {
                    std::thread::sleep(PAUSE);
                }
                Answer::Refused(why) => return Ok(Err(why)),
                Answer::Done
                | Answer::Reserved(_)
                | Answer::Gsi { .. }
                | Answer::StatusWanted
                | Answer::Rows(_)
                | Answer::Listed { .. } => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Asks and waits for the answer.
    fn ask(
        &mut self,
        request: &Request,
        deadline: Instant,
        descriptors: &mut Vec<OwnedFd>,
    ) -> io::Result<Answer> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let Self { connection, sequence, notices, .. } = self;
        ask(connection, *sequence, request, deadline, descriptors, &mut |notice| {
            if notices.len() < NOTICES_MAX {
                notices.push_back(notice);
            }
        })
    }
}

impl AsFd for Member {
    /// Readable when the service has said something: [`Member::notice`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // A forked child holds a copy of the connection, so closing it would not be enough; and
        // the child's end is not the member's.
        if self.process == std::process::id() {
            let _ = channel::send(&self.connection, &Request::Leave.to_bytes(0), &[]);
        }
    }
}

/// What comes of asking one service.
enum Attempt {
    Joined(Member, Vec<Granted>),
    /// There is none.
    Nobody,
    /// It has just ended.
    Again,
    Failed(JoinError),
}

/// Whose services are trusted, this user's first.
fn trusted(own: u32) -> Vec<u32> {
    let named = std::env::var(TRUST_VARIABLE).ok().and_then(|uid| uid.parse().ok());
    let mut uids = vec![own];
    uids.extend([Some(0), named].into_iter().flatten().filter(|uid| *uid != own));
    uids
}

/// Connects to the service of a user; `None` if there is none.
pub(super) fn connect(port: u16, uid: u32) -> Result<Option<OwnedFd>, JoinError> {
    let name = channel::name_of(port, uid);
    let deadline = Instant::now() + PATIENCE;
    let connection = loop {
        match channel::connect_to(&name) {
            Ok(connection) => break connection,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(JoinError::System(error)),
        }
    };
    match channel::peer_of(&connection) {
        Ok((_, peer)) if peer == uid => Ok(Some(connection)),
        Ok((pid, uid)) => Err(JoinError::Impostor { name, pid, uid }),
        Err(error) => Err(JoinError::System(error)),
    }
}

/// Sends a request and waits for its answer; what comes unasked goes to `unasked`.
fn ask(
    connection: &OwnedFd,
    sequence: u16,
    request: &Request,
    deadline: Instant,
    descriptors: &mut Vec<OwnedFd>,
    unasked: &mut dyn FnMut(Notice),
) -> io::Result<Answer> {
    match channel::send(connection, &request.to_bytes(sequence), &[]) {
        // Why it is closed may have been said.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        sent => sent?,
    }
    let mut buffer = [0; MESSAGE_MAX];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !channel::wait(&[connection.as_fd()], Some(left))?.contains(&true) && left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        descriptors.clear();
        let bytes = match channel::receive_with(connection, &mut buffer, descriptors) {
            Ok(bytes) => bytes.ok_or(io::ErrorKind::ConnectionReset)?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        match Answer::from_bytes(bytes) {
            Ok((_, Answer::Refused(why @ Refusal::Version(_))))
            | Err(why @ Refusal::Version(_)) => {
                return Ok(Answer::Refused(why));
            }
            // What is refused before it was understood carries no number.
            Ok((0, answer @ Answer::Refused(_))) => return Ok(answer),
            Ok((number, answer)) if number == sequence => return Ok(answer),
            Ok((_, answer)) => notice_of(answer).into_iter().for_each(&mut *unasked),
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Asks the service at `connection` for its members, and what it is itself.
pub(super) fn list(connection: &OwnedFd) -> io::Result<Result<Listing, Refusal>> {
    const SEQUENCE: u16 = 1;
    let deadline = Instant::now() + PATIENCE * 4;
    let mut rows = Vec::new();
    let mut request = Some(Request::List);
    loop {
        let answer = match request.take() {
            Some(request) => {
                ask(connection, SEQUENCE, &request, deadline, &mut Vec::new(), &mut |_| ())?
            }
            None => more(connection, SEQUENCE, deadline)?,
        };
        match answer {
            Answer::Rows(some) => rows.extend(some),
            Answer::Listed { service, keeper } => {
                return Ok(Ok(Listing { service, keeper, members: rows }));
            }
            Answer::Refused(why) => return Ok(Err(why)),
            Answer::Attached { .. }
            | Answer::Reserved(_)
            | Answer::Gsi { .. }
            | Answer::StatusWanted
            | Answer::Done => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// The next part of an answer.
fn more(connection: &OwnedFd, sequence: u16, deadline: Instant) -> io::Result<Answer> {
    let mut buffer = [0; MESSAGE_MAX];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !channel::wait(&[connection.as_fd()], Some(left))?.contains(&true) && left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match channel::receive(connection, &mut buffer) {
            Ok(bytes) => {
                let bytes = bytes.ok_or(io::ErrorKind::ConnectionReset)?;
                if let Ok((number, answer)) = Answer::from_bytes(bytes)
                    && number == sequence
                {
                    return Ok(answer);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn notice_of(answer: Answer) -> Option<Notice> {
    match answer {
        Answer::StatusWanted => Some(Notice::StatusWanted),
        Answer::Gsi { route, packet } => Some(Notice::Gsi { route, packet }),
        Answer::Attached { .. }
        | Answer::Refused(_)
        | Answer::Reserved(_)
        | Answer::Done
        | Answer::Rows(_)
        | Answer::Listed { .. } => None,
    }
}

/// Whether the service was there and is no more.
fn is_lost(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}
