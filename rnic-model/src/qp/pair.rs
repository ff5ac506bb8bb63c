//! A queue pair: what its machines have in common.

use crate::device::Shared;
use crate::queue::{RecvQueue, RecvSlot, RecvWqe};
use crate::timer::Timer;
use crate::verbs::{
    AddressVector, AsyncEvent, QpAttributes, QpInit, QpNum, QpState, QpType, Sge, VerbError,
};
use crate::wire::Route;

use super::requester::Requester;
use super::responder::Responder;

/// A queue pair. Requester (with its completer) and responder are machines of their own; neither
/// reads the fields of the other.
#[derive(Debug)]
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
    /// Own receive queue; none with a shared one.
    pub(crate) rq: Option<RecvQueue>,
    pub(crate) requester: Requester,
    pub(crate) responder: Responder,
    pub(crate) timer: Timer,
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

    fn recv_queue<'a>(&'a mut self, shared: &'a mut Shared) -> Option<&'a mut RecvQueue> {
        match self.init.srq {
            Some(srq) => shared.srqs.get_mut(srq).map(|srq| &mut srq.queue),
            None => self.rq.as_mut(),
        }
    }

    /// The next receive request, left in place.
    pub(crate) fn peek_recv(&mut self, shared: &mut Shared) -> Option<RecvWqe> {
        self.recv_queue(shared)?.peek()
    }

    /// Takes the next receive request; raises the limit event of a shared queue.
    pub(crate) fn take_recv(&mut self, shared: &mut Shared) -> Option<RecvSlot> {
        let slot = self.recv_queue(shared)?.take()?;
        if let Some(id) = self.init.srq
            && let Some(srq) = shared.srqs.get_mut(id)
            && srq.queue.len() < srq.limit
        {
            srq.limit = 0;
            shared.raise(AsyncEvent::SrqLimitReached(id));
        }
        Some(slot)
    }

    pub(crate) fn recv_wqe(&self, shared: &Shared, slot: RecvSlot) -> RecvWqe {
        match self.init.srq {
            Some(srq) => shared.srqs.get(srq).map(|srq| srq.queue.wqe(slot)),
            None => self.rq.as_ref().map(|rq| rq.wqe(slot)),
        }
        .unwrap_or_default()
    }

    pub(crate) fn recv_sges<'a>(&'a self, shared: &'a Shared, slot: RecvSlot) -> &'a [Sge] {
        match self.init.srq {
            Some(srq) => shared.srqs.get(srq).map(|srq| srq.queue.sges(slot)),
            None => self.rq.as_ref().map(|rq| rq.sges(slot)),
        }
        .unwrap_or(&[])
    }

    pub(crate) fn release_recv(&mut self, shared: &mut Shared, slot: RecvSlot) {
        if let Some(queue) = self.recv_queue(shared) {
            queue.release(slot);
        }
    }
}

/// Hop limit where the program left it to the device.
const HOP_LIMIT: u8 = 64;
/// First of the source ports that RoCEv2 senders use for entropy (annex A17).
const SRC_PORT_FIRST: u16 = 0xc000;

/// The addressing that an address vector means on this port.
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
