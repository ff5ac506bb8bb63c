//! How an emulated device has its core: under a lock that the engine shares.

use std::io;
use std::sync::Arc;

use softrnic_model::Instant;
use softrnic_model::verbs::{AsyncEvent, CqId, Psn, QpNum, VerbError, Wc};

use super::EmulatedContext;
use super::communication::Entry;
use crate::cm::CmDevice;
use crate::machine::Home;
use crate::machine::core::Core;
use crate::machine::events::{Closed, EventQueue};
use crate::provider::{self, DeviceInfo, Timeout, Verb};

/// How long after the last packet an empty poll returns at once; later ones yield the processor.
const SPIN_NS: u64 = 30_000;

impl Home for EmulatedContext {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Instant {
        self.shared.now()
    }

    fn judge_caller(&self) -> Verb<()> {
        if std::process::id() == self.process {
            Ok(())
        } else {
            Err(VerbError::Invalid("the device was opened by another process"))
        }
    }

    fn with_core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.shared.lock_for_program();
        let result = act(&mut core);
        core.dispatch();
        result
    }

    fn with_send<T>(&self, first: Option<QpNum>, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.shared.lock_for_program();
        let result = act(&mut core);
        let now = self.shared.now();
        match first {
            Some(qp) => core.send_first(now, qp),
            None => {
                core.send(now);
            }
        }
        self.shared.done(core);
        result
    }

    fn poll_cq(&self, cq: CqId, into: &mut [Wc]) -> Verb<usize> {
        let mut core = self.shared.lock_for_program();
        let mut taken = core.device.poll_cq(cq, into)?;
        let mut idle_ns = 0;
        if taken == 0 && !into.is_empty() {
            let now = self.shared.now();
            core.duty.idle = true;
            core.receive(now);
            core.duty.polled_at = now;
            taken = core.device.poll_cq(cq, into)?;
            if taken == 0 {
                core.send(now);
                idle_ns = now.ns_since(core.last_arrival);
            }
            // What is owed for a completion that is handed out leaves with what the program posts
            // next, or at its next look: the program is not kept waiting for it.
        }
        let overrun = taken == 0 && core.device.cq_overran(cq);
        self.shared.done(core);
        if overrun {
            return Err(VerbError::Invalid("cq: it has overrun"));
        }
        if idle_ns > SPIN_NS {
            // Both ends may share a processor: whoever waits lets the other one work.
            std::thread::yield_now();
        }
        Ok(taken)
    }

    fn wait_cq(&self, cq: CqId, into: &mut [Wc], timeout: Timeout) -> Verb<usize> {
        provider::spin(timeout, || Home::poll_cq(self, cq, into))
    }

    fn event_queue<T>(&self) -> Verb<EventQueue<T>> {
        EventQueue::new().map_err(|_| VerbError::Full("no more descriptors"))
    }

    fn asynchronous(&self) -> &EventQueue<AsyncEvent> {
        &self.asynchronous
    }

    fn take_event<T>(
        &self,
        events: &EventQueue<T>,
        timeout: Timeout,
    ) -> Verb<Result<Option<T>, Closed>> {
        // An event comes from an armed queue, so the engine is at work already.
        Ok(events.take(timeout))
    }

    fn sleeper_comes(&self) {
        // The engine takes over.
        self.shared.ring();
    }

    fn communication(&self) -> Option<Arc<dyn CmDevice>> {
        let (shared, process) = (Arc::clone(&self.shared), self.process);
        Some(Arc::new(Entry { shared, process }))
    }

    fn draw_psn(&self) -> Psn {
        provider::random_psn()
    }

    fn groups_changed(&self) -> io::Result<()> {
        self.shared.watch_sockets()
    }
}
