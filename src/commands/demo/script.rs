//! What the tour shows: one line for each row.

use softrnic_model::profile::Profile;
use softrnic_verbs::{Access, QpType, WcStatus};

/// How often an operation that is carried out is repeated: its time is the median.
const ROUNDS: u64 = 8;
/// The value by which fetch-and-add adds.
pub(super) const ADDEND: u64 = 0x0101_0101_0101_0101;
/// Immediate data of the first round; each later one has the next.
pub(super) const IMMEDIATE: u32 = 0xd3a0_0000;
/// Hop limit of datagrams: no default of anything, so that it is recognised when it arrives.
pub(super) const HOP_LIMIT: u8 = 42;

/// One row.
#[derive(Debug)]
pub(super) struct Act {
    /// Its name.
    pub(super) name: &'static str,
    pub(super) service: QpType,
    pub(super) verb: Verb,
    /// Bytes of a message.
    pub(super) bytes: u32,
    /// How often it is done.
    pub(super) rounds: u64,
    /// What the responder makes ready.
    pub(super) stage: Stage,
    /// Which place of the responder's memory the requester names.
    pub(super) aim: Aim,
    /// What must come of it.
    pub(super) outcome: Outcome,
}

/// What the requester posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Send,
    Write,
    WriteWithImmediate,
    Read,
    CompareSwap,
    FetchAdd,
}

/// A place in the responder's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// Inside the region, under its key.
    Inside,
    /// Inside the region, under a key that differs in the variant.
    OtherKey,
    /// The last byte is the first one past the region.
    OneTooFar,
    /// The address space ends within the range.
    Wrapping,
}

/// What the responder makes ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Rights of the queue pair.
    pub(super) qp: Access,
    /// Rights of the region.
    pub(super) region: Access,
    /// Whether the region is of the queue pair's protection domain.
    pub(super) same_pd: bool,
    /// Whether the region is deregistered once its key has been told.
    pub(super) deregistered: bool,
    /// Bytes of each receive, one for each round; 0 posts none.
    pub(super) receive: u32,
}

/// What must come of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is carried out.
    Done,
    /// A key, range or right of the region does not allow it.
    AccessRefused,
    /// The queue pair does not allow it.
    RequestRefused,
    /// The receive is shorter than the message.
    ReceiveTooSmall,
}

impl Outcome {
    /// Status of the send at the requester.
    pub(super) const fn requester(self, profile: &Profile) -> WcStatus {
        match self {
            Self::Done => WcStatus::Success,
            Self::AccessRefused => WcStatus::RemoteAccessError,
            Self::RequestRefused => WcStatus::RemoteInvalidRequest,
            Self::ReceiveTooSmall => profile.receive_too_small.requester,
        }
    }

    /// Status of the receive at the responder, where one is posted.
    pub(super) const fn responder(self, profile: &Profile) -> WcStatus {
        match self {
            Self::Done => WcStatus::Success,
            Self::AccessRefused | Self::RequestRefused => WcStatus::WorkRequestFlushed,
            Self::ReceiveTooSmall => profile.receive_too_small.responder,
        }
    }

    /// The event that the responder's program gets.
    pub(super) const fn event(self, profile: &Profile) -> Option<&'static str> {
        match self {
            Self::Done | Self::ReceiveTooSmall => None,
            Self::AccessRefused if !profile.access_error_event => None,
            Self::AccessRefused => Some("QP access error"),
            Self::RequestRefused => Some("QP request error"),
        }
    }
}

impl Act {
    /// A message that arrives in `receive` bytes, or in none.
    const fn done(
        name: &'static str,
        service: QpType,
        verb: Verb,
        bytes: u32,
        receive: u32,
    ) -> Self {
        let stage = Stage { receive, ..Stage::OPEN };
        let (aim, outcome) = (Aim::Inside, Outcome::Done);
        Self { name, service, verb, bytes, rounds: ROUNDS, stage, aim, outcome }
    }

