//! Open MPI over UCX: two ranks on one address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ends::{Running, Scratch, Setting, built, fresh_address, is_installed, on_device};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/c/mpi_ring.c");
/// Many more than connecting takes.
const PACKETS: u64 = 1000;

/// Packets sent so far by each process that is at an address, by process.
fn sent(address: IpAddr) -> BTreeMap<u64, u64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softrnic"));
    let output = command.args(["--json", "ps", "-d", &address.to_string()]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["tables"]["members"].as_array().cloned().unwrap_or_default();
    let row = |row: Value| Some((row["pid"].as_u64()?, row["sent"].as_u64()?));
    rows.into_iter().filter_map(row).collect()
}

/// Runs a ring and an all-reduce over one UCX transport of the device, and no other but memory of
/// the process itself.
fn run(transport: &str) {
    if !is_installed("mpicc", "libopenmpi-dev") || !is_installed("mpirun", "openmpi-bin") {
        return;
    }
    let folder = Scratch::new(transport);
    let program = built("mpicc", SOURCE, &folder, &[]);
    let address = fresh_address();
    let transports = format!("{transport},self");
    let variables = [
        ("UCX_TLS", transports.as_str()),
        ("UCX_NET_DEVICES", "softrnic0:1"),
        ("UCX_LOG_LEVEL", "info"),
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ];
    let mut command = on_device(address, &Setting { options: &[], variables: &variables });
    command
        .args("mpirun --oversubscribe -n 2 --mca pml ucx --mca osc ucx --mca btl self".split(' '));
    // Without these, Open MPI takes UCX for the devices of one vendor only.
    command.args("--mca pml_ucx_tls any --mca pml_ucx_devices any".split(' ')).arg(program);
    let running = Running::start(command);
    let (begun, mut most) = (Instant::now(), BTreeMap::new());
    let busy = |most: &BTreeMap<u64, u64>| most.values().filter(|&&sent| sent > PACKETS).count();
    while busy(&most) < 2 && begun.elapsed() < Duration::from_secs(60) && running.is_running() {
        most.extend(sent(address));
        std::thread::sleep(Duration::from_millis(50));
    }
    let ended = running.finish();
    assert!(ended.good && ended.text.contains("2 ranks agree"), "{}", ended.text);
    // By UCX's own account, and by the device's.
    let lane = format!("{transport}/softrnic0:1").replace("_v/", "_verbs/");
    assert!(ended.text.contains(&lane), "no {lane} in\n{}", ended.text);
    assert_eq!(busy(&most), 2, "packets sent by process: {most:?}");
}

#[test]
fn a_ring_and_sums_over_rc() {
    run("rc_v");
}

#[test]
fn a_ring_and_sums_over_ud() {
    run("ud_v");
}
