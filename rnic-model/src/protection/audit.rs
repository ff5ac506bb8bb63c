//! What peers can reach.

use crate::verbs::{Access, Key, PdId, QpNum, WindowType};

use super::Grant;

/// Memory that a peer can reach by a key, as long as its queue pair has the rights as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The key.
    pub key: Key,
    /// The type of the window; `None` of a region.
    pub window: Option<WindowType>,
    /// Protection domain that the queue pair must be in.
    pub pd: PdId,
    /// The one queue pair that is served, if not every one of the protection domain.
    pub only_qp: Option<QpNum>,
    /// First address.
    pub addr: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// Rights that a peer can exercise, at least one.
    pub rights: Access,
    /// Where the first byte is.
    pub grant: Grant,
}
