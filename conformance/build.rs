//! Lists the rule pages, so that the judge carries their text and finds them without the source tree.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let pages = list(&manifest.join("../docs/spec"), "md")?;
    let deviations = list(&manifest.join("deviations"), "toml")?;
    fs::write(out.join("pages.rs"), table(&pages))?;
    fs::write(out.join("deviations.rs"), table(&deviations))
}

/// The files of a folder with this extension, by name.
fn list(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            println!("cargo::rerun-if-changed={}", path.display());
            files.push(path.canonicalize()?);
        }
    }
    files.sort();
    Ok(files)
}

/// An expression: names without extension, and texts.
fn table(files: &[PathBuf]) -> String {
    let mut text = String::from("&[\n");
    for file in files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    ({stem:?}, include_str!({:?})),", file.display().to_string());
    }
    text + "]\n"
}
