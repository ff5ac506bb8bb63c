//! UCX over the verbs transports of the device.

use super::ends::{Running, Setting, free_port, fresh_address, is_installed, on_device};

const PACKAGE: &str = "ucx-utils";

#[test]
fn the_device_is_found() {
    if !is_installed("ucx_info", PACKAGE) {
        return;
    }
    let mut command = on_device(fresh_address(), &Setting::default());
    command.args(["ucx_info", "-d"]);
    let ended = Running::start(command).finish();
    assert!(ended.good, "{}", ended.text);
    for transport in ["rc_verbs", "ud_verbs"] {
        assert!(ended.text.contains(transport), "{transport} is missing in\n{}", ended.text);
    }
}

/// Tag matching, active messages, one-sided and atomic operations, small and large.
#[test]
fn perftest() {
    if !is_installed("ucx_perftest", PACKAGE) {
        return;
    }
    let tests = [
        ("tag_lat", "8"),
        ("tag_bw", "65536"),
        ("ucp_am_lat", "8"),
        ("ucp_am_bw", "65536"),
        ("ucp_put_lat", "8"),
        ("ucp_put_bw", "65536"),
        ("ucp_get", "65536"),
        ("ucp_add", "8"),
        ("ucp_fadd", "8"),
        ("ucp_swap", "8"),
        ("ucp_cswap", "8"),
    ];
    let mut failed = Vec::new();
    // The names that take the transport for what they need besides (rc connects over ud).
    for transport in ["rc_v", "ud_v"] {
        for (test, size) in tests {
            let variables = [("UCX_TLS", transport), ("UCX_NET_DEVICES", "softrnic0:1")];
            let setting = Setting { options: &[], variables: &variables };
            let (server, client, port) = (fresh_address(), fresh_address(), free_port());
            let port_text = port.to_string();
            let mut command = on_device(server, &setting);
            command.args(["ucx_perftest", "-p", &port_text]);
            let _listening = Running::start(command).await_port(port).unwrap();
            let mut command = on_device(client, &setting);
            command.args(["ucx_perftest", "-p", &port_text, "-t", test, "-s", size]);
            command.args(["-n", "200", "-w", "20", &server.to_string()]);
            let ended = Running::start(command).finish();
            if !ended.good || !ended.text.contains("Final:") {
                failed.push(format!("{transport} {test}: {}", ended.text));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n==========\n"));
}
