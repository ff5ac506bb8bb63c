//! Where a request lands: whose memory it may touch, and whose receives it takes.

use crate::device::Shared;
use crate::qp::pair::Qp;
use crate::verbs::{PdId, SrqId, SrqNum};
use crate::wire::Packet;

use super::{Fault, Message};

/// Of RC and UC this is the queue pair's own, for good. Of XRC every request names a shared receive
/// queue, also one that takes no receive: its protection domain is what the keys must belong to
/// (annex A14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Landing {
    pub(super) pd: PdId,
    pub(super) srq: Option<SrqId>,
}

/// Where a packet lands that is in sequence. Of XRC, the queue must exist, be in the domain of the
/// target, and be the one that the message began with.
#[inline]
pub(super) fn judge_landing(
    qp: &Qp,
    shared: &Shared,
    packet: &Packet<'_>,
) -> Result<Landing, Fault> {
    let Some(header) = packet.xrc_eth() else {
        return Ok(Landing { pd: qp.init.pd, srq: qp.init.srq });
    };
    // [xrc/unknown-srq]
    let (id, queue) = shared.srq_by_number(SrqNum::new(header.srq())).ok_or(Fault::WrongSrq)?;
    // [xrc/other-domain]
    let in_domain = queue.xrc.is_some_and(|xrc| Some(xrc.xrcd) == qp.init.xrcd);
    // [xrc/same-srq-through-message]
    let began_there = match qp.responder.message {
        Message::Idle | Message::Skip => true,
        Message::Send { taken, .. } => taken.srq == Some(id),
        Message::Write { srq, .. } => srq == Some(id),
    };
    if !in_domain || !began_there {
        return Err(Fault::WrongSrq);
    }
    if queue.failed {
        return Err(Fault::SrqFailed);
    }
    // [xrc/pd-of-srq]
    Ok(Landing { pd: queue.pd, srq: Some(id) })
}
