//! The program as its users meet it: help, mistakes, exit codes, and output for people and programs.

#![expect(clippy::unwrap_used, reason = "what a test cannot go on without fails it")]

mod bench;
mod demo;
mod devinfo;
#[cfg(target_os = "linux")]
mod hardware;
mod judge;
#[cfg(target_os = "linux")]
mod limits;
mod line;
mod pingpong;
#[cfg(target_os = "linux")]
mod processes;
mod server;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_softrnic"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    for variable in
        ["ADDRESS", "CAPTURE", "FAULTS", "LIBIBVERBS", "LIBRDMACM", "PROFILE", "SERVICE"]
    {
        command.env_remove(format!("SOFTRNIC_{variable}"));
    }
    // Whatever this host has.
    command.env("SOFTRNIC_BACKEND", "emulated");
    command
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

fn run(line: &str) -> Ran {
    command(line).output().unwrap().into()
}

/// The JSON document that a command prints; it must succeed.
fn document(line: &str) -> Value {
    let Ran { code, out, err } = run(line);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{line}");
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).unwrap()
}
