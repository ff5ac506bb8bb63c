//! What a run is made of.

use serde::{Deserialize, Serialize};
use softrnic_model::profile::Profile;
use softrnic_verbs::Mtu;

use super::chance::Chance;
use super::topology::Topology;

/// Everything that is the same throughout a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Where all chance of the run comes from.
    pub seed: u64,
    /// Hosts.
    pub hosts: u32,
    /// How they are joined.
    pub topology: Topology,
    /// Name of the profile of all devices.
    pub profile: String,
    /// Connections, or pairs of datagram queue pairs, spread over the hosts.
    pub connections: u32,
    /// Which services they have: one of these each.
    pub services: Vec<Service>,
    /// log2 of the path MTU: 8 to 12.
    pub mtu_shift: u32,
    /// Bytes of the longest message.
    pub message_max: u32,
    /// Send and receive work requests of each queue.
    pub depths: [u32; 2],
    /// READs and atomics that may be open.
    pub read_depth: u8,
    /// Messages' worth of memory of each connection at each end.
    pub slots: u32,
    /// Bytes that a queue pair may have unacknowledged.
    pub window_bytes: u32,
    /// First PSNs are close to the wrap.
    pub near_wrap: bool,
    /// Nanoseconds on each cable.
    pub latency_ns: u32,
    /// Gigabits per second of each cable; 0 is without limit.
    pub rate_gbps: u32,
    /// Time between two steps at most, in nanoseconds.
    pub pace_ns: u32,
    /// What befalls frames.
    pub weather: Weather,
    /// Whether hosts are parted and ports paused.
    pub cuts: bool,
    /// Whether requests are posted that must fail.
    pub errors: bool,
}

/// A service type, with its way of receiving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Service {
    /// Reliable connection.
    #[default]
    Rc,
    /// The same with a shared receive queue.
    RcShared,
    /// Extended reliable connection.
    Xrc,
    /// Unreliable connection.
    Uc,
    /// Datagrams.
    Ud,
}

impl Service {
    /// All.
    pub const ALL: [Self; 5] = [Self::Rc, Self::RcShared, Self::Xrc, Self::Uc, Self::Ud];

    pub(super) const fn is_reliable(self) -> bool {
        matches!(self, Self::Rc | Self::RcShared | Self::Xrc)
    }

    pub(super) const fn shares_receives(self) -> bool {
        matches!(self, Self::RcShared | Self::Xrc)
    }
}

/// How many of a hundred frames of a storm meet which fate. A storm lasts as long as one local ACK
/// time-out, the calm behind it two, so that no request runs out of retries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weather {
    /// Lost.
    pub drop: u32,
    /// Repeated.
    pub duplicate: u32,
    /// Held back, up to [`Weather::delay_ns`].
    pub delay: u32,
    /// Damaged.
    pub corrupt: u32,
    /// Marked as having met congestion.
    pub mark: u32,
    /// The longest delay.
    pub delay_ns: u32,
}

impl Weather {
    /// Whether frames may come twice, or so late that they are asked for again.
    #[must_use]
    pub const fn repeats(&self) -> bool {
        self.duplicate > 0 || self.delay > 0
    }
}

impl Plan {
    /// The plan of a seed. Half of the runs lack a hazard each, for faults hide behind noise too.
    #[must_use]
    pub fn drawn(seed: u64, hosts: u32) -> Self {
        let mut chance = Chance::new(seed);
        let chance = &mut chance;
        let mut services: Vec<Service> =
            Service::ALL.into_iter().filter(|_| chance.percent(50)).collect();
        if services.is_empty() {
            services.push(Service::Rc);
        }
        let mtu_shift = 8 + chance.below(5);
        let mut hazard = |most| if chance.percent(50) { 0 } else { chance.below(most) };
        let (drop, duplicate, delay) = (hazard(50), hazard(15), hazard(20));
        let (corrupt, mark) = (hazard(5), hazard(10));
        let message_max = (chance.pick(&[1, 3, 12]) << mtu_shift).min(12_000);
        let delay_ns = chance.pick(&[3_000, 50_000, 4_000_000, 12_000_000]);
        Self {
            seed,
            hosts: hosts.max(1),
            topology: chance.pick(&[Topology::Star, Topology::Star, Topology::Two, Topology::Ring]),
            // Half as the rules say, with all that they leave free at its oddest.
            profile: chance.pick(&["strict", "strict", "spec", "rxe", "cx5"]).into(),
            connections: hosts.max(1) + chance.below(3 * hosts.max(1)),
            services,
            mtu_shift,
            message_max,
            depths: [2 + chance.below(30), 1 + chance.below(16)],
            read_depth: 1 + u8::try_from(chance.below(16)).unwrap_or(0),
            // Fewer large ones: what nobody uses must be made all the same.
            slots: (120_000 / message_max).clamp(12, 40),
            window_bytes: chance.pick(&[1, 20_000, 1 << 20]),
            near_wrap: chance.percent(50),
            latency_ns: 100 + chance.below(3000),
            rate_gbps: chance.pick(&[0, 0, 10, 100]),
            pace_ns: chance.pick(&[100, 10_000, 1_000_000]),
            weather: Weather { drop, duplicate, delay, corrupt, mark, delay_ns },
            cuts: chance.percent(20),
            errors: chance.percent(50),
        }
    }

    /// The profile of that name; of none, the rules'.
    pub(super) fn profile(&self) -> Profile {
        self.profile.parse().unwrap_or_default()
    }

    pub(super) fn mtu(&self) -> Mtu {
        let bytes = 1_u32.checked_shl(self.mtu_shift).unwrap_or(0);
        Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == bytes).unwrap_or(Mtu::B1024)
    }

    /// The hosts of a connection, and its service.
    pub(super) fn connection(&self, number: u32) -> ([usize; 2], Service) {
        let mut chance = Chance::new(self.seed ^ (u64::from(number) << 32 | 0x636f_6e6e));
        let near = number % self.hosts;
        // Now and then a host talks to itself.
        let own = chance.percent(5);
        let far = if own || self.hosts == 1 {
            near
        } else {
            (near + 1 + chance.below(self.hosts - 1)) % self.hosts
        };
        let service = chance.pick(&self.services);
        ([near as usize, far as usize], service)
    }

    /// Whether the numbers go together.
    ///
    /// # Errors
    /// Which one does not, and what it may be.
    pub fn judge(&self) -> Result<(), String> {
        let limits: [(&str, u32, std::ops::RangeInclusive<u32>); 8] = [
            ("hosts", self.hosts, 1..=10_000),
            ("connections", self.connections, 1..=1_000_000),
            ("mtu_shift", self.mtu_shift, 8..=12),
            ("message_max", self.message_max, 1..=1 << 20),
            ("depths[0]", self.depths[0], 2..=4096),
            ("depths[1]", self.depths[1], 1..=4096),
            ("read_depth", self.read_depth.into(), 1..=16),
            ("slots", self.slots, 4..=4096),
        ];
        for (name, is, may) in limits {
            if !may.contains(&is) {
                return Err(format!("{name} is {is}; it may be {} to {}", may.start(), may.end()));
            }
        }
        if let Err(error) = self.profile.parse::<Profile>() {
            return Err(format!("profile is {:?}: {error}", self.profile));
        }
        if self.services.is_empty() {
            return Err("services is empty; name at least one".into());
        }
        let Weather { drop, duplicate, delay, corrupt, mark, .. } = self.weather;
        if [drop, duplicate, delay, corrupt, mark].iter().sum::<u32>() > 100 {
            return Err("weather: more than 100 of 100 frames meet something".into());
        }
        Ok(())
    }
}
