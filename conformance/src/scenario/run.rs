//! Running scenarios on a lab.

use std::fmt;
use std::time::Duration;

use softrnic_model::verbs::{
    Key, Psn, QpState, RecvWr, SendFlags, SendOp, SendWr, Sge, VerbError, Wc,
};

use super::effect::{Images, WrongByte};
use super::{Op, Receive, Scenario, Work};
use crate::lab::{Connection, Endpoint, Lab, Waits};

/// Who it is that something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Who posts the work request.
    Requester = 0,
    /// The other end.
    Responder = 1,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Requester, Self::Responder];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Requester => Self::Responder,
            Self::Responder => Self::Requester,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Requester => "requester",
            Self::Responder => "responder",
        })
    }
}

/// Which device of a lab is the requester.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    /// The first.
    Straight,
    /// The second.
    Swapped,
}

impl Roles {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Straight, Self::Swapped];

    /// What is ordered by device, ordered by [`Side`]; and the other way round.
    fn by_side<T>(self, mut pair: [T; 2]) -> [T; 2] {
        if self == Self::Swapped {
            pair.reverse();
        }
        pair
    }
}

/// What one side was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device refused the work request, with this errno.
    Refused(i32),
    /// These completions.
    Completed(Vec<Wc>),
}

/// Everything that a scenario is judged by but the packets.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Which scenario.
    pub scenario: Scenario,
    /// What each side was told; by [`Side`].
    pub outcomes: [Outcome; 2],
    /// States of the queue pairs afterwards; by [`Side`].
    pub states: [QpState; 2],
    /// Bytes that are not as they should be; at most one of each buffer.
    pub wrong_bytes: Vec<WrongByte>,
}

/// A connection whose buffers are filled, ready for scenarios.
#[derive(Debug)]
pub struct Stage<'a, L> {
    /// The lab.
    pub lab: &'a mut L,
    connection: Connection,
    /// By device.
    ends: [Endpoint; 2],
    /// By device.
    images: Images,
}

const SEND_ID: u64 = 1;
const RECEIVE_ID: u64 = 100;

impl<'a, L: Lab> Stage<'a, L> {
    /// Connects and fills the buffers; the requester's parameters and contents go to the device
    /// that `roles` says.
    ///
    /// # Errors
    /// What a device refused.
    pub fn open(lab: &'a mut L, connection: &Connection, roles: Roles) -> Result<Self, VerbError> {
        let mut connection = *connection;
        let mut images = Images::filled(connection.buffer_len);
        if roles == Roles::Swapped {
            connection.psn.reverse();
            images.0.reverse();
        }
        let ends = lab.connect(&connection)?;
        for (end, image) in ends.iter().zip(&images.0) {
            lab.write(end, 0, image);
        }
        Ok(Self { lab, connection, ends, images })
    }

    /// The ends, by [`Side`].
    #[must_use]
    pub fn ends(&self, roles: Roles) -> [Endpoint; 2] {
        roles.by_side(self.ends)
    }

    /// The first sequence number of each end, by [`Side`].
    #[must_use]
    pub fn psn(&self, roles: Roles) -> [Psn; 2] {
        roles.by_side(self.connection.psn)
    }

    /// Destroys what was made.
    ///
    /// # Errors
    /// What a device refused.
    pub fn close(self) -> Result<(), VerbError> {
        self.ends.iter().try_for_each(|end| self.lab.destroy(end))
    }

