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
    // None of these cases is about time, which a busy machine does not have.
    let line = "conform --filter icrc --results r.json --junit r.xml --html r.html";
    let Ran { code, out, err } = run_in(&folder, line);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("icrc"), "{out}");
    for device in ["simulated", "emulated"] {
        let name = format!("r-{device}");
        for extension in ["json", "xml", "html"] {
            assert!(err.contains(&format!("wrote {name}.{extension}")), "{err}");
        }
        let results = parsed(&folder.file(&format!("{name}.json")));
        assert!(results["runs"][0]["results"].as_array().unwrap().len() > 20, "{results}");
        let page = std::fs::read_to_string(folder.file(&format!("{name}.html"))).unwrap();
        // It begins with what has failed; every link of it leads to something on it.
        assert!(page.find("id=\"failures\"").unwrap() < page.find("<table>").unwrap(), "{page}");
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
    // Cases that differ in the same way are told of once.
    let differences: Vec<&str> = out.lines().filter(|line| line.starts_with("    ")).collect();
    let distinct: std::collections::BTreeSet<&&str> = differences.iter().collect();
    assert!(differences.len() > 5 && distinct.len() == differences.len(), "{out}");
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
fn one_document_holds_all_worlds_and_compares_by_itself() {
    let folder = Folder::new("document");
    let Ran { code, out, err } = run_in(&folder, "--json conform --filter icrc --profile strict");
    assert_eq!(code, Some(0), "{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&document["format"], &document["command"]), (&2.into(), &"conform".into()));
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    let date = document["date"].as_str().unwrap();
    assert!(date.len() == 20 && date.ends_with('Z') && &date[10..11] == "T", "{date}");
    let commit = document["commit"].as_str();
    assert!(commit.is_none_or(|commit| commit.len() >= 40), "{commit:?}");
    let runs = document["runs"].as_array().unwrap();
    let devices: Vec<&Value> = runs.iter().map(|run| &run["device"]).collect();
    assert_eq!(devices, ["simulated strict", "emulated strict"]);
    assert!(runs.iter().all(|run| run["profile"] == "strict" && run["results"].is_array()));
    assert_eq!((&runs[0]["seed"], &runs[1]["seed"]), (&0.into(), &Value::Null));
    std::fs::write(folder.file("both.json"), out).unwrap();
    let Ran { code, out, err } = run_in(&folder, "conform compare both.json");
    assert!(code == Some(0) && out.contains(" cases differ, "), "{out}{err}");
    std::fs::write(folder.file("old.json"), "{\"form\": 1, \"results\": []}").unwrap();
    let Ran { code, err, .. } = run_in(&folder, "conform compare old.json both.json");
    assert!(code == Some(2) && err.contains("old.json: line 1: form 1"), "{err}");
}

#[test]
fn a_case_over_the_verbs_that_fails_tells_its_packets() {
    let folder = Folder::new("ladder");
    // Nothing is declared, so what the profile does differently fails.
    std::fs::write(folder.file("none.toml"), "device = \"none\"\n").unwrap();
    let files = "--results r.json --junit r.xml --html r.html";
    let case = "completions/slot-freed-by-poll/receives";
    for world in ["simulated", "emulated"] {
        let options = format!("--profile rxe --deviations none.toml --filter {case} {files}");
        let Ran { code, out, err } = run_in(&folder, &format!("conform --on {world} {options}"));
        assert_eq!(code, Some(1), "{out}{err}");
        let results = parsed(&folder.file("r.json"));
        let failed = &results["runs"][0]["results"][0];
        assert_eq!((&failed["name"], &failed["status"]), (&case.into(), &"fail".into()));
        assert!(failed["ladder"].as_array().unwrap().len() > 3, "{failed}");
        let xml = std::fs::read_to_string(folder.file("r.xml")).unwrap();
        let page = std::fs::read_to_string(folder.file("r.html")).unwrap();
        for text in [&out, &failed.to_string(), &xml, &page] {
            for piece in ["RC SEND_ONLY psn", "RC ACKNOWLEDGE psn", "program a", "GRH"] {
                assert!(text.contains(piece), "{world}: no {piece:?} in\n{text}");
            }
        }
        assert!(page.contains(&format!("<a href=\"#{case}\">{case}</a>")), "{page}");
        assert!(out.contains("      rule  "), "{out}");
    }
}

#[test]
fn reasons_of_what_is_not_judged_are_counted() {
    let filter = "--filter qp-attributes --filter completions";
    let Ran { code, out, err } = run(&format!("conform --on simulated --profile rxe {filter}"));
    assert_eq!(code, Some(0), "{out}{err}");
    let reasons: Vec<&str> = out.lines().filter(|line| line.contains(" x  ")).collect();
    assert!(reasons.iter().any(|line| line.trim_start().starts_with("deviation")), "{out}");
    let counted: usize = reasons
        .iter()
        .map(|line| line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap())
        .sum();
    let all = out.lines().find(|line| line.starts_with("all ")).unwrap();
    let cells: Vec<usize> =
        all.split_whitespace().skip(1).map(|cell| cell.parse().unwrap_or(0)).collect();
    // Rules, cases, pass, fail, n/a, deviation, stale: every case that has a reason is in one.
    assert_eq!(counted, cells[4] + cells[5], "{out}");
}

/// Files of which nothing good can come: each ends at once, with what is wrong.
#[cfg(unix)]
#[test]
fn files_that_are_none_are_refused_at_once() {
    let folder = Folder::new("files");
    let fifo = folder.file("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()), "there is no mkfifo");
    std::fs::write(folder.file("none.toml"), "device = \"none\"\n").unwrap();
    let long = std::fs::File::create(folder.file("long.toml")).unwrap();
    long.set_len((64 << 20) + 1).unwrap();
    std::fs::File::create(folder.file("long.pcapng")).unwrap().set_len((1 << 30) + 1).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.file("zero.toml")).unwrap();
    std::fs::create_dir(folder.file("folder.toml")).unwrap();
    std::fs::rename(&fifo, folder.file("fifo.toml")).unwrap();
    for (file, why) in [
        ("zero.toml", "a device, pipe or socket"),
        ("fifo.toml", "a device, pipe or socket"),
        ("folder.toml", "a directory"),
        ("long.toml", "longer than 64 MiB"),
        ("absent.toml", "No such file"),
    ] {
        let mut lines = vec![
            format!("conform --on simulated --filter icrc --deviations {file}"),
            format!("conform compare {file} none.toml"),
            format!("swarm --schedule {file}"),
        ];
        if file != "long.toml" {
            lines.push(format!("replay {file}"));
        }
        for line in lines {
            let begun = std::time::Instant::now();
            let Ran { code, err, .. } = run_in(&folder, &line);
            let says = err.contains(file) && err.contains(why);
            assert!(code.is_some_and(|code| code > 0) && says, "`{line}`: {code:?} {err}");
            assert!(begun.elapsed().as_secs() < 20, "`{line}` takes its time");
        }
    }
    let Ran { err, .. } = run_in(&folder, "replay long.pcapng");
    assert!(err.contains("long.pcapng") && err.contains("longer than 1024 MiB"), "{err}");
}

#[test]
fn a_file_of_deviations_that_is_wrong_is_refused_with_line_and_reason() {
    let folder = Folder::new("deviations");
    let head = "device = \"x\"\n\n[[deviation]]\n";
    for (text, pieces) in [
        ("device = x\n".to_owned(), &["line 1"][..]),
        ("[[deviation]]\n".to_owned(), &["line 1", "cases"]),
        ("devise = \"x\"\n".to_owned(), &["line 1", "devise"]),
        (format!("{head}case = \"uc\"\n"), &["line 4", "case"]),
        (format!("{head}cases = 7\ndifference = \"d\"\nreason = \"r\"\n"), &["line 4"]),
        (format!("{head}cases = \"uc\"\ndifference = \"d\"\n"), &["line 3", "reason"]),
        (
            format!("{head}cases = \"uc\"\ndifference = \"\"\nreason = \"r\"\n"),
            &["line 3", "uc: a difference and a reason must be given"],
        ),
        (format!("{head}cases = [\n"), &["line"]),
        (
            format!("{head}cases = \"icrc/none/*\"\ndifference = \"it differs\"\nreason = \"r\"\n"),
            &["no case is called", "it differs"],
        ),
    ] {
        std::fs::write(folder.file("bad.toml"), &text).unwrap();
        let line = "conform --on simulated --filter icrc --deviations bad.toml";
        let Ran { code, out, err } = run_in(&folder, line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{text}{err}");
        for piece in pieces.iter().chain(&["bad.toml", "docs/guides/conform.md"]) {
            assert!(err.contains(piece), "no {piece:?} for\n{text}{err}");
        }
    }
    std::fs::write(folder.file("latin.toml"), b"device = \"x\"\n# \xe4\n").unwrap();
    let line = "conform --on simulated --filter icrc --deviations latin.toml";
    let Ran { code, err, .. } = run_in(&folder, line);
    assert!(code == Some(2) && err.contains("line 2 is not UTF-8"), "{err}");
    let Ran { code, err, .. } = run("conform --on simulated --filter icrc --deviations rxe-6.1");
    assert_eq!(code, Some(0), "a name with a dot is a name: {err}");
    for line in [
        "conform -d rxe0",
        "swarm --runs 1 --faults drop=1%",
        "replay x.pcapng --capture y",
        "swarm --backend hardware",
    ] {
        let Ran { code, err, .. } = run(line);
        assert!(code == Some(2) && err.contains("takes devices of its own"), "`{line}`: {err}");
    }
    let line = "conform --on simulated --filter icrc --results one.json --junit one.json";
    let Ran { code, err, .. } = run(line);
    assert!(code == Some(2) && err.contains("one.json is named for two kinds"), "{err}");
    let Ran { code, err, .. } = run("conform --on simulated --filter icrc --deviations nobody");
    assert!(code == Some(2) && err.contains("nobody"), "{err}");
}

#[test]
fn a_helper_tells_of_a_judge_and_not_of_its_cases() {
    let (tcp, device) = (free_port(), "127.77.9.1");
    let line = format!("conform serve -d {device} --listen {tcp} --bind 127.0.0.1");
    let mut helper = command(&line).stderr(Stdio::piped()).spawn().unwrap();
    let told = std::thread::spawn({
        let err = helper.stderr.take().unwrap();
        move || {
            use std::io::BufRead;
            let lines = std::io::BufReader::new(err).lines().map_while(Result::ok);
            let mut told = Vec::new();
            for line in lines {
                let is_last = line.contains("is done: ");
                told.push(line);
                if is_last {
                    break;
                }
            }
            told
        }
    });
    let judge = format!("conform --peer 127.0.0.1:{tcp} -d 127.77.9.2 --filter rnr/nak");
    let mut judged = run(&judge);
    // The helper may not listen yet.
    for _ in 0..50 {
        if !judged.err.contains("nobody answers") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        judged = run(&judge);
    }
    let Ran { code, out, err } = judged;
    assert_eq!(code, Some(0), "{out}{err}");
    let told = told.join().unwrap();
    helper.kill().unwrap();
    helper.wait().unwrap();
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told[1] == "127.0.0.1 judges the device", "{told:#?}");
    let cases = told[2].strip_prefix("127.0.0.1 is done: ").unwrap();
    let count: usize = cases.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 1 && out.contains(&format!(" {count} ")), "{told:#?}\n{out}");
}

/// Of both families, unless it is told where to listen; and the judge needs an address for itself.
#[test]
fn a_helper_listens_everywhere() {
    let (tcp, device) = (free_port(), "127.77.9.5");
    let line = format!("conform serve -d {device} --listen {tcp}");
    let mut helper = command(&line).stderr(Stdio::null()).spawn().unwrap();
    let reached = |host: &str| std::net::TcpStream::connect((host, tcp)).is_ok();
    let v4 = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(200));
        reached("127.0.0.1")
    });
    let has_v6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let v6 = has_v6 && reached("::1");
    let judge = format!("conform --peer 127.0.0.1:{tcp} -d {device} --filter icrc");
    let Ran { code, out, err } = run(&judge);
    helper.kill().unwrap();
    helper.wait().unwrap();
    assert!(v4 && v6 == has_v6, "IPv4: {v4}, IPv6: {v6} of {has_v6}");
    if !has_v6 {
        softrnic_testing::not_run("this host has no IPv6");
    }
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("packets cannot be sent from 127.77.9.5"), "{err}");
}

/// Whoever connects and says nothing keeps the judge waiting, not for so long that a case fails.
#[test]
fn a_silent_client_of_the_helper_does_not_make_cases_fail() {
    let (tcp, device) = (free_port(), "127.77.9.3");
    let line = format!("conform serve -d {device} --listen {tcp} --bind 127.0.0.1");
    let mut helper = command(&line).stderr(Stdio::null()).spawn().unwrap();
    let silent = (0..50).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::net::TcpStream::connect(("127.0.0.1", tcp)).ok()
    });
    assert!(silent.is_some(), "nobody listens");
    let judge = format!("conform --peer 127.0.0.1:{tcp} -d 127.77.9.4 --filter rnr/nak");
    let Ran { code, out, err } = run(&judge);
    helper.kill().unwrap();
    helper.wait().unwrap();
    assert_eq!(code, Some(0), "{out}{err}");
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
