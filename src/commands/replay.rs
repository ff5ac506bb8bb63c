//! `softrnic replay`: a capture, explained frame by frame.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use softrnic_conformance::replay::replay;

use crate::cli::Shared;
use crate::error::Failure;
use crate::files;
use crate::output::{Column, Report, Table};

const AFTER_HELP: &str = "\
Examples:
  softrnic replay w.pcapng                   what each frame means, and what a device answers to it
  softrnic replay w.pcapng --only 10         the first ten frames

Requests are fed to devices that stand in for those of the capture. Their objects are guessed: queue
pairs that requests are for, regions that requests name, receives for all messages; memory is zero.
What was guessed is printed first.";

/// Explain a capture (pcapng): what each frame asks or answers, and what a device makes of it
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// A pcapng file of Ethernet frames
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Only so many frames
    #[arg(long, value_name = "NUMBER")]
    only: Option<usize>,
}

const FRAMES: [Column; 5] = [
    Column { key: "number", title: "number" },
    Column { key: "at_ns", title: "at ns" },
    Column { key: "frame", title: "frame" },
    Column { key: "meaning", title: "meaning" },
    Column { key: "answers", title: "answers" },
];

/// Reads, explains, prints.
pub(crate) fn run(args: &ReplayArgs, shared: &Shared) -> Result<(), Failure> {
    shared.without_device("replay")?;
    let name = args.file.display();
    let bytes = files::read(&args.file, files::CAPTURE_MAX)
        .map_err(|error| Failure::plain(format!("{name} cannot be read: {error}")))?;
    let (replayed, end) = replay(&bytes);
    let frames = replayed.frames.iter().take(args.only.unwrap_or(usize::MAX));
    if shared.json {
        let mut table = Table::new(&FRAMES);
        for frame in frames {
            table.push([
                frame.number.into(),
                frame.at_ns.into(),
                frame.line.clone().into(),
                frame.meaning.join("; ").into(),
                frame.answers.join("; ").into(),
            ]);
        }
        let mut report = Report::new("replay").table("frames", table);
        replayed.assumptions.iter().for_each(|assumed| report.note(assumed.to_string()));
        report.print(true)?;
    } else {
        let mut out = std::io::stdout().lock();
        for assumption in &replayed.assumptions {
            writeln!(out, "assumed: {assumption}")?;
        }
        for frame in frames {
            writeln!(out, "{frame}")?;
        }
    }
    end.map_err(|bad| Failure::plain(format!("{name}: {bad}")))
}
