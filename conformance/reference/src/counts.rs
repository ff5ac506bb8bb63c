//! What a device must have counted.

use crate::wire::{ACCESS, Frames, INVALID, OPERATION, SEQUENCE};
use crate::words::{Completion, Kind, Status, Violation, demand};

/// Counts of what was seen of one device: at its verbs and on its wire.
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
    /// Sends that ended because the peer refused them as invalid, refused access, or could not carry
    /// them out.
    pub refused: [u64; 3],
    /// Sends that ended for want of an answer, and for want of a receive.
    pub exhausted: [u64; 2],
    /// Packets that it has sent.
    pub sent: Frames,
    /// Packets that have come to it.
    pub came: Frames,
    /// Connections of all devices that ended with a failure: late packets of theirs may still come,
    /// and what was owed may never leave.
    pub failures: u64,
    /// Whether the fabric may repeat packets, or they were sent again.
    pub repeated: bool,
    /// Whether the device counts what it has refused.
    pub counts_refusals: bool,
}

/// What a counter may say: at least, and at most.
type Bounds = (u64, u64);

/// What a device says of its counters.
type Device<'a> = dyn Fn(&str) -> u64 + 'a;

/// What one counter may say.
struct Rule {
    name: &'static str,
    bounds: fn(&Counts, &Device<'_>) -> Bounds,
}

const fn rule(name: &'static str, bounds: fn(&Counts, &Device<'_>) -> Bounds) -> Rule {
    Rule { name, bounds }
}

const fn exactly(number: u64) -> Bounds {
    (number, number)
}

/// Nothing of the kind is ever sent.
const fn never(name: &'static str) -> Rule {
    rule(name, |_, _| exactly(0))
}

/// Answers that were received and looked at no further.
const PASSED_OVER: [&str; 5] = [
    "drop_stale_response",
    "drop_unexpected_response",
    "drop_qp_state",
    "drop_unknown_qp",
    "drop_bad_source",
];

/// Every counter of a device, by the name that devices have for it.
const RULES: &[Rule] = &[
    rule("sent_pkts", |own, _| exactly(own.sent.all)),
    rule("rcvd_pkts", |own, _| exactly(own.came.all)),
    rule("duplicate_request", |own, _| own.only_if_repeated(own.came.requests)),
    // Of reliable services each is told to the peer, unless what was missing comes before that leaves.
    rule("out_of_seq_request", |own, _| (own.sent.naks[SEQUENCE], own.came.requests)),
    rule("rcvd_rnr_err", |own, device| passed_on(own.came.rnr_naks, device)),
    // Where packets come twice at once, one answer may take the place of another that has not left.
    rule("send_rnr_err", |own, _| {
        let (least, most) = own.told(own.sent.rnr_naks);
        (least, if own.repeated { own.came.requests } else { most })
    }),
    rule("rcvd_seq_err", |own, device| passed_on(own.came.naks[SEQUENCE], device)),
    rule("ack_deferred", |own, _| (0, own.came.requests)),
    rule("retry_exceeded_err", |own, _| exactly(own.exhausted[0])),
    rule("retry_rnr_exceeded_err", |own, _| exactly(own.exhausted[1])),
    // Each silence leads to a round or to the end, and each round has a cause.
    rule("completer_retry_err", |own, device| {
        let silences = device("local_ack_timeout_err");
        let causes = silences + device("rcvd_seq_err") + device("implied_nak_seq_err");
        (silences.saturating_sub(own.exhausted[0]), causes)
    }),
    never("link_downed"),
    rule("rdma_sends", |own, _| exactly(own.sends)),
    rule("rdma_recvs", |own, _| exactly(own.receives)),
    never("drop_malformed"),
    // Those never come to the device: its link counts them.
    never("drop_bad_icrc"),
    never("drop_bad_transport_version"),
    never("drop_unknown_opcode"),
    rule("drop_unknown_qp", |own, _| own.only_after_failures(own.came.all)),
    rule("drop_qp_state", |own, _| own.only_after_failures(own.came.all)),
    never("drop_wrong_service"),
    never("drop_bad_pkey"),
    never("drop_bad_qkey"),
    never("drop_bad_source"),
    rule("drop_psn_gap", |own, _| (0, own.came.requests)),
    rule("drop_invalid_duplicate", |own, _| own.only_if_repeated(own.came.requests)),
    rule("drop_opcode_sequence", |own, _| (0, own.came.unreliable)),
    rule("drop_no_receive", |own, _| (0, own.came.unreliable + own.came.datagrams)),
    never("drop_too_long"),
    never("drop_refused"),
    rule("drop_stale_response", |own, _| (0, own.came.answers)),
    rule("drop_unexpected_response", |own, _| (0, own.came.answers)),
    rule("cnp_sent", |own, _| exactly(own.sent.notifications)),
    rule("cnp_received", |own, device| passed_on(own.came.notifications, device)),
    rule("ecn_marked", |own, device| passed_on(own.came.marked, device)),
    rule("local_ack_timeout_err", |own, device| {
        (0, device("completer_retry_err") + own.exhausted[0])
    }),
    rule("implied_nak_seq_err", |own, _| (0, own.came.answers)),
    never("resp_local_length_error"),
    rule("resp_remote_access_errors", |own, _| own.refusals(ACCESS)),
    rule("resp_remote_invalid_request", |own, _| own.refusals(INVALID)),
    rule("resp_remote_operation_errors", |own, _| own.refusals(OPERATION)),
    rule("resp_cqe_error", |own, _| exactly(own.failed_receives)),
    rule("resp_cqe_flush_error", |own, _| exactly(own.flushed_receives)),
    rule("req_remote_access_errors", |own, _| exactly(own.refused[1])),
    rule("req_remote_invalid_request", |own, _| exactly(own.refused[0])),
    rule("req_remote_operation_errors", |own, _| exactly(own.refused[2])),
    rule("req_cqe_error", |own, _| exactly(own.failed_sends)),
    rule("req_cqe_flush_error", |own, _| exactly(own.flushed_sends)),
];

