//! IPv6 GIDs: loopback has one address only, so both ends live in a network namespace of the test's
//! own that has two.

use std::process::Command;

use super::ends::{Running, build_libraries, cannot_run, is_installed};

#[test]
fn programs_talk_by_ipv6() {
    if !is_installed("ib_write_bw", "perftest") || !is_installed("ip", "iproute2") {
        return;
    }
    let allowed = Command::new("unshare").args(["-rn", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        cannot_run("network namespaces may not be made here");
        return;
    }
    const SCRIPT: &str = r#"
        set -e
        ip link set lo up
        ip addr add fd00::1/128 dev lo nodad
        ip addr add fd00::2/128 dev lo nodad
        pair() {
            "$SOFTRNIC" run -d fd00::1 -- "$@" &
            sleep 1
            "$SOFTRNIC" run -d fd00::2 -- "$@" 127.0.0.1
            wait $!
        }
        pair ibv_rc_pingpong -g 0 -n 100 -c
        pair ibv_ud_pingpong -g 0 -n 100 -c -s 1024
        pair ib_write_bw -x 0 -n 200
        pair ib_send_lat -x 0 -n 200 -c UD
        pair ib_read_bw -x 0 -n 200
        echo all is well
    "#;
    build_libraries();
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", SCRIPT]).env("SOFTRNIC", env!("CARGO_BIN_EXE_softrnic"));
    let ended = Running::start(command).finish();
    assert!(ended.good && ended.text.contains("all is well"), "{}", ended.text);
}
