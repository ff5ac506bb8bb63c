//! Events (`rdma_get_cm_event(3)`, `rdma_ack_cm_event(3)`), and what follows from them before the
//! program sees them: its queue pair goes along with its connection.

use core::ffi::c_int;
use core::ptr::null;
use std::sync::Arc;

use softrnic_verbs::cm::{CmEvent, CmEventKind, CmId, ConnParam, EventParam, UdParam};

use super::id::{Wanted, record};
use super::layout::{Parameters, rdma_cm_event, rdma_conn_param, rdma_ud_param};
use super::manager::{Manager, Tally};
use super::multicast::{self, Group};
use super::{EventChannel, Id, channel, transitions};
use crate::convert::{path_attr, put_if_wanted};
use crate::errno::{Errno, Result, number};
use crate::layout::{Zeroed, ibv_ah_attr};
use crate::object::{Kind, Object, Ptr, live};

/// An event in the hands of the program.
pub(crate) struct Event {
    manager: Arc<Manager>,
    /// Who waits for it to come back.
    tally: Arc<Tally>,
    group: Option<Arc<Group>>,
    /// What `private_data` leads to.
    _private_data: Vec<u8>,
}

impl Kind for Event {
    type Public = rdma_cm_event;
    type Seen = rdma_cm_event;
    const MARK: u64 = 0x5f3a_91c7_0000_0000 | 34;
}

/// An event on its way to the program.
struct Told {
    id: Ptr<Id>,
    listen_id: Option<Ptr<Id>>,
    kind: CmEventKind,
    status: c_int,
    param: EventParam,
    group: Option<Arc<Group>>,
}

impl Told {
    /// It turned out to be another one.
    fn failed(&mut self, kind: CmEventKind, Errno(errno): Errno) {
        (self.kind, self.status) = (kind, -errno);
    }
}

/// The next event of a channel, which may wait for one.
pub(super) fn next(channel: &Object<EventChannel>) -> Result<Ptr<Event>> {
    loop {
        let event = channel.manager.cm()?.read_event(channel.number)?;
        if let Some(event) = digest(&channel.manager, event)? {
            return Ok(event);
        }
    }
}

/// Counts an event, does what follows from it and makes it one for C; `None` if it is not for the
/// program.
fn digest(manager: &Arc<Manager>, event: CmEvent) -> Result<Option<Ptr<Event>>> {
    let owner = event.listen_id.unwrap_or(event.id);
    let Some((id, tally)) = manager.deliver(owner) else {
        // Destroyed while the event was on its way. Nobody will ever know a new identifier.
        if event.listen_id.is_some() {
            let _ = manager.cm()?.destroy_id(event.id);
        }
        return Ok(None);
    };
    let fresh = event.listen_id.map(|_| event.id);
    let mut told = Told {
        id,
        listen_id: None,
        kind: event.kind,
        status: event.status,
        param: event.param,
        group: None,
    };
    let wanted = id.get().and_then(|of| follow(manager, of, fresh, &mut told));
    match wanted {
        Ok(true) => Ok(Some(for_c(manager, tally, told))),
        Ok(false) | Err(_) => {
            manager.acknowledge(&tally);
            Ok(None)
        }
    }
}

/// Does what follows from an event; `false`: the program does not get it.
fn follow(
    manager: &Arc<Manager>,
    id: &Object<Id>,
    fresh: Option<CmId>,
    told: &mut Told,
) -> Result<bool> {
    match told.kind {
        CmEventKind::AddrResolved => {
            if let Err(errno) = id.refresh() {
                told.failed(CmEventKind::AddrError, errno);
            }
        }
        CmEventKind::RouteResolved => {
            let shown = id.refresh().and_then(|info| {
                info.path.as_ref().map_or(Err(Errno::INVALID), |path| id.show_route(path))
            });
            if let Err(errno) = shown {
                told.failed(CmEventKind::RouteError, errno);
            }
        }
        CmEventKind::ConnectRequest => {
            let fresh = fresh.ok_or(Errno::INVALID)?;
            told.listen_id = Some(id.ptr());
            told.id = adopt(manager, id, fresh, &told.param).inspect_err(|_| {
                if let Ok(cm) = manager.cm() {
                    let _ = cm.destroy_id(fresh);
                }
            })?;
        }
        CmEventKind::ConnectResponse => {
            if id.see(|public| public.id.qp.is_some()) {
                match establish(id) {
                    Ok(()) => told.kind = CmEventKind::Established,
                    Err(errno) => {
                        id.state().connect_failed = true;
                        told.failed(CmEventKind::ConnectError, errno);
                    }
                }
            }
        }
        CmEventKind::Rejected => {
            if id.state().connect_failed {
                return Ok(false);
            }
            let _ = transitions::to_error(id);
        }
        CmEventKind::Disconnected => return Ok(!id.state().connect_failed),
        CmEventKind::MulticastJoin | CmEventKind::MulticastError => multicast_event(id, told)?,
        CmEventKind::AddrError
        | CmEventKind::RouteError
        | CmEventKind::ConnectError
        | CmEventKind::Unreachable
        | CmEventKind::Established
        | CmEventKind::DeviceRemoval
        | CmEventKind::AddrChange
        | CmEventKind::TimewaitExit => {}
    }
    Ok(true)
}

/// The peer takes the connection: the queue pair follows, and the peer is told.
fn establish(id: &Object<Id>) -> Result<()> {
    let ready = transitions::to_receive(id, None).and_then(|()| transitions::to_send(id, None));
    let told = ready.and_then(|()| Ok(id.cm()?.establish(id.number)?));
    if told.is_err() {
        let _ = transitions::to_error(id);
    }
    told
}

