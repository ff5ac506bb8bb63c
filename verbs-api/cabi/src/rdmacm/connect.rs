//! Listening, connecting, and the end of it (`rdma_listen(3)`, `rdma_connect(3)`, `rdma_accept(3)`, …).

use core::ffi::{c_int, c_void};

use softrnic_verbs::cm::{CmEventKind, CmPhase, RejectReason};

use super::layout::rdma_conn_param;
use super::params::{AS_MANY_AS_CAN_BE, judge, outgoing};
use super::{Event, Id, events, id as ids, queue_pair, transitions};
use crate::convert::{array, put_if_wanted};
use crate::errno::{Errno, Result, number};
use crate::object::{Object, Ptr, live};

pub(crate) extern "C" fn listen(id: Option<Ptr<Id>>, backlog: c_int) -> c_int {
    number(|| {
        let id = live(&id)?;
        id.cm()?;
        let backlog = u32::try_from(backlog).unwrap_or(0);
        id.manager.with_devices()?.listen(id.number, backlog)?;
        // One that was not bound has a port now.
        id.refresh()?;
        Ok(0)
    })
}

pub(crate) extern "C" fn connect(id: Option<Ptr<Id>>, param: Option<&rdma_conn_param>) -> c_int {
    number(|| {
        let id = live(&id)?;
        judge(id, param)?;
        let device = id.device()?;
        let asked = |asked: Option<u8>, most: u8| match asked {
            None | Some(AS_MANY_AS_CAN_BE) => most,
            Some(asked) => asked,
        };
        {
            let mut state = id.state();
            state.initiator_depth =
                asked(param.map(|param| param.initiator_depth), device.max_initiator_depth);
            state.responder_resources =
                asked(param.map(|param| param.responder_resources), device.max_responder_resources);
            state.connect_failed = false;
        }
        let own = outgoing(id, param)?;
        id.cm()?.connect(id.number, &own)?;
        id.complete()?;
        Ok(0)
    })
}

pub(crate) extern "C" fn accept(id: Option<Ptr<Id>>, param: Option<&rdma_conn_param>) -> c_int {
    number(|| {
        let id = live(&id)?;
        judge(id, param)?;
        let device = id.device()?;
        let (responder_resources, initiator_depth) = {
            let mut state = id.state();
            let agreed = |asked: Option<u8>, peer: u8, most: u8| match asked {
                None | Some(AS_MANY_AS_CAN_BE) => peer.min(most),
                Some(asked) => asked,
            };
            state.initiator_depth = agreed(
                param.map(|param| param.initiator_depth),
                state.initiator_depth,
                device.max_initiator_depth,
            );
            state.responder_resources = agreed(
                param.map(|param| param.responder_resources),
                state.responder_resources,
                device.max_responder_resources,
            );
            (state.responder_resources, state.initiator_depth)
        };
        let has_qp = id.see(|public| public.id.qp.is_some());
        if has_qp && !id.is_datagram() {
            transitions::to_receive(id, Some(responder_resources))?;
            transitions::to_send(id, Some(initiator_depth))?;
        }
        let own = outgoing(id, param)?;
        if let Err(error) = id.cm()?.accept(id.number, &own) {
            let _ = transitions::to_error(id);
            return Err(error.into());
        }
        if id.is_datagram() {
            // Who asked has got the answer, and there is nothing to wait for.
            if id.state().synchronous {
                id.release_event();
            }
            return Ok(0);
        }
        id.complete()?;
        Ok(0)
    })
}

fn refuse(
    id: &Option<Ptr<Id>>,
    reason: RejectReason,
    data: *const c_void,
    len: u8,
) -> Result<c_int> {
    let id = live(id)?;
    id.cm()?.reject(id.number, reason, array(data.cast(), len.into())?)?;
    Ok(0)
}

pub(crate) extern "C" fn reject(id: Option<Ptr<Id>>, data: *const c_void, len: u8) -> c_int {
    number(|| refuse(&id, RejectReason::CONSUMER_DEFINED, data, len))
}

pub(crate) extern "C" fn reject_ece(id: Option<Ptr<Id>>, data: *const c_void, len: u8) -> c_int {
    number(|| refuse(&id, RejectReason::VENDOR_OPTION_NOT_SUPPORTED, data, len))
}

pub(crate) extern "C" fn disconnect(id: Option<Ptr<Id>>) -> c_int {
    number(|| {
        let id = live(&id)?;
        transitions::to_error(id)?;
        let cm = id.cm()?;
        match cm.disconnect(id.number) {
            Ok(()) => id.complete()?,
            // It has ended already, which is what is wanted.
            Err(_) if cm.query_id(id.number)?.phase == CmPhase::Disconnected => {}
            Err(error) => return Err(error.into()),
        }
        Ok(0)
    })
}

/// For programs that bring their own queue pair.
pub(crate) extern "C" fn establish(id: Option<Ptr<Id>>) -> c_int {
    number(|| {
        let id = live(&id)?;
        if id.see(|public| public.id.qp.is_some()) {
            return Err(Errno::INVALID);
        }
        id.cm()?.establish(id.number)?;
        Ok(0)
    })
}

pub(crate) extern "C" fn notify(id: Option<Ptr<Id>>, event: u32) -> c_int {
    number(|| {
        /// `IBV_EVENT_COMM_EST`, the only one that means something to the connection manager here.
        const COMM_EST: u32 = 4;
        let id = live(&id)?;
        if event != COMM_EST {
            return Err(Errno::INVALID);
        }
        id.cm()?.notify_established(id.number)?;
        Ok(0)
    })
}

/// The next request of a synchronous listener.
fn request(listener: &Object<Id>) -> Result<Ptr<Id>> {
    let (synchronous, channel) = {
        let state = listener.state();
        (state.synchronous, state.channel)
    };
    if !synchronous {
        return Err(Errno::INVALID);
    }
    listener.release_event();
    let event = events::next(channel.get()?)?;
    let taken = take_request(listener, event);
    if taken.is_err() {
        let _ = events::acknowledge(event);
    }
    taken
}

fn take_request(listener: &Object<Id>, event: Ptr<Event>) -> Result<Ptr<Id>> {
    let of = event.get()?;
    events::outcome(of)?;
    let (kind, fresh) = of.see(|event| (event.event, event.id));
    if kind != CmEventKind::ConnectRequest as u32 {
        return Err(Errno::INVALID);
    }
    let fresh = fresh.ok_or(Errno::INVALID)?;
    let id = fresh.get()?;
    let (template, pd) = listener.see(|public| (public.template, public.id.pd));
    if let Some(mut template) = template
        && let Err(errno) = queue_pair::create(id, pd, &mut template)
    {
        ids::destroy(id)?;
        return Err(errno);
    }
    id.change(|public| public.id.event = Some(event));
    Ok(fresh)
}

pub(crate) extern "C" fn get_request(
    listener: Option<Ptr<Id>>,
    place: *mut Option<Ptr<Id>>,
) -> c_int {
    number(|| {
        let listener = live(&listener)?;
        if place.is_null() {
            return Err(Errno::INVALID);
        }
        put_if_wanted(place, Some(request(listener)?));
        Ok(0)
    })
}
