//! `bench write|read|send|atomic` from outside.

use serde_json::Value;

use super::server::{Server, free_port};
use super::{Ran, command, document, run};

fn only_table<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document["tables"][name].as_array().unwrap()
}

#[test]
fn bandwidth_of_every_operation_and_service() {
    for (line, service) in [
        ("write bw -n 40", "RC"),
        ("write bw -n 40 -c uc", "UC"),
        ("read bw -n 40 -m 4096", "RC"),
        ("send bw -n 40 -q 3 -t 8", "RC"),
        ("send bw -n 40 -c uc -s 64 -I 64", "UC"),
        ("send bw -n 40 -c ud", "UD"),
        ("atomic bw -n 40", "RC"),
        ("atomic bw -n 40 -A compare-swap -e", "RC"),
    ] {
        let said = document(&format!("--json bench {line} --local"));
        let command: Vec<_> = line.split(' ').take(2).collect();
        assert_eq!(said["command"], format!("bench {}", command.join(" ")));
        assert_eq!(said["facts"]["service"], service, "{line}");
        assert_ne!(said["facts"]["local"], said["facts"]["remote"], "{line}");
        let [row] = only_table(&said, "bandwidth") else { panic!("{line}: {said}") };
        assert_eq!(row["iterations"], 40, "{line}");
        let [peak, average] = ["peak_mib_s", "average_mib_s"].map(|key| row[key].as_f64().unwrap());
        assert!(0.0 < average && average <= peak * 1.000_001, "{line}: {row}");
        let known = line.starts_with("send");
        assert_eq!(row["lost"].as_u64(), known.then_some(0), "{line}");
    }
}

#[test]
fn latency_of_every_operation_and_service() {
    for (line, bytes) in [
        ("write lat -n 30", 2),
        ("write lat -n 30 -c uc -s 3000", 3000),
        ("read lat -n 30 -s 64", 64),
        ("send lat -n 30 -e", 2),
        ("send lat -n 300 -c ud -s 100", 100),
        ("atomic lat -n 30", 8),
    ] {
        let said = document(&format!("--json bench {line} --local"));
        let [row] = only_table(&said, "latency") else { panic!("{line}: {said}") };
        assert_eq!(row["bytes"], bytes, "{line}");
        assert!(row["iterations"].as_u64().unwrap() >= 30, "{line}");
        let [min, median, p99, max] =
            ["min_us", "median_us", "p99_us", "max_us"].map(|key| row[key].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= p99 && p99 <= max, "{line}: {row}");
    }
}

#[test]
fn all_sizes_and_a_time_instead_of_a_number() {
    let said = document("--json bench send bw --local -a -n 2 -c ud -m 512");
    let sizes: Vec<_> = only_table(&said, "bandwidth").iter().map(|row| &row["bytes"]).collect();
    assert_eq!(sizes, [2, 4, 8, 16, 32, 64, 128, 256, 512]);
    let said = document("--json bench send lat --local -D 200ms");
    let [row] = only_table(&said, "latency") else { panic!("{said}") };
    let total = row["average_us"].as_f64().unwrap() * row["iterations"].as_f64().unwrap() * 2.0;
    assert!((190e3..2000e3).contains(&total), "{row}");
}

#[test]
fn what_an_unreliable_service_loses_is_told_and_no_more_is_waited_for() {
    let line = "--json bench send bw --local -c ud -n 400 -s 64 --faults drop=25%,seed=1";
    let said = document(line);
    let lost = only_table(&said, "bandwidth")[0]["lost"].as_u64().unwrap();
    assert!((50..150).contains(&lost), "{lost} of 400");
}

#[test]
fn a_reliable_one_loses_nothing() {
    let weather = "drop=2%,reorder=2%,duplicate=1%,seed=5";
    let line = format!("--json bench send bw --local -n 60 -s 20000 --faults {weather}");
    assert_eq!(only_table(&document(&line), "bandwidth")[0]["lost"], 0);
}

#[test]
fn server_and_client_may_be_started_by_hand() {
    let port = free_port();
    let server = Server::start(&format!("bench write bw -p {port} -n 10"));
    let said = document(&format!("--json bench write bw -p {port} -n 10 localhost"));
    assert_eq!(only_table(&said, "bandwidth")[0]["iterations"], 10);
    let Ran { code, out, err } = server.finish();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("The client has the figures."), "{out}");
}

#[test]
fn ends_that_differ_name_the_option() {
    let port = free_port();
    let server = Server::start(&format!("bench write bw -p {port} -n 10"));
    let client = run(&format!("bench read bw -p {port} -n 10 localhost"));
    for Ran { code, err, .. } in [client, server.finish()] {
        assert_eq!(code, Some(1));
        assert!(err.contains("the ends differ in the test"), "{err}");
    }
}

#[test]
fn what_the_device_does_not_have_is_a_mistake_of_the_command_line() {
    for (line, told) in [
        ("bench send bw --local -I 2000", "--inline 2000 is more than the device has: 1024"),
        ("bench write bw --local -q 256 -t 16384", "lower --qps or --tx-depth"),
        ("bench write lat --local -e", "a WRITE raises no event"),
    ] {
        let Ran { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{line}: {err}");
        assert!(err.contains(told), "{line}: {err}");
    }
}

#[test]
fn a_capture_holds_the_frames_of_both_ends_once() {
    let file = std::env::temp_dir().join(format!("softrnic-bench-{}.pcapng", std::process::id()));
    let path = file.to_str().unwrap();
    let mut command = command("bench write bw --local -n 3 -s 1K");
    let ran = Ran::from(command.env("SOFTRNIC_CAPTURE", path).output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let bytes = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    // Three WRITEs of 1 KiB, and acknowledgements that may have merged.
    assert!((3 * 1024..16 << 10).contains(&bytes.len()), "{} bytes", bytes.len());
}

#[test]
fn a_second_process_that_fails_is_not_waited_for() {
    let Ran { code, err, .. } = run("bench connect --local -d 192.0.2.1");
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("192.0.2.1") && err.contains("the second process failed"), "{err}");
}
