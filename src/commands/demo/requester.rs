//! The first process of the tour: it asks, and judges what came of it at both ends.

use std::time::{Duration, Instant};

use softrnic_model::profile::Profile;
use softrnic_model::verbs::Mtu;
use softrnic_model::wire::Route;
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, Ah, ConnectOptions, Context, Cq, Mr, Pd, Qp, QpType, SendFlags, SendOp, SendWr, Wc,
};

use super::image::{Image, MEMORY, RECEIVE_OFFSET, World, remote_offset};
use super::judge::{self, Expected};
use super::script::{ADDEND, Act, Aim, HOP_LIMIT, IMMEDIATE, Verb};
use super::talk::{Ask, Prepared, Seen};
use super::{QKEY, capabilities};
use crate::error::Failure;
use crate::exchange::{ANSWER_WITHIN, Exchange, QueuePairInfo, RegionInfo};
use crate::pattern::message;
use crate::words;

/// How long a completion may take: any retry, and a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the responder is asked again until it has seen what it must.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);
/// The same where fault rules may have lost it for good.
const ARRIVES_IN_BAD_WEATHER: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What came of an act.
#[derive(Debug)]
pub(super) struct Played {
    /// Status at the requester.
    pub(super) requester: &'static str,
    /// What the responder saw.
    pub(super) responder: String,
    /// What is not as it must be.
    pub(super) wrong: Option<String>,
    /// Microseconds from posting to the completion, the median of the rounds.
    pub(super) median_us: f64,
    /// The header in front of the last datagram.
    pub(super) grh: Option<Route>,
}

/// The first process, with the second at the other end of `exchange`.
pub(super) struct Requester {
    pub(super) context: Context,
    pub(super) exchange: Exchange,
    pub(super) pd: Pd,
    pub(super) profile: Profile,
    /// Whether fault rules are at work, so that an act may have to be played again.
    pub(super) bad_weather: bool,
}

/// What an act needs at this end.
struct Scene {
    act: &'static Act,
    cq: Cq,
    qp: Qp,
    memory: Mr,
    peer: QueuePairInfo,
    region: RegionInfo,
    /// Where datagrams go.
    ah: Option<Ah>,
}

impl Requester {
    /// Plays the act at place `index` of the script.
    pub(super) fn play(&mut self, index: usize, act: &'static Act) -> Result<Played, Failure> {
        let scene = self.prepare(index, act)?;
        let mut world = World::new();
        let mut times = Vec::new();
        let mut wrong = None;
        let mut status = "";
        for round in 0..act.rounds {
            scene.load(&mut world, round)?;
            let (wc, time) = scene.perform(&world, round)?;
            world.perform(act, round);
            times.push(time.as_secs_f64() * 1e6);
            status = words::status(wc.status);
            wrong = self.judge_completion(act, &wc, round).or_else(|| scene.judge_memory(&world));
            if wrong.is_some() {
                break;
            }
        }
        let wrong = wrong.or(self.judge_rest(&scene)?);
        let (seen, amiss) = self.look(&scene, &world, wrong.is_none())?;
        times.sort_by(f64::total_cmp);
        Ok(Played {
            requester: status,
            responder: judge::describe(&seen),
            wrong: wrong.map(|wrong| format!("requester: {wrong}")).or(amiss),
            median_us: times.get(times.len() / 2).copied().unwrap_or(f64::NAN),
            grh: judge::seen_grh(act, &seen),
        })
    }

