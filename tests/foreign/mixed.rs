//! Two ends of different kinds: one emulated, the other driven through a libibverbs, as a real device is.
//! (The library is the drop-in, named by its path.)

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use super::ends::{Running, build_libraries, free_port, fresh_address};

fn softrnic(line: &str, address: IpAddr, port: u16) -> Command {
    build_libraries();
    let program = Path::new(env!("CARGO_BIN_EXE_softrnic"));
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("SOFTRNIC_")) {
            command.env_remove(name);
        }
    }
    command.args(line.split(' ')).args(["-p", &port.to_string()]);
    command.env("SOFTRNIC_ADDRESS", address.to_string()).env("SOFTRNIC_SERVICE", "off");
    command.env("SOFTRNIC_LIBIBVERBS", program.with_file_name("libsoftrnic_ibverbs.so"));
    command
}

/// Server and client of a command, each with its backend.
fn meet(line: &str, server: &str, client: &str) {
    let (here, there, port) = (fresh_address(), fresh_address(), free_port());
    let serving = softrnic(&format!("{line} --backend {server}"), here, port);
    let serving = Running::start(serving).await_port(port).unwrap();
    let asking = softrnic(&format!("{line} --backend {client} {here}"), there, port);
    for ended in [Running::start(asking), serving].map(Running::finish) {
        assert!(ended.good, "{line}, {server} and {client}:\n{}", ended.text);
    }
}

#[test]
fn both_ways_and_both_of_them_real() {
    for (server, client) in
        [("emulated", "hardware"), ("hardware", "emulated"), ("hardware", "hardware")]
    {
        meet("pingpong -c -n 50", server, client);
        meet("pingpong -c -e -n 50", server, client);
        meet("pingpong --ud -c -n 50", server, client);
        meet("bench write bw -n 100 -s 65536", server, client);
        meet("bench atomic lat -n 100", server, client);
    }
}
