//! Tells the program the commit that it is built from, where there is a repository that says.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Some(commit) = git(&["rev-parse", "HEAD"]) else { return };
    println!("cargo::rustc-env=SOFTRNIC_COMMIT={commit}");
    // Every commit and every change of branch adds a line there.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

/// What a command of git prints; none if there is no git, or no repository of this package.
fn git(arguments: &[&str]) -> Option<String> {
    // A repository around a package that was unpacked is another's.
    if !Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
