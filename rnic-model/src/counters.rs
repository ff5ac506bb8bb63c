//! What the device counts, declared once: slot, name and help come from one list.
//!
//! The first block has the names and the order in which Linux shows soft-RoCE's counters
//! (`/sys/class/infiniband/*/ports/1/hw_counters`, `drivers/infiniband/sw/rxe/rxe_hw_counters.c`), but
//! for `send_err`: what cannot be sent is for the link to count.
//! The error counters have the names that mlx5 and bnxt_re use there, where they have one. Every
//! packet that leads to nothing is counted under exactly one `drop_*`.

use core::fmt;

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal,)*) => {
        /// One counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Counter {
            $($(#[doc = $help])+ $variant,)*
        }

        impl Counter {
            /// All counters, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name, as a file or a column is called.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What is counted, in one line.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+).trim_ascii_start(),)* }
            }
        }
    };
}

counters! {
    /// Packets sent, retransmissions and acknowledgements included
    SentPackets = "sent_pkts",
    /// RoCEv2 packets that arrived with a right ICRC
    ReceivedPackets = "rcvd_pkts",
    /// Requests seen before: answered again, not executed again
    DuplicateRequest = "duplicate_request",
    /// Requests ahead of the expected PSN
    OutOfSequenceRequest = "out_of_seq_request",
    /// RNR NAKs received
    ReceivedRnrNak = "rcvd_rnr_err",
    /// RNR NAKs sent, for want of a posted receive
    SentRnrNak = "send_rnr_err",
    /// PSN sequence NAKs received
    ReceivedSequenceNak = "rcvd_seq_err",
    /// Acknowledgements that were owed and left as part of a later answer
    AckDeferred = "ack_deferred",
    /// Queue pairs that failed because a peer did not answer
    RetryExceeded = "retry_exceeded_err",
    /// Queue pairs that failed because a peer had no receive posted, too often
    RnrRetryExceeded = "retry_rnr_exceeded_err",
    /// Rounds of retransmission, whatever their cause
    CompleterRetry = "completer_retry_err",
    /// Times that the port went down
    LinkDowned = "link_downed",
    /// SENDs that have completed, well or not, but for flushed ones
    RdmaSends = "rdma_sends",
    /// Messages received into a posted receive
    RdmaReceives = "rdma_recvs",

    /// Dropped: shorter or longer than its headers say, or with bad padding
    DropMalformed = "drop_malformed",
    /// Dropped: wrong ICRC
    DropBadIcrc = "drop_bad_icrc",
    /// Dropped: transport version other than 0
    DropBadTransportVersion = "drop_bad_transport_version",
    /// Dropped: opcode that no service has
    DropUnknownOpcode = "drop_unknown_opcode",
    /// Dropped: no such queue pair, or a group that none is attached to
    DropUnknownQp = "drop_unknown_qp",
    /// Dropped: the queue pair is not in a state to receive
    DropQpState = "drop_qp_state",
    /// Dropped: opcode of another service than the queue pair's
    DropWrongService = "drop_wrong_service",
    /// Dropped: P_Key does not match
    DropBadPkey = "drop_bad_pkey",
    /// Dropped: Q_Key does not match
    DropBadQkey = "drop_bad_qkey",
    /// Dropped: source or destination address is not that of the connection
    DropBadSource = "drop_bad_source",
    /// Dropped: request ahead of the expected PSN, after the one NAK that a gap gets
    DropPsnGap = "drop_psn_gap",
    /// Dropped: duplicate that cannot be answered again
    DropInvalidDuplicate = "drop_invalid_duplicate",
    /// Dropped: packet of a UC message that has lost its beginning or its order
    DropOpcodeSequence = "drop_opcode_sequence",
    /// Dropped: UC or UD message without a posted receive
    DropNoReceive = "drop_no_receive",
    /// Dropped: datagram longer than the posted receive
    DropTooLong = "drop_too_long",
    /// Dropped: UC request that asks for what it may not do
    DropRefused = "drop_refused",
    /// Dropped: response to something that was completed before
    DropStaleResponse = "drop_stale_response",
    /// Dropped: response that fits no outstanding request, or comes before one that is missing
    DropUnexpectedResponse = "drop_unexpected_response",

    /// Congestion notification packets sent
    CnpSent = "cnp_sent",
    /// Congestion notification packets received
    CnpReceived = "cnp_received",
    /// Packets received with the mark "congestion experienced"
    EcnMarked = "ecn_marked",

    /// Times that no acknowledgement arrived before the timeout
    AckTimeout = "local_ack_timeout_err",
    /// Acknowledgements that skipped an open READ or atomic
    ImpliedNak = "implied_nak_seq_err",
    /// Responder: messages longer than the posted receive
    ResponderLocalLength = "resp_local_length_error",
    /// Responder: key, range or right refused
    ResponderRemoteAccess = "resp_remote_access_errors",
    /// Responder: requests refused as invalid
    ResponderRemoteInvalidRequest = "resp_remote_invalid_request",
    /// Responder: requests that it could not carry out
    ResponderRemoteOperation = "resp_remote_operation_errors",
    /// Responder: receive completions with an error, flushes included
    ResponderCqeError = "resp_cqe_error",
    /// Responder: receives flushed
    ResponderCqeFlush = "resp_cqe_flush_error",
    /// Requester: NAKs that say remote access error
    RequesterRemoteAccess = "req_remote_access_errors",
    /// Requester: NAKs that say invalid request
    RequesterRemoteInvalidRequest = "req_remote_invalid_request",
    /// Requester: NAKs that say remote operation error
    RequesterRemoteOperation = "req_remote_operation_errors",
    /// Requester: send completions with an error, flushes included
    RequesterCqeError = "req_cqe_error",
    /// Requester: send work requests flushed
    RequesterCqeFlush = "req_cqe_flush_error",
}

