//! Binds that need the verbs as they are.

use softrnic_model::verbs::{
    Access, BindInfo, Key, QpState, SendFlags, SendOp, WcStatus, WindowType,
};
use softrnic_verbs::provider::MwBind;

use crate::case::{Case, Outcome, verbs};
use crate::ensure;
use crate::lab::Connection;
use crate::stage::{End, Stage, wr};

pub(super) fn cases() -> Vec<Case> {
    vec![
        verbs("windows-invalidation/bind-type", "type-2-by-the-verb-of-type-1", by_the_verb),
        verbs("windows-invalidation/bind-type", "type-1-posted-as-type-2", posted_as_type_2),
    ]
}

fn all_of(end: &End) -> BindInfo {
    BindInfo {
        mr_lkey: end.region.lkey(),
        addr: end.region.addr(),
        length: 64,
        access: Access::REMOTE_READ,
    }
}

fn by_the_verb(stage: &mut Stage) -> Outcome {
    let [a, _b] = stage.connect(&Connection::RC)?;
    let window = stage.verbs(0).alloc_mw(a.pd, WindowType::Type2B)?;
    let bind = MwBind { wr_id: 1, flags: SendFlags::SIGNALED, info: all_of(&a) };
    let bound = stage.verbs(0).bind_mw(a.qp, window, &bind);
    ensure!(bound.is_err_and(|error| error.errno_name() == "EINVAL"), "it was bound");
    stage.stays_idle(&a)
}

fn posted_as_type_2(stage: &mut Stage) -> Outcome {
    let [a, _b] = stage.connect(&Connection::RC)?;
    let window = stage.verbs(0).alloc_mw(a.pd, WindowType::Type1)?;
    let new_rkey = Key::from_parts(window.index(), window.variant().wrapping_add(1));
    let op = SendOp::BindMw { window, new_rkey, window_type: WindowType::Type2B, bind: all_of(&a) };
    // It is refused when it is posted, or fails when its turn comes.
    if stage.try_post(&a, &wr(1, op)).is_ok() {
        stage.completes(&a, 1, WcStatus::MwBindError)?;
        stage.gets_into(&a, QpState::Err)?;
    }
    stage.stays_idle(&a)
}
