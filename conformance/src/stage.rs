//! Two ends for cases over the verbs: devices, time, and a little that all cases do.
//!
//! ```ignore
//! fn write_is_placed(stage: &mut Stage) -> Outcome {
//!     let [a, b] = stage.connect(&Connection::RC)?;
//!     stage.post(&a, &wr(1, a.write(&b, 100)).at(0, 32))?;
//!     stage.completes(&a, 1, WcStatus::Success)?;
//!     same!(b.bytes(100, 32)?, a.bytes(0, 32)?, "memory");
//!     Ok(())
//! }
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use softrnic_model::profile::Profile;
use softrnic_model::verbs::{
    AddressVector, AhId, AsyncEvent, CqId, Gid, Key, PdId, QpAttributeMask, QpAttributes, QpInit,
    QpNum, QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, SrqId, SrqNum, VerbError, Wc,
    WcStatus,
};
use softrnic_verbs::provider::{Context, GidType};

use crate::case::{Outcome, Problem};
use crate::ensure;
use crate::lab::{ALL_RIGHTS, CAPABILITIES, Connection, Family, Waits};
use crate::names;
use crate::program::Region;
use crate::wire::Tape;

/// How time passes.
pub trait Time: fmt::Debug {
    /// How much has passed since some moment.
    fn now(&self) -> Duration;
    /// Lets some pass.
    fn pass(&self, time: Duration);
    /// Lets as little pass as can be, for a program that watches memory.
    fn blink(&self);
    /// How long cases wait.
    fn waits(&self) -> Waits;
}

/// The time of this machine.
#[derive(Clone, Copy, Debug)]
pub struct RealTime {
    began: Instant,
    waits: Waits,
}

impl RealTime {
    /// Real time, with this patience.
    #[must_use]
    pub fn new(waits: Waits) -> Self {
        Self { began: Instant::now(), waits }
    }
}

impl Time for RealTime {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pass(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn blink(&self) {
        std::thread::yield_now();
    }

    fn waits(&self) -> Waits {
        self.waits
    }
}

/// Two devices that reach each other. All that a case makes goes when the devices are closed.
#[derive(Debug)]
pub struct Stage {
    devices: [Arc<dyn Context>; 2],
    time: Box<dyn Time>,
    profile: Option<Profile>,
    family: Option<Family>,
    tape: Tape,
}

/// One end of a connection, with memory of its own. Byte i of it holds i modulo 256 at first.
#[derive(Debug)]
pub struct End {
    /// Which device.
    pub device: usize,
    /// Its address, and the index of that.
    pub gid: Gid,
    /// Index of the address in the device's table.
    pub sgid_index: u8,
    /// Protection domain of all that follows.
    pub pd: PdId,
    /// Where sends complete.
    pub send_cq: CqId,
    /// Where receives complete.
    pub recv_cq: CqId,
    /// The queue pair.
    pub qp: QpNum,
    /// The shared receive queue, if it has one.
    pub srq: Option<SrqId>,
    /// How a datagram queue pair reaches the other end.
    pub ah: Option<AhId>,
    /// Memory with every right.
    pub region: Region,
}

/// The programs of the two devices, as ladders call them.
const PROGRAMS: [&str; 2] = ["program a", "program b"];
/// The two devices, as ladders call them.
pub const DEVICES: [&str; 2] = ["a", "b"];
/// Between two looks at an empty completion queue.
const NAP: Duration = Duration::from_micros(50);
/// Completions that fit a queue.
const CQ_ENTRIES: u32 = 256;
/// GIDs that are looked at for one that can be used.
const GIDS_MAX: u8 = 255;
/// Enough for any network; a device may send 0 as it is.
const HOPS: u8 = 64;

impl Stage {
    /// Two devices. `profile` is theirs, if it is known.
    #[must_use]
    pub fn new(
        devices: [Arc<dyn Context>; 2],
        time: Box<dyn Time>,
        profile: Option<Profile>,
    ) -> Self {
        Self { devices, time, profile, family: None, tape: Tape::default() }
    }

    /// The same, with addresses of this version of IP only.
    #[must_use]
    pub fn over(self, family: Option<Family>) -> Self {
        Self { family, ..self }
    }

    /// The same, with what its devices do on this tape.
    #[must_use]
    pub fn on_tape(self, tape: Tape) -> Self {
        Self { tape, ..self }
    }

