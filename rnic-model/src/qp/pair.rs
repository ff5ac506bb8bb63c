//! A queue pair: what its machines have in common.

use crate::device::Shared;
use crate::queue::{RecvQueue, RecvSlot, RecvWqe};
use crate::timer::Timer;
use crate::verbs::{
    AddressVector, AsyncEvent, CqId, QpAttributes, QpInit, QpNum, QpState, QpType, Sge, SrqId,
    VerbError,
};
use crate::wire::{Route, Service};

use super::requester::Requester;
use super::responder::Responder;

/// A queue pair. Requester (with its completer) and responder are machines of their own; neither
/// reads the fields of the other.
#[derive(Debug)]
// [connection-setup/simultaneous]
pub(crate) struct Qp {
    pub(crate) num: QpNum,
    /// Place in the device's table.
    pub(crate) index: u32,
    pub(crate) init: QpInit,
    pub(crate) attr: QpAttributes,
    /// Addressing of a connected queue pair, known from RTR on.
    pub(crate) route: Route,
    /// The P_Key that `attr.pkey_index` names.
    pub(crate) pkey: u16,
    /// Own receive queue; none with a shared one, and none of XRC.
    pub(crate) rq: Option<RecvQueue>,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) timer: Timer,
    pub(crate) pace_timer: Timer,
    /// How often it is open: an XRC target may be shared.
    pub(crate) handles: u32,
    /// Whether it stands in the device's list of those that may have something to send.
    pub(crate) listed: bool,
}

impl Qp {
    pub(crate) fn state(&self) -> QpState {
        self.attr.state
    }

    pub(crate) fn is(&self, qp_type: QpType) -> bool {
        self.init.qp_type == qp_type
    }

    /// The service that its packets say they belong to.
    pub(crate) fn service(&self) -> Service {
        match self.init.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
        }
    }

    fn queue<'a>(&'a self, shared: &'a Shared, srq: Option<SrqId>) -> Option<&'a RecvQueue> {
        match srq {
            Some(srq) => shared.srqs.get(srq).map(|srq| &srq.queue),
            None => self.rq.as_ref(),
        }
    }

    fn queue_mut<'a>(
        &'a mut self,
        shared: &'a mut Shared,
        srq: Option<SrqId>,
    ) -> Option<&'a mut RecvQueue> {
        match srq {
            Some(srq) => shared.srqs.get_mut(srq).map(|srq| &mut srq.queue),
            None => self.rq.as_mut(),
        }
    }

    /// The next receive request of `srq`, or of the own queue, left in place.
    pub(crate) fn peek_recv(&self, shared: &Shared, srq: Option<SrqId>) -> Option<RecvWqe> {
        self.queue(shared, srq)?.peek()
    }

    /// Takes the next receive request of `srq`, or of the own queue; raises the limit event of a
    /// shared one.
    // [srq/order] [srq/limit-event] [events/srq-limit]
    pub(crate) fn take_recv(&mut self, shared: &mut Shared, srq: Option<SrqId>) -> Option<Taken> {
        let slot = self.queue_mut(shared, srq)?.take()?;
        if let Some(id) = srq
            && let Some(queue) = shared.srqs.get_mut(id)
            && queue.queue.len() < queue.limit
        {
            queue.limit = 0;
            shared.raise(AsyncEvent::SrqLimitReached(id));
        }
        Some(Taken { srq, slot })
    }

    pub(crate) fn recv_wqe(&self, shared: &Shared, taken: Taken) -> RecvWqe {
        self.queue(shared, taken.srq).map(|queue| queue.wqe(taken.slot)).unwrap_or_default()
    }

    pub(crate) fn recv_sges<'a>(&'a self, shared: &'a Shared, taken: Taken) -> &'a [Sge] {
        self.queue(shared, taken.srq).map_or(&[], |queue| queue.sges(taken.slot))
    }

    pub(crate) fn release_recv(&mut self, shared: &mut Shared, taken: Taken) {
        if let Some(queue) = self.queue_mut(shared, taken.srq) {
            queue.release(taken.slot);
        }
    }

    /// Where a receive completes: a shared queue for XRC has a completion queue of its own.
    // [srq/completes-in-qp-cq] [xrc/routed-by-number]
    pub(crate) fn recv_cq(&self, shared: &Shared, taken: Taken) -> CqId {
        let of_srq = taken.srq.and_then(|srq| shared.srqs.get(srq)?.xrc);
        of_srq.map_or(self.init.recv_cq, |xrc| xrc.cq)
    }
}

/// A receive request that was taken: its record, and the shared queue that the record belongs to if
/// it is not the queue pair's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) srq: Option<SrqId>,
    slot: RecvSlot,
}

#[cfg(test)]
impl Taken {
    /// Of a queue pair's own queue.
    pub(crate) const fn own(slot: RecvSlot) -> Self {
        Self { srq: None, slot }
    }
}

/// Hop limit where the program left it to the device.
const HOP_LIMIT: u8 = 64;
/// First of the source ports that RoCEv2 senders use for entropy (annex A17).
const SRC_PORT_FIRST: u16 = 0xc000;

/// The addressing that an address vector means on this port.
// [packet-format/ip-versions] [packet-format/addresses] [packet-format/traffic-class]
// [packet-format/udp-ports] [congestion/ecn-capable]
pub(crate) fn route_of(
    shared: &Shared,
    path: &AddressVector,
    flow: QpNum,
) -> Result<Route, VerbError> {
    let src = shared
        .port
        .gids
        .get(usize::from(path.sgid_index))
        .copied()
        .ok_or(VerbError::Invalid("sgid_index names no entry of the GID table"))?;
    if src.as_v4().is_some() != path.dgid.as_v4().is_some() {
        return Err(VerbError::Unreachable("source and destination GID are of different families"));
    }
    Ok(Route {
        src,
        dst: path.dgid,
        src_port: SRC_PORT_FIRST | (flow.index() & 0x3fff),
        traffic_class: path.traffic_class,
        hop_limit: if path.hop_limit == 0 { HOP_LIMIT } else { path.hop_limit },
        flow_label: path.flow_label & 0x000f_ffff,
    })
}
