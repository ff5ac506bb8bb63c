//! The emulated device between two processes, over UDP on the loopback address.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, ConnectOptions, Context, Cq, Endpoint, Gid, Key, Mr, Mtu, Psn, Qp, QpCapabilities,
    QpNum, QpType, RecvWr, RemoteAddress, SendFlags, SendOp, SendWr, Wc, WcOpcode, WcStatus,
};

use super::pair::{Job, Pair};
use super::sample::{Sample, Setting, median};
use super::sys::{Cpus, Page};
use crate::device::Settings;
use crate::error::Failure;

/// Queue pairs of each end.
const LANES: usize = 2;
/// Numbers that an end tells: address, path MTU, address and key of its region; QPN and PSN of each
/// queue pair.
pub(super) const TOLD: usize = 4 + 2 * LANES;
/// Bytes of the region of each end.
const REGION: usize = 1 << 20;
/// Small operations under way.
const DEPTH: u32 = 32;
/// Receives that are posted.
const RECEIVES: u32 = 128;
/// No sample of latency has more round trips.
const ROUNDS_MAX: usize = 20_000;
/// How long anything may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// One end.
pub(super) struct End {
    _context: Context,
    memory: Mr,
    lanes: Vec<(Qp, Cq)>,
    mtu: Mtu,
}

/// What an end knows of the other.
struct Peer {
    region: RemoteAddress,
    lanes: [Endpoint; LANES],
}

/// Bytes of a message, and how many are under way.
#[derive(Clone, Copy)]
struct Load {
    size: u32,
    depth: u32,
}

/// One sample: GB/s of payload, WRITEs of 64 KiB, 1 MiB under way.
pub(super) fn throughput(mtu: Mtu, setting: &Setting) -> Result<Sample, Failure> {
    let load = Load { size: 64 << 10, depth: 16 };
    let (pair, end, peer) = start(Job::DeviceTarget, mtu, setting)?;
    let (count, elapsed) = end.write_for(0, load, &peer, setting.time)?;
    let bytes = count as f64 * f64::from(load.size);
    pair.finish(|_| bytes / elapsed.as_secs_f64() / 1e9)
}

/// One sample: half a round trip of a SEND of 8 bytes in microseconds, both ends polling.
pub(super) fn latency(setting: &Setting) -> Result<Sample, Failure> {
    let (pair, end, _peer) = start(Job::DeviceEcho, Mtu::B4096, setting)?;
    let mut halves = Vec::with_capacity(ROUNDS_MAX);
    let mut begun = Instant::now();
    let over = begun + setting.time;
    while halves.len() < ROUNDS_MAX && begun < over {
        end.send()?;
        end.receive(|| false)?.ok_or_else(silence)?;
        let now = Instant::now();
        halves.push((now - begun).as_secs_f64() * 1e6 / 2.0);
        begun = now;
    }
    let half = median(halves.into_iter()).ok_or_else(silence)?;
    pair.finish(|_| half)
}

/// One sample: millions of WRITEs of 8 bytes a second by `threads` threads, each with a queue pair
/// and a completion queue of its own on one device.
pub(super) fn threads(threads: usize, setting: &Setting) -> Result<Sample, Failure> {
    let load = Load { size: 8, depth: DEPTH };
    let (pair, end, peer) = start(Job::DeviceTarget, Mtu::B4096, setting)?;
    let (end, peer, time) = (&end, &peer, setting.time);
    let (_, other_core) = setting.cores;
    let rate = |(count, elapsed): (u64, Duration)| count as f64 / elapsed.as_secs_f64() / 1e6;
    let rates = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|lane| {
                scope.spawn(move || {
                    // On this core both would only take turns; where it fails, they do.
                    _ = Cpus::only(other_core).and_then(|core| core.bind_thread());
                    end.write_for(lane, load, peer, time)
                })
            })
            .collect();
        let mine = end.write_for(0, load, peer, time)?;
        let theirs = others.into_iter().map(|other| {
            other.join().map_err(|_| Failure::plain("bench limits: a thread panicked"))?
        });
        let theirs: Vec<_> = theirs.collect::<Result<_, Failure>>()?;
        Ok::<f64, Failure>(rate(mine) + theirs.into_iter().map(rate).sum::<f64>())
    })?;
    pair.finish(|_| rates)
}

