//! Why a connection is refused.

use core::fmt;

/// The reason that a REJ carries (IBA table 109). Values that are not named survive.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RejectReason(pub u16);

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl RejectReason {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// What it means, for people.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "a reason without a name",
                }
            }
        }
    };
}

reasons! {
    /// No queue pair is to be had.
    NO_QP = 1, "no queue pair available";
    /// No end-to-end context is to be had.
    NO_EEC = 2, "no end-to-end context available";
    /// Out of resources.
    NO_RESOURCES = 3, "out of resources";
    /// The peer has waited in vain for a message.
    TIMEOUT = 4, "timed out";
    /// What is asked for is not supported.
    UNSUPPORTED = 5, "not supported";
    /// A communication ID is not known.
    INVALID_COMM_ID = 6, "unknown communication ID";
    /// Communication IDs do not belong together.
    INVALID_COMM_INSTANCE = 7, "communication IDs do not belong together";
    /// Nobody listens there.
    INVALID_SERVICE_ID = 8, "nobody listens there (wrong port or port space)";
    /// The listener wants another transport service.
    INVALID_TRANSPORT_TYPE = 9, "wrong transport service";
    /// One end still has a connection of that queue pair.
    STALE_CONN = 10, "a connection of the queue pair is still there";
    /// The reliable datagram channel does not exist.
    RDC_NOT_EXIST = 11, "no reliable datagram channel";
    /// The GID of the receiver's port is not there.
    INVALID_GID = 12, "wrong GID of the receiver";
    /// The LID of the receiver's port is not there.
    INVALID_LID = 13, "wrong LID of the receiver";
    /// The service level is not to be had.
    INVALID_SL = 14, "service level";
    /// The traffic class is not to be had.
    INVALID_TRAFFIC_CLASS = 15, "traffic class";
    /// The hop limit is not to be had.
    INVALID_HOP_LIMIT = 16, "hop limit";
    /// The rate is not to be had.
    INVALID_PACKET_RATE = 17, "packet rate";
    /// As [`Self::INVALID_GID`], of the alternate path.
    INVALID_ALT_GID = 18, "wrong GID of the alternate path";
    /// As [`Self::INVALID_LID`], of the alternate path.
    INVALID_ALT_LID = 19, "wrong LID of the alternate path";
    /// As [`Self::INVALID_SL`], of the alternate path.
    INVALID_ALT_SL = 20, "service level of the alternate path";
    /// As [`Self::INVALID_TRAFFIC_CLASS`], of the alternate path.
    INVALID_ALT_TRAFFIC_CLASS = 21, "traffic class of the alternate path";
    /// As [`Self::INVALID_HOP_LIMIT`], of the alternate path.
    INVALID_ALT_HOP_LIMIT = 22, "hop limit of the alternate path";
    /// As [`Self::INVALID_PACKET_RATE`], of the alternate path.
    INVALID_ALT_PACKET_RATE = 23, "packet rate of the alternate path";
    /// Another port and connection manager is to be asked.
    PORT_CM_REDIRECT = 24, "ask another port and connection manager";
    /// Another port is to be asked.
    PORT_REDIRECT = 25, "ask another port";
    /// The path MTU is not to be had; the largest one is the additional information.
    INVALID_MTU = 26, "path MTU too large";
    /// Too few responder resources.
    INSUFFICIENT_RESP_RESOURCES = 27, "too few responder resources";
    /// The program says no (`rdma_reject(3)`).
    CONSUMER_DEFINED = 28, "the program refused";
    /// The RNR retry count is not to be had.
    INVALID_RNR_RETRY = 29, "RNR retry count";
    /// The communication ID of a request is in use.
    DUPLICATE_LOCAL_COMM_ID = 30, "communication ID in use";
    /// Another version of the protocol.
    INVALID_CLASS_VERSION = 31, "another version of the protocol";
    /// The flow label is not to be had.
    INVALID_FLOW_LABEL = 32, "flow label";
    /// As [`Self::INVALID_FLOW_LABEL`], of the alternate path.
    INVALID_ALT_FLOW_LABEL = 33, "flow label of the alternate path";
    /// The vendor option is not supported (`rdma_reject_ece(3)`).
    VENDOR_OPTION_NOT_SUPPORTED = 35, "vendor option not supported";
}

impl fmt::Debug for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0, self.text())
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
