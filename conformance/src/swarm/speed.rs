//! How fast it is, and how large it may be.

use std::time::{Duration, Instant};

use softrnic_reference::Violation;

use super::plan::{Plan, Service, Weather};
use super::run::Swarm;
use super::steps::Step;
use super::topology::Topology;

/// What a measurement has found.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Packets that hosts have sent.
    pub packets: u64,
    /// Real time that it took, reference model included.
    pub took: Duration,
}

impl Speed {
    /// Packets in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.packets as f64 / self.took.as_secs_f64()
    }
}

/// Steps of each run: so many that what is done is weighed, and not how hosts are made.
const STEPS: usize = 20_000;

/// Plans of different kinds for a measurement: with and without weather, all services.
fn plans() -> impl Iterator<Item = Plan> {
    (0..).map(|seed| Plan::drawn(seed, 4))
}

/// Runs drawn plans with the reference model for about this long, on the calling thread.
///
/// # Errors
/// A run failed.
pub fn speed(at_least: Duration) -> Result<Speed, Violation> {
    let started = Instant::now();
    let mut packets = 0;
    for plan in plans() {
        let steps: Vec<Step> = Step::drawn(&plan).take(STEPS).collect();
        let outcome = super::run(&plan, &steps);
        packets += outcome.map_err(|failure| Violation(failure.to_string()))?.packets;
        if started.elapsed() >= at_least {
            break;
        }
    }
    Ok(Speed { packets, took: started.elapsed() })
}

/// What many hosts with many queue pairs each take.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Hosts.
    pub hosts: u32,
    /// Queue pairs of all of them.
    pub queue_pairs: usize,
    /// Steps that were done.
    pub steps: u64,
    /// Packets that hosts have sent.
    pub packets: u64,
    /// Real time.
    pub took: Duration,
}

/// Runs `hosts` hosts with `queue_pairs` queue pairs each under light weather, reference model
/// included, until each queue pair has had something to do, and lets everything finish. How much
/// memory that takes is for the caller to look at.
///
/// # Errors
/// It failed.
pub fn crowd(hosts: u32, queue_pairs: u32) -> Result<Crowd, Violation> {
    let plan = Plan {
        seed: 1,
        hosts,
        topology: Topology::Star,
        profile: "spec".into(),
        connections: hosts.saturating_mul(queue_pairs) / 2,
        services: vec![Service::Rc],
        mtu_shift: 10,
        message_max: 256,
        depths: [4, 2],
        read_depth: 2,
        slots: 6,
        window_bytes: 1 << 16,
        near_wrap: false,
        latency_ns: 500,
        rate_gbps: 0,
        pace_ns: 2000,
        weather: Weather { drop: 1, ..Weather::default() },
        cuts: false,
        errors: false,
    };
    let started = Instant::now();
    let swarm = Swarm::new(&plan, None).map_err(|error| Violation(error.to_string()))?;
    let count = u64::from(hosts) * u64::from(queue_pairs) * 4;
    let (steps, queue_pairs) = (count, swarm.ends.len());
    let outcome = swarm.through(Step::drawn(&plan).take(usize::try_from(count).unwrap_or(0)))?;
    Ok(Crowd { hosts, queue_pairs, steps, packets: outcome.packets, took: started.elapsed() })
}
