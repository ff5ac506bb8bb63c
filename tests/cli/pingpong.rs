//! `pingpong` from outside, and `stat` of one that runs.

use std::process::Stdio;

use serde_json::Value;

use super::server::{Server, free_port};
use super::{Ran, command, document, run};

/// Runs both ends with the same options and gives what the client says in JSON.
fn play(options: &str) -> Value {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} {options}"));
    let said = document(&format!("--json pingpong -p {port} {options} localhost"));
    let Ran { code, out, err } = server.finish();
    assert_eq!((code, err.as_str()), (Some(0), ""), "{options}: {out}");
    assert!(out.contains("us an iteration"), "{out}");
    said
}

#[test]
fn plays_on_every_service_polling_and_asleep() {
    for (options, service, size) in [
        ("-n 50 --chk", "RC", 4096_u64),
        ("-n 50 --chk --events", "RC", 4096),
        ("-n 50 --chk --uc -s 3000 -m 512", "UC", 3000),
        ("-n 50 --chk --ud --events", "UD", 1024),
        ("-n 50 --chk --inline -s 100 -m 4096", "RC", 100),
        ("-n 3 --chk -s 1M -r 1", "RC", 1 << 20),
    ] {
        let facts = &play(options)["facts"];
        assert_eq!((&facts["service"], &facts["size"]), (&service.into(), &size.into()));
        let iterations = facts["iterations"].as_u64().unwrap();
        assert_eq!(facts["bytes"], 2 * size * iterations, "{options}");
        assert!(facts["us_per_iteration"].as_f64().unwrap() > 0.0, "{options}");
        assert_ne!(facts["local"], facts["remote"]);
    }
}

#[test]
fn plays_in_bad_weather() {
    let weather = "drop=3%,reorder=3%,duplicate=3%,corrupt=1%,seed=3";
    let facts = &play(&format!("-n 200 --chk --faults {weather}"))["facts"];
    assert_eq!(facts["iterations"], 200);
}

#[test]
fn what_the_ends_do_not_share_is_named_at_both() {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} -s 64"));
    let client = run(&format!("pingpong -p {port} -s 128 localhost"));
    let server = server.finish();
    for Ran { code, err, .. } in [client, server] {
        assert_eq!(code, Some(1));
        assert!(err.contains("the ends differ in --size"), "{err}");
    }
}

#[test]
fn a_failure_at_one_end_is_told_at_the_other() {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} -m 4096"));
    // No interface carries a GID of this index.
    let client = run(&format!("pingpong -p {port} -m 4096 -g 200 localhost"));
    assert_eq!(client.code, Some(1));
    assert!(client.err.contains("query_gid"), "{}", client.err);
    let server = server.finish();
    assert_eq!(server.code, Some(1));
    assert!(server.err.contains("gave up") && server.err.contains("query_gid"), "{}", server.err);
}

#[test]
fn an_end_that_is_killed_is_missed_soon() {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} -n 1000000"));
    let client = command(&format!("pingpong -p {port} -n 1000000 localhost"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_it_counts(server.id());
    drop(server);
    let Ran { code, err, .. } = client.wait_with_output().unwrap().into();
    assert_eq!(code, Some(1));
    assert!(err.contains("closed the connection") || err.contains("broke"), "{err}");
}

#[test]
fn there_must_be_a_server_and_a_way_to_it() {
    let port = free_port();
    let refused = run(&format!("pingpong -p {port} localhost"));
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("start the server"), "{}", refused.err);
    // Nobody can connect to a group.
    let unreachable = run("pingpong 224.0.0.1");
    assert_eq!(unreachable.code, Some(1));
    assert!(unreachable.err.contains("cannot connect to 224.0.0.1"), "{}", unreachable.err);
    let unknown = run("pingpong no.such.host.invalid");
    assert!(unknown.err.contains("no known address"), "{}", unknown.err);
}

#[test]
fn addresses_of_two_families_do_not_reach_each_other() {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} -d 127.0.66.4"));
    let client = run(&format!("pingpong -p {port} -d ::1 localhost"));
    if client.code == Some(2) {
        softrnic_testing::not_run("this host has no IPv6");
        return;
    }
    assert!(client.err.contains("not of one IP version"), "{}", client.err);
    assert_eq!(server.finish().code, Some(1));
}

#[test]
fn a_port_in_use_is_told_for_tcp_and_for_udp() {
    let port = free_port();
    let _server = Server::start(&format!("pingpong -p {port} -d 127.0.66.1"));
    let second = run(&format!("pingpong -p {port} -d 127.0.66.2"));
    assert_eq!(second.code, Some(1));
    assert!(second.err.contains(&format!("cannot listen on TCP port {port}")), "{}", second.err);
    let mut second = command(&format!("pingpong -p {} -d 127.0.66.1", free_port()));
    let second: Ran = second.env("SOFTRNIC_SERVICE", "off").output().unwrap().into();
    assert_eq!(second.code, Some(1));
    let told = "UDP port 4791 of 127.0.66.1 is in use by process";
    assert!(second.err.contains(told), "{}", second.err);
}

#[test]
fn limits_of_the_device_are_kept() {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} -r 65535"));
    let client = run(&format!("pingpong -p {port} -r 65535 localhost"));
    assert_eq!(client.code, Some(2));
    assert!(client.err.contains("give at most 16384"), "{}", client.err);
    assert_ne!(server.finish().code, Some(0));
}

/// Waits until the device of process `pid` has sent packets; what `stat` says of it then.
fn until_it_counts(pid: u64) -> Value {
    let line = format!("--json stat --pid {pid}");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let said = document(&line);
        let counters = said["tables"]["counters"].as_array().unwrap();
        let sent = counters.iter().find(|row| row["counter"] == "sent_pkts");
        if sent.is_some_and(|row| row["value"].as_u64().unwrap() > 0) {
            return said;
        }
        assert!(std::time::Instant::now() < deadline, "{said}");
    }
}

#[cfg(unix)]
#[test]
fn stat_tells_what_a_running_one_has_counted() {
    let port = free_port();
    let server = Server::start(&format!("pingpong -p {port} -n 1000000 -d 127.0.66.3"));
    let mut client = command(&format!("pingpong -p {port} -n 1000000 127.0.66.3"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = server.id();
    let said = until_it_counts(pid);
    let device = &said["tables"]["devices"][0];
    assert_eq!((&device["pid"], &device["addresses"]), (&pid.into(), &"127.0.66.3".into()));
    assert_eq!(device["icrc"], "32 bits");
    let counters = said["tables"]["counters"].as_array().unwrap();
    let names: Vec<_> = counters.iter().map(|row| row["counter"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["sent_pkts", "rcvd_pkts", "duplicate_request"]);
    for name in ["drop_bad_icrc", "drop_unknown_qp", "rx_overflow", "rx_icrc_full"] {
        assert!(names.contains(&name), "{name}");
    }
    // Two intervals of a process at work, as one document each.
    let Ran { code, out, .. } = run(&format!("--json stat --pid {pid} -i 50ms -n 2"));
    assert_eq!(code, Some(0));
    assert_eq!(out.lines().count(), 2);
    // For people, and by address.
    let Ran { out, .. } = run("stat -d 127.0.66.3");
    assert!(out.contains("soft-RoCE") && out.contains(&pid.to_string()), "{out}");
    assert!(run("stat -d 127.0.66.99").out.contains("No device is open."));
    client.kill().unwrap();
    client.wait().unwrap();
    drop(server);
    // What it left behind is neither shown nor there any more.
    assert!(run(&format!("stat --pid {pid}")).out.contains("No device is open."));
}
