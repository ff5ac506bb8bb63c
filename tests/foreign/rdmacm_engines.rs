//! Storage and communication libraries that connect by address: fio, libfabric, UCX.

use std::process::Command;

use super::ends::{Running, Scratch, Setting, build_libraries, built, cannot_run, is_installed};
use super::meeting::{Meeting, Places, all_meet};

/// fio's engine: what the server's process writes or reads, the client does by the verb.
#[test]
fn fio() {
    if !is_installed("fio", "fio") {
        return;
    }
    // fio asks for no RNR retries, so the server posts a receive for every message at once.
    const SERVER: &str = "fio --name=server --ioengine=rdma --port=PORT --rw=read --bs=64k \
        --size=16m --iodepth=256";
    const CLIENT: &str = "fio --name=client --ioengine=rdma --hostname=SERVER --port=PORT \
        --rw=write --bs=64k --size=16m --iodepth=16";
    let by_verb = |verb: &str| (SERVER.to_owned(), format!("{CLIENT} --verb={verb}"));
    // What is sent is verified where it arrives.
    let (server, client) = by_verb("send");
    let verified = |how: &str| {
        (
            format!("{server} --verify={how} --verify_state_save=0"),
            format!("{client} --verify=crc32c --do_verify=0 --verify_state_save=0"),
        )
    };
    let lines = [by_verb("write"), by_verb("read"), by_verb("send"), verified("crc32c")];
    all_meet(lines.iter().flat_map(|(server, client)| {
        [Places::Two, Places::One].map(|places| Meeting::new(server, client).at(places))
    }));
    let (server, client) = verified("md5");
    let unlike = Meeting::new(&server, &client).run();
    assert!(unlike.is_err_and(|said| said.contains("verify")), "nothing is verified");
}

/// libfabric's verbs provider takes no loopback interface, so it gets a network namespace with another
/// one.
#[test]
fn libfabric() {
    if !is_installed("fi_info", "libfabric-bin") || !is_installed("ip", "iproute2") {
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
        ip link add rdma0 type veth peer name rdma1
        ip link set rdma1 up
        ip addr add 192.0.2.1/24 dev rdma0
        ip addr add fd00::1/64 dev rdma0 nodad
        ip link set rdma0 up
        run() { "$SOFTRNIC" run -d rdma0 -- "$@"; }
        run fi_info -p verbs
        ping_pong() {
            run fi_pingpong -p verbs -e msg -c "$@" &
            # Until it listens on its TCP port, 47592.
            until grep -qi ':B9E8 [0-9A-F]*:0000 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
            run fi_pingpong -p verbs -e msg -c "$@" $to
            wait $!
        }
        to=192.0.2.1
        ping_pong -I 50
        ping_pong -I 50 -S 65536
        to=fd00::1
        ping_pong -6 -I 50
        # Two interfaces of one host: what it says to itself goes by neither.
        ip addr add 198.51.100.1/24 dev rdma1
        "$SOFTRNIC" run -d 198.51.100.1 -- fi_pingpong -p verbs -e msg -c -I 50 &
        until grep -qi ':B9E8 [0-9A-F]*:0000 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
        run fi_pingpong -p verbs -e msg -c -I 50 198.51.100.1
        wait $!
        echo all is well
    "#;
    build_libraries();
    let mut command = Command::new("unshare");
    command.args(["-rn", "sh", "-c", SCRIPT]).env("SOFTRNIC", env!("CARGO_BIN_EXE_softrnic"));
    let ended = Running::start(command).finish();
    assert!(ended.good && ended.text.contains("all is well"), "{}", ended.text);
    for part in ["provider: verbs", "FI_EP_MSG"] {
        assert!(ended.text.contains(part), "{part} is missing in\n{}", ended.text);
    }
}

/// UCX listens at a socket address, and its client finds it there.
#[test]
fn ucx_by_address() {
    if !is_installed("cc", "gcc") {
        return;
    }
    if !std::path::Path::new("/usr/include/ucp/api/ucp.h").exists() {
        cannot_run("ucp/api/ucp.h is not installed (Debian: libucx-dev)");
        return;
    }
    let scratch = Scratch::new("ucp listen");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/c/ucp_listen.c");
    let program = built("cc", source, &scratch, &["-lucp", "-lucs"]);
    let program = program.to_str().unwrap();
    let [server, client] = ["", " client"].map(|role| format!("ucp_listen SERVER PORT{role}"));
    let variables = [
        ("UCX_TLS", "rc_v,ud_v,self"),
        ("UCX_NET_DEVICES", "softrnic0:1"),
        ("UCX_SOCKADDR_TLS_PRIORITY", "rdmacm"),
    ];
    let setting = Setting { options: &[], variables: &variables };
    all_meet([Places::Two, Places::One].map(|places| Meeting {
        setting: setting.clone(),
        program: Some(program),
        ..Meeting::new(&server, &client).at(places)
    }));
}
