//! Programs in C, compiled against the installed headers, and the examples.

use std::path::Path;
use std::process::Command;

use super::setup::{cannot_run, directory, is_installed, on_drop_in, own_address, run};

/// Compiles a program, found from this crate; `None`, with a word, where that cannot be done.
fn compiled(source: &str) -> Option<String> {
    if !is_installed("cc") || !Path::new("/usr/include/rdma/rdma_cma.h").exists() {
        cannot_run("no C compiler, or no headers (libibverbs-dev, librdmacm-dev)");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let binary = directory().join(source.file_stem().unwrap());
    let said = run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o"])
        .arg(&binary)
        .arg(&source)
        .arg("-L")
        .arg(directory())
        .args(["-libverbs", "-lrdmacm", "-ldl"]));
    assert!(said.success, "{}", said.err);
    Some(binary.into_os_string().into_string().unwrap())
}

fn fine(name: &str) {
    let Some(program) = compiled(&format!("tests/c/{name}.c")) else { return };
    let other = own_address().to_string();
    let said = run(on_drop_in(&program, own_address()).env("SOFTRNIC_OTHER", other));
    assert!(said.success && said.out.trim_end().ends_with("fine"), "{name}: {said:#?}");
}

#[test]
fn wrong_arguments_give_an_errno() {
    fine("misuse");
}

#[test]
fn event_descriptors() {
    fine("events");
}

#[test]
fn forked_children() {
    fine("fork");
}

#[test]
fn connections_by_address() {
    fine("cm");
}

#[test]
fn wrong_use_of_connections() {
    fine("cm_misuse");
}

#[test]
fn programs_of_newer_headers() {
    fine("newer");
}

#[test]
fn the_example_in_c() {
    let Some(program) = compiled("../../examples/c/write.c") else { return };
    let said = run(&mut on_drop_in(&program, own_address()));
    assert!(said.success && said.out.contains("\"hello, far end\""), "{said:#?}");
}

#[test]
fn the_example_in_python() {
    let python = "/usr/bin/python3";
    let has_pyverbs = run(Command::new(python).args(["-c", "import pyverbs.device"])).success;
    if !has_pyverbs {
        cannot_run("no pyverbs (python3-pyverbs)");
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/read.py");
    let said = run(on_drop_in(python, own_address()).arg(example));
    assert!(said.success && said.out.contains("which is 42 now"), "{said:#?}");
}
