//! Completion channels and queues (`ibv_create_comp_channel(3)`, `ibv_create_cq(3)`,
//! `ibv_get_cq_event(3)`).

use core::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};

use softrnic_model::verbs::{CqModeration, Wc};
use softrnic_verbs::provider::CqInit;

use crate::convert::put_if_wanted;
use crate::errno::{Errno, Result, guarded, number, pointer, status};
use crate::layout::{Zeroed, ibv_comp_channel, ibv_cq_ex, ibv_modify_cq_attr};
use crate::object::{Object, Ptr, live};
use crate::objects::{Channel, Context, Cq, DomainRole, Pd};
use crate::shared::Tally;
use crate::turn::Turn;

/// What `ibv_start_poll` and its like are at.
#[derive(Default)]
pub(crate) struct Polling {
    /// From start to end.
    pub(crate) turn: Turn,
    current: Mutex<Wc>,
}

impl Polling {
    /// The completion at hand.
    #[inline]
    pub(crate) fn current(&self) -> Wc {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn set(&self, wc: Wc) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = wc;
    }
}

pub(crate) extern "C" fn create_comp_channel(
    context: Option<Ptr<Context>>,
) -> Option<Ptr<Channel>> {
    pointer(|| {
        let shared = Arc::clone(&live(&context)?.shared);
        let device = shared.device()?;
        let id = device.create_comp_channel()?;
        let descriptor = match device.comp_channel_fd(id) {
            Ok(descriptor) => descriptor,
            Err(error) => {
                device.destroy_comp_channel(id)?;
                return Err(error.into());
            }
        };
        let public = ibv_comp_channel { context, fd: descriptor.as_raw_fd(), refcnt: 0 };
        Ok(Ptr::new(public, Channel { shared, id, _descriptor: descriptor }))
    })
}

pub(crate) extern "C" fn destroy_comp_channel(channel: Option<Ptr<Channel>>) -> c_int {
    status(|| {
        let of = live(&channel)?;
        of.shared.device()?.destroy_comp_channel(of.id)?;
        of.ptr().retire();
        Ok(())
    })
}

/// How a queue is made, beside what C sees of it.
pub(crate) struct Wanted {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: Option<Ptr<Channel>>,
    pub(crate) comp_vector: u32,
    pub(crate) parent: Option<Ptr<Pd>>,
    pub(crate) timestamps: bool,
}

/// Makes a queue; `functions` are those of the extended interface, where they are wanted.
pub(crate) fn create(
    context: Option<Ptr<Context>>,
    wanted: &Wanted,
    functions: ibv_cq_ex,
) -> Result<Ptr<Cq>> {
    let of = live(&context)?;
    let vectors = of.see(|public| public.context.num_comp_vectors);
    if c_int::try_from(wanted.comp_vector)? >= vectors {
        return Err(Errno::INVALID);
    }
    let channel = wanted.channel.as_ref().map(Ptr::get).transpose()?;
    let parent = wanted.parent.as_ref().map(Ptr::get).transpose()?;
    if let Some(channel) = channel {
        channel.shared.is_same_device(&of.shared)?;
    }
    let (id, granted) = of.shared.device()?.create_cq_ex(&CqInit {
        entries: wanted.entries,
        channel: channel.map(|channel| channel.id),
        timestamps: wanted.timestamps,
    })?;
    let public = ibv_cq_ex {
        context,
        channel: wanted.channel,
        cq_context: wanted.cq_context,
        handle: id.0,
        cqe: c_int::try_from(granted)?,
        ..functions
    };
    let cq = Ptr::new(
        public,
        Cq {
            shared: Arc::clone(&of.shared),
            id,
            channel: wanted.channel,
            completions: Tally::default(),
            asynchronous: Tally::default(),
            polling: Polling::default(),
            parent: wanted.parent,
        },
    );
    if let Some(channel) = channel {
        channel.change(|channel| channel.refcnt += 1);
    }
    if let Some(parent) = parent {
        parent.enter();
    }
    of.shared.named().cqs.insert(id, cq);
    Ok(cq)
}

