//! Profiles: the points where real devices differ, as data.
//!
//! Code asks a [`Profile`] for a value and never for its name. The values of `rxe` were measured
//! on Linux 6.1 soft-RoCE, those of `cx5` on ConnectX-5; what was not measured there is as in
//! `spec`.

use core::fmt;
use core::str::FromStr;

use crate::verbs::WcStatus;

/// How a device behaves where devices differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name on a command line.
    pub name: &'static str,

    /// Whether what a program may not rely on is filled with junk: the fields of a failed
    /// completion other than `wr_id`, `status`, `qp_num` and `vendor_err`, those of a good one that
    /// mean nothing there (`ibv_poll_cq(3)`), and the bytes in front of the IPv4 header in the GRH
    /// area of a datagram (annex A17). docs/spec/profiles.md lists the patterns.
    // [profiles/failed-fields] [profiles/undefined-fields] [profiles/grh-junk]
    pub poison: bool,

    /// How long answers are held back that may be late, in nanoseconds, so that more of them become
    /// one; 0 is not at all. No rule says how soon a responder acknowledges.
    // [profiles/answer-delay]
    pub answer_delay_ns: u64,

    /// In which order the bytes of a packet come to memory. By rule only a completion says that they
    /// are there, and a program that looks at the last one itself is wrong.
    // [profiles/placement-order]
    pub placement: PlacementOrder,

    /// In which order completions of different work queues leave a completion queue. By rule only
    /// those of one work queue are in order.
    // [profiles/completion-order]
    pub completions: CompletionOrder,

    /// Whether the opcode of a failed completion is 0, which reads as SEND. By rule it is undefined
    /// (`ibv_poll_cq(3)`); soft-RoCE leaves it 0, others say what failed.
    // [profiles/failed-opcode]
    pub failed_opcode_is_zero: bool,

    /// Whether receive completions of RC and UC say that there is a GRH. By rule the flag belongs
    /// to datagrams (`ibv_poll_cq(3)`); soft-RoCE sets it on all.
    // [profiles/grh-flag]
    pub grh_flag_on_connected: bool,

    /// Whether send completions of operations with an immediate say that they have one. By rule
    /// the flag belongs to receive completions (`ibv_poll_cq(3)`); soft-RoCE sets it on both.
    // [profiles/imm-flag]
    pub imm_flag_on_send: bool,

    /// Status of a send work request whose local key is wrong. By rule local protection error
    /// (InfiniBand volume 1, section 11.6.2); soft-RoCE says local QP operation error.
    // [profiles/bad-lkey]
    pub bad_lkey: WcStatus,

    /// A message on RC that is longer than the posted receive.
    // [profiles/receive-too-small]
    pub receive_too_small: ReceiveTooSmall,

    /// A datagram that is longer than the posted receive. By rule it is dropped without a word or
    /// fails the receive, and the queue pair stays as it is; soft-RoCE fails the receive.
    // [profiles/datagram-too-long]
    pub datagram_too_long: DatagramTooLong,

    /// A READ or atomic on a queue pair whose `max_rd_atomic` is 0.
    // [profiles/read-without-depth]
    pub read_without_depth: ReadWithoutDepth,

    /// Whether posting an atomic to an address that is no multiple of 8 is refused (EINVAL). By
    /// rule the responder answers with an invalid request NAK; soft-RoCE's user library refuses.
    // [profiles/unaligned-atomic]
    pub unaligned_atomic_refused_at_post: bool,

    /// Whether the responder's program gets an access error event when a peer's request violates
    /// the protection and no receive takes the error. By rule it does (C9-222.1.1); soft-RoCE does
    /// not ("RDMA/rxe: Generate async error for r_key violations", linux-rdma, February 2026, is
    /// the proposal to add it).
    // [profiles/access-error-event]
    pub access_error_event: bool,

    /// Whether errors that the responder finds are counted (`resp_*`). ConnectX-5 leaves these
    /// counters at zero, and soft-RoCE has none.
    // [profiles/responder-counters]
    pub responder_errors_counted: bool,

    /// What `vendor_err` of failed completions says.
    // [profiles/vendor-codes]
    pub vendor_errors: VendorErrors,
}

/// In which order the bytes of a packet come to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementOrder {
    /// All at once.
    AtOnce,
    /// The second half first. The first half of a WRITE comes with the next packet of its queue pair,
    /// or when it is acknowledged.
    LastBytesFirst,
}