    const fn refused(
        name: &'static str,
        verb: Verb,
        stage: Stage,
        aim: Aim,
        outcome: Outcome,
    ) -> Self {
        Self { name, service: QpType::Rc, verb, bytes: 3000, rounds: 1, stage, aim, outcome }
    }
}

impl Stage {
    /// Everything is allowed.
    const OPEN: Self = Self {
        qp: Access::REMOTE,
        region: Access::LOCAL_WRITE.union(Access::REMOTE),
        same_pd: true,
        deregistered: false,
        receive: 0,
    };
}

const WITHOUT_WRITE: Access = Access::REMOTE_READ.union(Access::REMOTE_ATOMIC);

/// The rows. Both processes have them, and name them by position.
pub(super) const ACTS: [Act; 17] = {
    use Aim::{Inside, OneTooFar, OtherKey, Wrapping};
    use Outcome::{AccessRefused, ReceiveTooSmall, RequestRefused};
    use QpType::{Rc, Uc, Ud};
    use Verb::{CompareSwap, FetchAdd, Read, Send, Write, WriteWithImmediate};
    const OPEN: Stage = Stage::OPEN;
    const GRH: u32 = 40;
    [
        Act::done("SEND", Rc, Send, 1500, 1500),
        Act::done("RDMA WRITE", Rc, Write, 3000, 0),
        Act::done("RDMA WRITE with immediate", Rc, WriteWithImmediate, 3000, 1),
        Act::done("RDMA READ", Rc, Read, 3000, 0),
        Act::done("compare and swap", Rc, CompareSwap, 8, 0),
        Act::done("fetch and add", Rc, FetchAdd, 8, 0),
        Act::done("SEND", Uc, Send, 1500, 1500),
        Act::done("RDMA WRITE", Uc, Write, 3000, 0),
        Act::done("SEND", Ud, Send, 1000, GRH + 1000),
        Act::refused("WRITE, wrong rkey", Write, OPEN, OtherKey, AccessRefused),
        Act::refused("WRITE, one byte past the end", Write, OPEN, OneTooFar, AccessRefused),
        Act::refused("READ, range wraps at 2^64", Read, OPEN, Wrapping, AccessRefused),
        Act::refused(
            "WRITE, region without right",
            Write,
            Stage { region: Access::LOCAL_WRITE.union(WITHOUT_WRITE), ..OPEN },
            Inside,
            AccessRefused,
        ),
        Act::refused(
            "WRITE, QP without right",
            Write,
            Stage { qp: WITHOUT_WRITE, ..OPEN },
            Inside,
            RequestRefused,
        ),
        Act::refused(
            "READ, region of another PD",
            Read,
            Stage { same_pd: false, ..OPEN },
            Inside,
            AccessRefused,
        ),
        Act::refused(
            "WRITE, region deregistered",
            Write,
            Stage { deregistered: true, ..OPEN },
            Inside,
            AccessRefused,
        ),
        Act::refused(
            "SEND, receive too small",
            Send,
            Stage { receive: 2999, ..OPEN },
            Inside,
            ReceiveTooSmall,
        ),
    ]
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: BTreeSet<_> = ACTS.iter().map(|act| (act.name, act.service)).collect();
        assert_eq!(names.len(), ACTS.len());
    }

    #[test]
    fn what_a_profile_is_known_for_is_expected_of_it() {
        let expected = |outcome: Outcome, profile| {
            (outcome.requester(&profile) as u8, outcome.responder(&profile) as u8)
        };
        assert_eq!(expected(Outcome::ReceiveTooSmall, Profile::SPEC), (9, 1));
        assert_eq!(expected(Outcome::ReceiveTooSmall, Profile::RXE), (11, 2));
        assert_eq!(Outcome::AccessRefused.event(&Profile::RXE), None);
        assert_eq!(Outcome::AccessRefused.event(&Profile::CX5), Some("QP access error"));
    }
}
