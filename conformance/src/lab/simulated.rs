//! A lab on the simulated fabric, under virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use softrnic_model::profile::Profile;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    AddressVector, Event, Gid, QpInit, QpState, QpType, RecvWr, SendWr, VerbError, Wc,
};
use softrnic_model::wire::Route;
use softrnic_model::{Device, DeviceConfig, Instant, Memory, MemoryId};
use softrnic_transport::sim::{Fabric, FabricConfig, Fate, HostId, Weather};

use super::{ALL_RIGHTS, Buffer, CAPABILITIES, Connection, Endpoint, Family, Lab, Waits};

/// A packet that left a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tapped {
    /// When it left, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// When it arrives.
    pub arrives_ns: u64,
    /// Which device.
    pub from: HostId,
    /// Addresses of the IP and UDP headers.
    pub route: TappedRoute,
    /// Base transport header to the end of the pad.
    pub packet: Vec<u8>,
}

/// What of a [`Route`] identifies a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TappedRoute {
    /// Sender.
    pub src: Gid,
    /// Receiver.
    pub dst: Gid,
    /// UDP source port.
    pub src_port: u16,
}

/// Two simulated hosts on a fabric that loses nothing.
#[derive(Debug)]
pub struct SimulatedLab {
    fabric: Fabric,
    hosts: [HostId; 2],
    tap: Rc<RefCell<Vec<Tapped>>>,
    events: [Vec<Event>; 2],
}

/// How packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One by one, as on a cable: a device sees each before the next one is there.
    OneByOne,
    /// All that leave at the same time arrive at the same time.
    Bursts,
}

/// Time that a packet keeps its cable busy.
const PACKET_NS: u64 = 400;

/// Notes every packet, and lets it wait for those that left before it.
struct Cables {
    tap: Rc<RefCell<Vec<Tapped>>>,
    pace: Pace,
    /// When the cable of each host is free.
    free: [Instant; 2],
}

impl Weather for Cables {
    fn judge(&mut self, now: Instant, from: HostId, route: &Route, packet: &[u8]) -> Fate {
        let at = match self.pace {
            Pace::Bursts => now,
            Pace::OneByOne => now.max(self.free[from]),
        };
        self.free[from] = at.plus_ns(PACKET_NS);
        let route = TappedRoute { src: route.src, dst: route.dst, src_port: route.src_port };
        self.tap.borrow_mut().push(Tapped {
            at_ns: now.as_ns(),
            arrives_ns: at.plus_ns(FABRIC.latency_ns).as_ns(),
            from,
            route,
            packet: packet.to_vec(),
        });
        Fate::Delay(at.ns_since(now))
    }
}

/// In virtual time, which costs nothing.
const WAITS: Waits = Waits { patience: Duration::from_secs(5), quiet: Duration::from_millis(50) };

const FABRIC: FabricConfig = FabricConfig { latency_ns: 1_000, icrc: true };

impl SimulatedLab {
    /// A lab whose devices behave as `profile` says.
    #[must_use]
    pub fn new(profile: Profile, family: Family, pace: Pace) -> Self {
        let mut fabric = Fabric::new(FABRIC);
        let mut host = |device: u8| {
            fabric.add_host(Device::new(DeviceConfig {
                profile,
                gids: vec![family.gid(device)],
                // Numbers of the two ends shall differ, so that none passes for another.
                first_qp_index: 0x100 * (1 + u16::from(device)),
                ..DeviceConfig::default()
            }))
        };
        let hosts = [host(0), host(1)];
        let tap = Rc::new(RefCell::new(Vec::new()));
        let cables = Cables { tap: Rc::clone(&tap), pace, free: [Instant::ZERO; 2] };
        fabric.set_weather(Some(Box::new(cables)));
        Self { fabric, hosts, tap, events: [Vec::new(), Vec::new()] }
    }

    /// The packets that have left since this was last asked, in order.
    pub fn take_packets(&mut self) -> Vec<Tapped> {
        self.tap.take()
    }

    /// The events that a device has raised since this was last asked, in order.
    pub fn take_events(&mut self, device: usize) -> Vec<Event> {
        self.drain_events();
        std::mem::take(&mut self.events[device])
    }

    /// A device.
    #[must_use]
    pub fn device(&self, device: usize) -> &Device {
        &self.fabric.host(self.hosts[device]).device
    }

    fn device_mut(&mut self, device: usize) -> &mut Device {
        &mut self.fabric.host_mut(self.hosts[device]).device
    }