    /// What has happened so far.
    #[must_use]
    pub const fn tape(&self) -> &Tape {
        &self.tape
    }

    /// What the program of a device does, or is told.
    fn note(&self, device: usize, what: String) {
        let who = PROGRAMS.get(device).copied().unwrap_or("program");
        self.tape.words(ns_of(self.time.now()), who, what);
    }

    /// The verbs of a device.
    #[must_use]
    pub fn verbs(&self, device: usize) -> &Arc<dyn Context> {
        &self.devices[device]
    }

    /// How the devices behave where devices differ, if that is known.
    #[must_use]
    pub const fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// How long cases wait.
    #[must_use]
    pub fn waits(&self) -> Waits {
        self.time.waits()
    }

    /// How much time has passed.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.time.pass(time);
    }

    /// Lets as much time pass as something takes that is not to come.
    pub fn settle(&self) {
        self.time.pass(self.time.waits().quiet);
    }

    /// An address of a device, with its index.
    ///
    /// # Errors
    /// It has none.
    pub fn address(&self, device: usize) -> Outcome<(u8, Gid)> {
        let verbs = &self.devices[device];
        let entries = (0..GIDS_MAX)
            .map_while(|index| verbs.query_gid(1, index.into()).ok().map(|entry| (index, entry)));
        let usable = |entry: &softrnic_verbs::provider::GidEntry| {
            let fits = |family: Family| family == Family::of(entry.gid);
            entry.gid != Gid::default()
                && entry.gid_type == GidType::RoceV2
                && self.family.is_none_or(fits)
        };
        let found = entries.into_iter().find(|(_, entry)| usable(entry));
        let none = || match self.family {
            None => Problem::Failed("the device has no address".into()),
            Some(family) => Problem::NotApplicable(format!("the device has no {family} address")),
        };
        found.map(|(index, entry)| (index, entry.gid)).ok_or_else(none)
    }

    /// An end that is not connected: everything but what leads to the peer, in `Reset`.
    ///
    /// # Errors
    /// What the device refused.
    pub fn end(&self, device: usize, connection: &Connection) -> Outcome<End> {
        self.end_with(device, connection, |_| {})
    }

    /// The same, with the queue pair made as `change` says.
    ///
    /// # Errors
    /// What the device refused.
    pub fn end_with(
        &self,
        device: usize,
        connection: &Connection,
        change: impl FnOnce(&mut QpInit),
    ) -> Outcome<End> {
        let (sgid_index, gid) = self.address(device)?;
        let verbs = &self.devices[device];
        let pd = verbs.alloc_pd()?;
        let (send_cq, _) = verbs.create_cq(CQ_ENTRIES, None)?;
        let (recv_cq, _) = verbs.create_cq(CQ_ENTRIES, None)?;
        let mut init = QpInit {
            pd,
            qp_type: connection.qp_type,
            send_cq,
            recv_cq,
            srq: None,
            xrcd: None,
            cap: CAPABILITIES,
            signal_all: false,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        };
        change(&mut init);
        let (qp, _) = verbs.create_qp(&init)?;
        let region = Region::new(verbs, pd, connection.buffer_len, ALL_RIGHTS)?;
        let QpInit { send_cq, recv_cq, srq, .. } = init;
        Ok(End { device, gid, sgid_index, pd, send_cq, recv_cq, qp, srq, ah: None, region })
    }

    /// Leads an end to its peer and up to `state`.
    ///
    /// # Errors
    /// What the device refused.
    pub fn bring_up(
        &self,
        own: &mut End,
        peer: (Gid, QpNum),
        connection: &Connection,
        state: QpState,
    ) -> Outcome {
        let (dgid, peer_qp) = peer;
        let path = AddressVector {
            dgid,
            sgid_index: own.sgid_index,
            hop_limit: HOPS,
            ..Default::default()
        };
        let verbs = &self.devices[own.device];
        let order = [QpState::Init, QpState::Rtr, QpState::Rts];
        let count = order.iter().position(|known| *known == state).map_or(0, |at| at + 1);
        for step in &connection.steps(own.device, path, peer_qp)[..count] {
            verbs.modify_qp(own.qp, &step.attributes, step.mask)?;
        }
        if connection.qp_type == QpType::Ud {
            own.ah = Some(verbs.create_ah(own.pd, &path)?);
        }
        Ok(())
    }

    /// Two ends, connected.
    ///
    /// # Errors
    /// What a device refused.
    pub fn connect(&self, connection: &Connection) -> Outcome<[End; 2]> {
        self.join(connection, [self.end(0, connection)?, self.end(1, connection)?])
    }

