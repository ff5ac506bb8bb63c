//! A user namespace that maps nobody shows all users of the host as one: what they share of the
//! network must not make them share a service.

use std::process::Command;

use super::ends::{Running, cannot_run, fresh_address, is_installed};

#[test]
fn users_that_cannot_be_told_apart_share_no_service() {
    if !is_installed("ibv_devinfo", "ibverbs-utils") {
        return;
    }
    let allowed = Command::new("unshare").args(["-U", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        cannot_run("user namespaces may not be made here");
        return;
    }
    let address = fresh_address().to_string();
    super::ends::build_libraries();
    let mut command = Command::new("unshare");
    command.args([
        "-U",
        env!("CARGO_BIN_EXE_softrnic"),
        "run",
        "-d",
        &address,
        "--",
        "ibv_devinfo",
    ]);
    let ended = Running::start(command).finish();
    let text = &ended.text;
    assert!(!ended.good && text.contains("this user namespace does not map all users"), "{text}");
}
