//! `--backend`: what it comes to, and what it says where there is nothing to come to.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Ran, command};

/// A folder with the libibverbs that has a fault; `None` without a C compiler, which is said.
fn library(mode: &str) -> Option<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("softrnic-cli-{mode}-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/verbs-api/tests/c/fake_ibverbs.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC"]).arg(format!("-DMODE={mode}")).arg("-o");
    compiler.arg(folder.join("libibverbs.so.1")).arg(source);
    match compiler.status() {
        Ok(status) => {
            assert!(status.success());
            Some(folder)
        }
        Err(error) => {
            softrnic_testing::not_installed(&format!("there is no C compiler: {error}"));
            None
        }
    }
}

/// What the command says with the library that has a fault.
fn with_fault(mode: &str, line: &str) -> Option<Ran> {
    let folder = library(mode)?;
    let file = folder.join("libibverbs.so.1");
    let mut command = command(line);
    command.env("SOFTRNIC_LIBIBVERBS", file).env_remove("SOFTRNIC_BACKEND");
    let ran = command.output().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    Some(ran.into())
}

const DEVINFO: &str = "devinfo --backend hardware";

#[test]
fn each_fault_says_what_is_missing_and_how_to_get_it() {
    for (mode, line, what, advice) in [
        ("NO_KERNEL", DEVINFO, "the kernel has no RDMA support", "modprobe ib_uverbs"),
        ("NO_DEVICE", DEVINFO, "there is no RDMA device", "rdma link add rxe0 type rxe"),
        (
            "PORT_DOWN",
            "pingpong --backend hardware -d fake0",
            "the port of fake0 is down",
            "ip link set",
        ),
        (
            "NO_ADDRESS",
            "pingpong --backend hardware -d fake0",
            "no address for RoCEv2",
            "ip addr add",
        ),
        (
            "NO_PERMISSION",
            "pingpong --backend hardware -d fake0",
            "no permission on",
            "docker run --device",
        ),
        (
            "PORT_DOWN",
            "pingpong --backend hardware -d rxe7",
            "no RDMA device is called rxe7",
            "there are fake0",
        ),
    ] {
        let Some(ran) = with_fault(mode, line) else { return };
        assert_ne!(ran.code, Some(0), "{mode}: {}", ran.out);
        assert!(ran.err.contains(what), "{mode}: {}", ran.err);
        assert!(ran.err.contains(advice), "{mode}: {}", ran.err);
    }
}

#[test]
fn without_rdma_core_it_says_what_to_install() {
    let ran: Ran =
        command(DEVINFO).env("SOFTRNIC_LIBIBVERBS", "/no/library").output().unwrap().into();
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("/no/library cannot be loaded"), "{}", ran.err);
    assert!(ran.err.contains("install rdma-core"), "{}", ran.err);
}

#[test]
fn softrnics_own_library_is_no_hardware_unless_it_is_named() {
    let Some(folder) = library("OWN") else { return };
    let found: Ran = command(DEVINFO).env("LD_LIBRARY_PATH", &folder).output().unwrap().into();
    assert_eq!(found.code, Some(1));
    assert!(found.err.contains("is softrnic's own"), "{}", found.err);
    let named =
        command(DEVINFO).env("SOFTRNIC_LIBIBVERBS", folder.join("libibverbs.so.1")).output();
    let named: Ran = named.unwrap().into();
    assert!(!named.err.contains("is softrnic's own"), "{}", named.err);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_a_librdmacm_that_fits_there_are_no_connections() {
    const CONNECT: &str = "bench connect --backend hardware -d fake0";
    let (Some(verbs), Some(own)) = (library("NOTHING"), library("OWN")) else { return };
    let file = own.join("librdmacm.so.1");
    std::fs::rename(own.join("libibverbs.so.1"), &file).unwrap();
    let said = |name: &str, value: &std::path::Path| {
        let mut command = command(CONNECT);
        command.env("SOFTRNIC_LIBIBVERBS", verbs.join("libibverbs.so.1")).env(name, value);
        let ran: Ran = command.output().unwrap().into();
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        ran.err
    };
    let absent = said("SOFTRNIC_LIBRDMACM", "/no/library".as_ref());
    assert!(absent.contains("/no/library cannot be loaded"), "{absent}");
    assert!(absent.contains("librdmacm1"), "{absent}");
    let found = said("LD_LIBRARY_PATH", &own);
    assert!(
        found.contains("the librdmacm.so.1 that the linker finds is softrnic's own"),
        "{found}"
    );
    let named = said("SOFTRNIC_LIBRDMACM", &file);
    assert!(named.contains("has no function rdma_create_event_channel"), "{named}");
    for folder in [verbs, own] {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn by_itself_it_takes_an_emulated_device_where_there_is_no_other_and_says_so() {
    let Some(ran) = with_fault("NO_DEVICE", "devinfo") else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("backend: emulated (there is no RDMA device)"), "{}", ran.err);
    let Some(ran) = with_fault("NO_DEVICE", "devinfo --backend emulated") else { return };
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn options_of_emulated_devices_do_not_go_with_hardware() {
    let ran: Ran = command("devinfo --backend hardware --faults drop=1%").output().unwrap().into();
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.contains("--faults (SOFTRNIC_FAULTS) is about an emulated device"),
        "{}",
        ran.err
    );
    let ran: Ran = command("devinfo --backend other").output().unwrap().into();
    assert_eq!(ran.code, Some(2));
}
