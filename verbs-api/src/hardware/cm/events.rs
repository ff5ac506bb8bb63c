//! Events: taken, copied and acknowledged at once.

use softrnic_model::verbs::{QpNum, QpType};

use super::super::convert::path;
use super::super::errno::last_errno;
use super::super::layout::{Ptr, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_ud_param};
use super::super::table::Handle;
use super::ids::{Id, number_of};
use super::{HardwareManager, State, system};
use crate::cm::{
    Cm, CmEvent, CmEventKind, CmId, CmPhase, ConnParam, Ece, EventChannelId, EventParam, UdParam,
};

/// How far an identifier is that an event has come for; `None`: as far as it was.
const fn phase_after(kind: CmEventKind) -> Option<CmPhase> {
    Some(match kind {
        CmEventKind::AddrResolved | CmEventKind::RouteError => CmPhase::AddrResolved,
        CmEventKind::AddrError => CmPhase::Bound,
        CmEventKind::RouteResolved => CmPhase::RouteResolved,
        CmEventKind::ConnectResponse => CmPhase::Responded,
        CmEventKind::Established => CmPhase::Established,
        CmEventKind::ConnectError
        | CmEventKind::Unreachable
        | CmEventKind::Rejected
        | CmEventKind::Disconnected
        | CmEventKind::DeviceRemoval
        | CmEventKind::TimewaitExit => CmPhase::Disconnected,
        CmEventKind::ConnectRequest
        | CmEventKind::MulticastJoin
        | CmEventKind::MulticastError
        | CmEventKind::AddrChange => return None,
    })
}

/// What stands in C's event of a connection.
///
/// # Safety
/// Its private data is there.
unsafe fn of_connection(param: &rdma_conn_param) -> ConnParam {
    ConnParam {
        // SAFETY: the caller's promise.
        private_data: unsafe { bytes(param.private_data.cast(), param.private_data_len) },
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control != 0,
        retry_count: param.retry_count,
        rnr_retry_count: param.rnr_retry_count,
        srq: param.srq != 0,
        qp_num: QpNum::new(param.qp_num),
        qp_type: QpType::Rc,
        qkey: 0,
        ece: Ece::default(),
    }
}

/// What stands in one of datagrams, but for the private data.
fn of_datagrams(param: &rdma_ud_param) -> UdParam {
    UdParam {
        private_data: Vec::new(),
        address: path(&param.ah_attr),
        qp_num: QpNum::new(param.qp_num),
        qkey: param.qkey,
    }
}

/// # Safety
/// There are so many bytes, or the pointer is NULL.
unsafe fn bytes(at: *const u8, len: u8) -> Vec<u8> {
    if at.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise; nobody writes an event that was handed out.
    unsafe { core::slice::from_raw_parts(at, len.into()) }.to_vec()
}

/// What comes with an event.
///
/// # Safety
/// It has not been acknowledged.
unsafe fn param_of(event: &rdma_cm_event, kind: CmEventKind, datagrams: bool) -> EventParam {
    // SAFETY: both readings are of integers and pointers, of which every pattern is one.
    let (conn, ud) = unsafe { (event.param.conn, event.param.ud) };
    match kind {
        CmEventKind::MulticastJoin | CmEventKind::MulticastError => {
            // What the program said when it joined stands where private data would be.
            let context = u64::try_from(ud.private_data.addr()).unwrap_or(0);
            EventParam::Multicast(Box::new(of_datagrams(&ud)), context)
        }
        CmEventKind::ConnectRequest | CmEventKind::Established | CmEventKind::Unreachable
            if datagrams =>
        {
            // SAFETY: the caller's promise.
            let private_data = unsafe { bytes(ud.private_data.cast(), ud.private_data_len) };
            EventParam::Ud(Box::new(UdParam { private_data, ..of_datagrams(&ud) }))
        }
        CmEventKind::ConnectRequest | CmEventKind::ConnectResponse | CmEventKind::Rejected => {
            // SAFETY: the caller's promise.
            EventParam::Conn(Box::new(unsafe { of_connection(&conn) }))
        }
        CmEventKind::AddrResolved
        | CmEventKind::AddrError
        | CmEventKind::RouteResolved
        | CmEventKind::RouteError
        | CmEventKind::ConnectError
        | CmEventKind::Unreachable
        | CmEventKind::Established
        | CmEventKind::Disconnected
        | CmEventKind::DeviceRemoval
        | CmEventKind::AddrChange
        | CmEventKind::TimewaitExit => EventParam::None,
    }
}

