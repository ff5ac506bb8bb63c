//! States of queue pairs: which steps there are, and what happens in each state.

mod behaviour;
mod steps;

use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut all = steps::cases();
    all.extend(behaviour::cases());
    all
}
