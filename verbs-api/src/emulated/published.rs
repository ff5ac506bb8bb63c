//! Counters for whoever of the same user asks: one socket for each open device.
//!
//! A device that publishes listens on a unix socket in a directory that only its user can enter.
//! To whoever connects it tells, as lines of text, who it is and what it has counted so far, and
//! closes. Nothing is done until somebody asks, and no packet waits for it but by the device's
//! lock, which is held while the numbers are copied.
//!
//! ```text
//! softrnic-counters 1
//! pid 4711
//! program server
//! device softrnic0
//! port 4791
//! address 10.0.0.2
//! counter sent_pkts 12
//! ..
//! end
//! ```

use std::fs::{read_dir, remove_file};
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::EmulatedConfig;
use super::engine::Shared;
use super::private::{directories, judge, private_directory};
use super::threads;
use crate::provider::Counter;

const HEADING: &str = "softrnic-counters 1";
const SUFFIX: &str = ".sock";
/// How long an asker may take to read, and a device to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// No device has more to say.
const ANSWER_MAX: u64 = 1 << 20;

/// An open device of some process, and what it has counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its process.
    pub pid: u32,
    /// The process' name.
    pub program: String,
    /// The device's name.
    pub device: String,
    /// UDP port.
    pub port: u16,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// As [`crate::provider::Context::counters`].
    pub counters: Vec<Counter>,
}

impl Published {
    /// Asks every device that this user's processes publish. What processes that are gone have
    /// left behind is removed on the way; one that does not answer is left out.
    ///
    /// # Errors
    /// The directory is there and cannot be read, or is not this user's alone.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for directory in directories() {
            match judge(&directory) {
                Ok(()) => found.extend(answers(&directory)?),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_by(|a, b| (a.pid, &a.addresses).cmp(&(b.pid, &b.addresses)));
        Ok(found)
    }

    fn to_text(&self) -> String {
        use std::fmt::Write as _;
        let Self { pid, program, device, port, addresses, counters } = self;
        let mut text = format!("{HEADING}\npid {pid}\nprogram {program}\ndevice {device}\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "port {port}");
        for address in addresses {
            let _ = writeln!(text, "address {address}");
        }
        for Counter { name, value } in counters {
            let _ = writeln!(text, "counter {name} {value}");
        }
        text.push_str("end\n");
        text
    }

    /// Understands an answer. Lines of an unknown kind are passed over.
    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix("end\n")?.lines();
        (lines.next() == Some(HEADING)).then_some(())?;
        let mut device = Self {
            pid: 0,
            program: String::new(),
            device: String::new(),
            port: 0,
            addresses: Vec::new(),
            counters: Vec::new(),
        };
        for line in lines {
            let (kind, rest) = line.split_once(' ')?;
            match kind {
                "pid" => device.pid = rest.parse().ok()?,
                "program" => device.program = printable(rest),
                "device" => device.device = printable(rest),
                "port" => device.port = rest.parse().ok()?,
                "address" => device.addresses.push(rest.parse().ok()?),
                "counter" => {
                    let (name, value) = rest.split_once(' ')?;
                    let name = printable(name).into();
                    device.counters.push(Counter { name, value: value.parse().ok()? });
                }
                _ => {}
            }
        }
        Some(device)
    }
}

/// `text` without what would steer a terminal or end a line.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What the sockets of a directory answer.
fn answers(directory: &Path) -> io::Result<Vec<Published>> {
    let paths = read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let sockets = paths.filter(|path| path.as_os_str().to_str().is_some_and(is_socket_name));
    Ok(sockets.filter_map(|path| ask(&path).ok().flatten()).collect())
}

fn is_socket_name(path: &str) -> bool {
    path.ends_with(SUFFIX)
}

/// Asks one; `None` if it does not answer in the way it should.
fn ask(path: &Path) -> io::Result<Option<Published>> {
    let stream = match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            // Nobody listens any more: its process was killed.
            remove_file(path)?;
            return Ok(None);
        }
        stream => stream?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut text)?;
    Ok(Published::from_text(&text))
}

/// Removes what killed processes have left in a directory.
fn sweep(directory: &Path) {
    let paths = read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in paths.filter(|path| is_left_behind(path)) {
        // Another process may have been quicker.
        let _ = remove_file(path);
    }
}