impl HardwareManager {
    /// The next event of a channel, if there is one: the kernel's before those that were posted.
    pub(super) fn take(&self, channel: EventChannelId) -> Cm<Option<CmEvent>> {
        let mut state = self.lock();
        let handle = state.channel_handle(channel)?;
        loop {
            let mut taken = None;
            // SAFETY: the channel is there, and the place is ours.
            let returned = unsafe { (self.library.rdma_get_cm_event)(handle, &raw mut taken) };
            let Some(event) = taken.filter(|_| returned == 0) else {
                let error = last_errno();
                if returned == 0 || error == rustix::io::Errno::AGAIN.raw_os_error() {
                    let posted = state.channel_mut(channel)?.posted();
                    if let Some(event) = &posted {
                        state.count(event);
                    }
                    return Ok(posted);
                }
                let error = std::io::Error::from_raw_os_error(error);
                return Err(system(error, "rdma_get_cm_event"));
            };
            if let Some(event) = self.understand(&mut state, channel, event) {
                state.count(&event);
                return Ok(Some(event));
            }
        }
    }

    /// Copies an event and acknowledges it; `None`: it is about nothing that a program could know.
    fn understand(
        &self,
        state: &mut State,
        channel: EventChannelId,
        event: Ptr<rdma_cm_event>,
    ) -> Option<CmEvent> {
        // SAFETY: it was handed out a moment ago.
        let public = unsafe { *event.as_ptr() };
        let kind = CmEventKind::from_number(public.event);
        let copied = kind.zip(public.id).and_then(|(kind, id)| {
            // SAFETY: an identifier is not destroyed before its events have been acknowledged.
            let listen_id = public.listen_id.map(|listener| unsafe { number_of(listener) });
            let (number, fresh) = match listen_id {
                Some(listener) if kind == CmEventKind::ConnectRequest => {
                    (state.free_number()?, Some(listener))
                }
                // SAFETY: as above.
                Some(_) | None => (unsafe { number_of(id) }, None),
            };
            let space = state.id(fresh.unwrap_or(number)).ok()?.space;
            // SAFETY: it is acknowledged below.
            let param = unsafe { param_of(&public, kind, space.is_datagram()) };
            if fresh.is_some() {
                let phase = CmPhase::Requested;
                let id = Id { handle: Handle::new(id), space, channel, phase, taken: 0 };
                // SAFETY: it came with the event, and only this one knows it.
                unsafe { state.adopt(number, id) };
            } else if let (Some(phase), Ok(known)) = (phase_after(kind), state.id_mut(number)) {
                known.phase = phase;
            }
            Some(CmEvent { id: number, listen_id: fresh, kind, status: public.status, param })
        });
        let unknown = public.id.filter(|_| copied.is_none() && public.listen_id.is_some());
        // SAFETY: it was not acknowledged before.
        unsafe { (self.library.rdma_ack_cm_event)(event) };
        if let Some(request) = unknown {
            self.refuse(request);
        }
        copied
    }

    /// Ends the identifier of a request for which there is no room, or that nobody listens for any more.
    fn refuse(&self, request: Ptr<rdma_cm_id>) {
        // SAFETY: it came with an event that is acknowledged, and nobody knows it.
        unsafe { (self.library.rdma_destroy_id)(request) };
    }
}

impl State {
    /// A program has taken an event.
    fn count(&mut self, event: &CmEvent) {
        // A request counts for who listens: there is nobody else yet who could wait for it.
        let of: CmId = event.listen_id.unwrap_or(event.id);
        if let Some(id) = self.ids.get_mut(&of) {
            id.taken += 1;
        }
    }
}
