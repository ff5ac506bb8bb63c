//! The connection manager of real devices: the tests of this program through the drop-in, and libraries of
//! which something is wrong.

use std::path::{Path, PathBuf};
use std::process::Command;

use softrnic_verbs::cm::{CmError, ConnectError, ConnectionManager, Connector};
use softrnic_verbs::hardware::{HardwareConfig, HardwareProvider, ManagerLoadError};
use softrnic_verbs::provider::Provider;
use softrnic_verbs::{Context, emulated};

use crate::drop_in::{again, check, is_inside, library};

#[test]
fn the_manager_through_the_drop_in() {
    assert!(!is_inside(), "not a test of the child");
    check(&again("127.0.0.2;127.0.0.3", &["--skip", "hardware::"]), 9);
}

fn provider(config: &HardwareConfig) -> HardwareProvider {
    HardwareProvider::load(config).unwrap()
}

fn refusal(config: &HardwareConfig) -> ManagerLoadError {
    provider(config).connection_manager().unwrap_err()
}

/// A library from the C program `parts`, if there is a C compiler; says so if not.
fn compiled(name: &str, parts: &[&str], options: &[&str]) -> Option<PathBuf> {
    let file = std::env::temp_dir().join(format!("softrnic-{name}-{}.so", std::process::id()));
    let sources =
        parts.iter().map(|part| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(part));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-DMODE=NOTHING"]);
    compiler.args(options).arg("-o").arg(&file).args(sources);
    match compiler.output() {
        Ok(made) => {
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            Some(file)
        }
        Err(error) => {
            eprintln!("not run: there is no C compiler: {error}");
            None
        }
    }
}

/// A library that is libibverbs and librdmacm.
fn both(name: &str, mode: &str) -> Option<HardwareProvider> {
    let mode = format!("-DCM_MODE={mode}");
    let versions =
        concat!("-Wl,--version-script=", env!("CARGO_MANIFEST_DIR"), "/tests/c/fake_rdmacm.map");
    let parts = ["fake_ibverbs.c", "fake_rdmacm.c"];
    let file = compiled(name, &parts, &[&mode, versions])?;
    let provider = provider(&HardwareConfig::library(&file));
    std::fs::remove_file(file).unwrap();
    Some(provider)
}

#[test]
fn no_librdmacm() {
    let Some(verbs) = compiled("verbs-only", &["fake_ibverbs.c"], &[]) else { return };
    let config = HardwareConfig::library(verbs);
    let error = refusal(&config.clone().with_manager("/no/such/library"));
    let text = error.to_string();
    assert!(
        text.starts_with("/no/such/library cannot be loaded: cannot open shared object"),
        "{text}"
    );
    assert!(text.contains("librdmacm1"), "{text}");
    // One that is something else.
    let error = refusal(&config.with_manager("libc.so.6"));
    let ManagerLoadError::Incomplete { function, .. } = error else { panic!("{error}") };
    assert_eq!(function, "rdma_create_event_channel");
}

#[test]
fn an_old_librdmacm() {
    let Some(provider) = both("old", "NO_ESTABLISH") else { return };
    let text = provider.connection_manager().unwrap_err().to_string();
    assert!(text.contains("has no function rdma_establish (RDMACM_1.2)"), "{text}");
    assert!(text.contains("rdma-core 24 or newer"), "{text}");
}

#[test]
fn libraries_that_do_not_belong_together() {
    let Some(verbs) = compiled("other", &["fake_ibverbs.c"], &[]) else { return };
    // The drop-in's identifiers would be of devices that this libibverbs does not know.
    let error = refusal(&HardwareConfig::library(verbs).with_manager(library()));
    assert!(matches!(error, ManagerLoadError::Foreign { .. }), "{error}");
    assert!(error.to_string().contains("works with another libibverbs"), "{error}");
}

#[test]
fn no_connection_manager_in_the_kernel() {
    for (mode, errno, advice) in [
        ("NO_MODULE", libc::ENOENT, "modprobe rdma_ucm"),
        ("NO_PERMISSION_FOR_CM", libc::EACCES, "no permission on /dev/infiniband/rdma_cm"),
    ] {
        let Some(provider) = both(mode, mode) else { return };
        let error = provider.connection_manager().unwrap().create_event_channel().unwrap_err();
        assert_eq!(error.errno(), errno);
        assert!(error.text().contains(advice), "{error}");
    }
}

#[test]
fn events_that_make_no_sense_are_passed_over() {
    let Some(provider) = both("strange", "STRANGE_EVENTS") else { return };
    let cm = provider.connection_manager().unwrap();
    let channel = cm.create_event_channel().unwrap();
    // One of a number that is none, one about no identifier, and one of a request to nobody.
    assert_eq!(cm.get_event(channel, Some(std::time::Duration::ZERO)).unwrap(), None);
    cm.destroy_event_channel(channel).unwrap();
}

#[test]
fn devices_of_two_kinds_have_no_manager_together() {
    let Some(provider) = both("kinds", "NOTHING_WRONG") else { return };
    let real = Context::new(provider.open("fake0").unwrap());
    let (near, _) = emulated::open_pair().unwrap();
    let unlike = |devices: [&Context; 2]| {
        let error = Connector::new(&devices.map(Clone::clone)).unwrap_err();
        let ConnectError::Refusal(error) = error else { panic!("{error}") };
        error
    };
    let errno = |error: CmError| error.errno();
    assert_eq!(errno(unlike([&real, &near])), libc::EOPNOTSUPP);
    assert_eq!(errno(unlike([&near, &real])), libc::EOPNOTSUPP);
    // Nor has the same device by another load of the library.
    let Some(again) = both("kinds-again", "NOTHING_WRONG") else { return };
    let other = Context::new(again.open("fake0").unwrap());
    assert_eq!(errno(unlike([&real, &other])), libc::EOPNOTSUPP);
}
