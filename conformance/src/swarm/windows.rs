//! Memory windows, of all types.

use softrnic_verbs::provider::Verb;
use softrnic_verbs::{Key, Mw, Pd, WindowType};

use super::hosts::Piece;

/// What a window is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    /// A bind, or what ends one, is on its way.
    Changing,
    Bound,
}

pub(super) struct Window {
    /// Keeps it alive. Of type 2 its present key is ours to know.
    pub(super) window: Mw,
    pub(super) kind: WindowType,
    pub(super) key: Key,
    pub(super) phase: Phase,
    /// The end that has bound it.
    pub(super) owner: usize,
    pub(super) piece: Option<Piece>,
    /// Where it led before it was unbound.
    pub(super) last: Option<u64>,
    /// Requests of the owner's peer that go through it now.
    pub(super) users: u32,
}

impl Window {
    pub(super) fn new(pd: &Pd, kind: WindowType) -> Verb<Self> {
        let window = pd.alloc_mw(kind).map_err(|error| error.source)?;
        Ok(Self {
            key: window.rkey(),
            window,
            kind,
            phase: Phase::Free,
            owner: 0,
            piece: None,
            last: None,
            users: 0,
        })
    }

    /// Whether it can be invalidated. One of type 1 is only bound anew, to nothing.
    pub(super) fn can_be_invalidated(&self) -> bool {
        self.kind != WindowType::Type1
    }
}
