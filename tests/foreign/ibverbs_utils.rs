//! `ibv_devices`, `ibv_devinfo` and the five ping-pongs of rdma-core's ibverbs-utils.

use super::ends::{
    Pair, Running, Setting, all_run, free_port, fresh_address, is_installed, on_device,
};

const PACKAGE: &str = "ibverbs-utils";

fn said(program: &[&str]) -> String {
    let mut command = on_device(fresh_address(), &Setting::default());
    command.args(program);
    let ended = Running::start(command).finish();
    assert!(ended.good, "{program:?}: {}", ended.text);
    ended.text
}

#[test]
fn devices_are_listed() {
    if is_installed("ibv_devices", PACKAGE) {
        let text = said(&["ibv_devices"]);
        assert!(text.lines().any(|line| line.trim_start().starts_with("softrnic0")), "{text}");
    }
}

#[test]
fn a_device_is_described() {
    if !is_installed("ibv_devinfo", PACKAGE) {
        return;
    }
    let text = said(&["ibv_devinfo", "-v"]);
    for expected in [
        "hca_id:\tsoftrnic0",
        "PORT_ACTIVE (4)",
        "link_layer:\t\tEthernet",
        "max_mtu:\t\t4096 (5)",
        "GID[  0]:",
        "RoCE v2",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in\n{text}");
    }
}

/// Every ping-pong, by polling and by events, at each path MTU, with what it receives checked.
#[test]
fn ping_pongs() {
    let installed = is_installed("ibv_rc_pingpong", PACKAGE);
    let with_mtu = ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_srq_pingpong"];
    let mtus = ["256", "512", "1024", "2048", "4096"];
    let by_mtu = with_mtu.into_iter().flat_map(|program| {
        mtus.into_iter().flat_map(move |mtu| {
            ["", "-e"]
                .into_iter()
                .map(move |events| Pair::new(program, &format!("-g 0 -n 100 -c -m {mtu} {events}")))
        })
    });
    let datagrams = ["", "-e"]
        .map(|events| Pair::new("ibv_ud_pingpong", &format!("-g 0 -n 100 -c -s 1024 {events}")));
    let extended = ["-N", "-t", "-j", "-o", "-O"].map(|option| {
        // Extended post_send, timestamps, device memory, on-demand paging, the implicit kind.
        Pair::new("ibv_rc_pingpong", &format!("-g 0 -n 100 -c {option}"))
    });
    if installed {
        all_run(by_mtu.chain(datagrams).chain(extended));
    }
}

/// It has a server and as many clients as it likes, each end with the same count.
#[test]
fn an_xrc_ping_pong() {
    if !is_installed("ibv_xsrq_pingpong", PACKAGE) {
        return;
    }
    for events in ["", "-e"] {
        let (server, port) = (fresh_address(), free_port().to_string());
        let start = |address, peer: Option<&str>| {
            let mut command = on_device(address, &Setting::default());
            command.args(["ibv_xsrq_pingpong", "-g", "0", "-n", "100", "-p", &port]);
            command.args(events.split_whitespace()).args(peer);
            Running::start(command)
        };
        let listening = start(server, None).await_port(port.parse().unwrap()).unwrap();
        let client = start(fresh_address(), Some(&server.to_string())).finish();
        assert!(client.good, "{}", client.text);
        let server = listening.finish();
        assert!(server.good, "{}", server.text);
    }
}

/// Frames are lost, doubled and overtaken: what arrives is right all the same. No acknowledgement is
/// among them: the program that ends first can lose its last one, and is not there to repeat it.
#[test]
fn bad_weather_changes_no_data() {
    if !is_installed("ibv_rc_pingpong", PACKAGE) {
        return;
    }
    let setting = Setting {
        options: &["--faults", "drop=2%,reorder=2%,duplicate=1%,opcode=SEND_MIDDLE,seed=11"],
        variables: &[],
    };
    let pairs = ["ibv_rc_pingpong", "ibv_srq_pingpong"].map(|program| Pair {
        setting: setting.clone(),
        ..Pair::new(program, "-g 0 -n 300 -c -s 20000")
    });
    all_run(pairs);
}
