//! perftest: bandwidth and latency of every operation on every service.

use super::ends::{Pair, Setting, all_run, is_installed};

const PACKAGE: &str = "perftest";

/// Which services have the operation.
const SERVICES: [(&str, &[&str]); 4] = [
    ("write", &["RC", "UC", "XRC"]),
    ("read", &["RC", "XRC"]),
    ("send", &["RC", "UC", "UD", "XRC"]),
    ("atomic", &["RC", "XRC"]),
];

/// What each service is run with besides: its name, the kinds of program, the operations, the options.
struct Variant {
    kinds: &'static [&'static str],
    operations: &'static [&'static str],
    options: &'static str,
}

const BOTH: &[&str] = &["bw", "lat"];
const BANDWIDTH: &[&str] = &["bw"];
const ALL: &[&str] = &["write", "read", "send", "atomic"];

const VARIANTS: [Variant; 14] = [
    Variant { kinds: BOTH, operations: ALL, options: "-n 200" },
    Variant { kinds: BOTH, operations: &["write", "read", "send"], options: "-n 100 -a" },
    Variant { kinds: BANDWIDTH, operations: ALL, options: "-n 200 -b" },
    Variant { kinds: BANDWIDTH, operations: ALL, options: "-n 200 -q 16" },
    Variant { kinds: BOTH, operations: &["send"], options: "-n 200 -e" },
    Variant { kinds: BANDWIDTH, operations: &["read", "atomic"], options: "-n 200 -e" },
    Variant { kinds: BOTH, operations: &["send"], options: "-n 200 --use-srq" },
    Variant { kinds: BANDWIDTH, operations: &["send"], options: "-n 100 --use-srq -q 4 -e" },
    Variant { kinds: BOTH, operations: &["atomic"], options: "-n 200 -A CMP_AND_SWAP" },
    Variant { kinds: BOTH, operations: &["write", "send"], options: "-n 200 -s 64 -I 64" },
    Variant { kinds: BANDWIDTH, operations: ALL, options: "-n 320 -l 16 -t 64" },
    Variant { kinds: BANDWIDTH, operations: ALL, options: "-D 2" },
    Variant { kinds: BOTH, operations: ALL, options: "-n 200 --use_old_post_send" },
    Variant {
        kinds: BOTH,
        operations: &["write", "read", "send"],
        options: "-n 200 -m 256 -s 5000",
    },
];

/// Of RC all variants, of the other services the first; all of all with `SOFTRNIC_FOREIGN_ALL`.
fn run_all(operation: &str) {
    let everything = std::env::var_os("SOFTRNIC_FOREIGN_ALL").is_some();
    let (_, services) = SERVICES.iter().find(|(known, _)| *known == operation).unwrap();
    if !is_installed(&format!("ib_{operation}_bw"), PACKAGE) {
        return;
    }
    let mut lines = Vec::new();
    for service in *services {
        let variants = if everything || *service == "RC" { &VARIANTS[..] } else { &VARIANTS[..1] };
        for variant in variants.iter().filter(|v| v.operations.contains(&operation)) {
            // What perftest itself refuses.
            // A message without acknowledgements that does not fit the receiver's socket buffer is
            // lost now and then, and perftest waits for it for ever.
            let no = variant.options.contains("--use-srq") && matches!(*service, "UC" | "XRC")
                || *service == "UD" && variant.options.contains("-s 5000")
                || *service == "UC" && variant.options.contains("-a");
            if no {
                continue;
            }
            for kind in variant.kinds {
                lines.push((
                    format!("ib_{operation}_{kind}"),
                    format!("-x 0 -c {service} {}", variant.options),
                ));
            }
        }
    }
    all_run(lines.iter().map(|(program, arguments)| Pair::new(program, arguments)));
}

#[test]
fn write() {
    run_all("write");
}

#[test]
fn read() {
    run_all("read");
}

#[test]
fn send() {
    run_all("send");
}

#[test]
fn atomic() {
    run_all("atomic");
}

#[test]
fn in_bad_weather() {
    if !is_installed("ib_write_bw", PACKAGE) {
        return;
    }
    let setting = Setting { options: &["--faults", "drop=1%,reorder=2%,seed=5"], variables: &[] };
    let programs = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"];
    all_run(programs.map(|program| Pair {
        setting: setting.clone(),
        ..Pair::new(program, "-x 0 -n 200 -u 10")
    }));
}
