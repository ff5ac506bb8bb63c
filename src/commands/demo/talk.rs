//! What the two processes of the tour tell each other over the exchange.

use serde::{Deserialize, Serialize};
use softrnic_verbs::{Wc, WcFlags, WcStatus};

use crate::exchange::{QueuePairInfo, RegionInfo};
use crate::words;

/// What the requester asks the responder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// Make a queue pair and memory ready for the act at this place of the script.
    Prepare {
        /// Which.
        act: usize,
        /// The requester's queue pair.
        requester: QueuePairInfo,
    },
    /// Tell what has happened since.
    Look,
    /// That is all.
    End,
}

/// The answer to [`Ask::Prepare`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Prepared {
    pub(super) responder: QueuePairInfo,
    pub(super) region: RegionInfo,
}

/// The answer to [`Ask::Look`]: all since [`Ask::Prepare`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Completions of receives, in order.
    pub(super) receipts: Vec<Receipt>,
    /// Asynchronous events, in order.
    pub(super) events: Vec<String>,
    /// State of the queue pair.
    pub(super) state: String,
    /// The memory, two digits for each byte.
    pub(super) memory: String,
}

/// The completion of a receive, as far as its fields mean something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) wr_id: u64,
    pub(super) status: String,
    /// The rest of a completion that succeeded.
    pub(super) arrived: Option<Arrived>,
}

/// What a successful completion says besides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arrived {
    pub(super) opcode: String,
    pub(super) bytes: u32,
    pub(super) immediate: Option<u32>,
    /// The sender of a datagram.
    pub(super) sender: Option<u32>,
}

impl Receipt {
    /// What `wc` says; `datagram` tells whether it is of a datagram.
    pub(super) fn of(wc: &Wc, datagram: bool) -> Self {
        let arrived = (wc.status == WcStatus::Success).then(|| Arrived {
            opcode: words::opcode(wc.opcode).into(),
            bytes: wc.byte_len,
            immediate: wc.flags.contains(WcFlags::WITH_IMM).then_some(wc.imm_data),
            sender: datagram.then(|| wc.src_qp.get()),
        });
        Self { wr_id: wc.wr_id, status: words::status(wc.status).into(), arrived }
    }
}

/// Two digits for each byte.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|n| DIGITS[usize::from(n)]).collect()
}

/// The bytes again; `None` where the text is not of [`to_hex`].
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_as_text() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        for text in ["0", "0g", "é1", " 1"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }

    #[test]
    fn fields_without_meaning_are_not_told() {
        let failed = Wc { byte_len: 5, imm_data: 6, flags: WcFlags::all(), ..Wc::default() };
        assert_eq!(Receipt::of(&failed, true).arrived, None);
        let good = Wc { status: WcStatus::Success, flags: WcFlags::empty(), ..failed };
        let arrived = Receipt::of(&good, false).arrived.unwrap();
        assert_eq!((arrived.immediate, arrived.sender), (None, None));
    }
}