/// In which order completions of different work queues leave a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// As they came.
    AsTheyCame,
    /// Those of the work queue that has completed last come first.
    LatestQueueFirst,
}

/// How a message fails that is longer than the posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveTooSmall {
    /// Status of the receive.
    pub responder: WcStatus,
    /// Status of the SEND, and so which NAK the responder answers with.
    pub requester: WcStatus,
}

/// What becomes of a datagram that is longer than the posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramTooLong {
    /// Nothing; the receive stays posted.
    Dropped,
    /// The receive completes with this status.
    FailsReceive(WcStatus),
}

/// What becomes of a READ or atomic that may never be outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadWithoutDepth {
    /// It waits for ever, as on soft-RoCE.
    Waits,
    /// It completes with this status. No public source says which; waiting for ever hides the
    /// mistake.
    Fails(WcStatus),
}

/// Device-specific codes of failed completions; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VendorErrors {
    /// A scatter/gather element that leaves its region.
    pub sge_out_of_range: u32,
    /// A local key that names no region of the protection domain.
    pub bad_lkey: u32,
    /// A local write to a region without `LOCAL_WRITE`.
    pub no_local_write: u32,
    /// An invalid request NAK.
    pub remote_invalid_request: u32,
    /// A remote access NAK.
    pub remote_access: u32,
    /// Too many RNR NAKs.
    pub rnr_retry_exceeded: u32,
    /// No answer.
    pub retry_exceeded: u32,
    /// A flush.
    pub flushed: u32,
}

impl VendorErrors {
    /// No codes at all.
    pub const NONE: Self = Self {
        sge_out_of_range: 0,
        bad_lkey: 0,
        no_local_write: 0,
        remote_invalid_request: 0,
        remote_access: 0,
        rnr_retry_exceeded: 0,
        retry_exceeded: 0,
        flushed: 0,
    };
}

impl Profile {
    /// As the rules say.
    pub const SPEC: Self = Self {
        name: "spec",
        poison: false,
        answer_delay_ns: 0,
        placement: PlacementOrder::AtOnce,
        completions: CompletionOrder::AsTheyCame,
        failed_opcode_is_zero: false,
        grh_flag_on_connected: false,
        imm_flag_on_send: false,
        bad_lkey: WcStatus::LocalProtectionError,
        receive_too_small: ReceiveTooSmall {
            responder: WcStatus::LocalLengthError,
            requester: WcStatus::RemoteInvalidRequest,
        },
        datagram_too_long: DatagramTooLong::Dropped,
        read_without_depth: ReadWithoutDepth::Fails(WcStatus::LocalQpOperationError),
        unaligned_atomic_refused_at_post: false,
        access_error_event: true,
        responder_errors_counted: true,
        vendor_errors: VendorErrors::NONE,
    };

    /// As the rules say, and nothing beyond them can be relied on.
    pub const STRICT: Self = Self {
        name: "strict",
        poison: true,
        answer_delay_ns: 20_000,
        placement: PlacementOrder::LastBytesFirst,
        completions: CompletionOrder::LatestQueueFirst,
        ..Self::SPEC
    };

    /// Soft-RoCE of Linux 6.1.
    pub const RXE: Self = Self {
        name: "rxe",
        failed_opcode_is_zero: true,
        grh_flag_on_connected: true,
        imm_flag_on_send: true,
        bad_lkey: WcStatus::LocalQpOperationError,
        receive_too_small: ReceiveTooSmall {
            responder: WcStatus::LocalQpOperationError,
            requester: WcStatus::RemoteOperationError,
        },
        datagram_too_long: DatagramTooLong::FailsReceive(WcStatus::LocalQpOperationError),
        read_without_depth: ReadWithoutDepth::Waits,
        unaligned_atomic_refused_at_post: true,
        access_error_event: false,
        responder_errors_counted: false,
        ..Self::SPEC
    };

    /// ConnectX-5.
    pub const CX5: Self = Self {
        name: "cx5",
        responder_errors_counted: false,
        vendor_errors: VendorErrors {
            sge_out_of_range: 0x53,
            bad_lkey: 0x52,
            no_local_write: 0x33,
            remote_invalid_request: 0x8a,
            remote_access: 0x88,
            rnr_retry_exceeded: 0x87,
            retry_exceeded: 0x81,
            flushed: 0xf5,
        },
        ..Self::SPEC
    };

    /// All profiles.
    pub const ALL: [Self; 4] = [Self::STRICT, Self::SPEC, Self::RXE, Self::CX5];
}

