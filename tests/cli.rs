//! The program as its users meet it: help, mistakes, exit codes, and output for people and programs.

#![expect(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

use std::process::{Command, Output, Stdio};

/// Every command, the program itself included.
const COMMANDS: [&str; 11] = [
    "",
    "demo",
    "devinfo",
    "pingpong",
    "bench",
    "bench write",
    "bench read",
    "bench send",
    "bench atomic",
    "bench limits",
    "stat",
];

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softrnic"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    for variable in ["ADDRESS", "CAPTURE", "FAULTS", "PROFILE"] {
        command.env_remove(format!("SOFTRNIC_{variable}"));
    }
    command
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn run(line: &str) -> Ran {
    command(line).output().unwrap().into()
}

#[test]
fn every_command_has_help_on_standard_output() {
    for line in COMMANDS {
        for flag in ["-h", "--help"] {
            let Ran { code, out, err } = run(&format!("{line} {flag}"));
            assert_eq!((code, err.as_str()), (Some(0), ""), "{line} {flag}");
            assert!(out.contains("Usage: softrnic"), "{line} {flag}: {out}");
            for part in ["--json", "Examples:"] {
                assert!(out.contains(part), "{line} {flag}: no {part}: {out}");
            }
            // Wider lines would be wrapped in the middle of an example.
            assert!(out.lines().all(|text| text.chars().count() <= 100), "{line} {flag}: {out}");
        }
    }
}

#[test]
fn help_shows_examples_that_the_program_understands() {
    let mut shown = 0;
    for line in COMMANDS {
        let Ran { out, .. } = run(&format!("{line} --help"));
        let examples = out.lines().filter_map(|text| text.trim_start().strip_prefix("softrnic "));
        for example in examples {
            // What follows two blanks explains; words in capitals stand for the user's own.
            let example = example.split("  ").next().unwrap().trim();
            let example = example.replace("HOST", "localhost").replace("SPEC", "x");
            // `--help` stops before anything is done, but after the words before it are understood.
            let Ran { code, err, .. } = run(&format!("{example} --help"));
            assert_eq!(code, Some(0), "{line}: `{example}`: {err}");
            shown += 1;
        }
    }
    assert!(shown > 20, "only {shown} examples were found");
}