    fn drain_events(&mut self) {
        for (host, events) in self.hosts.iter().zip(&mut self.events) {
            let device = &mut self.fabric.host_mut(*host).device;
            events.extend(std::iter::from_fn(|| device.next_event()));
        }
    }

    fn create(&mut self, device: usize, connection: &Connection) -> Result<Endpoint, VerbError> {
        let host = self.fabric.host_mut(self.hosts[device]);
        let gid = host.device.gids()[0];
        let pd = host.device.alloc_pd()?;
        let cq = host.device.create_cq(256)?;
        let memory = host.memory.add(vec![0; connection.buffer_len]);
        // Each buffer has addresses of its own, so that none passes for another.
        let addr = 0x10_0000 * (1 + u64::from(memory.0)) + 0x5000_0000 * device as u64;
        let key = host.device.register(RegionSpec {
            pd,
            memory,
            memory_offset: 0,
            addr,
            length: connection.buffer_len as u64,
            access: ALL_RIGHTS,
        })?;
        let qp = host.device.create_qp(&QpInit {
            pd,
            qp_type: connection.qp_type,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap: CAPABILITIES,
            signal_all: true,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        })?;
        let buffer =
            Buffer { memory: memory.0, addr, len: connection.buffer_len, lkey: key, rkey: key };
        Ok(Endpoint { device, gid, pd, cq, qp, ah: None, buffer })
    }
}

impl Lab for SimulatedLab {
    fn waits(&self) -> Waits {
        WAITS
    }

    fn connect(&mut self, connection: &Connection) -> Result<[Endpoint; 2], VerbError> {
        let mut ends = [self.create(0, connection)?, self.create(1, connection)?];
        for (own, peer) in [(0, 1), (1, 0)] {
            let Endpoint { gid: dgid, qp: peer, .. } = ends[peer];
            let Endpoint { pd, qp, .. } = ends[own];
            let path = AddressVector { dgid, ..AddressVector::default() };
            let device = self.device_mut(own);
            for step in connection.steps(own, path, peer) {
                device.modify_qp(qp, &step.attributes, step.mask)?;
            }
            if connection.qp_type == QpType::Ud {
                ends[own].ah = Some(device.create_ah(pd, path)?);
            }
        }
        Ok(ends)
    }

    fn destroy(&mut self, at: &Endpoint) -> Result<(), VerbError> {
        let device = self.device_mut(at.device);
        if let Some(ah) = at.ah {
            device.destroy_ah(ah)?;
        }
        device.destroy_qp(at.qp)?;
        device.destroy_cq(at.cq)?;
        device.deregister(at.buffer.lkey)?;
        device.dealloc_pd(at.pd)?;
        self.fabric.host(self.hosts[at.device]).memory.unmap(MemoryId(at.buffer.memory));
        Ok(())
    }

    fn post_send(&mut self, at: &Endpoint, wr: &SendWr<'_>) -> Result<(), VerbError> {
        self.device_mut(at.device).post_send(at.qp, wr)
    }

    fn post_recv(&mut self, at: &Endpoint, wr: &RecvWr<'_>) -> Result<(), VerbError> {
        self.device_mut(at.device).post_recv(at.qp, wr)
    }

    fn poll(&mut self, at: &Endpoint, want: usize, within: Duration) -> Result<Vec<Wc>, VerbError> {
        let until = self.fabric.now().plus_ns(nanoseconds(within));
        let mut taken = vec![Wc::default(); want];
        let mut count = 0;
        let mut time_is_left = true;
        loop {
            count += self.device_mut(at.device).poll_cq(at.cq, &mut taken[count..])?;
            if count == want || !time_is_left {
                taken.truncate(count);
                return Ok(taken);
            }
            // Something may complete in the last step too.
            time_is_left = self.fabric.step(until);
        }
    }

    fn state(&self, at: &Endpoint) -> Result<QpState, VerbError> {
        Ok(self.device(at.device).query_qp(at.qp)?.0.current_state)
    }

    fn pause(&mut self, time: Duration) {
        self.fabric.run_for(nanoseconds(time));
        self.drain_events();
    }

    fn read(&self, at: &Endpoint) -> Vec<u8> {
        self.fabric.host(self.hosts[at.device]).memory.bytes(MemoryId(at.buffer.memory))
    }

    fn write(&mut self, at: &Endpoint, offset: usize, bytes: &[u8]) {
        let memory = &self.fabric.host(self.hosts[at.device]).memory;
        let id = MemoryId(at.buffer.memory);
        let written = memory.write(id, offset as u64, bytes);
        debug_assert!(written.is_ok(), "the caller stays inside the buffer");
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
