//! qperf's RDMA tests. qperf addresses its peer by LID, which no RoCE device can, unless it uses the
//! connection manager (`-cm 1`), which it can for RC only. So the RC tests wait for the connection
//! manager, and the others fail on every RoCE device.

use super::ends::{Running, Setting, free_port, fresh_address, is_installed, on_device};

const TESTS: &str = "rc_bi_bw rc_bw rc_compare_swap_mr rc_fetch_add_mr rc_lat rc_rdma_read_bw \
    rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat uc_bi_bw uc_bw \
    uc_lat uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat ud_bi_bw ud_bw ud_lat \
    ver_rc_compare_swap ver_rc_fetch_add";

/// Fails as soon as one does not fail: then this list is to be turned round.
#[test]
fn no_test_runs_yet() {
    if !is_installed("qperf", "qperf") {
        return;
    }
    let (server, client, port) = (fresh_address(), fresh_address(), free_port());
    let port_text = port.to_string();
    let mut listening = on_device(server, &Setting::default());
    listening.args(["qperf", "-lp", &port_text]);
    let _listening = Running::start(listening).await_port(port).unwrap();
    // Each takes seconds to fail.
    let everything = std::env::var_os("SOFTRNIC_FOREIGN_ALL").is_some();
    let tests = if everything { TESTS } else { "rc_lat uc_lat ud_lat" };
    for test in tests.split_whitespace() {
        let mut command = on_device(client, &Setting::default());
        command.args(["qperf", "-lp", &port_text, "-t", "1", "-cm", "1"]);
        command.args([&server.to_string(), test]);
        let ended = Running::start(command).finish();
        let waits = ended.text.contains("rdma_create_event_channel");
        let by_lid = ["failed to modify QP", "failed to create address handle"];
        let refused = by_lid.iter().any(|text| ended.text.contains(text));
        assert!(!ended.good && (waits || refused), "{test}: {}", ended.text);
    }
}