impl Default for Profile {
    /// [`Profile::SPEC`]
    fn default() -> Self {
        Self::SPEC
    }
}

impl fmt::Display for Profile {
    /// The name, as [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::ALL.into_iter().find(|profile| profile.name == name).ok_or(UnknownProfile)
    }
}

/// No profile has that name. The text lists the names that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownProfile;

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such profile; there are")?;
        for (i, profile) in Profile::ALL.iter().enumerate() {
            write!(f, "{} {profile}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownProfile {}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::string::ToString;

    use super::*;

    fn codes(v: VendorErrors) -> [u32; 8] {
        [
            v.sge_out_of_range,
            v.bad_lkey,
            v.no_local_write,
            v.remote_invalid_request,
            v.remote_access,
            v.rnr_retry_exceeded,
            v.retry_exceeded,
            v.flushed,
        ]
    }

    #[test]
    fn names_lead_there_and_back() {
        for (name, profile) in ["strict", "spec", "rxe", "cx5"].into_iter().zip(Profile::ALL) {
            assert_eq!(profile.to_string(), name);
            assert_eq!(name.parse(), Ok(profile));
        }
        assert_eq!(Profile::default(), Profile::SPEC);
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        for name in ["", "SPEC", "spec ", "mlx5"] {
            let error = name.parse::<Profile>().unwrap_err();
            assert_eq!(error.to_string(), "no such profile; there are strict, spec, rxe, cx5");
        }
    }

    #[test]
    fn strict_is_spec_with_poison_and_odd_orders() {
        let as_in_spec = Profile {
            name: "spec",
            poison: false,
            answer_delay_ns: 0,
            placement: PlacementOrder::AtOnce,
            completions: CompletionOrder::AsTheyCame,
            ..Profile::STRICT
        };
        assert_eq!(as_in_spec, Profile::SPEC);
        for profile in Profile::ALL {
            assert_eq!(profile.poison, profile.name == "strict");
        }
    }

    /// Numbers as they stand in the recorded completions of soft-RoCE: `E_local_bad_lkey`,
    /// `E_recv_too_small`, `ud_small_recv`.
    #[test]
    fn rxe_fails_with_the_numbers_that_were_recorded() {
        let rxe = Profile::RXE;
        assert_eq!(rxe.bad_lkey as u8, 2);
        assert_eq!(rxe.receive_too_small.responder as u8, 2);
        assert_eq!(rxe.receive_too_small.requester as u8, 11);
        assert_eq!(
            rxe.datagram_too_long,
            DatagramTooLong::FailsReceive(WcStatus::LocalQpOperationError)
        );
        assert_eq!(rxe.read_without_depth, ReadWithoutDepth::Waits);
        assert!(rxe.grh_flag_on_connected && rxe.imm_flag_on_send && rxe.failed_opcode_is_zero);
        assert!(rxe.unaligned_atomic_refused_at_post && !rxe.access_error_event);
    }

    #[test]
    fn the_others_fail_by_the_rules() {
        for profile in [Profile::STRICT, Profile::SPEC, Profile::CX5] {
            assert_eq!(profile.bad_lkey as u8, 4);
            assert_eq!(profile.receive_too_small.responder as u8, 1);
            assert_eq!(profile.receive_too_small.requester as u8, 9);
            assert_eq!(profile.datagram_too_long, DatagramTooLong::Dropped);
            assert_ne!(profile.read_without_depth, ReadWithoutDepth::Waits);
            assert!(!profile.grh_flag_on_connected && !profile.imm_flag_on_send);
            assert!(!profile.failed_opcode_is_zero);
            assert!(!profile.unaligned_atomic_refused_at_post && profile.access_error_event);
        }
    }

    #[test]
    fn real_devices_do_not_count_errors_of_the_responder() {
        for profile in Profile::ALL {
            let real = matches!(profile.name, "rxe" | "cx5");
            assert_eq!(profile.responder_errors_counted, !real, "{profile}");
        }
    }

    #[test]
    fn only_cx5_has_vendor_codes_and_each_is_its_own() {
        let measured = [0x53, 0x52, 0x33, 0x8a, 0x88, 0x87, 0x81, 0xf5];
        assert_eq!(codes(Profile::CX5.vendor_errors), measured);
        assert_eq!(BTreeSet::from(measured).len(), measured.len());
        for profile in [Profile::STRICT, Profile::SPEC, Profile::RXE] {
            assert_eq!(codes(profile.vendor_errors), [0; 8]);
        }
    }
}
