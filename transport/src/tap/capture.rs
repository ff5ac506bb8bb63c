//! A capture file that Wireshark opens.
//!
//! Frames get the Ethernet, IP and UDP headers that they have or would have on a wire, and the
//! right ICRC for them; one that a fault rule damages is recorded damaged. Of a frame that leaves,
//! the UDP source port is the one that the device asked for, and the IPv4 identification is 0.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use softrnic_model::Instant;
use softrnic_model::verbs::Gid;
use softrnic_model::wire::{Packet, Route, emit_frame};

use super::Direction;
use super::pcapng::Blocks;
use crate::LinkSet;
use crate::link::{Link, LinkCounters, Outgoing, PACKET_LEN_MAX};

/// Bytes that may wait to be written.
const BUFFER_LEN: usize = 64 << 10;
/// Room for the block that makes them too many.
const BLOCK_LEN_MAX: usize = 2 * PACKET_LEN_MAX;
/// How long they may wait.
const WRITE_AFTER_NS: u64 = 10_000_000;
/// Ethernet, IPv4 or IPv6, and UDP header.
const HEADERS_V4: usize = 14 + 20 + 8;
const HEADERS_V6: usize = 14 + 40 + 8;

/// Why a capture file cannot be made.
#[derive(Debug)]
pub struct CaptureError {
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not create the capture file {}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A capture file, which any number of links may write to.
///
/// It is written in whole blocks, at the latest some milliseconds after a frame passed, so the
/// file of a process that was killed can be read.
#[derive(Clone)]
pub struct CaptureFile(Arc<Mutex<Recorder>>);

/// What writes the file.
struct Recorder {
    /// The file; none after an error.
    out: Option<Box<dyn Write + Send>>,
    error: Option<io::Error>,
    blocks: Blocks,
    /// When the oldest frame that is not written yet passed.
    waiting_since: Option<Instant>,
    /// Nanoseconds from the Unix epoch to the origin of [`Instant`].
    origin_ns: u64,
    /// Process number and name, for comments.
    process: String,
    interfaces: u32,
}

/// Opens the file for one device alone, or one beside it.
fn claim(path: &Path) -> io::Result<File> {
    /// More devices than one process opens with one name.
    const ATTEMPTS: u32 = 256;
    for attempt in 0..ATTEMPTS {
        let beside = match attempt {
            0 => path.to_owned(),
            1 => path.with_extension(format!("{}.pcapng", std::process::id())),
            _ => path.with_extension(format!("{}-{attempt}.pcapng", std::process::id())),
        };
        let file = File::options().write(true).create(true).truncate(false).open(beside)?;
        // Where files cannot be locked they are written all the same.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            continue;
        }
        // A pipe or a terminal has nothing to empty.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        return Ok(file);
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

impl CaptureFile {
    /// Creates the file, or empties it. While another process writes there, a file beside it, named
    /// after this process, is taken: `frames.4711.pcapng`. `origin` is the time of day at
    /// [`Instant::ZERO`]; for virtual time [`SystemTime::UNIX_EPOCH`] will do.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create(path: &Path, origin: SystemTime) -> Result<Self, CaptureError> {
        let failed = |source| CaptureError { path: path.to_owned(), source };
        let file = claim(path).map_err(failed)?;
        let capture = Self::to(file, origin);
        capture.write().map_err(failed)?;
        Ok(capture)
    }

    /// The same to anything that can be written to.
    pub fn to(out: impl Write + Send + 'static, origin: SystemTime) -> Self {
        let since_epoch = origin.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut blocks = Blocks::with_capacity(BUFFER_LEN + BLOCK_LEN_MAX);
        blocks.section(concat!("softrnic ", env!("CARGO_PKG_VERSION")));
        Self(Arc::new(Mutex::new(Recorder {
            out: Some(Box::new(out)),
            error: None,
            blocks,
            waiting_since: None,
            origin_ns: u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX),
            process: process(),
            interfaces: 0,
        })))
    }

    /// Adds an interface, and returns its number.
    pub fn add_interface(&self, name: &str) -> u32 {
        self.with(|recorder| {
            recorder.blocks.interface(name);
            recorder.interfaces += 1;
            recorder.interfaces - 1
        })
    }