#[test]
fn the_program_tells_its_version() {
    let Ran { code, out, .. } = run("--version");
    assert_eq!(code, Some(0));
    assert_eq!(out.trim(), concat!("softrnic ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn mistakes_are_named_and_exit_with_2() {
    for (line, told) in [
        ("", "Usage: softrnic"),
        ("dance", "dance"),
        ("pingpon", "pingpong"),
        ("devinfo --nonsense", "--nonsense"),
        ("devinfo extra", "extra"),
        ("devinfo --profile cx9", "[possible values: strict, spec, rxe, cx5]"),
        ("devinfo --address 10.0.0.256", "neither an IP address nor"),
        ("devinfo --port 0", "--port"),
        ("devinfo --port 65536", "--port"),
        ("devinfo --capture /", "is a directory"),
        ("devinfo --capture no-such-directory/x.pcapng", "no directory no-such-directory"),
        ("pingpong --uc --ud", "--ud"),
        ("pingpong a b", "'b'"),
        ("pingpong 10.0.0.1:18515", "give that with --port"),
        ("pingpong -s 0", "at least 1 byte"),
        ("pingpong -s 9M", "at most 8 MiB"),
        ("pingpong -s 4Q", "no unit of size"),
        ("pingpong -s -4", "-4"),
        ("pingpong -n 0", "--iters"),
        ("pingpong -m 1500", "256, 512, 1024, 2048 or 4096"),
        ("pingpong -r 0", "--rx-depth"),
        ("pingpong -l 16", "--sl"),
        ("pingpong -g 256", "--gid-idx"),
        ("pingpong --ud -s 2K -m 1024", "lower --size, or raise --mtu"),
        ("bench", "Usage: softrnic bench"),
        ("bench write", "bw|lat"),
        ("bench write fast", "[possible values: bw, lat]"),
        ("bench write bw host --local", "--local"),
        ("bench write bw -c ud", "[possible values: rc, uc]"),
        ("bench read bw -c rc", "'-c'"),
        ("bench atomic bw -s 8", "'-s'"),
        ("bench atomic bw -A increment", "fetch-add, compare-swap"),
        ("bench write bw -a -s 2", "--all"),
        ("bench write bw -n 5 -D 5s", "--duration"),
        ("bench write bw -D 5h", "no unit of time"),
        ("bench write bw -q 257", "--qps"),
        ("bench write lat -q 2", "leave --qps out"),
        ("bench write lat -t 2", "leave --tx-depth out"),
        ("bench send bw -c ud -s 2K", "does not fit a UD datagram"),
        ("bench limits --only disk", "udp, latency, in-process, memcpy, crc"),
        ("bench limits -s 4", "8 to 8192 bytes"),
        ("bench limits --sample-time 1s", "60ms to 400ms"),
        ("bench limits -n 0", "--samples"),
        ("stat -n 5", "--interval"),
        ("stat -i 0", "longer than 0"),
    ] {
        let Ran { code, out, err } = run(line);
        assert_eq!((code, out.as_str()), (Some(2), ""), "`{line}`: {err}");
        assert!(err.contains(told), "`{line}`: no `{told}` in: {err}");
    }
}

#[test]
fn a_mistake_in_the_environment_is_blamed_on_the_environment() {
    for (variable, value) in [("SOFTRNIC_PROFILE", "cx9"), ("SOFTRNIC_ADDRESS", "1.2.3")] {
        let ran = Ran::from(command("devinfo").env(variable, value).output().unwrap());
        assert_eq!(ran.code, Some(2), "{}", ran.err);
        assert!(ran.err.contains(&format!("environment variable {variable}")), "{}", ran.err);
    }
    // The command line goes first, so it is to blame here.
    let line = "devinfo --profile cx8";
    let ran = Ran::from(command(line).env("SOFTRNIC_PROFILE", "cx9").output().unwrap());
    assert!(!ran.err.contains("environment variable"), "{}", ran.err);
}

#[test]
fn a_variable_that_is_empty_counts_as_unset() {
    let mut command = command("bench limits --only crc -n 1 --sample-time 60ms");
    for variable in ["ADDRESS", "CAPTURE", "FAULTS", "PROFILE"] {
        command.env(format!("SOFTRNIC_{variable}"), "");
    }
    let ran = Ran::from(command.output().unwrap());
    assert!(!ran.err.contains("invalid value"), "{}", ran.err);
    assert_ne!(ran.code, Some(2));
}

#[test]
fn messages_have_no_colour_when_nobody_looks() {
    for line in ["--help", "dance", "bench write --help"] {
        let Ran { out, err, .. } = run(line);
        assert!(!(out + &err).contains('\u{1b}'), "{line}");
    }
}

#[cfg(target_os = "linux")]
mod limits {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use serde_json::Value;

    use super::*;

    fn document(line: &str) -> Value {
        let Ran { code, out, err } = run(line);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{line}");
        assert_eq!(out.lines().count(), 1, "{out}");
        serde_json::from_str(&out).unwrap()
    }

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

    /// Processes whose parent is `pid`, from `/proc/PID/stat`: after the name, which ends with the
    /// last `)`, come the state and the parent.
    fn children_of(pid: u32) -> Vec<u32> {
        let processes = Path::new("/proc").read_dir().unwrap().filter_map(Result::ok);
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|&child| state_and_parent(child).is_some_and(|(_, parent)| parent == pid))
            .collect()
    }

    fn state_and_parent(pid: u32) -> Option<(String, u32)> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        Some((fields.next()?.into(), fields.next()?.parse().ok()?))
    }

    fn soon<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(found) = attempt() {
                return found;
            }
            assert!(Instant::now() < deadline, "{what} did not come about");
            std::thread::sleep(Duration::from_millis(2));
        }
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
        let Ran { code, err, .. } =
            run(&format!("limits-peer udp-echo --core 0 --parent {parent}"));
        assert_eq!(code, Some(1));
        assert!(err.contains("cannot map the shared page"), "{err}");
    }
}
