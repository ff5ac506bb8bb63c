//! `bench limits` from outside.

use std::process::Stdio;

use serde_json::Value;

use super::processes::{children_of, soon, state_and_parent};
use super::{Ran, command, document, run};

fn check_rows(document: &Value, expected: &[(&str, u64)]) {
    assert_eq!(document["format"], 1);
    assert_eq!(document["command"], "bench limits");
    let rows = document["tables"]["limits"].as_array().unwrap();
    let found: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| (row["limit"].as_str().unwrap(), row["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    for row in rows {
        let [min, median, max] = ["min", "median", "max"].map(|key| row[key].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= max, "{row}");
        assert!(row["samples"].as_u64().unwrap() > 0, "{row}");
    }
}

/// Figures have a value, and those that are compared a ratio; what it is depends on the machine.
fn check_figures(document: &Value, expected: &[&str]) {
    let figures = document["tables"]["figures"].as_array().unwrap();
    let names: Vec<_> = figures.iter().map(|row| row["figure"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    for row in figures {
        assert!(row["ours"].as_f64().unwrap() > 0.0, "{row}");
        if !row["limit_is"].is_null() {
            let ratio = row["ratio"].as_f64().unwrap();
            assert!(ratio > 0.0 && row["limit"].as_f64().unwrap() > 0.0, "{row}");
        }
        let verdict = row["verdict"].as_str().unwrap_or_default();
        let known = verdict.starts_with("met") || verdict.starts_with("MISSED");
        assert_eq!(known, row["bar"].is_string(), "{row}");
    }
}

fn two_cores() -> bool {
    std::thread::available_parallelism().unwrap().get() >= 2
}

#[test]
fn of_one_thread_come_as_json() {
    let document =
        document("--json bench limits --only crc,in-process,memcpy -n 2 --sample-time 60ms");
    let sizes = [1 << 10, 4 << 10, 64 << 10, 1 << 20];
    let mut expected = vec![("in_process_depth_1", 8), ("in_process_depth_32", 8)];
    expected.extend(sizes.map(|size| ("memcpy", size)));
    expected.extend(sizes.map(|size| ("crc32", size)));
    check_rows(&document, &expected);
    assert_eq!(document["facts"]["core_to_core_ns"], Value::Null);
    check_figures(&document, &["in_process_write_8", "in_process_write_8_icrc"]);
}

#[test]
fn of_two_processes_come_as_json() {
    let line = "--json bench limits --only udp,latency -s 64,1024 -n 1 --sample-time 60ms";
    if !two_cores() {
        let Ran { code, err, .. } = run(line);
        assert_eq!(code, Some(1));
        assert!(err.contains("needs two cores"), "{err}");
        return;
    }
    let document = document(line);
    let expected = [
        ("udp_throughput", 64),
        ("udp_throughput", 1024),
        ("udp_latency", 64),
        ("udp_latency", 1024),
    ];
    check_rows(&document, &expected);
    assert!(document["facts"]["core_to_core_ns"].as_f64().unwrap() > 0.0);
    let figures =
        ["udp_write_64k_mtu_4096", "udp_write_64k_mtu_1024", "udp_send_8_half_round_trip"];
    check_figures(&document, &figures);
}

#[test]
fn of_many_queue_pairs_come_as_json() {
    let document = document("--json bench limits --only queue-pairs -n 1 --sample-time 60ms");
    check_rows(&document, &[]);
    check_figures(&document, &["idle_qp_memory", "one_busy_qp_of_10000"]);
    let memory = &document["tables"]["figures"][0];
    // Two queues of 16 entries alone take more than 500 bytes.
    assert!(memory["ours"].as_f64().unwrap() > 500.0, "{memory}");
}

#[test]
fn of_two_threads_come_as_json() {
    if two_cores() {
        let document = document("--json bench limits --only threads --quick -n 1");
        check_figures(&document, &["two_threads_two_qps"]);
    }
}

#[test]
fn come_as_a_table_with_the_same_rows() {
    let Ran { code, out, .. } = run("bench limits --only crc -n 1 --sample-time 60ms");
    assert_eq!(code, Some(0));
    assert_eq!(out.lines().filter(|line| line.starts_with("crc32 ")).count(), 4, "{out}");
    assert!(!out.contains('\u{1b}') && !out.lines().any(|line| line.ends_with(' ')), "{out}");
}

#[test]
fn end_quietly_when_nobody_reads_them() {
    let mut child = command("bench limits --only crc -n 1 --sample-time 60ms")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[test]
fn leave_no_process_behind_when_killed() {
    if !two_cores() {
        return;
    }
    let mut parent = command("bench limits --only latency -n 100 --sample-time 400ms")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let peer = soon("a peer", || children_of(parent.id()).first().copied());
    parent.kill().unwrap();
    parent.wait().unwrap();
    // Whoever inherits it may be slow to bury it.
    soon("the peer's end", || {
        state_and_parent(peer).is_none_or(|(state, _)| state == "Z").then_some(())
    });
}

#[test]
fn have_a_peer_command_that_serves_them_alone() {
    let Ran { code, err, .. } = run("limits-peer udp-echo --core 0 --parent 1");
    assert_eq!(code, Some(2));
    assert!(err.contains("serves `softrnic bench limits` alone"), "{err}");
    assert!(!run("--help").out.contains("limits-peer"));
    // Even with the right parent, standard input must be the shared page.
    let parent = std::process::id();
    let Ran { code, err, .. } = run(&format!("limits-peer udp-echo --core 0 --parent {parent}"));
    assert_eq!(code, Some(1));
    assert!(err.contains("cannot map the shared page"), "{err}");
}
