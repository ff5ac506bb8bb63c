//! `demo` from outside.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::{Ran, command, document, run};

fn rows(document: &Value) -> &[Value] {
    document["tables"]["acts"].as_array().unwrap()
}

#[test]
fn shows_every_operation_and_every_refusal() {
    let document = document("--json demo");
    let rows = rows(&document);
    let found = |operation: &str, service: &str| {
        let row =
            rows.iter().find(|row| row["operation"] == operation && row["service"] == service);
        row.unwrap_or_else(|| panic!("no {operation} on {service}"))
    };
    for (operation, service, responder) in [
        ("SEND", "RC", "8 x recv: success"),
        ("RDMA WRITE", "RC", "no completion, no event"),
        ("RDMA WRITE with immediate", "RC", "8 x recv RDMA with imm: success"),
        ("RDMA READ", "RC", "no completion, no event"),
        ("compare and swap", "RC", "no completion, no event"),
        ("fetch and add", "RC", "no completion, no event"),
        ("SEND", "UC", "8 x recv: success"),
        ("RDMA WRITE", "UC", "no completion, no event"),
        ("SEND", "UD", "8 x recv: success"),
    ] {
        let row = found(operation, service);
        assert_eq!((&row["requester"], &row["responder"]), (&"success".into(), &responder.into()));
        assert_eq!(row["checked"], "every byte");
        assert!(row["median_us"].as_f64().unwrap() > 0.0, "{row}");
    }
    let refused: Vec<_> = rows.iter().filter(|row| row["requester"] != "success").collect();
    assert_eq!(refused.len(), 8);
    for row in refused {
        assert!(row["responder"].as_str().unwrap().ends_with("QP in ERR"), "{row}");
    }
    let wrong_key = found("WRITE, wrong rkey", "RC");
    assert_eq!(wrong_key["requester"], "remote access error");
    assert_eq!(wrong_key["responder"], "event: QP access error; QP in ERR");
    let small = found("SEND, receive too small", "RC");
    assert_eq!(small["requester"], "remote invalid request error");
    assert_eq!(small["responder"], "recv: local length error; QP in ERR");
    let notes = document["notes"].as_array().unwrap();
    let grh = notes[0].as_str().unwrap();
    assert!(grh.contains("hop limit 42"), "{grh}");
    assert_eq!(notes.last().unwrap(), &Value::from("All 17 rows are as they must be."));
}

#[test]
fn shows_the_habits_of_another_device() {
    let document = document("--json demo --profile rxe");
    let row = |operation: &str| rows(&document).iter().find(|row| row["operation"] == operation);
    assert_eq!(row("WRITE, wrong rkey").unwrap()["responder"], "QP in ERR");
    assert_eq!(row("SEND, receive too small").unwrap()["requester"], "remote operation error");
}

#[test]
fn comes_to_the_same_end_in_bad_weather() {
    let line = "--json demo --faults drop=2%,duplicate=2%,reorder=2%,corrupt=1%,seed=11";
    assert_eq!(rows(&document(line)).len(), 17);
}

#[test]
fn two_can_run_at_once_and_leave_no_process() {
    let mut children: Vec<_> = (0..2)
        .map(|_| command("demo").stdout(std::process::Stdio::piped()).spawn().unwrap())
        .collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    #[cfg(target_os = "linux")]
    for child in children {
        assert_eq!(super::processes::children_of(child.id()), [0; 0]);
    }
}

#[test]
fn a_parent_that_is_killed_takes_its_child_along() {
    let line = "demo --faults drop=100%";
    #[cfg(target_os = "linux")]
    {
        use super::processes::{children_of, soon, state_and_parent};
        let mut parent = command(line)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let child = soon("a child", || children_of(parent.id()).first().copied());
        parent.kill().unwrap();
        parent.wait().unwrap();
        soon("its end", || {
            state_and_parent(child).is_none_or(|(state, _)| state == "Z").then_some(())
        });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = line;
}

#[test]
fn what_is_lost_for_good_makes_it_fail_and_says_where() {
    let mut command = command("demo");
    let command = command.env("SOFTRNIC_FAULTS", "drop=100%,opcode=UC SEND_LAST,side=tx");
    let Ran { code, out, err } = command.output().unwrap().into();
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(err.contains("SEND on UC: responder: 0 completions, not 8"), "{err}");
    assert!(out.contains("1 of 17 rows are not as they must be"), "{out}");
}

#[cfg(target_os = "linux")]
#[test]
fn both_processes_may_share_one_address() {
    let Ran { code, err, .. } = run("demo --address 127.0.77.2 --peer-address 127.0.77.2");
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn an_address_that_is_taken_or_not_here_is_told() {
    let Ran { code, err, .. } = run("demo --address 203.0.113.9");
    assert_eq!(code, Some(2));
    assert!(err.contains("no interface of this host has the address 203.0.113.9"), "{err}");
    let Ran { code, err, .. } = run("demo --address nosuchinterface");
    assert_eq!(code, Some(2));
    assert!(err.contains("nosuchinterface") && err.contains("lo"), "{err}");
    let mut alone = command("demo --address 127.0.77.1 --peer-address 127.0.77.1");
    let alone = alone.env("SOFTRNIC_SERVICE", "off").output().unwrap();
    let Ran { code, err, .. } = alone.into();
    assert_eq!(code, Some(1));
    assert!(err.contains("UDP port 4791 of 127.0.77.1 is in use by process"), "{err}");
    assert!(!err.contains("gave up"), "it is no fault of the second process: {err}");
    let Ran { code, err, .. } = run("demo --peer-address 203.0.113.9");
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("no interface of this host has the address 203.0.113.9"), "{err}");
    // Where there is no IPv6 the address is not of this host, which is told with the same code.
    let Ran { code, err, .. } = run("demo --address ::1");
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("one IP version") || err.contains("no interface"), "{err}");
}

/// A file that goes when this does.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("softrnic-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_capture_is_one_that_wireshark_understands() {
    let file = Scratch::new("demo.pcapng");
    let path = file.0.to_str().unwrap();
    let Ran { code, err, .. } = run(&format!("demo --capture {path}"));
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let bytes = std::fs::read(&file.0).unwrap();
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a section header block begins it");
    // UD SEND ONLY; each datagram of the tour has a hop limit that no default has.
    let shown = Command::new("tshark")
        .args(["-r", path, "-Y", "infiniband.bth.opcode == 0x64"])
        .args(["-T", "fields", "-e", "infiniband.bth.opcode", "-e", "ip.ttl"])
        .output();
    let Ok(shown) = shown else {
        softrnic_testing::not_installed("tshark is missing");
        return;
    };
    let text = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| *line == "100\t42").count(), 8, "{text}");
}
