//! All cases, by family: one file or folder each, named after the page of rules in `docs/spec/`.

mod acknowledgement_retry;
mod attacks;
mod book;
mod completions;
mod congestion;
mod connection_setup;
mod events;
mod flush_placement;
mod icrc;
mod packet_format;
mod profiles;
mod protection;
mod qp_attributes;
mod qp_states;
mod rc_requester;
mod rc_responder;
mod read_atomic;
mod rnr;
mod srq;
mod uc;
mod ud;
mod windows_invalidation;
mod xrc;

use crate::case::Case;

/// Every case, family by family.
#[must_use]
pub fn all() -> Vec<Case> {
    let families = [
        packet_format::cases,
        icrc::cases,
        rc_requester::cases,
        rc_responder::cases,
        acknowledgement_retry::cases,
        rnr::cases,
        read_atomic::cases,
        uc::cases,
        ud::cases,
        xrc::cases,
        srq::cases,
        qp_states::cases,
        qp_attributes::cases,
        protection::cases,
        windows_invalidation::cases,
        flush_placement::cases,
        completions::cases,
        events::cases,
        connection_setup::cases,
        congestion::cases,
        profiles::cases,
        attacks::cases,
    ];
    families.into_iter().flat_map(|cases| cases()).collect()
}