    fn prepare(&mut self, index: usize, act: &'static Act) -> Result<Scene, Failure> {
        let cq = self.context.create_cq(64)?;
        let qp = self.pd.create_qp(act.service, &cq).capabilities(capabilities()).build()?;
        let buffer = Buffer::copy_of(Image::requester().bytes())?;
        let memory = self.pd.register(buffer, Access::LOCAL_WRITE)?;
        let requester = QueuePairInfo::of(&qp, None)?;
        self.exchange.tell(&Ask::Prepare { act: index, requester })?;
        let Prepared { responder: peer, region } = self.exchange.hear_told(ANSWER_WITHIN)?;
        let ah = match act.service {
            QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
                let mtu = Mtu::B1024;
                // Patient, so that a process that waits for a processor is not taken for a
                // dead one.
                let timeout = if self.bad_weather { 14 } else { 16 };
                let plain = ConnectOptions::default();
                let options = ConnectOptions { mtu: Some(mtu), timeout, ..plain };
                qp.connect_with(&peer.endpoint(mtu), &options)?;
                None
            }
            QpType::Ud => {
                qp.activate()?;
                let mut path = qp.path_to(peer.gid);
                path.hop_limit = HOP_LIMIT;
                Some(self.pd.create_ah(&path)?)
            }
        };
        Ok(Scene { act, cq, qp, memory, peer, region, ah })
    }

    fn judge_completion(&self, act: &Act, wc: &Wc, round: u64) -> Option<String> {
        let expected = act.outcome.requester(&self.profile);
        if wc.status != expected {
            let (seen, expected) = (words::status(wc.status), words::status(expected));
            return Some(format!("status `{seen}`, not `{expected}`"));
        }
        (wc.wr_id != round).then(|| format!("completion of request {}, not {round}", wc.wr_id))
    }

    /// What must not be there once all is done: more completions, events, another state.
    fn judge_rest(&self, scene: &Scene) -> Result<Option<String>, Failure> {
        if let Some(wc) = scene.cq.poll_one()? {
            return Ok(Some(format!("one completion too many: {}", words::status(wc.status))));
        }
        if let Some(event) = self.context.next_async_event(Some(Duration::ZERO))? {
            return Ok(Some(format!("event `{}`, which nothing called for", words::event(event))));
        }
        let state = words::state(scene.qp.query()?.0.state);
        let expected = judge::expected_state(scene.act);
        Ok((state != expected).then(|| format!("QP in {state}, not {expected}")))
    }

    /// Asks the responder until it has seen what it must, or the time is over; what is missing then.
    fn look(
        &mut self,
        scene: &Scene,
        world: &World,
        patient: bool,
    ) -> Result<(Seen, Option<String>), Failure> {
        let expected = Expected {
            act: scene.act,
            sender: scene.qp.endpoint()?,
            receiver: scene.peer.gid,
            profile: &self.profile,
            memory: &world.responder,
        };
        let wait = if self.bad_weather { ARRIVES_IN_BAD_WEATHER } else { ARRIVES_WITHIN };
        let deadline = Instant::now() + if patient { wait } else { Duration::ZERO };
        loop {
            self.exchange.tell(&Ask::Look)?;
            let seen: Seen = self.exchange.hear_told(ANSWER_WITHIN)?;
            let amiss = expected.judge(&seen);
            if amiss.is_none() || Instant::now() >= deadline {
                return Ok((seen, amiss.map(|amiss| format!("responder: {amiss}"))));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Scene {
    /// Puts the message of `round` into memory, and clears where results go.
    fn load(&self, world: &mut World, round: u64) -> Result<(), Failure> {
        let len = self.act.bytes as usize;
        match self.act.verb {
            Verb::Send | Verb::Write | Verb::WriteWithImmediate => {
                world.requester.put(0, &message(round, len));
            }
            Verb::Read | Verb::CompareSwap | Verb::FetchAdd => {
                world.requester.put(RECEIVE_OFFSET, &message(!round, len));
            }
        }
        Ok(self.memory.buffer().write(0, world.requester.bytes())?)
    }

    /// Posts one request and waits for its completion.
    fn perform(&self, world: &World, round: u64) -> Result<(Wc, Duration), Failure> {
        let op = self.request(world, round);
        let local = match self.act.verb {
            Verb::Send | Verb::Write | Verb::WriteWithImmediate => 0,
            Verb::Read | Verb::CompareSwap | Verb::FetchAdd => RECEIVE_OFFSET,
        };
        let sges = [self.memory.sge(local, self.act.bytes)];
        let flags = SendFlags::SIGNALED;
        let begun = Instant::now();
        self.qp.post_send(&[SendWr {
            wr_id: round,
            op,
            flags,
            sges: &sges,
            ..SendWr::default()
        }])?;
        match self.cq.wait_one(Some(PATIENCE))? {
            Some(wc) => Ok((wc, begun.elapsed())),
            None => Err(Failure::plain(format!(
                "{} on {}: no completion within {} s",
                self.act.name,
                words::service(self.act.service),
                PATIENCE.as_secs()
            ))),
        }
    }

    fn request(&self, world: &World, round: u64) -> SendOp {
        let place = self.region.at(remote_offset(self.act, self.region.addr));
        let (remote_addr, mut rkey) = (place.addr, place.rkey);
        if self.act.aim == Aim::OtherKey {
            rkey.0 ^= 1;
        }
        let number = u32::try_from(round).unwrap_or(u32::MAX);
        match (self.act.verb, &self.ah) {
            (Verb::Send, Some(ah)) => SendOp::SendTo {
                ah: ah.id(),
                remote_qpn: self.peer.qpn,
                remote_qkey: QKEY,
                imm: None,
            },
            (Verb::Send, None) => SendOp::Send { imm: None, invalidate: None },
            (Verb::Write, _) => SendOp::Write { remote_addr, rkey, imm: None },
            (Verb::WriteWithImmediate, _) => {
                SendOp::Write { remote_addr, rkey, imm: Some(IMMEDIATE + number) }
            }
            (Verb::Read, _) => SendOp::Read { remote_addr, rkey },
            (Verb::CompareSwap, _) => SendOp::CompareSwap {
                remote_addr,
                rkey,
                compare: world.word(),
                swap: World::swap(round),
            },
            (Verb::FetchAdd, _) => SendOp::FetchAdd { remote_addr, rkey, add: ADDEND },
        }
    }

    fn judge_memory(&self, world: &World) -> Option<String> {
        let mut bytes = vec![0; MEMORY];
        match self.memory.buffer().read(0, &mut bytes) {
            Ok(()) => world.requester.difference(&bytes, &[]),
            Err(error) => Some(error.to_string()),
        }
    }
}