    /// Connects two ends.
    ///
    /// # Errors
    /// What a device refused.
    pub fn join(&self, connection: &Connection, ends: [End; 2]) -> Outcome<[End; 2]> {
        let [mut a, mut b] = ends;
        let names = [(a.gid, a.qp), (b.gid, b.qp)];
        self.bring_up(&mut a, names[1], connection, QpState::Rts)?;
        self.bring_up(&mut b, names[0], connection, QpState::Rts)?;
        Ok([a, b])
    }

    /// Posts a send.
    ///
    /// # Errors
    /// As `ibv_post_send(3)`.
    pub fn try_post(&self, end: &End, wr: &Wr) -> Result<(), VerbError> {
        let sges = wr.sges(end);
        let request = SendWr {
            wr_id: wr.id,
            op: wr.op,
            flags: wr.flags,
            sges: &sges,
            inline: &wr.inline,
            remote_srq: wr.remote_srq,
        };
        let bytes: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        let bytes = bytes + wr.inline.len() as u64;
        self.note(end.device, format!("posts request {}, {bytes} bytes: {:?}", wr.id, wr.op));
        let posted = self.devices[end.device].post_send(end.qp, &[request]);
        posted.map_err(|refused| {
            self.note(end.device, format!("is refused: {}", refused.error));
            refused.error
        })
    }

    /// The same, where it must be taken.
    ///
    /// # Errors
    /// The device refused it.
    pub fn post(&self, end: &End, wr: &Wr) -> Outcome {
        self.try_post(end, wr).map_err(|error| format!("post_send was refused: {error}").into())
    }

    /// Posts a receive of `len` bytes at `offset`, to the shared queue if there is one.
    ///
    /// # Errors
    /// The device refused it.
    pub fn recv(&self, end: &End, id: u64, offset: u64, len: u32) -> Outcome {
        let sge = end.sge(offset, len);
        let wr = RecvWr { wr_id: id, sges: if len == 0 { &[] } else { &[sge] } };
        let verbs = &self.devices[end.device];
        self.note(end.device, format!("posts receive {id}, {len} bytes"));
        match end.srq {
            Some(srq) => verbs.post_srq_recv(srq, &[wr])?,
            None => verbs.post_recv(end.qp, &[wr])?,
        }
        Ok(())
    }

    /// The next `count` completions of a queue.
    ///
    /// # Errors
    /// They do not come.
    pub fn take(&self, end: &End, cq: CqId, count: usize) -> Outcome<Vec<Wc>> {
        let verbs = &self.devices[end.device];
        let until = self.time.now() + self.time.waits().patience;
        let mut taken = Vec::new();
        let mut some = [Wc::default(); 1];
        loop {
            let is_last = self.time.now() >= until;
            while taken.len() < count && verbs.poll_cq(cq, &mut some)? == 1 {
                let Wc { wr_id, status, .. } = some[0];
                let status = names::name(names::STATUSES, status);
                self.note(end.device, format!("is told that request {wr_id} ended: {status}"));
                taken.push(some[0]);
            }
            if taken.len() == count {
                return Ok(taken);
            }
            if is_last {
                let why = format!("{} of {count} completions have come: {taken:?}", taken.len());
                let got = format!("completions of device {}: {}", end.device, taken.len());
                return Err(Problem::Unequal { why, got, expected: count.to_string() });
            }
            self.time.pass(NAP);
        }
    }

    /// The next completion of a send is of this request, with this status.
    ///
    /// # Errors
    /// It does not come, or is another one.
    pub fn completes(&self, end: &End, id: u64, status: WcStatus) -> Outcome<Wc> {
        self.is_next(end, end.send_cq, id, status)
    }

    /// The same of a receive.
    ///
    /// # Errors
    /// It does not come, or is another one.
    pub fn receives(&self, end: &End, id: u64, status: WcStatus) -> Outcome<Wc> {
        self.is_next(end, end.recv_cq, id, status)
    }

    fn is_next(&self, end: &End, cq: CqId, id: u64, status: WcStatus) -> Outcome<Wc> {
        let wc = self.take(end, cq, 1)?[0];
        let [got, wanted] = [wc.status, status].map(|status| names::name(names::STATUSES, status));
        if (wc.wr_id, wc.status) == (id, status) {
            return Ok(wc);
        }
        let got = format!("request {} completed with {got}", wc.wr_id);
        let expected = format!("{id} with {wanted}");
        Err(Problem::Unequal { why: format!("{got}, expected {expected}"), got, expected })
    }

