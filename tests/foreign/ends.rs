//! Two processes that talk: a server at one address, a client at another.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

pub(crate) use softrnic_testing::is_installed;

/// No program of the tests takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Says that a check is not run and why; a failure where all are required. Returns false.
pub(crate) fn cannot_run(why: &str) -> bool {
    softrnic_testing::not_installed(why);
    false
}

/// A loopback address that no other end of this or another test run has.
pub(crate) fn fresh_address() -> IpAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let [high, low] = std::process::id().to_be_bytes()[2..] else { unreachable!() };
    let [_, number] = (NEXT.fetch_add(1, Ordering::Relaxed) + 2).to_be_bytes();
    Ipv4Addr::new(127, 64 | (high & 0x3f), low, number).into()
}

/// A TCP port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A folder for a test, which goes with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("softrnic {name} {}", std::process::id()));
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds a C program in a folder, with a compiler that is installed.
pub(crate) fn built(compiler: &str, source: &str, folder: &Scratch, libraries: &[&str]) -> PathBuf {
    let program = folder.path().join(Path::new(source).file_stem().unwrap());
    let mut command = Command::new(compiler);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    command.args(libraries);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// How an end is started, beside its program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setting<'a> {
    /// Options of `softrnic run`.
    pub(crate) options: &'a [&'a str],
    /// Variables of the environment.
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

/// Builds the libraries that `softrnic run` puts before programs, from what is here now: cargo does
/// not do it for tests.
pub(crate) fn build_libraries() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_softrnic")).ancestors().nth(2).unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "-p", "softrnic-cabi", "-p", "softrnic-sysfs-shim"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the libraries do not build");
    });
}

/// A program on the device at an address.
pub(crate) fn on_device(address: IpAddr, setting: &Setting<'_>) -> Command {
    build_libraries();
    let mut command = Command::new(env!("CARGO_BIN_EXE_softrnic"));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("SOFTRNIC_")) {
            command.env_remove(name);
        }
    }
    command.arg("run").arg("-d").arg(address.to_string()).args(setting.options).arg("--");
    command.envs(setting.variables.iter().copied()).env("LC_ALL", "C");
    command
}

/// A process whose output is kept; it is killed when this goes.
pub(crate) struct Running {
    child: Option<Child>,
    log: File,
}

/// What a process said in the end.
pub(crate) struct Ended {
    pub(crate) good: bool,
    pub(crate) text: String,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let what = format!("{command:?}");
        // One file for both streams keeps the order of their lines, and never fills up.
        let log = tempfile();
        // To be read from its start, which a copy of the descriptor would not do.
        let reader = File::open(format!("/proc/self/fd/{}", log.as_raw_fd())).unwrap();
        let child =
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn();
        assert!(child.is_ok(), "{what}: {child:?}");
        let child = child.unwrap();
        Self { child: Some(child), log: reader }
    }

    /// Waits until it listens on a TCP port.
    ///
    /// # Errors
    /// What it said, if it ended before.
    pub(crate) fn await_port(mut self, port: u16) -> Result<Self, String> {
        let begun = Instant::now();
        while !listens(port) {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let Ended { text, .. } = self.kill();
                return Err(format!("it does not listen on {port}: {ended:?}\n{text}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(self)
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        let id = self.child.as_ref().unwrap().id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
    }

    /// Waits until it has said something.
    pub(crate) fn await_words(&mut self, words: &str) {
        let begun = Instant::now();
        while !self.said().contains(words) {
            assert!(self.is_running() && begun.elapsed() < PATIENCE, "{}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ended {
        let mut child = self.child.take().unwrap();
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return Ended { good: status.success(), text: self.said() };
            }
            if begun.elapsed() > PATIENCE {
                _ = child.kill();
                _ = child.wait();
                return Ended { good: false, text: format!("it does not end\n{}", self.said()) };
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Gives it a moment to end by itself, then ends it.
    pub(crate) fn kill(mut self) -> Ended {
        std::thread::sleep(Duration::from_millis(200));
        if let Some(mut child) = self.child.take() {
            _ = child.kill();
            _ = child.wait();
        }
        Ended { good: false, text: self.said() }
    }

    /// All of its output so far.
    fn said(&mut self) -> String {
        let mut bytes = Vec::new();
        self.log.rewind().unwrap();
        self.log.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// A file without a name, so that nothing is left behind.
fn tempfile() -> File {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(std::env::temp_dir())
        .unwrap()
}

/// Whether a socket of this host listens on a TCP port (`proc_net_tcp`).
fn listens(port: u16) -> bool {
    const LISTEN: &str = "0A";
    let wanted = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|file| {
        let table = std::fs::read_to_string(Path::new(file)).unwrap_or_default();
        table.lines().skip(1).any(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, _, state) = (fields.next(), fields.next(), fields.next());
            local.is_some_and(|local| local.ends_with(&wanted)) && state == Some(LISTEN)
        })
    })
}

/// A server and a client, which differ in what the client is given besides: the server's address.
pub(crate) struct Pair<'a> {
    pub(crate) program: &'a str,
    /// Arguments of both.
    pub(crate) arguments: Vec<String>,
    /// The option that sets the TCP port by which they find each other.
    pub(crate) port_option: &'a str,
    pub(crate) setting: Setting<'a>,
}

impl<'a> Pair<'a> {
    /// Arguments that are separated by blanks.
    pub(crate) fn new(program: &'a str, arguments: &str) -> Self {
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self { program, arguments, port_option: "-p", setting: Setting::default() }
    }

    /// Runs both; what the client says, or why it went wrong.
    pub(crate) fn run(&self) -> Result<String, String> {
        let (here, there, port) = (fresh_address(), fresh_address(), free_port());
        let command = |address| {
            let mut command = on_device(address, &self.setting);
            command.arg(self.program).args(&self.arguments);
            command.arg(self.port_option).arg(port.to_string());
            command
        };
        let line = format!("{} {}", self.program, self.arguments.join(" "));
        let server = Running::start(command(there)).await_port(port);
        let server = server.map_err(|said| format!("{line}\n--- server\n{said}"))?;
        let mut client = command(here);
        client.arg(there.to_string());
        let client = Running::start(client).finish();
        let server = if client.good { server.finish() } else { server.kill() };
        if client.good && server.good {
            return Ok(client.text);
        }
        Err(format!("{line}\n--- client\n{}\n--- server\n{}", client.text, server.text))
    }
}

/// Runs all, and fails with all that went wrong.
pub(crate) fn all_run<'a>(pairs: impl IntoIterator<Item = Pair<'a>>) {
    let (mut count, mut failed) = (0, Vec::new());
    for pair in pairs {
        count += 1;
        failed.extend(pair.run().err());
    }
    let text = failed.join("\n==========\n");
    assert!(failed.is_empty(), "{} of {count} went wrong:\n{text}", failed.len());
}
