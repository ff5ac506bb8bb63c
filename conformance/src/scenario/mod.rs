//! The recorded scenarios: one work request each, on connections that are shared or their own.

mod effect;
mod run;
mod table;

use std::time::Duration;

use softrnic_model::verbs::{Mtu, Psn, SendFlags};

use crate::lab::Connection;

pub use effect::WrongByte;
pub use run::{Observation, Outcome, Roles, Side, Stage};
pub use table::sessions;

/// A connection and the scenarios that run on it, in order. What one leaves in the buffers, the
/// next one finds.
#[derive(Clone, Debug)]
pub struct Session {
    /// How the connection is made; the requester is end 0.
    pub connection: Connection,
    /// What runs on it.
    pub scenarios: Vec<Scenario>,
}

impl Session {
    /// The same with another path MTU.
    #[must_use]
    pub fn with_path_mtu(mut self, path_mtu: Mtu) -> Self {
        self.connection.path_mtu = path_mtu;
        self
    }

    /// The same with other first sequence numbers.
    #[must_use]
    pub fn starting_at(mut self, psn: Psn) -> Self {
        self.connection.psn = [psn; 2];
        self
    }
}

/// One work request of the requester, and what the responder does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in the recording.
    pub name: &'static str,
    /// What the requester posts.
    pub work: Work,
    /// What the responder posts, if anything.
    pub receive: Option<Receive>,
    /// What it does to the buffers.
    pub effect: Effect,
}

/// What a scenario does to the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What the work request asks for.
    Done,
    /// Nothing at all.
    Nothing,
    /// A receive fails half way: each of its bytes is as it was or as the message has it.
    Partial,
}

/// A send work request, with places counted from the start of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// What it asks for.
    pub op: Op,
    /// Bytes.
    pub length: u32,
    /// Where its local memory is.
    pub local: u32,
    /// Where the peer's memory is that it names.
    pub remote: u32,
    /// A key to name the local memory by, in place of the right one.
    pub wrong_lkey: Option<u32>,
    /// A key to name the peer's memory by, in place of the right one.
    pub wrong_rkey: Option<u32>,
    /// Besides `SIGNALED`.
    pub flags: SendFlags,
}

/// The operation of a [`Work`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// SEND, of a datagram on UD.
    Send(Option<u32>),
    /// RDMA WRITE.
    Write(Option<u32>),
    /// RDMA READ.
    Read,
    /// Compare and swap.
    CompareSwap {
        /// Value expected.
        compare: u64,
        /// Value stored if the expectation holds.
        swap: u64,
    },
    /// Fetch and add.
    FetchAdd(u64),
}

/// A receive work request into the start of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// Bytes.
    pub length: u32,
    /// How long after the send it is posted; zero is before it.
    pub after: Duration,
}

impl Work {
    const fn new(op: Op, length: u32) -> Self {
        Self {
            op,
            length,
            local: 0,
            remote: 0,
            wrong_lkey: None,
            wrong_rkey: None,
            flags: SendFlags::empty(),
        }
    }

    /// A SEND.
    #[must_use]
    pub const fn send(length: u32) -> Self {
        Self::new(Op::Send(None), length)
    }

    /// A SEND with an immediate.
    #[must_use]
    pub const fn send_imm(length: u32, imm: u32) -> Self {
        Self::new(Op::Send(Some(imm)), length)
    }

    /// A WRITE.
    #[must_use]
    pub const fn write(length: u32) -> Self {
        Self::new(Op::Write(None), length)
    }

    /// A WRITE with an immediate.
    #[must_use]
    pub const fn write_imm(length: u32, imm: u32) -> Self {
        Self::new(Op::Write(Some(imm)), length)
    }

    /// A READ.
    #[must_use]
    pub const fn read(length: u32) -> Self {
        Self::new(Op::Read, length)
    }

    /// A compare and swap.
    #[must_use]
    pub const fn compare_swap(compare: u64, swap: u64) -> Self {
        Self::new(Op::CompareSwap { compare, swap }, 8)
    }

    /// A fetch and add.
    #[must_use]
    pub const fn fetch_add(add: u64) -> Self {
        Self::new(Op::FetchAdd(add), 8)
    }

    /// The same with local memory elsewhere.
    #[must_use]
    pub const fn from(self, local: u32) -> Self {
        Self { local, ..self }
    }

    /// The same with the peer's memory elsewhere.
    #[must_use]
    pub const fn at(self, remote: u32) -> Self {
        Self { remote, ..self }
    }

    /// The same with a wrong remote key.
    #[must_use]
    pub const fn with_rkey(self, key: u32) -> Self {
        Self { wrong_rkey: Some(key), ..self }
    }

    /// The same with a wrong local key.
    #[must_use]
    pub const fn with_lkey(self, key: u32) -> Self {
        Self { wrong_lkey: Some(key), ..self }
    }

    /// The same as a solicited event.
    #[must_use]
    pub const fn solicited(self) -> Self {
        Self { flags: SendFlags::SOLICITED, ..self }
    }
}

impl Scenario {
    /// A work request that does what it asks for, and needs no receive.
    #[must_use]
    pub const fn new(name: &'static str, work: Work) -> Self {
        Self { name, work, receive: None, effect: Effect::Done }
    }

    /// The same with a receive of so many bytes posted before.
    #[must_use]
    pub const fn into_receive(self, length: u32) -> Self {
        self.into_late_receive(length, Duration::ZERO)
    }

    /// The same with a receive of so many bytes posted some time after the send.
    #[must_use]
    pub const fn into_late_receive(self, length: u32, after: Duration) -> Self {
        Self { receive: Some(Receive { length, after }), ..self }
    }

    /// The same with another effect.
    #[must_use]
    pub const fn having(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }
}
