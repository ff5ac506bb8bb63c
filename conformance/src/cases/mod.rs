//! All cases, by family: one file or folder each, named after the page of rules in `docs/spec/`.

mod rc_responder;

use crate::case::Case;

/// Every case, family by family.
#[must_use]
pub fn all() -> Vec<Case> {
    let families = [rc_responder::cases];
    families.into_iter().flat_map(|cases| cases()).collect()
}
