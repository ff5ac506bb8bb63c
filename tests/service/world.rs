//! What the tests share: ports, services, patience.

use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use softrnic_transport::service::{self, Listed, Listing};

/// The executable of the service.
pub(crate) const SERVICE: &str = env!("CARGO_BIN_EXE_softrnic");

/// A UDP port that no other test has.
pub(crate) fn free_port() -> u16 {
    static KEPT: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let socket = UdpSocket::bind("127.255.0.3:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    KEPT.lock().unwrap().push(socket);
    port
}

/// All services of a port.
pub(crate) fn services(port: u16) -> Vec<Listed> {
    service::services().unwrap().into_iter().filter(|listed| listed.port == port).collect()
}

/// The one service of a port, if it is there and answers.
pub(crate) fn service_of(port: u16) -> Option<Listing> {
    let mut all = services(port);
    assert!(all.len() <= 1, "{all:?}");
    all.pop()?.listing.ok()
}

/// Waits until something is found.
pub(crate) fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn kill(pid: u32) {
    signal("KILL", pid);
}

pub(crate) fn signal(name: &str, pid: u32) {
    let pid = pid.to_string();
    let done = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
    assert!(done.success());
}

/// Whether a process is there and has not ended.
pub(crate) fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
    else {
        return false;
    };
    // After the name, which ends with the last parenthesis, comes the state.
    !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// A service in the foreground. It is asked to end when this goes.
#[derive(Debug)]
pub(crate) struct Foreground {
    process: std::process::Child,
    port: u16,
}

impl Foreground {
    pub(crate) fn start(port: u16, options: &str) -> Self {
        let mut command = Command::new(SERVICE);
        command.args(["service", "--udp-port", &port.to_string()]);
        let command = command.args(options.split_ascii_whitespace()).stdin(Stdio::null());
        let service = Self { process: command.spawn().unwrap(), port };
        until("the service is there", || service_of(port));
        service
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        if self.process.try_wait().unwrap().is_some() {
            // It was killed, and another one has taken its place in the background.
            let all = services(self.port).into_iter().filter_map(|listed| listed.listing.ok());
            all.for_each(|listing| signal("TERM", listing.service));
            return;
        }
        signal("TERM", self.process.id());
        let ended = self.process.wait().unwrap();
        assert!(std::thread::panicking() || ended.success(), "{ended}");
    }
}
