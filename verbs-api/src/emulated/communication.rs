//! The connection manager's entry to an emulated device.

use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Weak};

use softrnic_model::Instant;
use softrnic_model::cm::{ListenAt, Machine, ServiceId};
use softrnic_transport::ports::Reservation;

use super::engine::Shared;
use crate::cm::{Cm, CmDevice, CmError, CmSink};

/// What others do not foresee.
pub(super) fn chance() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// See [`CmDevice`].
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) shared: Arc<Shared>,
    pub(super) process: u32,
}

impl CmDevice for Entry {
    fn attach(&self, sink: Weak<dyn CmSink>) -> Cm<u32> {
        #[cfg(target_os = "linux")]
        let will =
            self.shared.membership().listen_gsi().map_err(|error| {
                CmError::full(format!("the port service does not answer: {error}"))
            })?;
        #[cfg(target_os = "linux")]
        self.shared.serve();
        let mut core = self.shared.lock_for_program();
        #[cfg(target_os = "linux")]
        if let Some(will) = will {
            core.communication.entrust(will);
        }
        let sinks = &mut core.communication.sinks;
        let place = sinks.iter().position(|known| known.strong_count() == 0);
        let place = place.unwrap_or(sinks.len());
        match sinks.get_mut(place) {
            Some(free) => *free = sink,
            None => sinks.push(sink),
        }
        u32::try_from(place).map_err(|_| CmError::full("too many connection managers"))
    }

    fn with_machine(&self, act: &mut dyn FnMut(&mut Machine, Instant)) -> Cm<()> {
        if std::process::id() != self.process {
            return Err(CmError::invalid("the device was opened by another process"));
        }
        let mut core = self.shared.lock_for_program();
        let now = self.shared.now();
        act(&mut core.communication.machine, now);
        core.settle(now);
        core.send(now);
        self.shared.done(core);
        Ok(())
    }

    fn reserve(&self, wanted: Reservation) -> Cm<Option<ServiceId>> {
        #[cfg(target_os = "linux")]
        {
            let reserved = self.shared.membership().reserve(wanted);
            // What came while the answer was waited for.
            self.shared.serve();
            reserved
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = wanted;
            Ok(None)
        }
    }

    fn release(&self, service: ServiceId, at: ListenAt) {
        #[cfg(target_os = "linux")]
        self.shared.membership().release(service, at);
        #[cfg(not(target_os = "linux"))]
        let _ = (service, at);
    }
}
