//! qperf's RDMA tests.

use super::ends::{Running, Setting, free_port, fresh_address, is_installed, on_device};

const TESTS: &str = "rc_bi_bw rc_bw rc_compare_swap_mr rc_fetch_add_mr rc_lat rc_rdma_read_bw \
    rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat uc_bi_bw uc_bw \
    uc_lat uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat ud_bi_bw ud_bw ud_lat \
    ver_rc_compare_swap ver_rc_fetch_add";

#[test]
fn all_tests() {
    if !is_installed("qperf", "qperf") {
        return;
    }
    let (server, client, port) = (fresh_address(), fresh_address(), free_port());
    let mut listening = on_device(server, &Setting::default());
    listening.args(["qperf", "-lp", &port.to_string()]);
    let mut listening = Running::start(listening);
    listening.await_port(port);
    let mut failed = Vec::new();
    for test in TESTS.split_whitespace() {
        let mut command = on_device(client, &Setting::default());
        command.args(["qperf", "-lp", &port.to_string(), "-t", "1", &server.to_string(), test]);
        let ended = Running::start(command).finish();
        let measured = ended.text.contains("bw ")
            || ended.text.contains("latency")
            || ended.text.contains("msg_rate");
        if !ended.good || ended.text.contains("failed") || !measured && !test.starts_with("ver_") {
            failed.push(format!("{test}: {}", ended.text));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
