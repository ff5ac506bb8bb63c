//! Asynchronous events (`ibv_get_async_event(3)`).

use core::ffi::c_int;

use softrnic_model::verbs::{AsyncEvent, Subject};

use crate::errno::{Errno, Result, guarded, number};
use crate::layout::ibv_async_event;
use crate::object::{Ptr, live};
use crate::objects::{Context, Cq, Qp, Srq};
use crate::shared::{Shared, Tally};
use std::sync::Arc;

/// The only port.
const PORT: u64 = 1;

/// `ibv_event_type`
const fn event_type(event: AsyncEvent) -> u32 {
    match event {
        AsyncEvent::CqError(_) => 0,
        AsyncEvent::QpFatal(_) => 1,
        AsyncEvent::QpRequestError(_) => 2,
        AsyncEvent::QpAccessError(_) => 3,
        AsyncEvent::CommunicationEstablished(_) => 4,
        AsyncEvent::SqDrained(_) => 5,
        AsyncEvent::PathMigrated(_) => 6,
        AsyncEvent::PathMigrationFailed(_) => 7,
        AsyncEvent::PortActive => 9,
        AsyncEvent::PortError => 10,
        AsyncEvent::LidChange => 11,
        AsyncEvent::PkeyChange => 12,
        AsyncEvent::SubnetManagerChange => 13,
        AsyncEvent::SrqError(_) => 14,
        AsyncEvent::SrqLimitReached(_) => 15,
        AsyncEvent::LastWqeReached(_) => 16,
        AsyncEvent::ClientReregister => 17,
        AsyncEvent::GidChange => 18,
        // Those that are not known are about the device.
        AsyncEvent::DeviceFatal | _ => 8,
    }
}

/// What an event is about, as `ibv_async_event.element` names it: by its type.
enum About {
    Cq(Ptr<Cq>),
    Qp(Ptr<Qp>),
    Srq(Ptr<Srq>),
    Nothing,
}

impl About {
    fn of(event: &ibv_async_event) -> Self {
        let at = event.element;
        let about = match event.event_type {
            0 => Ptr::from_address(at).map(Self::Cq),
            1..=7 | 16 => Ptr::from_address(at).map(Self::Qp),
            14 | 15 => Ptr::from_address(at).map(Self::Srq),
            _ => None,
        };
        about.unwrap_or(Self::Nothing)
    }
}

/// Hands out an event; `None`: what it is about is gone.
fn deliver(shared: &Shared, event: AsyncEvent) -> Option<ibv_async_event> {
    let named = shared.named();
    let counted = |tally: &Tally| shared.deliver(&named, tally);
    let element = match event.subject() {
        Subject::Cq(id) => {
            let cq = *named.cqs.get(&id)?;
            counted(&cq.get().ok()?.asynchronous);
            cq.address()
        }
        Subject::Qp(number) => {
            let qp = *named.qps.get(&number)?;
            counted(&qp.get().ok()?.asynchronous);
            qp.address()
        }
        Subject::Srq(id) => {
            let srq = *named.srqs.get(&id)?;
            counted(&srq.get().ok()?.asynchronous);
            srq.address()
        }
        Subject::Device => PORT.to_le(),
    };
    Some(ibv_async_event { element, event_type: event_type(event) })
}

pub(crate) extern "C" fn get_async_event(
    context: Option<Ptr<Context>>,
    event: Option<&mut ibv_async_event>,
) -> c_int {
    number(|| {
        // C may close the device while this waits.
        let shared = Arc::clone(&live(&context)?.shared);
        let into = event.ok_or(Errno::INVALID)?;
        loop {
            if let Some(event) = deliver(&shared, shared.device()?.read_async_event()?) {
                *into = event;
                return Ok(0);
            }
        }
    })
}

fn acknowledge(event: &ibv_async_event) -> Result<()> {
    match About::of(event) {
        About::Cq(cq) => {
            let cq = cq.get()?;
            let shared = Arc::clone(&cq.shared);
            shared.acknowledge(&cq.asynchronous, 1, |all| {
                cq.change(|public| public.async_events_completed = all);
            });
        }
        About::Qp(qp) => {
            let qp = qp.get()?;
            let shared = Arc::clone(&qp.shared);
            shared.acknowledge(&qp.asynchronous, 1, |all| {
                qp.change(|public| public.qp_base.events_completed = all);
            });
        }
        About::Srq(srq) => {
            let srq = srq.get()?;
            let shared = Arc::clone(&srq.shared);
            shared.acknowledge(&srq.asynchronous, 1, |all| {
                srq.change(|public| public.events_completed = all);
            });
        }
        About::Nothing => {}
    }
    Ok(())
}

pub(crate) extern "C" fn ack_async_event(event: Option<&ibv_async_event>) {
    let _ = guarded(|| event.map_or(Ok(()), acknowledge));
}
