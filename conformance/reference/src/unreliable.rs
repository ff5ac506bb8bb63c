//! Messages that may be lost.

use std::collections::BTreeMap;

use crate::words::{Received, Violation, demand};

/// What may arrive at a queue pair of an unreliable service: each message that was sent there, once,
/// or as often as the network repeats it; whole or not at all.
#[derive(Clone, Debug, Default)]
pub struct Unreliable {
    /// How often each message was sent and has arrived, by all that it is.
    messages: BTreeMap<(Head, Vec<u8>), (u64, u64)>,
}

/// A message without its bytes, as a key.
type Head = (crate::Arrival, u32, Option<u32>);

impl Unreliable {
    /// A message was sent.
    pub fn sent(&mut self, what: &Received, bytes: Vec<u8>) {
        self.messages.entry((head(what), bytes)).or_default().0 += 1;
    }

    /// A message has arrived.
    ///
    /// # Errors
    /// Nobody has sent it, or not so often. `repeats` says that the network may have repeated it.
    pub fn arrived(
        &mut self,
        what: &Received,
        bytes: &[u8],
        repeats: bool,
    ) -> Result<(), Violation> {
        let found = self.messages.get_mut(&(head(what), bytes.to_vec()));
        let known = found.is_some();
        demand(known, || format!("nobody has sent what was received: {what:?}"))?;
        let Some((sent, arrived)) = found else { return Ok(()) };
        *arrived += 1;
        let (sent, arrived) = (*sent, *arrived);
        demand(repeats || arrived <= sent, || {
            format!("sent {sent} times, received {arrived} times: {what:?}")
        })
    }
}

const fn head(what: &Received) -> Head {
    (what.arrival, what.len, what.imm)
}