    /// Neither sends nor receives complete at this end for a moment.
    ///
    /// # Errors
    /// One does.
    pub fn stays_idle(&self, end: &End) -> Outcome {
        self.settle();
        for cq in [end.send_cq, end.recv_cq] {
            let mut some = [Wc::default(); 1];
            let count = self.devices[end.device].poll_cq(cq, &mut some)?;
            ensure!(count == 0, "a completion came that should not: {:?}", some[0]);
        }
        Ok(())
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    /// What the device refused.
    pub fn state(&self, end: &End) -> Outcome<QpState> {
        Ok(self.devices[end.device].query_qp(end.qp)?.0.state)
    }

    /// The queue pair gets into this state before long.
    ///
    /// # Errors
    /// It does not.
    pub fn gets_into(&self, end: &End, state: QpState) -> Outcome {
        self.becomes(
            || Ok(self.state(end)? == state),
            || format!("the queue pair does not get into {}", names::name(names::STATES, state)),
        )
    }

    /// Something becomes true before long.
    ///
    /// # Errors
    /// It does not.
    pub fn becomes(
        &self,
        mut ask: impl FnMut() -> Outcome<bool>,
        otherwise: impl FnOnce() -> String,
    ) -> Outcome {
        let until = self.time.now() + self.time.waits().patience;
        loop {
            let is_last = self.time.now() >= until;
            if ask()? {
                return Ok(());
            }
            if is_last {
                return Err(otherwise().into());
            }
            self.time.pass(NAP);
        }
    }

    /// The same, looked at as often as can be.
    ///
    /// # Errors
    /// It does not.
    pub fn becomes_closely(
        &self,
        mut ask: impl FnMut() -> Outcome<bool>,
        otherwise: impl FnOnce() -> String,
    ) -> Outcome {
        let until = self.time.now() + self.time.waits().patience;
        while self.time.now() < until {
            if ask()? {
                return Ok(());
            }
            self.time.blink();
        }
        Err(otherwise().into())
    }

    /// Moves a queue pair.
    ///
    /// # Errors
    /// As `ibv_modify_qp(3)`.
    pub fn move_to(&self, end: &End, state: QpState) -> Result<(), VerbError> {
        self.modify(end, QpAttributeMask::STATE, |attributes| attributes.state = state)
    }

    /// Changes attributes of a queue pair.
    ///
    /// # Errors
    /// As `ibv_modify_qp(3)`.
    pub fn modify(
        &self,
        end: &End,
        mask: QpAttributeMask,
        change: impl FnOnce(&mut QpAttributes),
    ) -> Result<(), VerbError> {
        let verbs = &self.devices[end.device];
        let (mut attributes, _) = verbs.query_qp(end.qp)?;
        change(&mut attributes);
        let to = if mask.contains(QpAttributeMask::STATE) {
            format!(" to {}", names::name(names::STATES, attributes.state))
        } else {
            String::new()
        };
        let modified = verbs.modify_qp(end.qp, &attributes, mask);
        let came = modified.as_ref().map_or_else(|error| format!(": {error}"), |()| String::new());
        self.note(end.device, format!("modifies its queue pair{to}{came}"));
        modified
    }

    /// The asynchronous events of a device that wait now.
    ///
    /// # Errors
    /// What the device refused.
    pub fn events(&self, device: usize) -> Outcome<Vec<AsyncEvent>> {
        let mut all = Vec::new();
        while let Some(event) = self.devices[device].get_async_event(Some(Duration::ZERO))? {
            self.note(device, format!("is told of the event {}", names::event(event)));
            all.push(event);
        }
        Ok(all)
    }

    /// This event is raised before long; others are passed over.
    ///
    /// # Errors
    /// It is not.
    pub fn raises(&self, device: usize, event: AsyncEvent) -> Outcome {
        self.becomes(
            || Ok(self.events(device)?.contains(&event)),
            || format!("the event {} was not raised", names::event(event)),
        )
    }

    /// What a device has counted under this name, if it tells.
    #[must_use]
    pub fn counter(&self, device: usize, name: &str) -> Option<u64> {
        let counters = self.devices[device].counters().ok()?;
        counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }
}

impl End {
    /// A piece of its memory for a work request.
    #[must_use]
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        let addr = self.region.addr().wrapping_add(offset);
        Sge { addr, length, lkey: self.region.lkey() }
    }

