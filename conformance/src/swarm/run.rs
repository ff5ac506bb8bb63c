//! One run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use softrnic_reference::{Channel, Frames, Receives, Retired, Unreliable, Violation};
use softrnic_transport::sim::network::What;
use softrnic_verbs::buffer::SharedBuffer;
use softrnic_verbs::simulated::{Cable, Event, Fabric, FabricConfig};

use super::chance::Chance;
use super::ends::{End, Sent, make};
use super::hosts::Host;
use super::plan::Plan;
use super::steps::{Op, Step};
use super::storm;

/// What came of a run in which nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// All events and completions, mixed: the same for the same plan and steps.
    pub event_hash: u64,
    /// Packets that hosts have sent.
    pub packets: u64,
    /// Requests that were posted.
    pub requests: u64,
    /// Connections that failed, as they had to, and were made anew.
    pub renewed: u64,
    /// Virtual time that it took.
    pub time: Duration,
}

/// What was wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: String,
    /// During which step; behind the last one is the calm at the end.
    pub step: usize,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}: {}", self.step, self.reason)
    }
}

impl std::error::Error for Failure {}

/// Runs a schedule.
///
/// # Errors
/// What was wrong. A panic of the device counts as such.
pub fn run(plan: &Plan, steps: &[Step]) -> Result<Outcome, Failure> {
    guarded(plan, steps, None).map(|(outcome, _)| outcome)
}

/// The same, and what was done in words; with `packets`, also what became of every packet.
pub fn run_told(
    plan: &Plan,
    steps: &[Step],
    packets: bool,
) -> (Result<Outcome, Failure>, Vec<String>) {
    let words = Arc::new(Mutex::new(Told { lines: Vec::new(), packets }));
    let outcome = guarded(plan, steps, Some(Arc::clone(&words))).map(|(outcome, _)| outcome);
    let mut told = words.lock().unwrap_or_else(PoisonError::into_inner);
    let words = std::mem::take(&mut told.lines);
    drop(told);
    (outcome, words)
}

type Words = Arc<Mutex<Told>>;

/// What was done, for somebody who listens.
pub(super) struct Told {
    lines: Vec<String>,
    packets: bool,
}

fn guarded(plan: &Plan, steps: &[Step], words: Option<Words>) -> Result<(Outcome, ()), Failure> {
    let at = std::cell::Cell::new(0);
    let body = std::panic::AssertUnwindSafe(|| whole(plan, steps, words, &at));
    match std::panic::catch_unwind(body) {
        Ok(Ok(outcome)) => Ok((outcome, ())),
        Ok(Err(violation)) => Err(Failure { reason: violation.0, step: at.get() }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let reason = format!("panic: {}", text.unwrap_or("without a word"));
            Err(Failure { reason, step: at.get() })
        }
    }
}

fn whole(
    plan: &Plan,
    steps: &[Step],
    words: Option<Words>,
    at: &std::cell::Cell<usize>,
) -> Result<Outcome, Violation> {
    plan.judge().map_err(Violation)?;
    let mut swarm = Swarm::new(plan, words).map_err(|error| Violation(error.to_string()))?;
    for (number, step) in steps.iter().enumerate() {
        at.set(number);
        swarm.step(step)?;
    }
    at.set(steps.len());
    swarm.finish()
}

pub(super) struct Swarm<'a> {
    pub(super) plan: &'a Plan,
    pub(super) fabric: Fabric,
    pub(super) hosts: Vec<Host>,
    pub(super) ends: Vec<End>,
    /// Memory that was deregistered, and how it was then.
    pub(super) vanished: Vec<(SharedBuffer, Vec<u8>)>,
    pub(super) requests: u64,
    pub(super) renewed: u64,
    pub(super) over: VecDeque<Retired<Sent>>,
    /// When hosts were tended for the last time.
    tended: Duration,
    calm: Arc<AtomicBool>,
    /// What each host has sent, and what has come to it.
    pub(super) wire: Arc<Mutex<Vec<[Frames; 2]>>>,
    words: Option<Words>,
}