    /// Runs a scenario. `due` says which [`Side`] is to be told of a completion: that one is waited
    /// for with patience, and any other that comes is observed as well.
    ///
    /// # Errors
    /// What a device refused, but for the work request itself.
    pub fn run(
        &mut self,
        scenario: &Scenario,
        roles: Roles,
        due: [bool; 2],
    ) -> Result<Observation, VerbError> {
        let ends @ [requester, responder] = &self.ends(roles);
        let qp_type = self.connection.qp_type;
        let mut images = Images(roles.by_side(std::mem::take(&mut self.images.0)));
        for change in images.scrub(scenario, qp_type) {
            self.lab.write(&ends[change.side as usize], change.offset, &change.bytes);
        }
        let receive = scenario.receive;
        if let Some(receive) = receive.filter(|receive| receive.after.is_zero()) {
            self.receive(responder, &receive)?;
        }
        let posted = self.send(ends, &scenario.work);
        if let Some(receive) = receive.filter(|receive| !receive.after.is_zero()) {
            self.lab.pause(receive.after);
            self.receive(responder, &receive)?;
        }
        let [sent, received] = self.completions(ends, due)?;
        let sent = match posted {
            Ok(()) => Outcome::Completed(sent),
            Err(refusal) => Outcome::Refused(refusal.errno()),
        };
        let received = Outcome::Completed(received);
        let (images, wrong_bytes) = self.check_memory(&images, scenario, ends);
        self.images = Images(roles.by_side(images.0));
        Ok(Observation {
            scenario: *scenario,
            outcomes: [sent, received],
            states: [self.lab.state(requester)?, self.lab.state(responder)?],
            wrong_bytes,
        })
    }

    fn receive(&mut self, end: &Endpoint, receive: &Receive) -> Result<(), VerbError> {
        let sge = Sge { addr: end.buffer.addr, length: receive.length, lkey: end.buffer.lkey };
        self.lab.post_recv(end, &RecvWr { wr_id: RECEIVE_ID, sges: &[sge] })
    }

    fn send(&mut self, [own, peer]: &[Endpoint; 2], work: &Work) -> Result<(), VerbError> {
        let sge = Sge {
            addr: own.buffer.addr + u64::from(work.local),
            length: work.length,
            lkey: work.wrong_lkey.map_or(own.buffer.lkey, Key),
        };
        let remote_addr = peer.buffer.addr + u64::from(work.remote);
        let rkey = work.wrong_rkey.map_or(peer.buffer.rkey, Key);
        let op = match (work.op, own.ah) {
            (Op::Send(imm), Some(ah)) => {
                SendOp::SendTo { ah, remote_qpn: peer.qp, remote_qkey: self.connection.qkey, imm }
            }
            (Op::Send(imm), None) => SendOp::Send { imm, invalidate: None },
            (Op::Write(imm), _) => SendOp::Write { remote_addr, rkey, imm },
            (Op::Read, _) => SendOp::Read { remote_addr, rkey },
            (Op::CompareSwap { compare, swap }, _) => {
                SendOp::CompareSwap { remote_addr, rkey, compare, swap }
            }
            (Op::FetchAdd(add), _) => SendOp::FetchAdd { remote_addr, rkey, add },
        };
        let flags = SendFlags::SIGNALED | work.flags;
        let wr = SendWr { wr_id: SEND_ID, op, flags, sges: &[sge], ..SendWr::default() };
        self.lab.post_send(own, &wr)
    }

    /// The completions that are due, and any that are not; by [`Side`].
    fn completions(
        &mut self,
        ends: &[Endpoint; 2],
        due: [bool; 2],
    ) -> Result<[Vec<Wc>; 2], VerbError> {
        let Waits { patience, quiet } = self.lab.waits();
        let mut all = [Vec::new(), Vec::new()];
        for ((end, told), due) in ends.iter().zip(&mut all).zip(due) {
            *told = self.lab.poll(end, due.into(), patience)?;
        }
        self.lab.pause(quiet);
        for (end, told) in ends.iter().zip(&mut all) {
            told.extend(self.lab.poll(end, 8, Duration::ZERO)?);
        }
        Ok(all)
    }

    /// Holds the buffers against what the scenario should have made of `images`. What nobody is
    /// told of, a WRITE on UC, may arrive late.
    fn check_memory(
        &mut self,
        images: &Images,
        scenario: &Scenario,
        ends: &[Endpoint; 2],
    ) -> (Images, Vec<WrongByte>) {
        let Waits { patience, quiet } = self.lab.waits();
        let mut waited = Duration::ZERO;
        loop {
            let found = ends.each_ref().map(|end| self.lab.read(end));
            let gids = ends.each_ref().map(|end| end.gid);
            let mut images = images.clone();
            let wrong_bytes = images.check(scenario, self.connection.qp_type, gids, &found);
            if wrong_bytes.is_empty() || waited >= patience {
                return (images, wrong_bytes);
            }
            self.lab.pause(quiet);
            waited += quiet;
        }
    }
}
