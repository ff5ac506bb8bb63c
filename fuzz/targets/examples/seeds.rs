//! Writes the seeds of all targets: `cargo run -p softrnic-fuzz-targets --example seeds -- fuzz/corpus
//! conformance/captures/rxe-scenarios.pcapng`.

use std::path::Path;

use softrnic_fuzz_targets::{TARGETS, seeds};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(corpus), Some(capture)) = (args.next(), args.next()) else {
        eprintln!("usage: seeds CORPUS_FOLDER CAPTURE.pcapng");
        std::process::exit(2);
    };
    let capture = std::fs::read(capture)?;
    for target in TARGETS {
        let written = seeds::write(target.name, &capture, &Path::new(&corpus).join(target.name))?;
        println!("{}: {written} seeds", target.name);
    }
    Ok(())
}
