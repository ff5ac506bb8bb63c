//! qperf's RDMA tests. qperf addresses its peer by LID, which no RoCE device can, unless it uses the
//! connection manager (`-cm 1`), which it can for RC only: the others fail on every RoCE device.

use super::ends::{Running, Setting, free_port, fresh_address, is_installed, on_device};

const RELIABLE: &str = "rc_lat rc_bw rc_bi_bw rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw \
    rc_rdma_write_lat rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr \
    ver_rc_compare_swap ver_rc_fetch_add";
const BY_LID: &str = "uc_lat ud_lat uc_bi_bw uc_bw uc_rdma_write_bw uc_rdma_write_lat \
    uc_rdma_write_poll_lat ud_bi_bw ud_bw";

/// Runs tests against one server; each must end as `judge` says.
fn run_all(tests: &str, judge: impl Fn(bool, &str) -> bool) {
    if !is_installed("qperf", "qperf") {
        return;
    }
    let (server, client, port) = (fresh_address(), fresh_address(), free_port());
    let port_text = port.to_string();
    let mut listening = on_device(server, &Setting::default());
    listening.args(["qperf", "-lp", &port_text]);
    let _listening = Running::start(listening).await_port(port).unwrap();
    let mut failed = Vec::new();
    for test in tests.split_whitespace() {
        let mut command = on_device(client, &Setting::default());
        command.args(["qperf", "-lp", &port_text, "-t", "1", "-cm", "1"]);
        command.args([&server.to_string(), test]);
        let ended = Running::start(command).finish();
        if !judge(ended.good, &ended.text) {
            failed.push(format!("{test}: {}", ended.text));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn reliable_connections() {
    run_all(RELIABLE, |good, _| good);
}

/// Fails as soon as one does not fail: then it belongs to the others. Each takes seconds to fail.
#[test]
fn the_rest_needs_a_lid() {
    let everything = std::env::var_os("SOFTRNIC_FOREIGN_ALL").is_some();
    let tests = if everything { BY_LID } else { "uc_lat ud_lat" };
    let by_lid = ["failed to modify QP", "failed to create address handle"];
    run_all(tests, |good, said| !good && by_lid.iter().any(|text| said.contains(text)));
}