impl<'a> Swarm<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        words: Option<Words>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let fabric = Fabric::new(FabricConfig {
            seed: plan.seed,
            window_bytes: plan.window_bytes,
            poll_costs: Duration::ZERO,
            profile: plan.profile(),
            ..FabricConfig::default()
        });
        let cable = Cable {
            latency_ns: plan.latency_ns.into(),
            rate_bps: (plan.rate_gbps != 0).then_some(u64::from(plan.rate_gbps) * 1_000_000_000),
            ..Cable::default()
        };
        let pairs: Vec<_> = (0..plan.connections).map(|number| plan.connection(number)).collect();
        let mut ends_at = vec![0; plan.hosts as usize];
        pairs.iter().flat_map(|(of, _)| of).for_each(|host| ends_at[*host] += 1);
        let mut hosts = Vec::new();
        let nodes = plan.topology.lay(&fabric, plan.hosts, cable);
        for (node, ends) in nodes.into_iter().zip(ends_at) {
            hosts.push(Host::new(&fabric, node, plan, ends)?);
        }
        let calm = Arc::default();
        storm::blow(&fabric, plan, &calm);
        let mut chance = Chance::new(plan.seed ^ 0x656e_6473);
        let mut ends = Vec::new();
        for (of, service) in pairs {
            let first = ends.len();
            let made = make(&hosts, of, service, plan, &mut chance)?;
            of.iter().zip(first..).for_each(|(host, end)| hosts[*host].own_ends.push(end));
            for (index, made) in made.into_iter().enumerate() {
                ends.push(End {
                    host: of[index],
                    peer: first + 1 - index,
                    service,
                    qp: made.qp,
                    target: made.target,
                    ah: made.ah,
                    channel: Channel::default(),
                    unreliable: Unreliable::default(),
                    receives: Receives::new(false),
                    bad_receive: None,
                    quarantine: Vec::new(),
                    next_id: 0,
                    failed: false,
                    own_word: 0,
                });
            }
        }
        let mut swarm = Self {
            plan,
            fabric,
            hosts,
            ends,
            vanished: Vec::new(),
            requests: 0,
            renewed: 0,
            over: VecDeque::new(),
            tended: Duration::ZERO,
            calm,
            wire: Arc::new(Mutex::new(vec![Default::default(); plan.hosts as usize])),
            words,
        };
        (0..swarm.ends.len()).for_each(|end| swarm.know(end));
        swarm.watch_wire();
        Ok(swarm)
    }

    /// Counts all that hosts send and get, and puts it in words if somebody wants to hear of packets.
    fn watch_wire(&self) {
        let all = self.hosts.iter().map(|host| host.node.get() as usize);
        let mut places = vec![usize::MAX; all.clone().max().map_or(0, |last| last + 1)];
        all.enumerate().for_each(|(place, node)| places[node] = place);
        let wire = Arc::clone(&self.wire);
        let wants = |words: &&Words| words.lock().unwrap_or_else(PoisonError::into_inner).packets;
        let words = self.words.as_ref().filter(wants).cloned();
        self.fabric.observe(Some(Box::new(move |event: &Event<'_>| {
            let ways = [What::Sent, What::Arrived];
            let way = ways.iter().position(|way| *way == event.what);
            if let Some(way) = way
                && let Some(place) = places.get(event.node.get() as usize)
                && let Some(frames) =
                    wire.lock().unwrap_or_else(PoisonError::into_inner).get_mut(*place)
            {
                frames[way].saw(event.packet, event.route.congestion_experienced());
            }
            if let Some(words) = &words {
                let line = format!("              {event}");
                words.lock().unwrap_or_else(PoisonError::into_inner).lines.push(line);
            }
        })));
    }

    /// Enters the queue pair numbers of an end in the table of its host.
    pub(super) fn know(&mut self, end: usize) {
        let End { host, qp, target, .. } = &self.ends[end];
        let table = &mut self.hosts[*host].ends;
        table.insert(qp.num().get(), end);
        if let Some(target) = target {
            table.insert(target.num().get(), end);
        }
    }

    /// Says what is done, if somebody listens.
    pub(super) fn tell(&self, text: impl FnOnce() -> String) {
        if let Some(words) = &self.words {
            let line = format!("{:>12?}  {}", self.fabric.now(), text());
            words.lock().unwrap_or_else(PoisonError::into_inner).lines.push(line);
        }
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), Violation> {
        self.feed()?;
        let mut chance = Chance::new(u64::from(step.seed));
        let host = step.at as usize % self.hosts.len();
        if step.op == Op::Run {
            let ns = u64::from(chance.below(self.plan.pace_ns.max(1)));
            self.fabric.run_for(Duration::from_nanos(ns));
        } else if step.op == Op::Poll {
            self.poll(host)?;
            // A sender whose peer is never ready runs out of retries when answers get lost too.
            if chance.percent(50) {
                self.post_missing_receives(host, &mut chance)?;
            }
        } else if matches!(step.op, Op::Part | Op::Pause) {
            self.cut(step.op, host);
        } else {
            self.act(step.op, step.at as usize % self.ends.len(), &mut chance)?;
        }
        Ok(())
    }

    /// Gives receives to all that wait for some, once in each time-out. RNR NAKs are no progress and do
    /// not restore `retry_cnt` ([rnr/retry-restored]): a sender whose peer is never ready while the
    /// weather takes packets runs out of retries, and rightly so. With this there is progress in each
    /// calm.
    fn feed(&mut self) -> Result<(), Violation> {
        let now = self.fabric.now();
        if now < self.tended + storm::TIMEOUT {
            return Ok(());
        }
        self.tended = now;
        let mut chance = Chance::new(self.plan.seed ^ u64::try_from(now.as_nanos()).unwrap_or(0));
        for host in 0..self.hosts.len() {
            self.poll(host)?;
            self.post_missing_receives(host, &mut chance)?;
        }
        Ok(())
    }

    /// Parts a host from the others or pauses its port, or ends that.
    fn cut(&mut self, op: Op, host: usize) {
        for end in self.ends.iter_mut().filter(|end| end.service.is_reliable()) {
            end.channel.allow_silence();
        }
        let own = &mut self.hosts[host];
        if op == Op::Pause {
            own.paused = !own.paused;
            if own.paused { self.fabric.pause(own.node) } else { self.fabric.resume(own.node) }
        } else {
            own.parted = !own.parted;
            let parted: Vec<_> = self.hosts.iter().filter(|host| host.parted).collect();
            let alone: Vec<_> = parted.iter().map(|host| [host.node]).collect();
            let groups: Vec<&[_]> = alone.iter().map(<[_; 1]>::as_slice).collect();
            self.fabric.partition(&groups);
        }
        self.tell(|| format!("host {host}: {op:?}"));
    }

    /// Does steps, and lets everything finish.
    pub(super) fn through(
        mut self,
        steps: impl Iterator<Item = Step>,
    ) -> Result<Outcome, Violation> {
        for step in steps {
            self.step(&step)?;
        }
        self.finish()
    }

    /// Calm weather: everything must finish.
    fn finish(mut self) -> Result<Outcome, Violation> {
        self.calm.store(true, Ordering::Relaxed);
        self.fabric.heal();
        self.hosts.iter().for_each(|host| self.fabric.resume(host.node));
        self.tell(|| "the weather is calm".into());
        let mut chance = Chance::new(self.plan.seed ^ 0x6361_6c6d);
        // Retries are over after eight time-outs of 4 ms, and receives are posted all the time.
        const ROUNDS: usize = 400;
        for _ in 0..ROUNDS {
            for host in 0..self.hosts.len() {
                self.post_missing_receives(host, &mut chance)?;
            }
            self.fabric.run_for(Duration::from_millis(20));
            (0..self.hosts.len()).try_for_each(|host| self.poll(host))?;
            if self.is_idle() && self.fabric.run_until_idle(Duration::from_secs(1)) {
                (0..self.hosts.len()).try_for_each(|host| self.poll(host))?;
                return self.conclude();
            }
        }
        Err(Violation(format!("it never ends, {}", self.what_is_open())))
    }
}
