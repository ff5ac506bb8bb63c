//! rdma-core's own tests, as Debian packages them (v44).

use std::collections::BTreeMap;
use std::path::Path;

use super::setup::{cannot_run, directory, is_installed, run};

/// What is skipped, and why.
const SKIPPED: &str = include_str!("../rdma_core/skipped.txt");
/// All modules that are about verbs and connections in general.
const MODULES: [&str; 19] = [
    "test_addr",
    "test_atomic",
    "test_cq",
    "test_cq_events",
    "test_cqex",
    "test_device",
    "test_flow",
    "test_fork",
    "test_mr",
    "test_odp",
    "test_parent_domain",
    "test_pd",
    "test_qp",
    "test_qpex",
    "test_rdmacm",
    "test_relaxed_ordering",
    "test_rss_traffic",
    "test_shared_pd",
    "test_tag_matching",
];
const TESTS: usize = 170;

/// Whether this process may make namespaces of its own.
fn has_namespaces() -> bool {
    let made = run(std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "ip"])
        .args(["link", "add", "one", "type", "veth", "peer", "name", "two"]));
    if !made.success {
        cannot_run(&format!("no user namespaces with veth here: {}", made.err.trim()));
    }
    made.success
}

#[test]
fn rdma_core_tests() {
    let packaged = Path::new("/usr/share/doc/rdma-core/tests/run_tests.py").exists();
    if !packaged {
        cannot_run("rdma-core's tests are not installed (rdma-core)");
    }
    if !packaged || !is_installed("unshare") || !is_installed("ip") || !has_namespaces() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rdma_core/run.sh");
    let said = run(std::process::Command::new(script).arg(directory()).args(MODULES));
    let results = said.out.lines().filter_map(|line| line.strip_prefix("RESULT\t"));
    let results: BTreeMap<&str, (&str, &str)> = results
        .filter_map(|line| {
            let mut parts = line.splitn(3, '\t');
            Some((parts.next()?, (parts.next()?, parts.next()?)))
        })
        .collect();
    let declared = SKIPPED.lines().filter(|line| !line.starts_with('#'));
    let declared: BTreeMap<&str, &str> =
        declared.filter_map(|line| line.split_once('\t')).collect();
    let mut wrong = Vec::new();
    for (test, (end, why)) in &results {
        match (*end, declared.get(test)) {
            ("pass", None) | ("skip", Some(_)) => {}
            ("fail", Some(reason)) if reason.starts_with('!') => {}
            ("pass", Some(reason)) if reason.starts_with('~') => {}
            ("pass", Some(reason)) => {
                wrong.push(format!("{test} passes now; delete it from skipped.txt ({reason})"));
            }
            ("skip", None) => {
                wrong.push(format!("{test} is skipped and not in skipped.txt: {why}"));
            }
            _ => wrong.push(format!("{test} fails: {why}")),
        }
    }
    let unknown = declared.keys().filter(|test| !results.contains_key(*test));
    wrong.extend(unknown.map(|test| format!("{test} is in skipped.txt and was not run")));
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), said.err);
    assert_eq!(results.len(), TESTS, "{said:?}");
}