/// How many of the first counters are those of soft-RoCE on Linux.
pub const LINUX_COUNTERS: usize = 14;

/// The values of all counters. They wrap at 2^64.
#[derive(Clone, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Counters {
    /// All at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; Counter::ALL.len()])
    }

    /// Counts one.
    pub const fn add(&mut self, counter: Counter) {
        self.add_many(counter, 1);
    }

    /// Counts `n`.
    pub const fn add_many(&mut self, counter: Counter, n: u64) {
        let value = &mut self.0[counter as usize];
        *value = value.wrapping_add(n);
    }

    /// The present value.
    #[must_use]
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Name, help and value of each, in the order of [`Counter::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        Counter::ALL.iter().map(|&c| (c.name(), c.help(), self.get(c)))
    }

    /// Adds what `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        for &counter in Counter::ALL {
            self.add_many(counter, other.get(counter));
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Counters {
    /// Those that are not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.iter().filter(|(.., value)| *value != 0);
        f.debug_map().entries(counted.map(|(name, _, value)| (name, value))).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn names_are_unique_file_names_and_every_counter_says_what_it_is() {
        let names: BTreeSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        let helps: BTreeSet<_> = Counter::ALL.iter().map(|c| c.help()).collect();
        assert_eq!(names.len(), Counter::ALL.len());
        assert_eq!(helps.len(), Counter::ALL.len());
        for &counter in Counter::ALL {
            let (name, help) = (counter.name(), counter.help());
            assert!(name.starts_with(|c: char| c.is_ascii_lowercase()), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
            assert!(!name.ends_with('_') && !name.contains("__"), "{name}");
            assert!(
                help.len() > 10 && help.trim() == help && !help.ends_with('.'),
                "{name}: {help}"
            );
            assert_eq!(name.starts_with("drop_"), help.starts_with("Dropped: "), "{name}: {help}");
        }
    }

    #[test]
    fn the_first_are_those_of_linux_in_its_order() {
        let linux = "sent_pkts rcvd_pkts duplicate_request out_of_seq_request rcvd_rnr_err \
                     send_rnr_err rcvd_seq_err ack_deferred retry_exceeded_err \
                     retry_rnr_exceeded_err completer_retry_err link_downed rdma_sends \
                     rdma_recvs";
        let ours: Vec<_> = Counter::ALL[..LINUX_COUNTERS].iter().map(|c| c.name()).collect();
        assert_eq!(ours, linux.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn each_counts_in_a_slot_of_its_own() {
        let mut counters = Counters::new();
        for (n, &counter) in (1_u64..).zip(Counter::ALL) {
            assert_eq!(counters.get(counter), 0);
            counters.add_many(counter, n);
            counters.add(counter);
        }
        let seen: Vec<_> = counters.iter().collect();
        let expected: Vec<_> =
            (2_u64..).zip(Counter::ALL).map(|(n, c)| (c.name(), c.help(), n)).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn merge_adds_and_wraps() {
        let (mut a, mut b) = (Counters::new(), Counters::default());
        a.add_many(Counter::SentPackets, 40);
        b.add_many(Counter::SentPackets, 2);
        b.add_many(Counter::RequesterCqeFlush, u64::MAX);
        a.add_many(Counter::RequesterCqeFlush, 2);
        a.merge(&b);
        assert_eq!(a.get(Counter::SentPackets), 42);
        assert_eq!(a.get(Counter::RequesterCqeFlush), 1);
        assert_eq!(format!("{a:?}"), r#"{"sent_pkts": 42, "req_cqe_flush_error": 1}"#);
        assert_eq!(b.get(Counter::SentPackets), 2);
    }
}
