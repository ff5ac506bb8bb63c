//! Two processes, one on each core: this one, and a peer that is this program started again.
//!
//! They share a page of memory, whose descriptor is the peer's standard input. The peer prepares a
//! socket, the two measure how fast a cache line passes between their cores, then the measurement
//! proper runs. The peer dies with its parent, and on its own after [`PEER_LIFE_S`].

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::sample::{Sample, Setting, failed, run_delay_ns};
use super::sys::{self, Cpus, Page, SharedPage};
use super::{PEER_COMMAND, device, udp_latency, udp_throughput};
use crate::error::Failure;

/// Nothing that the two do takes longer, in seconds.
const PEER_LIFE_S: u32 = 20;
/// How long one waits for the other before it gives up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Values of [`Page::phase`], in order. The peer begins at 0 and sets the odd ones.
mod phase {
    /// The peer has a socket and sits on its core.
    pub(super) const READY: u64 = 1;
    /// The cache line passes to and fro.
    pub(super) const LINE: u64 = 2;
    /// The measurement runs.
    pub(super) const GO: u64 = 4;
    /// The results lie in the page.
    pub(super) const DONE: u64 = 5;
}

/// What the peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Job {
    /// Receives and counts.
    UdpReceive,
    /// Sends back what it receives.
    UdpEcho,
    /// Lets its device serve.
    DeviceTarget,
    /// Sends back with its device what that receives.
    DeviceEcho,
}

impl Job {
    /// Its name on the peer's command line.
    const fn name(self) -> &'static str {
        match self {
            Self::UdpReceive => "udp-receive",
            Self::UdpEcho => "udp-echo",
            Self::DeviceTarget => "device-target",
            Self::DeviceEcho => "device-echo",
        }
    }
}

/// What the peer is told.
#[derive(Args, Debug)]
pub(crate) struct PeerArgs {
    job: Job,
    /// The core to sit on
    #[arg(long)]
    core: usize,
    /// The process that started it
    #[arg(long)]
    parent: u32,
}

/// The parent's side.
#[derive(Debug)]
pub(super) struct Pair {
    peer: Child,
    page: SharedPage,
    /// Bound to loopback and connected to the peer's.
    pub(super) socket: UdpSocket,
    line_ns: f64,
    waited_before_ns: u64,
    begun: Instant,
}

impl Pair {
    /// Starts a peer for `job` and measures how near it sits. The measurement runs from here on.
    pub(super) fn start(job: Job, setting: &Setting) -> Result<Self, Failure> {
        Self::start_with(job, setting, |_| Ok(()))
    }

    /// The same; `equip` puts into the page what the peer needs to begin.
    pub(super) fn start_with(
        job: Job,
        setting: &Setting,
        equip: impl FnOnce(&Page) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let (mine, theirs) = setting.cores;
        if mine == theirs {
            return Err(Failure::failed(
                "bench limits: UDP between two processes needs two cores, and one is allowed",
                "allow more (taskset, cgroup), or choose others with --only in-process,memcpy,crc,queue-pairs",
            ));
        }
        let (page, socket) = prepare(0).map_err(failed("prepare a socket and shared memory"))?;
        equip(&page)?;
        let peer = spawn(job, theirs, &page).map_err(failed("start the peer process"))?;
        let mut pair =
            Self { peer, page, socket, line_ns: 0.0, waited_before_ns: 0, begun: Instant::now() };
        pair.await_ready()?;
        let [_, port] = &pair.page.ports;
        connect(&pair.socket, port.load(Acquire)).map_err(failed("connect to the peer"))?;
        pair.page.phase.0.store(phase::LINE, Release);
        pair.line_ns = line_latency_ns(&pair.page)?;
        pair.page.phase.0.store(phase::GO, Release);
        (pair.waited_before_ns, pair.begun) = (run_delay_ns(), Instant::now());
        Ok(pair)
    }

    /// The shared page.
    pub(super) fn page(&self) -> &Page {
        &self.page
    }

    /// Stops the peer and makes a sample of `value`, given what the peer found.
    pub(super) fn finish(self, value: impl FnOnce([u64; 3]) -> f64) -> Result<Sample, Failure> {
        let mine = run_delay_ns().saturating_sub(self.waited_before_ns);
        let elapsed = self.begun.elapsed().as_secs_f64();
        self.page.stop.0.store(1, Release);
        let deadline = Instant::now() + PATIENCE;
        while self.page.phase.0.load(Acquire) != phase::DONE {
            if Instant::now() >= deadline {
                return Err(stuck());
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        let [a, b, c, theirs] = self.page.results.each_ref().map(|result| result.load(Relaxed));
        // When they waited by turns, the sum is the share; when together, it is less.
        let waited = ((mine + theirs) as f64 / 1e9 / elapsed).min(1.0);
        Ok(Sample { value: value([a, b, c]), line_ns: Some(self.line_ns), waited })
    }

    /// Sleeps until the peer is ready; spinning would keep it from starting on this core.
    fn await_ready(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        while self.page.phase.0.load(Acquire) != phase::READY {
            let gone = self.peer.try_wait().map_err(failed("watch the peer process"))?;
            if gone.is_some() || Instant::now() >= deadline {
                return Err(stuck());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        // By now the peer has moved to its own core and spins there.
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // It is about to end by itself, or hangs. Either way it is gone after this.
        _ = self.peer.kill();
        _ = self.peer.wait();
    }
}

/// A page that holds this process's port at `index`, and the socket.
fn prepare(index: usize) -> io::Result<(SharedPage, UdpSocket)> {
    let page = SharedPage::create()?;
    let socket = publish_socket(&page, index)?;
    Ok((page, socket))
}

/// A socket on the loopback address, whose port goes to `index` of the page.
fn publish_socket(page: &SharedPage, index: usize) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sys::enlarge_buffers(&socket)?;
    let port = u64::from(socket.local_addr()?.port());
    if let Some(slot) = page.ports.get(index) {
        slot.store(port, Release);
    }
    Ok(socket)
}

fn connect(socket: &UdpSocket, port: u64) -> io::Result<()> {
    let port = u16::try_from(port).map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))
}

fn spawn(job: Job, core: usize, page: &SharedPage) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg(PEER_COMMAND)
        .arg(job.name())
        .args(["--core", &core.to_string()])
        .args(["--parent", &std::process::id().to_string()])
        .stdin(Stdio::from(page.descriptor()?))
        .stdout(Stdio::null())
        .spawn()
}

