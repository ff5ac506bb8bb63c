//! Two ends of different kinds: one emulated, the other driven through a libibverbs, as a real device is.
//! (The library is the drop-in, named by its path.)

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use super::ends::{Running, build_libraries, free_port, fresh_address};

fn softrnic(line: &str, address: IpAddr) -> Command {
    build_libraries();
    let program = Path::new(env!("CARGO_BIN_EXE_softrnic"));
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("SOFTRNIC_")) {
            command.env_remove(name);
        }
    }
    command.args(line.split(' '));
    command.env("SOFTRNIC_ADDRESS", address.to_string()).env("SOFTRNIC_SERVICE", "off");
    command.env("SOFTRNIC_LIBIBVERBS", program.with_file_name("libsoftrnic_ibverbs.so"));
    command
}

/// Server and client of a command, each with its backend.
fn meet(line: &str, server: &str, client: &str) {
    let (here, there, port) = (fresh_address(), fresh_address(), free_port());
    let serving = softrnic(&format!("{line} -p {port} --backend {server}"), here);
    let serving = Running::start(serving).await_port(port).unwrap();
    let asking = softrnic(&format!("{line} -p {port} --backend {client} {here}"), there);
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

/// The connection manager of each backend with that of the other one; the real one's is in the drop-in, too.
#[test]
fn connections_both_ways() {
    const ATTEMPTS: u32 = 50;
    for (server, client) in
        [("emulated", "hardware"), ("hardware", "emulated"), ("hardware", "hardware")]
    {
        let (here, there) = (fresh_address(), fresh_address());
        let serving = softrnic(&format!("bench connect --backend {server}"), here);
        let serving = Running::start(serving);
        let ask = || {
            let line = format!("bench connect -n 20 --live 5 --backend {client} {here}");
            Running::start(softrnic(&line, there)).finish()
        };
        let mut ended = ask();
        // Whoever asks before the server listens is refused.
        for _ in 0..ATTEMPTS {
            if ended.good || !ended.text.contains("nobody listens") || !serving.is_running() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
            ended = ask();
        }
        let served = serving.kill();
        let text = format!("{}\nserver: {}", ended.text, served.text);
        assert!(ended.good, "{server} and {client}:\n{text}");
        assert!(ended.text.contains("connections/s"), "{text}");
    }
}
