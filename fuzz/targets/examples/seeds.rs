//! Seed corpora for the fuzzer.
//!
//! ```text
//! seeds write FOLDER   a folder below for each target
//! seeds reaches        what each target must reach: a line each
//! ```
#![expect(clippy::unwrap_used, clippy::panic, reason = "a tool that cannot go on fails")]

use std::path::Path;
use std::{env, fs};

use softrnic_fuzz_targets::{TARGETS, seeds};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["write", folder] => {
            for target in &TARGETS {
                let folder = Path::new(folder).join(target.name);
                fs::create_dir_all(&folder).unwrap();
                for (n, seed) in seeds::of(target).iter().enumerate() {
                    fs::write(folder.join(format!("seed-{n:05}")), seed).unwrap();
                }
            }
        }
        ["reaches"] => {
            for target in &TARGETS {
                let names: Vec<&str> = target.reaches.iter().map(|reach| reach.name()).collect();
                println!("{} {}", target.name, names.join(" "));
            }
            // Linked with the drop-in, which only the fuzzer is.
            println!("c_abi attributes-taken posted");
        }
        _ => panic!("seeds write FOLDER | reaches"),
    }
}