/// Starts the other process and connects the two devices.
fn start(job: Job, mtu: Mtu, setting: &Setting) -> Result<(Pair, End, Peer), Failure> {
    let mut end = None;
    let pair = Pair::start_with(job, setting, |page| {
        let [mine, _] = &page.ends;
        end = Some(End::open(mtu, mine)?);
        Ok(())
    })?;
    let end = end.ok_or_else(silence)?;
    let [_, theirs] = &pair.page().ends;
    let peer = Peer::read(theirs)?;
    end.connect(&peer)?;
    Ok((pair, end, peer))
}

/// The peer: opens its device and connects it to that of the parent, which waits.
pub(super) fn open_peer(page: &Page) -> Result<End, Failure> {
    let [theirs, mine] = &page.ends;
    let peer = Peer::read(theirs)?;
    let end = End::open(peer.lanes[0].mtu, mine)?;
    end.connect(&peer)?;
    Ok(end)
}

impl End {
    /// The peer's part as a target: its program sleeps, its device serves.
    pub(super) fn serve(&self, stop: &AtomicU64) {
        while stop.load(Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The peer's part in a ping-pong: sends back until the parent stops.
    pub(super) fn echo(&self, stop: &AtomicU64) -> Result<(), Failure> {
        while self.receive(|| stop.load(Acquire) != 0)?.is_some() {
            self.send()?;
        }
        Ok(())
    }

    fn open(mtu: Mtu, told: &[AtomicU64; TOLD]) -> Result<Self, Failure> {
        let context = Settings::bare().open_anywhere()?;
        let pd = context.alloc_pd()?;
        let access = Access::LOCAL_WRITE.union(Access::REMOTE);
        let memory = pd.register(Buffer::new(REGION)?, access)?;
        let cap = QpCapabilities {
            max_send_wr: DEPTH,
            max_recv_wr: RECEIVES,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 8,
        };
        let lane = |_| {
            let cq = context.create_cq(DEPTH + RECEIVES)?;
            Ok((pd.create_qp(QpType::Rc, &cq).capabilities(cap).build()?, cq))
        };
        let lanes = (0..LANES).map(lane).collect::<Result<Vec<_>, Failure>>()?;
        let end = Self { _context: context, memory, lanes, mtu };
        end.tell(told)?;
        Ok(end)
    }

    fn tell(&self, told: &[AtomicU64; TOLD]) -> Result<(), Failure> {
        let RemoteAddress { addr, rkey } = self.memory.remote(0);
        let mut numbers = vec![0, self.mtu.bytes().into(), addr, rkey.0.into()];
        for (qp, _) in &self.lanes {
            let Endpoint { gid, qp_num, psn, .. } = qp.endpoint()?;
            if let (Some(at), Some(v4)) = (numbers.first_mut(), gid.as_v4()) {
                *at = u32::from_be_bytes(v4).into();
            }
            numbers.extend([qp_num.get(), psn.get()].map(u64::from));
        }
        for (place, number) in told.iter().zip(numbers) {
            place.store(number, Release);
        }
        Ok(())
    }

    fn connect(&self, peer: &Peer) -> Result<(), Failure> {
        let options = ConnectOptions { mtu: Some(self.mtu), ..ConnectOptions::default() };
        for ((qp, _), peer) in self.lanes.iter().zip(&peer.lanes) {
            let sges = [self.memory.sge(0, 64)];
            qp.post_recv(&vec![RecvWr { wr_id: 0, sges: &sges }; RECEIVES as usize])?;
            qp.connect_with(peer, &options)?;
        }
        Ok(())
    }

    /// Writes for `time` and returns how often, and how long it took until all were done.
    fn write_for(
        &self,
        lane: usize,
        load: Load,
        peer: &Peer,
        time: Duration,
    ) -> Result<(u64, Duration), Failure> {
        let (qp, cq) = self.lanes.get(lane).ok_or_else(silence)?;
        let places = REGION as u64 / u64::from(load.size.max(4096));
        let place = |number: u64| number % places * u64::from(load.size.max(4096));
        let mut completions = [Wc::default(); 32];
        let begun = Instant::now();
        let (mut posted, mut done, mut last) = (0_u64, 0_u64, begun);
        loop {
            let now = Instant::now();
            let room = if now < begun + time { u64::from(load.depth) - (posted - done) } else { 0 };
            if room > 0 {
                let sges: Vec<_> = (0..room)
                    .map(|number| [self.memory.sge(place(posted + number), load.size)])
                    .collect();
                let request = |(number, sges)| {
                    let to = peer.region.plus(place(posted + number));
                    let op = SendOp::Write { remote_addr: to.addr, rkey: to.rkey, imm: None };
                    SendWr {
                        wr_id: number,
                        op,
                        flags: SendFlags::SIGNALED,
                        sges,
                        ..SendWr::default()
                    }
                };
                let list = (0..).zip(sges.iter().map(|sges| &sges[..])).map(request);
                qp.post_send(&list.collect::<Vec<_>>())?;
                posted += room;
            }
            if posted == done {
                return Ok((done, last - begun));
            }
            let count = cq.poll(&mut completions)?;
            judge(&completions, count)?;
            done += count as u64;
            if count > 0 {
                last = Instant::now();
            } else if last.elapsed() > PATIENCE {
                return Err(silence());
            }
        }
    }

    /// Sends 8 bytes on the first queue pair.
    fn send(&self) -> Result<(), Failure> {
        let (qp, _) = self.lanes.first().ok_or_else(silence)?;
        let op = SendOp::Send { imm: None, invalidate: None };
        let flags = SendFlags::SIGNALED.union(SendFlags::INLINE);
        Ok(qp.post_send(&[SendWr {
            wr_id: 0,
            op,
            flags,
            sges: &[],
            inline: &[7; 8],
            ..SendWr::default()
        }])?)
    }

    /// Waits for a message on the first queue pair and posts its receive again; `None` when `over`
    /// says so.
    fn receive(&self, over: impl Fn() -> bool) -> Result<Option<()>, Failure> {
        let (qp, cq) = self.lanes.first().ok_or_else(silence)?;
        let begun = Instant::now();
        let mut wc = [Wc::default()];
        for polls in 1_u32.. {
            if cq.poll(&mut wc)? == 1 {
                judge(&wc, 1)?;
                if wc[0].opcode == WcOpcode::Recv {
                    let sges = [self.memory.sge(0, 64)];
                    qp.post_recv(&[RecvWr { wr_id: 0, sges: &sges }])?;
                    return Ok(Some(()));
                }
            } else if polls.is_multiple_of(64) {
                if over() {
                    return Ok(None);
                }
                if begun.elapsed() > PATIENCE {
                    return Err(silence());
                }
            }
        }
        Ok(None)
    }
}

impl Peer {
    fn read(told: &[AtomicU64; TOLD]) -> Result<Self, Failure> {
        let mut numbers = told.iter().map(|number| number.load(Acquire));
        let mut next = || numbers.next().unwrap_or(0);
        let mut word = || u32::try_from(next()).unwrap_or(0);
        let address = IpAddr::from(Ipv4Addr::from(word()));
        let mtu = word();
        let mtu = Mtu::ALL.into_iter().find(|known| known.bytes() == mtu).ok_or_else(silence)?;
        let addr = next();
        let mut word = || u32::try_from(next()).unwrap_or(0);
        let region = RemoteAddress { addr, rkey: Key(word()) };
        let lanes = [(); LANES].map(|()| Endpoint {
            gid: Gid::from(address),
            qp_num: QpNum::new(word()),
            psn: Psn::new(word()),
            mtu,
            responder_depth: 16,
        });
        Ok(Self { region, lanes })
    }
}

fn judge(completions: &[Wc], count: usize) -> Result<(), Failure> {
    let failed = completions.iter().take(count).find(|wc| wc.status != WcStatus::Success);
    failed.map_or(Ok(()), |wc| {
        let status = crate::words::status(wc.status);
        Err(Failure::plain(format!("bench limits: a work request failed: {status}")))
    })
}

fn silence() -> Failure {
    Failure::failed(
        "bench limits: the device of the peer process does not answer",
        "run again when the machine is less busy",
    )
}