/// Whether its process is gone and nobody listens. Either alone may be wrong: a process in another
/// container is not seen, and one that is about to listen does not do so yet.
fn is_left_behind(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_socket_name(name));
    let pid = name.and_then(|name| name.split_once('-')?.0.parse().ok());
    let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) else { return false };
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// A device's socket and who answers there. Dropping it closes both.
#[derive(Debug)]
pub(super) struct Publication {
    path: PathBuf,
    /// Closing it ends the thread.
    bell: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Publication {
    /// Publishes a device.
    pub(super) fn start(config: &EmulatedConfig, shared: &Arc<Shared>) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let directory = private_directory()?;
        sweep(&directory);
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = directory.join(format!("{pid}-{number}{SUFFIX}"));
        // An earlier process of this number may have left one behind.
        let _ = remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).unwrap_or_default();
        let about = Published {
            pid,
            program: printable(&program.to_string_lossy()),
            device: printable(&config.name),
            port: config.port,
            addresses: config.addresses.clone(),
            counters: Vec::new(),
        };
        let (bell, ring) = UnixStream::pair()?;
        let shared = Arc::downgrade(shared);
        let thread =
            threads::spawn("softrnic-stat", move || serve(&listener, &ring, &shared, about));
        match thread {
            Ok(thread) => Ok(Self { path, bell: Some(bell), thread: Some(thread) }),
            Err(error) => {
                let _ = remove_file(&path);
                Err(error)
            }
        }
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        let _ = remove_file(&self.path);
        drop(self.bell.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the runtime already.
            let _ = thread.join();
        }
    }
}

/// Answers until the bell is closed.
fn serve(listener: &UnixListener, bell: &UnixStream, shared: &Weak<Shared>, mut about: Published) {
    loop {
        let mut both = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(bell, PollFlags::IN | PollFlags::HUP),
        ];
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !both[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        let Some(shared) = shared.upgrade() else { return };
        about.counters = shared.lock().counters();
        drop(shared);
        // Who does not read its answer goes without.
        let _ = listener.accept().and_then(|(mut stream, _)| {
            stream.set_nonblocking(false)?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.write_all(about.to_text().as_bytes())
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::DirBuilderExt;

    use std::net::Ipv4Addr;

    use super::*;

    fn example() -> Published {
        Published {
            pid: 7,
            program: "a b".into(),
            device: "softrnic0".into(),
            port: 4791,
            addresses: vec![Ipv4Addr::LOCALHOST.into(), "fd00::1".parse().unwrap()],
            counters: vec![Counter { name: "sent_pkts".into(), value: u64::MAX }],
        }
    }

    #[test]
    fn it_survives_as_text() {
        let device = example();
        assert_eq!(Published::from_text(&device.to_text()), Some(device.clone()));
        let newer = device.to_text().replace("end\n", "colour blue\nend\n");
        assert_eq!(Published::from_text(&newer), Some(device));
    }

    #[test]
    fn what_is_no_answer_or_cut_off_is_not_understood() {
        let good = example().to_text();
        for text in ["", "end\n", "softrnic-counters 2\nend\n", "hello\nend\n"] {
            assert_eq!(Published::from_text(text), None, "{text}");
        }
        for len in 0..good.len() {
            assert_eq!(Published::from_text(&good[..len]), None);
        }
        for (from, to) in [("pid 7", "pid x"), ("port 4791", "port 70000"), (" 1844", " -1844")] {
            assert_eq!(Published::from_text(&good.replace(from, to)), None, "{to}");
        }
    }

    /// Only Linux has more than one loopback address.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_device_tells_what_it_has_counted_and_a_closed_one_is_gone() {
        use crate::emulated::EmulatedContext;
        use crate::provider::Context as _;
        let address: IpAddr = Ipv4Addr::new(127, 85, 0, 1).into();
        let seen = || {
            let own = (std::process::id(), &vec![address]);
            let all = Published::all().unwrap();
            all.into_iter().find(|device| (device.pid, &device.addresses) == own)
        };
        let port = super::super::free_port().unwrap();
        let mut config = EmulatedConfig::new(address).with_port(port);
        config.publish = true;
        let context = EmulatedContext::open(config.clone()).unwrap();
        let device = seen().expect("it is published");
        assert_eq!(device.port, port);
        assert_eq!(device.counters, context.counters().unwrap());
        drop(context);
        assert_eq!(seen(), None);
        config.publish = false;
        let context = EmulatedContext::open(config).unwrap();
        assert_eq!(seen(), None);
        drop(context);
    }

    #[test]
    fn what_a_killed_process_left_behind_is_removed() {
        let directory = std::env::temp_dir().join(format!("softrnic-test-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let path = directory.join("1-0.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        assert_eq!(answers(&directory).unwrap(), []);
        assert!(!path.exists());
        std::fs::remove_dir(&directory).unwrap();
    }

    #[test]
    fn what_ended_processes_left_behind_goes_when_the_next_device_opens() {
        let name = format!("softrnic-sweep-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory).unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("--list")
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        child.wait().unwrap();
        let (gone, here) = (child.id(), std::process::id());
        let path = |name: String| directory.join(name);
        let left = path(format!("{gone}-0.sock"));
        let about_to_listen = path(format!("{here}-0.sock"));
        let in_a_container = path(format!("{gone}-1.sock"));
        let other = path("notes".into());
        drop(UnixListener::bind(&left).unwrap());
        drop(UnixListener::bind(&about_to_listen).unwrap());
        let _listens = UnixListener::bind(&in_a_container).unwrap();
        std::fs::write(&other, "").unwrap();
        sweep(&directory);
        assert!(!left.exists());
        assert!(about_to_listen.exists() && in_a_container.exists() && other.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
