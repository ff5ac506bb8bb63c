//! The recorded scenarios by pyverbs on the drop-in: the same completions as a soft-RoCE device of
//! Linux gave the same program, but for the declared differences.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use softrnic_conformance::difference::{BY_THE_RULES, Difference};
use softrnic_conformance::judge::Right;
use softrnic_conformance::recorded::{RXE_V4, Recording};
use softrnic_conformance::scenario::Side;

use super::ends::{Running, Setting, cannot_run, free_port, fresh_address, on_device};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/scenarios.py");
/// Debian's own interpreter and its module.
const PYTHON: &str = "/usr/bin/python3";
const PYVERBS: &str = "/usr/lib/python3/dist-packages/pyverbs";
const SCENARIOS: usize = 57;

/// Both processes, on one address; what they print, put together in the form of a recording.
fn observe(profile: &str) -> Recording {
    let (address, port) = (fresh_address(), free_port());
    let options = ["--profile", profile];
    let start = |role| {
        let setting = Setting { options: &options, variables: &[] };
        let mut command = on_device(address, &setting);
        command.args([PYTHON, PROGRAM, role, &port.to_string(), "softrnic0", "0"]);
        Running::start(command)
    };
    let responder = start("responder").await_port(port).unwrap();
    let requester = start("requester");
    let [requester, responder] = [requester, responder].map(|running| {
        let ended = running.finish();
        assert!(ended.good, "{}", ended.text);
        serde_json::from_str::<BTreeMap<String, Value>>(&ended.text).unwrap()
    });
    let both: BTreeMap<_, _> = requester
        .into_iter()
        .map(|(name, asked)| {
            let answered = responder.get(&name);
            (name, json!({ "requester": asked, "responder": answered }))
        })
        .collect();
    Recording::read(&serde_json::to_string(&both).unwrap()).unwrap()
}

fn compare(profile: &str, declared: &[Difference]) {
    let (recorded, observed) = (Recording::read(RXE_V4).unwrap(), observe(profile));
    assert_eq!(recorded.names().count(), SCENARIOS);
    let mut wrong = Vec::new();
    for name in recorded.names() {
        for side in Side::ALL {
            let right = Right::of(name, side, &recorded, declared).unwrap().answer;
            let found = observed.answer(name, side);
            if found != Some(&right) {
                wrong.push(format!("{name}, {side}: {found:?}\n  right is {right:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "profile {profile}:\n{}", wrong.join("\n"));
}

fn has_pyverbs() -> bool {
    Path::new(PYVERBS).exists() || cannot_run("pyverbs is not installed (Debian: python3-pyverbs)")
}

#[test]
fn profile_spec_differs_where_it_is_declared() {
    if has_pyverbs() {
        compare("spec", BY_THE_RULES);
    }
}

#[test]
fn profile_rxe_differs_nowhere() {
    if has_pyverbs() {
        compare("rxe", &[]);
    }
}
