//! What a device must have counted.

use crate::words::{Completion, Kind, Status, Violation, demand};

/// Counts of what was seen at the verbs of one device, to be held against its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// SENDs that are over, but for flushed ones.
    pub sends: u64,
    /// Messages that were received, WRITEs with immediate too.
    pub receives: u64,
    /// Send completions with an error, flushes included.
    pub failed_sends: u64,
    /// Sends that were flushed.
    pub flushed_sends: u64,
    /// Receive completions with an error, flushes included.
    pub failed_receives: u64,
    /// Receives that were flushed.
    pub flushed_receives: u64,
}

impl Counts {
    /// The names that devices have for them.
    pub const NAMES: [&'static str; 6] = [
        "rdma_sends",
        "rdma_recvs",
        "req_cqe_error",
        "req_cqe_flush_error",
        "resp_cqe_error",
        "resp_cqe_flush_error",
    ];

    /// A send completion was polled.
    pub fn send(&mut self, completion: &Completion) {
        let flushed = completion.status == Status::Flushed;
        self.failed_sends += u64::from(completion.status != Status::Success);
        self.flushed_sends += u64::from(flushed);
    }

    /// A request is over, whether a completion told of it or not.
    pub fn retired(&mut self, kind: Kind, flushed: bool) {
        self.sends += u64::from(kind == Kind::Send && !flushed);
    }

    /// A receive completion was polled.
    pub fn receive(&mut self, status: Status) {
        self.receives += u64::from(status == Status::Success);
        self.failed_receives += u64::from(status != Status::Success);
        self.flushed_receives += u64::from(status == Status::Flushed);
    }

    /// Holds them against what the device says, in the order of [`Counts::NAMES`].
    ///
    /// # Errors
    /// The first that differs.
    pub fn check(&self, device: [u64; 6]) -> Result<(), Violation> {
        let own = [
            self.sends,
            self.receives,
            self.failed_sends,
            self.flushed_sends,
            self.failed_receives,
            self.flushed_receives,
        ];
        let differs = (0..own.len()).find(|index| own[*index] != device[*index]);
        demand(differs.is_none(), || {
            let index = differs.unwrap_or(0);
            let (name, is, should) = (Self::NAMES[index], device[index], own[index]);
            format!("counter {name} is {is} and must be {should}")
        })
    }
}
