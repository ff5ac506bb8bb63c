//! The `softrnic` command line: a tour, device information, ping-pong, benchmarks and counters over
//! an RDMA NIC in software.
//!
//! Read [`cli`] for what can be asked, `commands/` for what each command does.
#![deny(unsafe_code)]

mod child;
mod cli;
mod commands;
mod device;
mod error;
mod exchange;
mod files;
mod hardware;
mod meter;
mod output;
mod pattern;
mod peer;
mod units;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(refused) => return refused.report(),
    };
    match commands::run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