/// Joined: the queue pair is attached.
fn multicast_event(id: &Object<Id>, told: &mut Told) -> Result<()> {
    let EventParam::Multicast(_, number) = &told.param else { return Err(Errno::INVALID) };
    let group = multicast::find(id, *number).ok_or(Errno::INVALID)?;
    id.manager.deliver_also(&group.tally);
    if told.kind == CmEventKind::MulticastJoin
        && let Err(errno) = multicast::attach(id, &group)
    {
        told.failed(CmEventKind::MulticastError, errno);
    }
    told.group = Some(group);
    Ok(())
}

/// Makes the identifier of a request one that C can hold.
fn adopt(
    manager: &Arc<Manager>,
    listener: &Object<Id>,
    number: CmId,
    param: &EventParam,
) -> Result<Ptr<Id>> {
    let (of, synchronous) = {
        let state = listener.state();
        (state.channel, state.synchronous)
    };
    let info = manager.cm()?.query_id(number)?;
    let own = if synchronous { channel::create()? } else { of };
    let (context, qp_type) = listener.see(|public| (public.id.context, public.id.qp_type));
    let wanted = Wanted { context, space: info.port_space, qp_type };
    let id = record(manager, number, own, synchronous, &wanted);
    let ready = id.get().and_then(|new| {
        if synchronous {
            manager.cm()?.migrate_id(number, own.get()?.number)?;
        }
        new.refresh()?;
        if let Some(path) = &info.path {
            new.show_route(path)?;
        }
        if let EventParam::Conn(param) = param {
            let mut state = new.state();
            state.initiator_depth = param.initiator_depth;
            state.responder_resources = param.responder_resources;
        }
        Ok(())
    });
    if ready.is_err() {
        super::id::destroy(id.get()?)?;
    }
    ready.map(|()| id)
}

/// An address that leads to bytes, or nowhere if there are none.
fn data(bytes: &[u8]) -> (*const core::ffi::c_void, u8) {
    match u8::try_from(bytes.len()) {
        Ok(len) if len != 0 => (bytes.as_ptr().cast(), len),
        _ => (null(), 0),
    }
}

fn conn_parameters(param: &ConnParam) -> rdma_conn_param {
    let (private_data, private_data_len) = data(&param.private_data);
    rdma_conn_param {
        private_data,
        private_data_len,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control.into(),
        retry_count: param.retry_count,
        rnr_retry_count: param.rnr_retry_count,
        srq: param.srq.into(),
        qp_num: param.qp_num.get(),
    }
}

fn ud_parameters(param: &UdParam) -> rdma_ud_param {
    let (private_data, private_data_len) = data(&param.private_data);
    rdma_ud_param {
        private_data,
        private_data_len,
        ah_attr: path_attr(&param.address),
        qp_num: param.qp_num.get(),
        qkey: param.qkey,
    }
}

const NO_UD: fn() -> rdma_ud_param = || rdma_ud_param {
    private_data: null(),
    private_data_len: 0,
    ah_attr: ibv_ah_attr::zeroed(),
    qp_num: 0,
    qkey: 0,
};

fn for_c(manager: &Arc<Manager>, tally: Arc<Tally>, told: Told) -> Ptr<Event> {
    // All of the union is something before a part of it is written.
    let mut param = Parameters { ud: NO_UD() };
    // Moving a vector does not move its bytes.
    let private_data = match told.param {
        EventParam::None => Vec::new(),
        EventParam::Conn(conn) => {
            param.conn = conn_parameters(&conn);
            conn.private_data
        }
        EventParam::Ud(ud) => {
            param.ud = ud_parameters(&ud);
            ud.private_data
        }
        EventParam::Multicast(ud, _) => {
            let context = told.group.as_ref().map_or(null(), |group| group.context());
            param.ud =
                rdma_ud_param { private_data: context, private_data_len: 0, ..ud_parameters(&ud) };
            ud.private_data
        }
    };
    let public = rdma_cm_event {
        id: Some(told.id),
        listen_id: told.listen_id,
        event: told.kind as u32,
        status: told.status,
        param,
    };
    let private = Event {
        manager: Arc::clone(manager),
        tally,
        group: told.group,
        _private_data: private_data,
    };
    Ptr::new(public, private)
}

/// How an operation ended that waited for this event.
pub(super) fn outcome(event: &Object<Event>) -> Result<()> {
    let (kind, status) = event.see(|event| (event.event, event.status));
    match status {
        0 => Ok(()),
        _ if kind == CmEventKind::Rejected as u32 => Err(Errno(libc::ECONNREFUSED)),
        status => Err(Errno(status.checked_abs().unwrap_or(libc::EIO))),
    }
}

/// Takes an event back.
///
/// # Errors
/// `EINVAL`: it was given back before.
pub(super) fn acknowledge(event: Ptr<Event>) -> Result<()> {
    let of = event.get()?;
    let (manager, tally, group) =
        (Arc::clone(&of.manager), Arc::clone(&of.tally), of.group.clone());
    if !event.retire() {
        return Err(Errno::INVALID);
    }
    if let Some(group) = group {
        manager.acknowledge(&group.tally);
    }
    manager.acknowledge(&tally);
    Ok(())
}

pub(crate) extern "C" fn get_cm_event(
    channel: Option<Ptr<EventChannel>>,
    place: *mut Option<Ptr<Event>>,
) -> c_int {
    number(|| {
        let channel = live(&channel)?;
        if place.is_null() {
            return Err(Errno::INVALID);
        }
        put_if_wanted(place, Some(next(channel)?));
        Ok(0)
    })
}

pub(crate) extern "C" fn ack_cm_event(event: Option<Ptr<Event>>) -> c_int {
    number(|| acknowledge(event.ok_or(Errno::INVALID)?).map(|()| 0))
}
