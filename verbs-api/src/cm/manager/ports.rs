//! Addresses and ports of identifiers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use softrnic_model::cm::{ListenAt, ServiceId};
use softrnic_transport::ports::Reservation;

use super::ids::Id;
use super::{Device, EmulatedManager, State};
use crate::cm::resolve::{canonical, device_at};
use crate::cm::{Cm, CmError, CmId, CmPhase};
use crate::provider::Context;

/// Tries at a free port, where each of several devices has to agree.
const TRIES: usize = 16;

/// Whether a device has to do with the address of an identifier.
pub(super) fn concerns(device: &Device, id: &Id) -> bool {
    match &id.path {
        Some(path) => Arc::ptr_eq(&path.device, &device.context),
        None => true,
    }
}

/// The addresses that a bound one stands for.
fn listen_at(address: SocketAddr, af_only: bool) -> ListenAt {
    match canonical(address).ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => ListenAt::V4,
        IpAddr::V6(ip) if ip.is_unspecified() && af_only => ListenAt::V6,
        IpAddr::V6(ip) if ip.is_unspecified() => ListenAt::All,
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ListenAt::One(ip),
    }
}

fn taken(port: u16) -> CmError {
    CmError::address_in_use(format!("port {port} is taken"))
}

impl State {
    /// What an identifier that is to have this address would reserve.
    fn wanted(&self, id: CmId, address: SocketAddr) -> Cm<Reservation> {
        let known = self.id(id)?;
        known.require(&[CmPhase::Idle])?;
        Ok(Reservation {
            service: ServiceId::of_port(known.space, address.port()),
            at: listen_at(address, known.af_only),
            reuse: known.reuse,
            listens: false,
        })
    }

    /// Enters a reservation unless another identifier of this process has it.
    pub(super) fn enter(&mut self, id: CmId, reservation: Reservation) -> Cm<()> {
        if self.ports.conflict(&reservation, |owner| owner == id).is_some() {
            return Err(taken(reservation.service.port().map_or(0, |(_, port)| port)));
        }
        self.ports.insert(id, reservation);
        self.id_mut(id)?.reserved = Some(reservation);
        Ok(())
    }

    /// Gives an identifier that is not bound the address from which it asks, with a port that no other
    /// one of this process has. Nobody asks for that port, so other processes need not know.
    pub(super) fn bind_source(&mut self, id: CmId, source: SocketAddr) -> Cm<SocketAddr> {
        let mut wanted = self.wanted(id, source)?;
        if source.port() == 0 {
            let chosen = self.ports.choose(&wanted, |_| false);
            wanted = chosen.ok_or_else(|| CmError::address_in_use("all ports are taken"))?;
        }
        self.enter(id, wanted)?;
        let port = wanted.service.port().map_or(0, |(_, port)| port);
        let bound = with_port(source, port);
        let known = self.id_mut(id)?;
        known.local = Some(bound);
        known.phase = CmPhase::Bound;
        Ok(bound)
    }
}

pub(super) fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    address.set_port(port);
    address
}

impl EmulatedManager {
    pub(super) fn bind_to(&self, id: CmId, address: SocketAddr) -> Cm<()> {
        let devices = self.all_devices();
        let wanted = self.lock().wanted(id, address)?;
        let contexts: Vec<Arc<dyn Context>> =
            devices.iter().map(|device| Arc::clone(&device.context)).collect();
        // The device that has it; all of them if it is all addresses.
        let own = device_at(&contexts, address)?;
        let concerned: Vec<&Device> = devices
            .iter()
            .filter(|device| {
                own.as_ref().is_none_or(|(context, _)| Arc::ptr_eq(context, &device.context))
            })
            .collect();
        let granted = self.reserve_at(id, &concerned, wanted)?;
        let port = granted.service.port().map_or(0, |(_, port)| port);
        let mut state = self.lock();
        let place = own.as_ref().and_then(|(context, _)| state.place_of(context));
        let known = state.id_mut(id)?;
        let local = with_port(address, port);
        known.local = Some(local);
        known.phase = CmPhase::Bound;
        known.device = place;
        known.path = own.map(|(device, gid_index)| crate::cm::Path {
            device,
            port: 1,
            gid_index,
            source: local,
            destination: unspecified(local),
            hop_limit: 64,
            mtu: None,
        });
        Ok(())
    }

    /// Reserves at all these devices, or at none.
    pub(super) fn reserve_at(
        &self,
        id: CmId,
        devices: &[&Device],
        wanted: Reservation,
    ) -> Cm<Reservation> {
        let any = wanted.service.port().is_some_and(|(_, port)| port == 0);
        for _ in 0..TRIES {
            let mut wanted = wanted;
            // Where no device is shared, this process has all ports for itself.
            if any {
                let chosen = self.lock().ports.choose(&wanted, |_| false);
                wanted = chosen.ok_or_else(|| CmError::address_in_use("all ports are taken"))?;
            }
            self.lock().enter(id, wanted)?;
            let mut asked = Vec::new();
            let refused = devices.iter().find_map(|device| {
                asked.push(*device);
                device.cm.reserve(wanted).err()
            });
            let Some(error) = refused else { return Ok(wanted) };
            asked.pop();
            asked.iter().for_each(|device| device.cm.release(wanted.service, wanted.at));
            let mut state = self.lock();
            state.ports.remove(id, wanted.service, wanted.at);
            state.id_mut(id)?.reserved = None;
            if !any || error.errno() != taken(0).errno() {
                return Err(error);
            }
        }
        Err(CmError::address_in_use("no free port was found"))
    }
}

/// All addresses of the same family, port 0.
fn unspecified(of: SocketAddr) -> SocketAddr {
    match of {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}
