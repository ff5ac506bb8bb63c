//! Programs of Debian's `perftest`. What they measure is not looked at here.

use super::setup::{is_installed, pair};

fn runs(program: &str, variants: &[&str]) {
    if !is_installed(program) {
        return;
    }
    for variant in variants {
        let mut arguments = vec!["-x", "0", "-F"];
        arguments.extend(variant.split_whitespace());
        let [_, client] = pair(program, "-p", &arguments);
        assert!(client.out.contains("#iterations"), "{program} {variant}: {client:?}");
    }
}

#[test]
fn write_bandwidth() {
    runs(
        "ib_write_bw",
        &[
            "-n 200",
            "-n 200 -c UC",
            "-n 200 -c XRC",
            "-n 50 -a",
            "-n 200 -b",
            "-n 50 -q 16",
            "-n 200 -I 128 -s 64",
            "-n 256 -l 8",
            "-n 100 --use_old_post_send",
            "-n 100 -m 1024",
            "-D 2",
        ],
    );
}

#[test]
fn read_bandwidth() {
    runs(
        "ib_read_bw",
        &[
            "-n 200",
            "-n 50 -a",
            "-n 200 -e",
            "-n 100 -c XRC",
            "-n 100 --use_old_post_send",
            "-n 200 -b",
        ],
    );
}

#[test]
fn send_bandwidth() {
    runs(
        "ib_send_bw",
        &[
            "-n 200",
            "-n 200 -c UC",
            "-n 200 -c UD",
            "-n 200 -c XRC",
            "-n 100 -c XRC -q 4 -e",
            "-n 50 -a",
            "-n 200 -b",
            "-n 100 -q 4 -e",
            "-n 200 --use-srq",
            "-n 100 --use-srq -q 4",
            "-n 256 -l 4 -r 64",
            "-n 100 --use_old_post_send",
            "-D 2",
        ],
    );
}

#[test]
fn atomic_bandwidth() {
    runs(
        "ib_atomic_bw",
        &["-n 200", "-n 200 -c XRC", "-n 200 -A CMP_AND_SWAP", "-n 100 --use_old_post_send"],
    );
}

#[test]
fn latencies() {
    runs("ib_write_lat", &["-n 50", "-n 50 -c UC"]);
    runs("ib_read_lat", &["-n 200", "-n 200 -e"]);
    runs(
        "ib_send_lat",
        &["-n 200", "-n 200 -c UC", "-n 200 -c UD", "-n 200 -c XRC", "-n 200 -e", "-n 50 -a"],
    );
    runs("ib_atomic_lat", &["-n 200", "-n 200 -A CMP_AND_SWAP"]);
}