fn stuck() -> Failure {
    Failure::failed(
        "bench limits: the peer process did not answer in time",
        "run again when the machine is less busy; its own message, if any, stands above",
    )
}

/// Passes of the line in one reading, and readings. Their median is robust against interruptions.
const PASSES: u64 = 100;
const READINGS: u64 = 40;

/// Time for a line to pass one way, in ns.
fn line_latency_ns(page: &Page) -> Result<f64, Failure> {
    let mut readings = Vec::new();
    for reading in 0..READINGS {
        let begun = Instant::now();
        for pass in 1..=PASSES {
            let token = reading * PASSES + pass;
            page.ping.0.store(token, Release);
            if !spin_until(|| page.pong.0.load(Acquire) == token) {
                return Err(stuck());
            }
        }
        readings.push(begun.elapsed().as_secs_f64() * 1e9 / (2 * PASSES) as f64);
    }
    super::sample::median(readings.into_iter()).ok_or_else(stuck)
}

/// Spins until `done`, and gives up, saying false, after [`PATIENCE`].
fn spin_until(mut done: impl FnMut() -> bool) -> bool {
    let mut spins = 0u32;
    let mut deadline = None;
    while !done() {
        std::hint::spin_loop();
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(1 << 16) {
            let now = Instant::now();
            if now >= *deadline.get_or_insert(now + PATIENCE) {
                return false;
            }
        }
    }
    true
}

/// The peer's side, from its beginning to its end.
pub(crate) fn run_peer(args: &PeerArgs) -> Result<(), Failure> {
    sys::die_with_parent().map_err(failed("follow the parent process"))?;
    if std::os::unix::process::parent_id() != args.parent {
        return Err(Failure::usage(
            "this command serves `softrnic bench limits` alone",
            "run `softrnic bench limits`",
        ));
    }
    sys::die_after(PEER_LIFE_S);
    let page = inherited_page().map_err(failed("map the shared page"))?;
    let core = Cpus::only(args.core).and_then(|core| core.bind_thread());
    core.map_err(failed("bind to a core"))?;
    let socket = publish_socket(&page, 1).map_err(failed("prepare a socket"))?;
    let [parent_port, _] = &page.ports;
    let end = match args.job {
        Job::UdpReceive => None,
        Job::UdpEcho => {
            connect(&socket, parent_port.load(Acquire)).map_err(failed("connect to the parent"))?;
            None
        }
        Job::DeviceTarget | Job::DeviceEcho => Some(device::open_peer(&page)?),
    };
    page.phase.0.store(phase::READY, Release);
    answer_lines(&page)?;
    let waited_before = run_delay_ns();
    let stop = &page.stop.0;
    let [a, b, c] = match (args.job, end) {
        (Job::UdpReceive, _) => udp_throughput::receive(&page, &socket),
        (Job::UdpEcho, _) => udp_latency::echo(&page, &socket),
        (Job::DeviceTarget | Job::DeviceEcho, None) => Ok([0; 3]),
        (Job::DeviceTarget, Some(end)) => {
            end.serve(stop);
            Ok([0; 3])
        }
        (Job::DeviceEcho, Some(end)) => {
            end.echo(stop)?;
            Ok([0; 3])
        }
    }
    .map_err(failed("receive"))?;
    let waited = run_delay_ns().saturating_sub(waited_before);
    for (slot, value) in page.results.iter().zip([a, b, c, waited]) {
        slot.store(value, Relaxed);
    }
    page.phase.0.store(phase::DONE, Release);
    Ok(())
}

fn inherited_page() -> io::Result<SharedPage> {
    use std::os::fd::AsFd;
    SharedPage::map(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Answers the parent's measurement of a line's latency.
fn answer_lines(page: &Page) -> Result<(), Failure> {
    if !spin_until(|| page.phase.0.load(Acquire) == phase::LINE) {
        return Err(stuck());
    }
    for token in 1..=PASSES * READINGS {
        if !spin_until(|| page.ping.0.load(Acquire) == token) {
            return Err(stuck());
        }
        page.pong.0.store(token, Release);
    }
    if spin_until(|| page.phase.0.load(Acquire) == phase::GO) { Ok(()) } else { Err(stuck()) }
}