    /// Records a frame that passed `interface`. `damage` is as [`Outgoing::damage`].
    pub fn record(
        &self,
        interface: u32,
        now: Instant,
        direction: Direction,
        route: &Route,
        packet: &[u8],
        damage: Option<u32>,
    ) {
        self.with(|recorder| recorder.record(interface, now, direction, route, packet, damage));
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// What the file said, now or at an earlier time; nothing is recorded after it.
    pub fn write(&self) -> io::Result<()> {
        self.with(|recorder| {
            recorder.write();
            match &recorder.error {
                // an error cannot be cloned
                Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
                None => Ok(()),
            }
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut Recorder) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for CaptureFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaptureFile").finish_non_exhaustive()
    }
}

impl Recorder {
    fn record(
        &mut self,
        interface: u32,
        now: Instant,
        direction: Direction,
        route: &Route,
        packet: &[u8],
        damage: Option<u32>,
    ) {
        if self.out.is_none() {
            return;
        }
        let time_ns = self.origin_ns.saturating_add(now.as_ns());
        let frame = |out: &mut Vec<u8>| {
            let start = out.len();
            // no frame that a link carries is too long for a datagram
            let _always_ok = emit_frame(route, 0, packet, out);
            let headers = if route.is_v4() { HEADERS_V4 } else { HEADERS_V6 };
            if let Some(bit) = damage.and_then(|bit| usize::try_from(bit).ok())
                && let Some(byte) = out.get_mut(start + headers + bit / 8)
            {
                *byte ^= 1 << (bit % 8);
            }
        };
        let process = &self.process;
        let comment = |out: &mut Vec<u8>| write_comment(out, process, packet, damage);
        let inbound = direction == Direction::Received;
        self.blocks.packet(interface, time_ns, inbound, frame, comment);
        self.waiting_since.get_or_insert(now);
        if self.blocks.as_slice().len() >= BUFFER_LEN {
            self.write();
        }
    }

    /// Writes what waits if the link has nothing else to do or it has waited long.
    fn write_in_time(&mut self, now: Instant, idle: bool) {
        if let Some(since) = self.waiting_since
            && (idle || now.ns_since(since) >= WRITE_AFTER_NS)
        {
            self.write();
        }
    }

    fn write(&mut self) {
        if let Some(out) = &mut self.out
            && let Err(error) = out.write_all(self.blocks.as_slice())
        {
            self.error = Some(error);
            self.out = None;
        }
        self.blocks.clear();
        self.waiting_since = None;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.write();
    }
}

/// "process 123 (name)".
fn process() -> String {
    let name = std::env::current_exe().ok();
    let name = name.as_deref().and_then(Path::file_name).unwrap_or_default();
    format!("process {} ({})", std::process::id(), name.display())
}

fn write_comment(out: &mut Vec<u8>, process: &str, packet: &[u8], damage: Option<u32>) {
    // writing to a Vec cannot fail
    let _always_ok = match Packet::parse(packet) {
        Ok(packet) => {
            let to = packet.bth.dest_qp().get();
            match packet.deth() {
                Some(deth) => write!(out, "{process}, qp {:#08x}>{to:#08x}", deth.src_qp().get()),
                None => write!(out, "{process}, qp {to:#08x}"),
            }
        }
        Err(error) => write!(out, "{process}, malformed: {error}"),
    };
    if let Some(bit) = damage {
        let _always_ok = write!(out, ", damaged in bit {bit}");
    }
}

/// A link that records every frame that passes.
#[derive(Debug)]
pub struct Capture<L> {
    inner: L,
    file: CaptureFile,
    interface: u32,
}

impl<L: Link> Capture<L> {
    /// Records what passes `inner` as an interface called `name`.
    pub fn new(inner: L, file: &CaptureFile, name: &str) -> Self {
        Self { inner, interface: file.add_interface(name), file: file.clone() }
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, for what is particular to it, such as joining a multicast group.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }
}

impl<L: Link> Link for Capture<L> {
    fn receive(
        &mut self,
        now: Instant,
        deliver: &mut dyn FnMut(&Route, &[u8]),
    ) -> io::Result<usize> {
        let Self { inner, file, interface } = self;
        let received = inner.receive(now, &mut |route, packet| {
            file.record(*interface, now, Direction::Received, route, packet, None);
            deliver(route, packet);
        })?;
        file.with(|recorder| recorder.write_in_time(now, received == 0));
        Ok(received)
    }

    fn ready(&self) -> bool {
        self.inner.ready()
    }

    fn transmit(
        &mut self,
        now: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let Self { inner, file, interface } = self;
        inner.transmit(now, frame, &mut |packet| {
            let filled = fill(packet);
            if filled {
                let Outgoing { route, damage, .. } = &frame;
                file.record(*interface, now, Direction::Sent, route, packet, *damage);
            }
            filled
        })
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.file.with(|recorder| recorder.write_in_time(now, false));
        self.inner.flush(now)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let waiting = self.file.with(|recorder| recorder.waiting_since);
        let write = waiting.map(|since| since.plus_ns(WRITE_AFTER_NS));
        self.inner.next_deadline().into_iter().chain(write).min()
    }

    fn join(&mut self, group: Gid) -> io::Result<()> {
        self.inner.join(group)
    }

    fn leave(&mut self, group: Gid) {
        self.inner.leave(group);
    }

    fn sockets(&self, each: &mut dyn FnMut(&UdpSocket)) {
        self.inner.sockets(each);
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }

    fn as_set(&mut self) -> Option<&mut LinkSet> {
        self.inner.as_set()
    }
}

#[cfg(test)]
mod tests {
    use super::claim;

    #[test]
    fn who_comes_second_writes_beside() {
        let folder = std::env::temp_dir().join(format!("softrnic-claim-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("frames.pcapng");
        std::fs::write(&path, "of an earlier run").unwrap();
        let files = [0; 3].map(|_| claim(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "it is emptied");
        let entries = || std::fs::read_dir(&folder).unwrap();
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries().map(|e| name(e).into_string().unwrap()).collect();
        names.sort();
        let pid = std::process::id();
        let own = [format!("frames.{pid}-2.pcapng"), format!("frames.{pid}.pcapng")];
        assert_eq!(names, [own[0].as_str(), &own[1], "frames.pcapng"]);
        drop(files);
        drop(claim(&path).unwrap());
        assert_eq!(entries().count(), 3, "the name is free again");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
