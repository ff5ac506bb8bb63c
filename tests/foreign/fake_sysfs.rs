//! `--fake-sysfs`: what a program sees of the device in `/sys/class/infiniband` and `/dev/infiniband`.

use std::process::Command;

use super::ends::{Running, Scratch, Setting, cannot_run, fresh_address, is_installed, on_device};

const LOOK: &str = "cat /sys/class/infiniband/softrnic0/ports/1/gid_attrs/types/0 && \
    test -c /dev/infiniband/uverbs0 && test -r /dev/infiniband/uverbs0 && test -e /sys/class/net && \
    echo > /dev/null && echo all is there";

fn look(how: &str) -> (bool, String) {
    let options = ["--fake-sysfs", how];
    let mut command = on_device(fresh_address(), &Setting { options: &options, variables: &[] });
    command.args(["sh", "-c", LOOK]);
    let ended = Running::start(command).finish();
    (ended.good, ended.text)
}

#[test]
fn by_a_preload_library() {
    let (good, text) = look("shim");
    assert!(good && text.contains("RoCE v2") && text.contains("all is there"), "{text}");
}

#[test]
fn by_a_mount_namespace() {
    let allowed = Command::new("unshare").args(["-rm", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        cannot_run("mount namespaces may not be made here");
        return;
    }
    let (good, text) = look("ns");
    assert!(good && text.contains("RoCE v2") && text.contains("all is there"), "{text}");
}

/// The run-time library of a sanitizer refuses to come behind another library.
#[test]
fn a_program_under_a_sanitizer_goes_without() {
    if !is_installed("gcc", "gcc") {
        return;
    }
    let folder = Scratch::new("sanitizer");
    let (source, program) = (folder.path().join("main.c"), folder.path().join("main"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-fsanitize=address", "-o"]).arg(&program).arg(&source);
    assert!(gcc.status().unwrap().success());
    let mut command = on_device(fresh_address(), &Setting::default());
    command.arg(&program);
    let ended = Running::start(command).finish();
    assert!(ended.good, "{}", ended.text);
}

#[test]
fn not_at_all() {
    let (good, text) = look("none");
    assert!(!good && !text.contains("all is there"), "{text}");
}