    /// A WRITE to this place of the other end.
    #[must_use]
    pub fn write(&self, to: &Self, offset: u64) -> SendOp {
        let (remote_addr, rkey) = to.remote(offset);
        SendOp::Write { remote_addr, rkey, imm: None }
    }

    /// A READ from this place of the other end.
    #[must_use]
    pub fn read(&self, from: &Self, offset: u64) -> SendOp {
        let (remote_addr, rkey) = from.remote(offset);
        SendOp::Read { remote_addr, rkey }
    }

    /// A fetch-and-add at this place of the other end.
    #[must_use]
    pub fn fetch_add(&self, at: &Self, offset: u64, add: u64) -> SendOp {
        let (remote_addr, rkey) = at.remote(offset);
        SendOp::FetchAdd { remote_addr, rkey, add }
    }

    /// A datagram to the other end.
    #[must_use]
    pub fn datagram(&self, to: &Self, qkey: u32) -> SendOp {
        let ah = self.ah.unwrap_or(AhId(0));
        SendOp::SendTo { ah, remote_qpn: to.qp, remote_qkey: qkey, imm: None }
    }

    /// A place in its memory as peers name it.
    #[must_use]
    pub fn remote(&self, offset: u64) -> (u64, Key) {
        (self.region.addr().wrapping_add(offset), self.region.rkey())
    }

    /// Bytes of its memory.
    ///
    /// # Errors
    /// They lie outside.
    pub fn bytes(&self, offset: usize, len: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; len];
        let read = self.region.buffer().read(offset, &mut bytes);
        read.map_err(|error| Problem::Failed(error.to_string()))?;
        Ok(bytes)
    }

    /// Writes into its memory, as the program may at any time.
    ///
    /// # Errors
    /// It lies outside.
    pub fn store(&self, offset: usize, bytes: &[u8]) -> Outcome {
        let written = self.region.buffer().write(offset, bytes);
        written.map_err(|error| Problem::Failed(error.to_string()))
    }
}

fn ns_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A SEND.
#[must_use]
pub const fn send() -> SendOp {
    SendOp::Send { imm: None, invalidate: None }
}

/// A send work request in the making.
#[derive(Clone, Debug)]
pub struct Wr {
    /// The program's own number.
    pub id: u64,
    /// What to do.
    pub op: SendOp,
    /// How.
    pub flags: SendFlags,
    /// Places in the own memory.
    pub places: Vec<(u64, u32)>,
    /// The key of those, if it is another one.
    pub lkey: Option<Key>,
    /// Bytes that go inline.
    pub inline: Vec<u8>,
    /// The peer's shared receive queue (XRC).
    pub remote_srq: SrqNum,
}

/// A signalled work request without memory.
#[must_use]
pub fn wr(id: u64, op: SendOp) -> Wr {
    let remote_srq = SrqNum::new(0);
    let (places, inline, lkey) = (Vec::new(), Vec::new(), None);
    Wr { id, op, flags: SendFlags::SIGNALED, places, lkey, inline, remote_srq }
}

impl Wr {
    /// With one more piece of the own memory.
    #[must_use]
    pub fn at(mut self, offset: u64, len: u32) -> Self {
        self.places.push((offset, len));
        self
    }

    /// With these flags besides.
    #[must_use]
    pub fn with(mut self, flags: SendFlags) -> Self {
        self.flags |= flags;
        self
    }

    /// Without a completion if all goes well.
    #[must_use]
    pub fn unsignaled(mut self) -> Self {
        self.flags -= SendFlags::SIGNALED;
        self
    }

    /// With this local key.
    #[must_use]
    pub const fn lkey(mut self, lkey: Key) -> Self {
        self.lkey = Some(lkey);
        self
    }

    /// With these bytes inline.
    #[must_use]
    pub fn inline(mut self, bytes: &[u8]) -> Self {
        self.inline = bytes.to_vec();
        self.flags |= SendFlags::INLINE;
        self
    }

    fn sges(&self, end: &End) -> Vec<Sge> {
        let sge = |&(offset, len): &(u64, u32)| {
            let sge = end.sge(offset, len);
            Sge { lkey: self.lkey.unwrap_or(sge.lkey), ..sge }
        };
        self.places.iter().map(sge).collect()
    }
}
