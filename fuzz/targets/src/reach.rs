//! How far runs get.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

macro_rules! reaches {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal,)*) => {
        /// A place behind the checks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Reach {
            $($(#[doc = $help])+ $variant,)*
        }

        impl Reach {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// As it is told.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

reaches! {
    /// A frame was taken apart and put together again.
    FrameRead = "frame-read",
    /// A packet was taken apart.
    PacketRead = "packet-read",
    /// A packet of a capture file was a frame.
    CaptureRead = "capture-read",
    /// A request to the port service was accepted.
    RequestAccepted = "request-accepted",
    /// An answer of the port service was accepted.
    AnswerAccepted = "answer-accepted",
    /// A region was registered.
    Registered = "registered",
    /// A window was bound.
    Bound = "bound",
    /// An access was granted.
    Granted = "granted",
    /// An access was refused for its range.
    OutOfRange = "out-of-range",
    /// A peer's bytes lie in memory.
    Placed = "payload-placed",
    /// A receive of a connected service has completed.
    Received = "receive-completed",
    /// A datagram has completed a receive.
    Datagram = "datagram-received",
    /// A READ was answered.
    ReadAnswered = "read-answered",
    /// An atomic was carried out and answered.
    AtomicAnswered = "atomic-answered",
    /// A peer was asked to wait (RNR NAK).
    NotReady = "rnr-nak",
    /// A peer was refused (NAK).
    Refused = "nak",
    /// A SEND or WRITE has completed.
    Sent = "send-completed",
    /// A READ has completed.
    ReadCompleted = "read-completed",
    /// An atomic has completed.
    AtomicCompleted = "atomic-completed",
    /// A request has failed by what the peer said.
    FailedByPeer = "failed-by-peer",
    /// Packets were sent again.
    SentAgain = "sent-again",
    /// A peer's request for a connection was put to the program.
    CmRequest = "cm-request",
    /// A connection was established.
    CmEstablished = "cm-established",
    /// A connection that was established has ended.
    CmEnded = "cm-ended",
    /// A peer has refused a connection.
    CmRefused = "cm-refused",
    /// A datagram service was resolved.
    CmResolved = "cm-resolved",
    /// A peer has not answered.
    CmGivenUp = "cm-given-up",
    /// C's struct became a queue pair's attributes.
    AttributesTaken = "attributes-taken",
    /// C's work request was posted.
    Posted = "posted",
}

static COUNTS: [AtomicU64; Reach::ALL.len()] = [const { AtomicU64::new(0) }; Reach::ALL.len()];
static ALOUD: AtomicBool = AtomicBool::new(false);

/// From now on counts are told on standard error as they double.
pub fn tell() {
    ALOUD.store(true, Ordering::Relaxed);
}

/// Counts one.
pub fn hit(reach: Reach) {
    let count = COUNTS[reach as usize].fetch_add(1, Ordering::Relaxed) + 1;
    if count.is_power_of_two() && ALOUD.load(Ordering::Relaxed) {
        eprintln!("reached {} {count}", reach.name());
    }
}

/// How often it was reached in this process.
#[must_use]
pub fn count(reach: Reach) -> u64 {
    COUNTS[reach as usize].load(Ordering::Relaxed)
}
