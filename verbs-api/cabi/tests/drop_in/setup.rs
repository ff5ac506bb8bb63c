//! Building the library, and running programs on it.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The names by which programs find it.
const NAMES: [&str; 4] = ["libibverbs.so.1", "libibverbs.so", "librdmacm.so.1", "librdmacm.so"];
/// How long any program may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Where cargo puts what it builds for these tests.
fn target() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().to_owned()
}

/// The library, built from what is here now, and the program that is the port service.
pub(crate) fn library() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "-p", "softrnic-cabi", "-p", "softrnic"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        cargo.env("CARGO_TARGET_DIR", target().parent().unwrap());
        assert!(cargo.status().unwrap().success(), "the library does not build");
        target().join("libsoftrnic_ibverbs.so")
    });
    &BUILT
}

/// A directory with the library under its names, for `LD_LIBRARY_PATH`.
pub(crate) fn directory() -> &'static Path {
    static MADE: LazyLock<PathBuf> = LazyLock::new(|| {
        let directory = target().join("softrnic-drop-in");
        std::fs::create_dir_all(&directory).unwrap();
        for name in NAMES {
            let link = directory.join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(library(), link).unwrap();
        }
        directory
    });
    &MADE
}

pub(crate) use softrnic_testing::not_installed as cannot_run;

/// Whether a program is installed; says so if it is not.
pub(crate) fn is_installed(program: &str) -> bool {
    softrnic_testing::is_installed(program, "see .ci/run")
}

/// An address and a TCP port that no other test of this process has.
pub(crate) fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let process = std::process::id().to_le_bytes();
    Ipv4Addr::new(127, 64 | (process[1] & 63), process[0], NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn own_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below those that the system gives to whoever connects.
    let process = u16::try_from(std::process::id() % 300).unwrap();
    let port = || 20_000 + process * 40 + NEXT.fetch_add(1, Ordering::Relaxed);
    let is_free = |port: &u16| std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    std::iter::repeat_with(port).find(is_free).unwrap()
}

/// A program on the drop-in, with a device at `address`.
pub(crate) fn on_drop_in(program: &str, address: Ipv4Addr) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", directory());
    command.env("SOFTRNIC_ADDRESS", address.to_string());
    for name in ["INTERFACE", "PORT", "DEVICE_NAME", "CAPTURE", "FAULTS", "TRACE", "PROFILE"] {
        command.env_remove(format!("SOFTRNIC_{name}"));
    }
    command
}

/// What a program said, once it has ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) success: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            success: output.status.success(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Said {
    wait(start(command))
}

pub(crate) fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a program, and ends it when it takes too long.
pub(crate) fn wait(mut child: Child) -> Said {
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).map(|_| bytes)
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).map(|_| bytes)
    });
    let end = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            break child.wait().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let stdout = reader.join().unwrap().unwrap();
    let stderr = errors.join().unwrap().unwrap();
    Said::from(Output { status, stdout, stderr })
}

/// Whether something listens on a TCP port of this host.
fn listens(port: u16) -> bool {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default());
    // Local address, remote address, state; 0A is listening.
    let of_port = format!(":{port:04X} ");
    tables
        .iter()
        .flat_map(|table| table.lines())
        .any(|line| line.contains(&of_port) && line.split_whitespace().nth(3) == Some("0A"))
}

/// A few programs at a time: each pair keeps two processors busy.
static ONE_PAIR: Mutex<()> = Mutex::new(());

/// Runs a program as server and as client, which meet at a TCP port, and demands success of both.
/// `port_option` is how the program takes its port.
pub(crate) fn pair(program: &str, port_option: &str, arguments: &[&str]) -> [Said; 2] {
    let _turn = ONE_PAIR.lock().unwrap_or_else(PoisonError::into_inner);
    let port = own_port();
    let command = || {
        let mut command = on_drop_in(program, own_address());
        command.arg(port_option).arg(port.to_string()).args(arguments);
        command
    };
    let mut server = start(&mut command());
    let end = Instant::now() + PATIENCE;
    while !listens(port) && server.try_wait().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let client = run(command().arg("127.0.0.1"));
    let both = [wait(server), client];
    for said in &both {
        assert!(said.success, "{program} {arguments:?}\n{both:#?}");
    }
    both
}
