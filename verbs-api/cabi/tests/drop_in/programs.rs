//! Programs of Debian's `ibverbs-utils`.

use super::setup::{is_installed, on_drop_in, own_address, pair, run};

#[test]
fn a_device_is_listed_and_described() {
    if !is_installed("ibv_devinfo") {
        return;
    }
    let address = own_address();
    let said = run(on_drop_in("ibv_devices", address).env("SOFTRNIC_DEVICE_NAME", "emu0"));
    assert!(said.success && said.err.is_empty(), "{said:?}");
    assert!(said.out.lines().any(|line| line.trim_start().starts_with("emu0")), "{said:?}");
    let said = run(on_drop_in("ibv_devinfo", address).arg("-v"));
    assert!(said.success && said.err.is_empty(), "{said:?}");
    for fact in [
        format!("GID[  0]:\t\t::ffff:{address}, RoCE v2"),
        "state:\t\t\tPORT_ACTIVE (4)".into(),
        "link_layer:\t\tEthernet".into(),
        "MEM_WINDOW_TYPE_2B".into(),
    ] {
        assert!(said.out.contains(&fact), "{fact:?} is not in\n{}", said.out);
    }
}

#[test]
fn a_device_that_cannot_be_opened_says_why() {
    if !is_installed("ibv_devinfo") {
        return;
    }
    let elsewhere = std::net::Ipv4Addr::new(198, 51, 100, 1);
    let said = run(&mut on_drop_in("ibv_devinfo", elsewhere));
    assert!(!said.success);
    let ours: Vec<_> = said.err.lines().filter(|line| line.starts_with("softrnic: ")).collect();
    assert!(ours.len() == 1 && ours[0].contains("198.51.100.1"), "{said:?}");
    for (name, value) in [
        ("SOFTRNIC_PORT", "70000"),
        ("SOFTRNIC_ADDRESS", "localhost"),
        ("SOFTRNIC_INTERFACE", "lo"),
        ("SOFTRNIC_PROFILE", "none"),
    ] {
        let said = run(on_drop_in("ibv_devinfo", own_address()).env(name, value));
        let ours: Vec<_> = said.err.lines().filter(|line| line.starts_with("softrnic: ")).collect();
        assert!(!said.success && ours.len() == 1 && ours[0].contains("SOFTRNIC_"), "{said:?}");
    }
}

/// `rc`, `uc`, `ud`, `srq`: by polling and by events; the program itself checks the data with `-c`.
fn pingpong(kind: &str) {
    let program = format!("ibv_{kind}_pingpong");
    if !is_installed(&program) {
        return;
    }
    let mut variants: Vec<Vec<&str>> = vec![vec![], vec!["-e"], vec!["-c"], vec!["-s", "1"]];
    if kind != "ud" {
        for mtu in ["256", "512", "1024", "2048", "4096"] {
            variants.push(vec!["-m", mtu]);
            variants.push(vec!["-e", "-m", mtu]);
        }
    }
    if kind == "rc" {
        variants.extend([vec!["-N"], vec!["-o"]]);
    }
    for variant in variants {
        let mut arguments = vec!["-g", "0", "-n", "100"];
        arguments.extend(&variant);
        let [server, client] = pair(&program, "-p", &arguments);
        for said in [server, client] {
            assert!(said.out.contains("100 iters in"), "{program} {variant:?}: {said:?}");
            assert!(!said.out.contains("invalid data"), "{program} {variant:?}: {said:?}");
        }
    }
}

#[test]
fn rc_pingpong() {
    pingpong("rc");
}

#[test]
fn uc_pingpong() {
    pingpong("uc");
}

#[test]
fn ud_pingpong() {
    pingpong("ud");
}

#[test]
fn srq_pingpong() {
    pingpong("srq");
}

/// It takes no number of iterations, and says so when all messages have come.
#[test]
fn xsrq_pingpong() {
    if !is_installed("ibv_xsrq_pingpong") {
        return;
    }
    for variant in [vec![], vec!["-e"], vec!["-m", "256"], vec!["-m", "4096"]] {
        let mut arguments = vec!["-g", "0"];
        arguments.extend(&variant);
        for said in pair("ibv_xsrq_pingpong", "-p", &arguments) {
            assert!(said.out.contains("success"), "{variant:?}: {said:?}");
        }
    }
}
