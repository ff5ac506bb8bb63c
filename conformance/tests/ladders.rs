//! A case over the verbs that fails tells what was on the wire, on every world that has one here.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of it is a test")]

use std::collections::BTreeMap;

use softrnic_conformance::case::{Case, verbs};
use softrnic_conformance::deviation::Deviations;
use softrnic_conformance::lab::Connection;
use softrnic_conformance::report::{CaseResult, Document, Status, html, junit};
use softrnic_conformance::runner::{self, Options};
use softrnic_conformance::same;
use softrnic_conformance::stage::wr;
#[cfg(target_os = "linux")]
use softrnic_conformance::world::Emulated;
use softrnic_conformance::world::{Simulated, World};
use softrnic_model::profile::Profile;
use softrnic_model::verbs::{Key, SendOp, WcStatus};

/// Demands what no device does: that a WRITE with a wrong key succeeds, and that memory is what it is not.
fn wrong_cases() -> Vec<Case> {
    let refused = verbs("rc-responder/gap-nak", "refused", |stage| {
        let [a, b] = stage.connect(&Connection::RC)?;
        stage.post(&a, &wr(1, a.write(&b, 100)).at(0, 32))?;
        stage.completes(&a, 1, WcStatus::Success)?;
        let (remote_addr, rkey) = b.remote(0);
        let rkey = Key(rkey.0 ^ 0x55_0000);
        let write = SendOp::Write { remote_addr, rkey, imm: None };
        stage.post(&a, &wr(2, write).at(0, 32))?;
        stage.completes(&a, 2, WcStatus::Success)?;
        Ok(())
    });
    let unequal = verbs("packet-format/addresses", "unequal", |stage| {
        let [a, b] = stage.connect(&Connection::UC)?;
        stage.post(&a, &wr(1, a.write(&b, 0)).at(8, 4))?;
        stage.completes(&a, 1, WcStatus::Success)?;
        stage.settle();
        same!(b.bytes(0, 4)?, [9, 9, 9, 9], "what was written");
        Ok(())
    });
    vec![refused, unequal]
}

/// Where this text is first said by this one, in the order of the ladder.
fn place(result: &CaseResult, who: &str, what: &str) -> usize {
    let found = result.ladder.iter().position(|rung| rung.who == who && rung.what.contains(what));
    found.unwrap_or_else(|| panic!("{who} says no {what:?}: {:#?}", result.ladder))
}

fn judged(world: Box<dyn World>) {
    let deviations = Deviations::default();
    let options = Options::default();
    let report = runner::run(wrong_cases(), world, &deviations, &options, &mut |_| {});
    let [refused, unequal] = &report.results[..] else { panic!("{report:?}") };
    assert_eq!((refused.status, unequal.status), (Status::Fail, Status::Fail));

    let steps = [
        ("program a", "posts request 1, 32 bytes: Write"),
        ("a", "RC RDMA_WRITE_ONLY"),
        ("b", "RC ACKNOWLEDGE"),
        ("program a", "request 1 ended: SUCCESS"),
        ("program a", "posts request 2"),
        ("b", "nak RemoteAccess"),
        ("program a", "request 2 ended: REM_ACCESS_ERR"),
        ("judge", "request 2 completed with REM_ACCESS_ERR"),
    ];
    let places: Vec<usize> = steps.iter().map(|(who, what)| place(refused, who, what)).collect();
    assert!(places.is_sorted(), "{places:?} {:#?}", refused.ladder);
    assert!(refused.ladder.iter().all(|rung| rung.who == "judge" || rung.expected.is_none()));
    assert_eq!(refused.expected.as_deref(), Some("2 with SUCCESS"));
    assert_eq!(refused.got.as_deref(), Some("request 2 completed with REM_ACCESS_ERR"));
    let psn = |who| {
        let rung = &refused.ladder[place(refused, who, " psn ")].what;
        rung.split_once(" psn ").unwrap().1.split(' ').next().unwrap().to_owned()
    };
    assert_eq!(psn("a"), psn("b"), "it is acknowledged by its number");

    place(unequal, "a", "UC RDMA_WRITE_ONLY");
    assert_eq!(unequal.expected.as_deref(), Some("[9, 9, 9, 9]"));
    assert_eq!(unequal.got.as_deref(), Some("what was written: [8, 9, 10, 11]"));

    // In every form.
    let xml = junit(&report);
    let page = html(&report, &BTreeMap::new(), "a test");
    let text = Document::new(None, "2030-01-01T00:00:00Z".into(), vec![report]).to_text();
    for (form, text) in [("JUnit", xml), ("HTML", page), ("JSON", text)] {
        for piece in ["RC RDMA_WRITE_ONLY", "nak RemoteAccess", "2 with SUCCESS", "program a"] {
            assert!(text.contains(piece), "{form} has no {piece:?}:\n{text}");
        }
    }
}

#[test]
fn of_simulated_devices() {
    judged(Box::new(Simulated { profile: Profile::SPEC }));
}

#[cfg(target_os = "linux")]
#[test]
fn of_devices_over_udp() {
    judged(Box::new(Emulated { profile: Profile::SPEC }));
}
