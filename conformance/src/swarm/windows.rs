//! Memory windows, type 2.

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
    /// Keeps it alive; its present key is ours to know.
    _window: Mw,
    pub(super) kind: WindowType,
    pub(super) key: Key,
    pub(super) phase: Phase,
    /// The end that has bound it.
    pub(super) owner: usize,
    pub(super) piece: Option<Piece>,
    /// Requests of the owner's peer that go through it now.
    pub(super) users: u32,
}

impl Window {
    pub(super) fn new(pd: &Pd, kind: WindowType) -> Verb<Self> {
        let window = pd.alloc_mw(kind).map_err(|error| error.source)?;
        Ok(Self {
            key: window.rkey(),
            _window: window,
            kind,
            phase: Phase::Free,
            owner: 0,
            piece: None,
            users: 0,
        })
    }
}
