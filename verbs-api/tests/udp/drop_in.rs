//! The tests of a program once more, over real devices as far as they can tell: libibverbs is the
//! drop-in, named by its path, and behind it are two emulated devices. It is librdmacm, too.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, LazyLock};

use softrnic_verbs::hardware::{HardwareConfig, HardwareProvider};
use softrnic_verbs::provider::{Context, Provider};

/// Set in the child, in which devices are opened through the drop-in.
const INSIDE: &str = "SOFTRNIC_TEST_THROUGH_DROP_IN";

/// Whether this is the child.
pub(crate) fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Opens both devices.
pub(crate) fn open_both() -> [Arc<dyn Context>; 2] {
    static PROVIDER: LazyLock<HardwareProvider> = LazyLock::new(|| {
        HardwareProvider::load(&HardwareConfig::from_environment()).expect("the drop-in is loaded")
    });
    let devices = PROVIDER.devices().expect("they are listed");
    assert_eq!(devices.len(), 2, "{devices:?}");
    [0, 1].map(|device| {
        PROVIDER.open(&devices[device].name).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// The drop-in, built from what is here now: cargo does not do it for tests.
pub(crate) fn library() -> &'static Path {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let program = std::env::current_exe().expect("tests have a program");
        // TARGET/PROFILE/deps/program
        let profile = program.ancestors().nth(2).expect("it lies in a target folder");
        let target = profile.parent().expect("as above");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "-p", "softrnic-cabi"]);
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env("CARGO_TARGET_DIR", target);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo runs").success(), "the drop-in does not build");
        profile.join("libsoftrnic_ibverbs.so")
    });
    &BUILT
}

/// Runs tests of this program in a child, one after the other: devices of one name are one device
/// there, and its events are everybody's.
pub(crate) fn again(addresses: &str, arguments: &[&str]) -> Output {
    let port = UdpSocket::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
    let port = port.expect("there is a free port").port();
    let program = std::env::current_exe().expect("tests have a program");
    let child = Command::new(program)
        .args(["--test-threads", "1"])
        .args(arguments)
        .env(INSIDE, "1")
        .env("SOFTRNIC_LIBIBVERBS", library())
        .env("SOFTRNIC_ADDRESS", addresses)
        .env("SOFTRNIC_PORT", port.to_string())
        .env("SOFTRNIC_SERVICE", "off")
        .output();
    child.expect("the program runs once more")
}

/// Asserts that the child ran at least so many tests, and that all passed.
pub(crate) fn check(output: &Output, at_least: usize) {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "through the drop-in ({}):\n{text}\n{said}", output.status);
    let passed = text.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(passed >= at_least, "only {passed} tests ran through the drop-in:\n{text}");
}
