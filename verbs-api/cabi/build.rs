//! Gives the library its name, its symbol versions, and keeps it loaded.
//!
//! The names and their versions are in `src/exports/`; `drop-in.map` only declares the versions. The
//! compiler passes a version script of its own, which hides everything else. lld, gold and mold take
//! both; GNU ld refuses a script with names beside one without. So the C compiler is told of a folder
//! in which it finds a program `ld` before its own: that gives GNU ld one script which says the same
//! as both, and leaves other linkers alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// What GNU ld is told in place of the compiler's script. A node of its own: in one that has symbols
/// it would hide those.
const HIDE_THE_REST: &str = "SOFTRNIC_HIDDEN { local: *; };\n";

/// The names by which a C compiler starts GNU ld: by default, and for `-fuse-ld=bfd`.
const NAMES: [&str; 2] = ["ld", "ld.bfd"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=drop-in.map");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let of_target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if of_target("OS") != "linux" || of_target("ENV") != "gnu" {
        // Symbol versions are glibc's.
        return Ok(());
    }
    let map = folder_of("CARGO_MANIFEST_DIR").join("drop-in.map");
    let linkers = folder_of("OUT_DIR").join("linkers");
    let joined = folder_of("OUT_DIR").join("gnu-ld.map");
    fs::create_dir_all(&linkers)?;
    fs::write(&joined, fs::read_to_string(&map)? + HIDE_THE_REST)?;
    for name in NAMES {
        write_executable(&linkers.join(name), &for_gnu_ld(&real(name), &map, &joined))?;
    }
    for argument in [
        "-Wl,-soname,libibverbs.so.1".to_owned(),
        format!("-Wl,--version-script={}", map.display()),
        // Its threads and fault handler outlive any dlclose.
        "-Wl,-z,nodelete".to_owned(),
        format!("-B{}", linkers.display()),
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    Ok(())
}

fn folder_of(variable: &str) -> PathBuf {
    env::var_os(variable).unwrap_or_default().into()
}

/// The linker that the C compiler starts under this name.
fn real(name: &str) -> String {
    let compiler = env::var_os("RUSTC_LINKER").unwrap_or("cc".into());
    let told = Command::new(compiler).arg(format!("-print-prog-name={name}")).output();
    let told = told.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    told.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()).unwrap_or(name.into())
}

/// A program that starts `real`, with one version script if that is GNU ld.
fn for_gnu_ld(real: &str, map: &Path, joined: &Path) -> String {
    let [real, map, joined] =
        [real.into(), map.display().to_string(), joined.display().to_string()].map(quoted);
    format!(
        "#!/bin/sh
case $({real} --version) in
'GNU ld'*)
    for argument do
        shift
        case $argument in
        --version-script={map}) set -- \"$@\" --version-script={joined} ;;
        --version-script=*) ;;
        *) set -- \"$@\" \"$argument\" ;;
        esac
    done
    ;;
esac
exec {real} \"$@\"
"
    )
}

/// As one word of a shell.
fn quoted(text: String) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn write_executable(file: &Path, text: &str) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::write(file, text)?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}