/// Of `came` packets that have come, those that were not passed over for another reason.
fn passed_on(came: u64, device: &Device<'_>) -> Bounds {
    let passed_over: u64 = PASSED_OVER.iter().map(|name| device(name)).sum();
    (came.saturating_sub(passed_over), came)
}

impl Counts {
    /// The names of all counters that are compared.
    pub fn names() -> impl Iterator<Item = &'static str> {
        RULES.iter().map(|rule| rule.name)
    }

    /// A send completion was polled.
    pub fn send(&mut self, completion: &Completion) {
        let status = completion.status;
        self.failed_sends += u64::from(status != Status::Success);
        self.flushed_sends += u64::from(status == Status::Flushed);
        let refusals = [Status::RemoteInvalid, Status::RemoteAccess, Status::RemoteOperation];
        let exhaustions = [Status::RetryExceeded, Status::RnrRetryExceeded];
        for (counts, kinds) in
            [(&mut self.refused[..], &refusals[..]), (&mut self.exhausted, &exhaustions)]
        {
            for (count, kind) in counts.iter_mut().zip(kinds) {
                *count += u64::from(*kind == status);
            }
        }
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

    /// Of what is told to the peer by so many packets: a failure may come before one of them leaves.
    const fn told(&self, packets: u64) -> Bounds {
        (packets, packets + 2 * self.failures)
    }

    fn refusals(&self, code: usize) -> Bounds {
        if self.counts_refusals { self.told(self.sent.naks[code]) } else { exactly(0) }
    }

    const fn only_if_repeated(&self, most: u64) -> Bounds {
        (0, if self.repeated { most } else { 0 })
    }

    const fn only_after_failures(&self, most: u64) -> Bounds {
        (0, if self.failures > 0 { most } else { 0 })
    }

    /// Holds all of them against what the device says. No packet is dropped for two reasons.
    ///
    /// # Errors
    /// The first that cannot be.
    pub fn check(&self, device: &Device<'_>) -> Result<(), Violation> {
        for Rule { name, bounds } in RULES {
            let (is, (least, most)) = (device(name), bounds(self, device));
            demand((least..=most).contains(&is), || {
                let right = if least == most {
                    format!("must be {least}")
                } else {
                    format!("must be between {least} and {most}")
                };
                format!("counter {name} is {is} and {right}")
            })?;
        }
        let drops = RULES.iter().filter(|rule| rule.name.starts_with("drop_"));
        let dropped: u64 = drops.map(|rule| device(rule.name)).sum();
        demand(dropped <= self.came.all, || {
            format!("{dropped} packets were dropped, and {} have come", self.came.all)
        })
    }
}
