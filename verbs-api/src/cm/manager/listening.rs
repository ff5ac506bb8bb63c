//! Listening, at one device or at all.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use softrnic_model::cm::{Listen, ListenerId};
use softrnic_transport::ports::Reservation;

use super::ports::concerns;
use super::{Device, EmulatedManager, State};
use crate::cm::{Cm, CmError, CmId, CmPhase, CmSink};
use crate::provider::Context;

/// Requests that may wait at most.
const BACKLOG_MAX: u32 = 1024;

impl State {
    pub(super) fn place_of(&self, context: &Arc<dyn Context>) -> Option<usize> {
        self.devices.iter().position(|device| Arc::ptr_eq(&device.context, context))
    }
}

impl EmulatedManager {
    /// Takes a device into the list, and listens there where an identifier listens at all addresses.
    pub(super) fn enlist(&self, place: usize, device: Device, sink: Arc<dyn CmSink>) -> Cm<()> {
        let listeners = {
            let mut state = self.lock();
            if state.devices.len() != place {
                // Two devices at one time; the sink has the wrong place.
                return Err(CmError::again("another device is being added"));
            }
            state.devices.push(device.clone());
            state.sinks.push(sink);
            let everywhere = state
                .ids
                .iter()
                .filter(|(_, id)| id.phase == CmPhase::Listen && id.path.is_none())
                .filter_map(|(id, known)| Some((*id, known.reserved?, known.backlog)));
            everywhere.collect::<Vec<_>>()
        };
        for (id, reserved, backlog) in listeners {
            self.listen_on(&device, place, id, reserved, backlog)?;
            device.cm.reserve(reserved)?;
        }
        Ok(())
    }

    pub(super) fn start_listening(&self, id: CmId, backlog: u32) -> Cm<()> {
        let backlog = if (1..=BACKLOG_MAX).contains(&backlog) { backlog } else { BACKLOG_MAX };
        if self.lock().id(id)?.phase == CmPhase::Idle {
            self.bind_to(id, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
        }
        let (devices, wanted) = {
            let mut state = self.lock();
            let known = state.id(id)?;
            known.require(&[CmPhase::Bound])?;
            let reserved = known.reserved.ok_or_else(|| CmError::invalid("it has no port"))?;
            let wanted = Reservation { listens: true, ..reserved };
            let all = state.devices.iter().enumerate();
            let devices: Vec<(usize, Device)> = all
                .filter(|(_, device)| concerns(device, known))
                .map(|(place, device)| (place, device.clone()))
                .collect();
            state.enter(id, wanted)?;
            (devices, wanted)
        };
        self.note_phase(id, CmPhase::Listen, backlog)?;
        // Its machine knows of it before anybody is sent there.
        let heard = devices
            .iter()
            .try_for_each(|(place, device)| self.listen_on(device, *place, id, wanted, backlog))
            .and_then(|()| {
                devices.iter().try_for_each(|(_, device)| device.cm.reserve(wanted).map(drop))
            });
        if heard.is_err() {
            self.stop_listening(id, &devices, wanted)?;
        }
        heard
    }

    fn note_phase(&self, id: CmId, phase: CmPhase, backlog: u32) -> Cm<()> {
        let mut state = self.lock();
        let known = state.id_mut(id)?;
        (known.phase, known.backlog) = (phase, backlog);
        Ok(())
    }

    /// It stays bound.
    fn stop_listening(&self, id: CmId, devices: &[(usize, Device)], wanted: Reservation) -> Cm<()> {
        let bound = Reservation { listens: false, ..wanted };
        let listeners = {
            let mut state = self.lock();
            state.enter(id, bound)?;
            std::mem::take(&mut state.id_mut(id)?.listeners)
        };
        self.note_phase(id, CmPhase::Bound, 0)?;
        for (place, device) in devices {
            for (_, listener) in listeners.iter().filter(|(at, _)| at == place) {
                let _ = device.cm.with_machine(&mut |machine, _| machine.unlisten(*listener));
            }
            let _ = device.cm.reserve(bound);
        }
        Ok(())
    }

    fn listen_on(
        &self,
        device: &Device,
        place: usize,
        id: CmId,
        wanted: Reservation,
        backlog: u32,
    ) -> Cm<()> {
        let listen =
            Listen { tag: device.tag(id), service_id: wanted.service, at: wanted.at, backlog };
        let mut listener: Option<ListenerId> = None;
        device.cm.with_machine(&mut |machine, _| {
            let mut state = self.lock();
            // It may have been destroyed meanwhile.
            if let Some(known) = state.ids.get_mut(&id) {
                let new = machine.listen(listen);
                known.listeners.push((place, new));
                listener = Some(new);
            }
        })?;
        listener.map(drop).ok_or_else(super::no_such_id)
    }
}