pub(crate) extern "C" fn create_cq(
    context: Option<Ptr<Context>>,
    entries: c_int,
    cq_context: *mut c_void,
    channel: Option<Ptr<Channel>>,
    comp_vector: c_int,
) -> Option<Ptr<Cq>> {
    pointer(|| {
        let entries = u32::try_from(entries)?;
        let comp_vector = u32::try_from(comp_vector)?;
        let wanted =
            Wanted { entries, cq_context, channel, comp_vector, parent: None, timestamps: false };
        create(context, &wanted, ibv_cq_ex::zeroed())
    })
}

pub(crate) extern "C" fn resize_cq(cq: Option<Ptr<Cq>>, entries: c_int) -> c_int {
    status(|| {
        let queue = live(&cq)?;
        let granted = queue.shared.device()?.resize_cq(queue.id, u32::try_from(entries)?)?;
        let granted = c_int::try_from(granted)?;
        queue.change(|cq| cq.cqe = granted);
        Ok(())
    })
}

pub(crate) extern "C" fn modify_cq(
    cq: Option<Ptr<Cq>>,
    attr: Option<&ibv_modify_cq_attr>,
) -> c_int {
    status(|| {
        /// `IBV_CQ_ATTR_MODERATE`
        const MODERATE: u32 = 1;
        let (queue, attr) = (live(&cq)?, attr.ok_or(Errno::INVALID)?);
        if attr.attr_mask != MODERATE {
            return Err(Errno::INVALID);
        }
        let (count, period_us) = (attr.moderate.cq_count, attr.moderate.cq_period);
        Ok(queue.shared.device()?.moderate_cq(queue.id, CqModeration { count, period_us })?)
    })
}

pub(crate) extern "C" fn destroy_cq(cq: Option<Ptr<Cq>>) -> c_int {
    status(|| {
        let queue = live(&cq)?;
        queue.shared.device()?.destroy_cq(queue.id)?;
        let tallies = [&queue.completions, &queue.asynchronous];
        queue.shared.settle(
            |named| {
                named.cqs.remove(&queue.id);
            },
            &tallies,
        );
        if let Some(channel) = &queue.channel {
            channel.get()?.change(|channel| channel.refcnt -= 1);
        }
        if let Some(parent) = &queue.parent {
            parent.get()?.leave();
        }
        queue.ptr().retire();
        Ok(())
    })
}

pub(crate) extern "C" fn req_notify_cq(cq: Option<Ptr<Cq>>, solicited_only: c_int) -> c_int {
    status(|| {
        let queue = live(&cq)?;
        Ok(queue.shared.device()?.req_notify_cq(queue.id, solicited_only != 0)?)
    })
}

/// The next event of a channel, of a queue that is still there.
fn next_event(channel: &Object<Channel>) -> Result<(Ptr<Cq>, *mut c_void)> {
    loop {
        let id = channel.shared.device()?.read_cq_event(channel.id)?;
        let named = channel.shared.named();
        if let Some(cq) = named.cqs.get(&id)
            && let Ok(queue) = cq.get()
        {
            channel.shared.deliver(&named, &queue.completions);
            return Ok((*cq, queue.see(|cq| cq.cq_context)));
        }
    }
}

pub(crate) extern "C" fn get_cq_event(
    channel: Option<Ptr<Channel>>,
    cq: *mut Option<Ptr<Cq>>,
    cq_context: *mut *mut c_void,
) -> c_int {
    number(|| {
        let (queue, context) = next_event(live(&channel)?)?;
        put_if_wanted(cq, Some(queue));
        put_if_wanted(cq_context, context);
        Ok(0)
    })
}

pub(crate) extern "C" fn ack_cq_events(cq: Option<Ptr<Cq>>, events: u32) {
    let _ = guarded(|| {
        let queue = live(&cq)?;
        // C may destroy the queue as soon as all are acknowledged.
        let shared = Arc::clone(&queue.shared);
        shared.acknowledge(&queue.completions, events, |all| {
            queue.change(|cq| cq.comp_events_completed = all);
        });
        Ok(())
    });
}

/// Whether a domain counts what is made in it.
pub(crate) fn counts(pd: &Object<Pd>) -> bool {
    matches!(pd.role, DomainRole::Parent { .. })
}
