//! `conform`, `swarm` and `replay` from outside.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::server::free_port;
use super::{Ran, command, run};

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/conformance/captures/rxe-scenarios.pcapng");

/// A folder of one test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("softrnic-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a command with files in a folder.
fn run_in(folder: &Folder, line: &str) -> Ran {
    command(line).current_dir(&folder.0).output().unwrap().into()
}

fn parsed(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn a_family_is_judged_and_reported_in_every_form() {
    let folder = Folder::new("conform");
    let line = "conform --filter rnr --results r.json --junit r.xml --html r.html";
    let Ran { code, out, err } = run_in(&folder, line);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("rnr"), "{out}");
    for device in ["simulated", "emulated"] {
        let name = format!("r-{device}");
        for extension in ["json", "xml", "html"] {
            assert!(err.contains(&format!("wrote {name}.{extension}")), "{err}");
        }
        let results = parsed(&folder.file(&format!("{name}.json")));
        assert!(results["results"].as_array().unwrap().len() > 20, "{results}");
        let page = std::fs::read_to_string(folder.file(&format!("{name}.html"))).unwrap();
        // Every link of the page leads to something on it.
        for link in page.split("href=\"#").skip(1) {
            let (target, _) = link.split_once('"').unwrap();
            assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        }
    }
}

#[test]
fn results_are_compared_and_a_reader_that_goes_is_no_accident() {
    let folder = Folder::new("compare");
    for profile in ["spec", "rxe"] {
        let line = format!("conform --on simulated --profile {profile} --results {profile}.json");
        assert_eq!(run_in(&folder, &line).code, Some(0));
    }
    let compare = "conform compare spec.json rxe.json";
    let Ran { code, out, .. } = run_in(&folder, compare);
    assert!(code == Some(0) && out.contains("cases differ"), "{out}");
    let document = run_in(&folder, &format!("--json {compare}")).out;
    serde_json::from_str::<Value>(&document).unwrap();
    for line in [compare, "conform list", "--json conform --on simulated --filter rnr"] {
        let mut child = command(line)
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let Ran { err, .. } = child.wait_with_output().unwrap().into();
        assert!(!err.contains("panicked"), "`{line}`: {err}");
    }
}

#[test]
fn a_helper_that_is_not_there_is_no_fault_of_the_device() {
    let port = free_port();
    let Ran { code, out, err } = run(&format!("conform --peer 127.0.0.1:{port}"));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("nobody answers") && err.contains("softrnic conform serve"), "{err}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let folder = Folder::new("swarm");
    let told = || {
        let Ran { code, out, err } = run_in(&folder, "--json swarm --seed 5 --runs 2 --steps 60");
        assert_eq!(code, Some(0), "{out}{err}");
        let document: Value = serde_json::from_str(&out).unwrap();
        assert!(document["tables"]["runs"][1]["event_hash"].is_string(), "{document}");
        document["tables"].clone()
    };
    assert_eq!(told(), told());
    for (name, text) in [("empty", ""), ("other", "{}"), ("torn", "{\"plan\":")] {
        std::fs::write(folder.file(name), text).unwrap();
        let Ran { code, err, .. } = run_in(&folder, &format!("swarm --schedule {name}"));
        assert!(code != Some(0) && err.contains(name) && err.contains("line 1"), "{err}");
    }
}

#[test]
fn a_capture_is_explained_and_a_damaged_one_refused() {
    let folder = Folder::new("replay");
    let Ran { code, out, err } = run(&format!("replay {CAPTURE}"));
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("WRITE") && out.contains("PSN"), "{out}");
    let whole = std::fs::read(CAPTURE).unwrap();
    std::fs::write(folder.file("text"), b"not a capture at all").unwrap();
    std::fs::write(folder.file("torn"), &whole[..whole.len() / 2 + 3]).unwrap();
    for name in ["text", "torn"] {
        let Ran { code, err, .. } = run_in(&folder, &format!("replay {name}"));
        assert!(code.is_some_and(|code| code != 0) && err.contains(name), "{name}: {err}");
        assert!(err.contains("byte"), "{name}: {err}");
    }
}
