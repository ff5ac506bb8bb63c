//! Two programs in a container as its engine restricts it by default, and one in each of two containers:
//! imitated without an engine.

use std::path::Path;
use std::process::Command;

use super::ends::{Running, Scratch, build_libraries, built, cannot_run, is_installed};
use super::installed::unpacked;

const LAUNCHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/c/contained.c");
const CONTAINER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/container.sh");

/// Both ends use the only address, so the service is started on demand; it is of the container's user.
const SCRIPT: &str = r#"
    softrnic=/opt/softrnic/bin/softrnic
    pair() {
        "$softrnic" run -- "$@" &
        until cat /proc/net/tcp /proc/net/tcp6 | grep -q ':4853 [0-9A-F:]* 0A'; do sleep 0.05; done
        "$softrnic" run -- "$@" 127.0.0.1
        wait $!
    }
    cd /
    "$softrnic" run -- ibv_devinfo | grep -F PORT_ACTIVE
    pair ibv_rc_pingpong -g 0 -n 100 -c
    pair ib_write_bw -x 0 -n 200
    "$softrnic" --json ps
    echo user $(id -u)
    echo all is well
"#;

#[test]
fn programs_talk_in_a_container() {
    let tools = [
        ("ibv_rc_pingpong", "ibverbs-utils"),
        ("ib_write_bw", "perftest"),
        ("ip", "iproute2"),
        ("cc", "gcc"),
        ("setpriv", "util-linux"),
    ];
    if !tools.iter().all(|(program, package)| is_installed(program, package)) {
        return;
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt as _;
        own.uid() == 0
    });
    // Who is not root is root of a user namespace, without any other user in it.
    let namespaces: &[&str] = if is_root { &["-mnpf"] } else { &["-rmnpf"] };
    let allowed = Command::new("unshare").args(namespaces).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        cannot_run("namespaces may not be made here");
        return;
    }
    let scratch = Scratch::new("container");
    let installed = unpacked(scratch.path());
    let launcher = built("cc", LAUNCHER, &scratch, &[]);
    let root = scratch.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let mut command = Command::new("unshare");
    command.args(namespaces).args([Path::new("bash"), Path::new(CONTAINER)]);
    command.env("INSTALLED", installed).env("LAUNCHER", launcher).env("ROOT", root);
    command.env("NOBODY", if is_root { "yes" } else { "no" }).env("SCRIPT", SCRIPT);
    let ended = Running::start(command).finish();
    if ended.text.contains("no container can be made here") {
        cannot_run(&ended.text);
        return;
    }
    assert!(ended.good && ended.text.contains("all is well"), "{}", ended.text);
    let user = if is_root { "65534" } else { "0" };
    assert!(ended.text.contains(&format!("user {user}\n")), "{}", ended.text);
    let service = format!("\"uid\":{user},");
    assert!(ended.text.contains(&service), "the service is not of user {user}:\n{}", ended.text);
}

/// As on a bridge of a container engine: two networks of their own, joined by a cable.
const TWO_NETWORKS: &str = r#"
    set -e
    unshare -n sleep 600 &
    other=$!
    trap 'kill $other' EXIT
    until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
    ip link add cable type veth peer name end
    ip link set end netns $other
    ip address add 192.0.2.1/24 dev cable
    ip link set cable up
    there() { nsenter --target $other --net "$@"; }
    there ip address add 192.0.2.2/24 dev end
    there ip link set end up
    pair() {
        there "$SOFTRNIC" run -- "$@" &
        until there cat /proc/self/net/tcp /proc/self/net/tcp6 | grep -q ':4853 [0-9A-F:]* 0A'; do
            sleep 0.05
        done
        "$SOFTRNIC" run -- "$@" 192.0.2.2
        wait $!
    }
    "$SOFTRNIC" run -- ibv_devinfo | grep -F softrnic_cable
    there "$SOFTRNIC" run -- ibv_devinfo | grep -F softrnic_end
    pair ib_write_bw -n 200
    pair ib_send_lat -n 200 -c UD
    echo all is well
"#;

#[test]
fn two_containers_talk() {
    let tools = [("ib_write_bw", "perftest"), ("ip", "iproute2"), ("nsenter", "util-linux")];
    if !tools.iter().all(|(program, package)| is_installed(program, package)) {
        return;
    }
    // Such a cable takes a namespace to move it to, and its driver.
    let cable = "ip link add one type veth peer name two";
    let allowed = Command::new("unshare").args(["-rmn", "sh", "-c", cable]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        cannot_run("namespaces with a veth pair may not be made here");
        return;
    }
    build_libraries();
    let mut command = Command::new("unshare");
    command.args(["-rmn", "sh", "-c", TWO_NETWORKS]);
    command.env("SOFTRNIC", env!("CARGO_BIN_EXE_softrnic"));
    let ended = Running::start(command).finish();
    assert!(ended.good && ended.text.contains("all is well"), "{}", ended.text);
}
