//! A bench over UDP: the device is on this host or another, the script's end is a socket.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant as Clock};

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_transport::udp::Offload;
use softrnic_transport::{Link, Outgoing, UdpConfig, UdpLink, udp};

use super::{Bench, Caught, Crafted};
use crate::lab::Waits;
use crate::program::Program;

/// See the module.
#[derive(Debug)]
pub struct OverUdp {
    program: Box<dyn Program + Send>,
    device: Gid,
    peer: Wire,
    stranger: Option<Wire>,
    waits: Waits,
    opened: Clock,
    caught: std::collections::VecDeque<Caught>,
    failure: Option<String>,
}

struct Wire {
    gid: Gid,
    link: UdpLink,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wire").field(&self.gid).finish()
    }
}

/// Why there is no bench.
pub type OpenError = udp::OpenError;

/// Between two looks at an empty socket. The device may need the processor.
const NAP: Duration = Duration::from_micros(50);

/// Memory that the sockets of a script ask for.
const BUFFER: usize = 1 << 20;

impl Wire {
    fn open(address: IpAddr, port: u16) -> Result<Self, OpenError> {
        let config = UdpConfig {
            gso: Offload::Off,
            gro: Offload::Off,
            receive_buffer: BUFFER,
            send_buffer: BUFFER,
            source_ports: 1,
            ..UdpConfig::new(address).with_port(port)
        };
        Ok(Self { gid: address.into(), link: UdpLink::open(&config)? })
    }

    fn send(&mut self, now: Instant, crafted: &Crafted) -> std::io::Result<()> {
        let packet = &crafted.packet;
        let (route, damage) = (crafted.route, crafted.damage);
        let frame = Outgoing { route, len: packet.len(), damage };
        self.link.transmit(now, frame, &mut |into| {
            into.copy_from_slice(packet);
            true
        })?;
        self.link.flush(now)
    }
}

impl OverUdp {
    /// A bench whose scripts own `address` and `port`. `program` is that of the device at `device`;
    /// `stranger` is another address of this host, if there is one.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        program: Box<dyn Program + Send>,
        device: Gid,
        address: IpAddr,
        stranger: Option<IpAddr>,
        port: u16,
        waits: Waits,
    ) -> Result<Self, OpenError> {
        let peer = Wire::open(address, port)?;
        let stranger = stranger.map(|address| Wire::open(address, port)).transpose()?;
        Ok(Self {
            program,
            device,
            peer,
            stranger,
            waits,
            opened: Clock::now(),
            caught: std::collections::VecDeque::new(),
            failure: None,
        })
    }

    /// Takes what has arrived.
    fn look(&mut self) {
        let at_ns = self.now_ns();
        let (caught, device) = (&mut self.caught, self.device);
        let taken = self.peer.link.receive(Instant::from_ns(at_ns), &mut |route, packet| {
            if route.src == device {
                caught.push_back(Caught { at_ns, route: *route, packet: packet.to_vec() });
            }
        });
        if let Err(error) = taken {
            self.failure = Some(error.to_string());
        }
    }
}

impl Bench for OverUdp {
    fn program(&mut self) -> &mut dyn Program {
        &mut *self.program
    }

    fn device(&self) -> Gid {
        self.device
    }

    fn peer(&self) -> Gid {
        self.peer.gid
    }

    fn stranger(&mut self) -> Option<Gid> {
        self.stranger.as_ref().map(|wire| wire.gid)
    }

    fn waits(&self) -> Waits {
        self.waits
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn pass_until(&mut self, ns: u64) {
        let left = Duration::from_nanos(ns.saturating_sub(self.now_ns()));
        std::thread::sleep(left);
        self.look();
    }

    fn send(&mut self, crafted: &Crafted) -> Result<(), String> {
        let now = Instant::from_ns(self.now_ns());
        let wire = match &mut self.stranger {
            Some(stranger) if stranger.gid == crafted.route.src => stranger,
            Some(_) | None => &mut self.peer,
        };
        if wire.gid != crafted.route.src {
            return Err(format!("{} is no address of the script", crafted.route.src));
        }
        wire.send(now, crafted).map_err(|error| error.to_string())
    }

    fn next(&mut self, until_ns: u64) -> Option<Caught> {
        loop {
            // Something may arrive between the last look and the end of the time.
            let is_last = self.now_ns() >= until_ns;
            if self.caught.is_empty() {
                self.look();
            }
            if is_last || self.failure.is_some() || !self.caught.is_empty() {
                return self.caught.pop_front();
            }
            std::thread::sleep(NAP);
        }
    }

    fn bad_icrc(&self) -> u64 {
        let counters = self.peer.link.counters();
        counters.rx_bad_icrc + counters.rx_bad_length
    }
}
