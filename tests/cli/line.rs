//! The command line: help, version, mistakes.

use super::{Ran, command, run};

/// Every command, the program itself included.
const COMMANDS: [&str; 22] = [
    "",
    "ps",
    "service",
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
    "run",
    "env",
    "conform",
    "conform list",
    "conform compare",
    "conform serve",
    "swarm",
    "replay",
    "bench connect",
];

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
        let (_, examples) = out.split_once("Examples:").unwrap();
        let examples =
            examples.lines().filter_map(|text| text.trim_start().strip_prefix("softrnic "));
        for example in examples {
            // What follows two blanks explains; words in capitals stand for the user's own.
            let example = example.split("  ").next().unwrap().trim();
            let example = example.replace("HOST", "localhost").replace("SPEC", "x");
            // What stands behind `--` is another program's.
            let example = example.split(" -- ").next().unwrap();
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
        ("demo --backend hardware", "softrnic conform --backend hardware"),
        ("conform compare /dev/null /dev/null", "name a file of --results"),
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

/// An option beats the environment, for the program that is started as well.
#[test]
#[cfg(target_os = "linux")]
fn the_environment_of_a_program_names_devices_in_one_way() {
    // Which library it is does not matter here.
    let line = "env --fake-sysfs none --library Cargo.toml";
    for (option, variable, value, expected) in [
        (
            "-d 127.0.0.9",
            "SOFTRNIC_INTERFACE",
            "lo",
            ["unset SOFTRNIC_INTERFACE", "export SOFTRNIC_ADDRESS='127.0.0.9'"],
        ),
        (
            "-d 127.0.0.9;127.0.0.8,::1",
            "SOFTRNIC_INTERFACE",
            "lo",
            ["unset SOFTRNIC_INTERFACE", "export SOFTRNIC_ADDRESS='127.0.0.9;127.0.0.8,::1'"],
        ),
        (
            "-d lo",
            "SOFTRNIC_ADDRESS",
            "127.0.0.9",
            ["unset SOFTRNIC_ADDRESS", "export SOFTRNIC_INTERFACE='lo'"],
        ),
        (
            "",
            "SOFTRNIC_ADDRESS",
            "lo",
            ["unset SOFTRNIC_ADDRESS", "export SOFTRNIC_INTERFACE='lo'"],
        ),
    ] {
        let output = command(&format!("{line} {option}")).env(variable, value).output().unwrap();
        let Ran { code, out, err } = output.into();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{option}");
        for text in expected {
            assert!(out.lines().any(|line| line == text), "{option}: {text:?} is not in\n{out}");
        }
    }
}
