//! An installation: the tarball of `tools/dist`, unpacked in a folder with a blank in its name and used from
//! elsewhere, while neither the source folder nor cargo's can be seen.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ends::{
    Ended, Running, Scratch, build_libraries, cannot_run, free_port, fresh_address, is_installed,
};

const SOURCE: &str = env!("CARGO_MANIFEST_DIR");

/// Where cargo has put what is to be installed.
fn build() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_softrnic")).parent().unwrap()
}

/// Makes a tarball and unpacks it; the folder that was in it.
pub(crate) fn unpacked(into: &Path) -> PathBuf {
    build_libraries();
    let mut dist = Command::new(Path::new(SOURCE).join("tools/dist"));
    dist.arg("--built").arg(build()).arg("--output").arg(into);
    let made = dist.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let tarball = String::from_utf8(made.stdout).unwrap();
    let mut tar = Command::new("tar");
    let unpacked = tar.args(["-xzf", tarball.trim_end(), "-C"]).arg(into).status().unwrap();
    assert!(unpacked.success());
    into.join(
        Path::new(tarball.trim_end())
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .trim_end_matches(".tar.gz"),
    )
}

/// Runs a script of a shell as on a machine that has the installation alone, in a network namespace
/// of its own.
fn alone(installation: &Path, script: &str) -> Ended {
    const HIDE: &str = r#"
        set -e
        ip link set lo up
        for folder in "$SOURCE" "$BUILD"; do
            [ ! -d "$folder" ] || mount -t tmpfs tmpfs "$folder"
        done
        [ ! -e "$BUILD/softrnic" ]
        cd /
        PATH=/usr/bin:/bin exec sh -ec "$SCRIPT"
    "#;
    let mut command = Command::new("unshare");
    command.args(["-rmn", "sh", "-c", HIDE]);
    command.env("SOURCE", SOURCE).env("BUILD", build()).env("SCRIPT", script);
    command.env("PORT", free_port().to_string()).env("ADDRESS", fresh_address().to_string());
    command.env("HERE", installation).env_remove("LD_LIBRARY_PATH");
    Running::start(command).finish()
}

fn can_run() -> bool {
    let here = |program, package| is_installed(program, package);
    if !here("ibv_devinfo", "ibverbs-utils")
        || !here("ip", "iproute2")
        || !here("strip", "binutils")
    {
        return false;
    }
    let allowed = Command::new("unshare").args(["-rmn", "true"]).output();
    allowed.is_ok_and(|output| output.status.success())
        || cannot_run("mount and network namespaces may not be made here")
}

#[test]
fn it_works_from_any_folder() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new("with a blank");
    let installation = unpacked(scratch.path());
    let ended = alone(
        &installation,
        r#"
            "$HERE/bin/softrnic" run -- ibv_devinfo | grep -F softrnic_lo
            "$HERE/bin/softrnic" run --preload -- ibv_devices | grep -F softrnic_lo
            "$HERE/bin/softrnic" run -- cat /sys/class/infiniband/softrnic_lo/node_type | grep CA
            # Both ends on one address: only a service can do that, and only the installed one is there.
            pair() {
                "$@" &
                until cat /proc/net/tcp /proc/net/tcp6 | grep -q "$(printf ':%04X [0-9A-F:]* 0A' "$PORT")"; do
                    sleep 0.05
                done
                "$@" "$ADDRESS"
                wait $!
            }
            pair "$HERE/bin/softrnic" run -d "$ADDRESS" -- ibv_rc_pingpong -g 0 -n 50 -p "$PORT"
            # And without `run`, from the libraries alone.
            export LD_LIBRARY_PATH="$HERE/lib/softrnic" SOFTRNIC_ADDRESS="$ADDRESS"
            pair ibv_rc_pingpong -g 0 -n 50 -p "$PORT"
            echo all is well
        "#,
    );
    assert!(ended.good && ended.text.contains("all is well"), "{}", ended.text);
    // What the dynamic linker says of a path that it takes apart.
    assert!(!ended.text.contains("cannot be preloaded"), "{}", ended.text);
}

#[test]
fn a_program_without_its_libraries_says_how_to_get_them() {
    if !can_run() {
        return;
    }
    let scratch = Scratch::new("no libraries");
    let installation = unpacked(scratch.path());
    std::fs::remove_dir_all(installation.join("lib")).unwrap();
    let ended = alone(&installation, r#""$HERE/bin/softrnic" run -- ibv_devinfo"#);
    assert!(!ended.good);
    let advice = format!("tools/dist --prefix \"{}\"", installation.display());
    assert!(ended.text.contains(&advice), "{}", ended.text);
    assert!(!ended.text.contains("cargo build"), "{}", ended.text);
}
