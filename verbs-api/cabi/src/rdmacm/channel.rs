//! Event channels (`rdma_create_event_channel(3)`).

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use softrnic_verbs::cm::EventChannelId;

use super::layout::rdma_event_channel;
use super::manager::Manager;
use crate::errno::{Result, guarded, pointer};
use crate::object::{Kind, Ptr, live};

/// An event channel.
pub(crate) struct EventChannel {
    pub(super) manager: Arc<Manager>,
    pub(super) number: EventChannelId,
    /// What `fd` is; programs poll it and set it non-blocking.
    _descriptor: OwnedFd,
}

impl Kind for EventChannel {
    type Public = rdma_event_channel;
    type Seen = rdma_event_channel;
    const MARK: u64 = 0x5f3a_91c7_0000_0000 | 32;
}

/// Makes a channel.
pub(super) fn create() -> Result<Ptr<EventChannel>> {
    let manager = Manager::current()?;
    let cm = manager.cm()?;
    let number = cm.create_event_channel()?;
    let descriptor = match cm.event_channel_fd(number) {
        Ok(descriptor) => descriptor,
        Err(error) => {
            cm.destroy_event_channel(number)?;
            return Err(error.into());
        }
    };
    let public = rdma_event_channel { fd: descriptor.as_raw_fd() };
    Ok(Ptr::new(public, EventChannel { manager, number, _descriptor: descriptor }))
}

/// Ends a channel. Identifiers that still report to it end with it, as the kernel ends them when their
/// descriptor is closed: their records stay until they are destroyed, and do nothing.
pub(super) fn destroy(channel: Ptr<EventChannel>) -> Result<()> {
    let of = channel.get()?;
    let reports = |id: &Ptr<super::Id>| id.get().is_ok_and(|id| id.state().channel == channel);
    for id in of.manager.known(reports) {
        if let Ok(id) = id.get() {
            id.cut_off();
        }
    }
    // In a forked child there is nothing to end.
    if let Ok(cm) = of.manager.cm() {
        cm.destroy_event_channel(of.number)?;
    }
    channel.retire();
    Ok(())
}

pub(crate) extern "C" fn create_event_channel() -> Option<Ptr<EventChannel>> {
    pointer(create)
}

pub(crate) extern "C" fn destroy_event_channel(channel: Option<Ptr<EventChannel>>) {
    let _ = guarded(|| destroy(live(&channel)?.ptr()));
}
