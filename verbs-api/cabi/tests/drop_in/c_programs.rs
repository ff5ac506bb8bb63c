//! Programs in C, compiled against the installed headers, and the examples.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use super::setup::{cannot_run, directory, is_installed, on_drop_in, own_address, own_port, run};

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

/// Where the device of an address cannot be opened, the address cannot be bound: nobody would ever come.
#[test]
fn an_address_whose_device_cannot_be_opened() {
    let Some(program) = compiled("tests/c/cm_bind.c") else { return };
    let address = own_address();
    let bind = |blocked: bool| {
        let port = own_port();
        let other = UdpSocket::bind((if blocked { address } else { own_address() }, port)).unwrap();
        let mut command = on_drop_in(&program, address);
        let said = run(command.env("SOFTRNIC_PORT", port.to_string()));
        drop(other);
        said
    };
    let said = bind(false);
    assert!(said.success && said.out.contains("bound"), "{said:#?}");
    let said = bind(true);
    assert!(said.success && said.out.contains("refused"), "{said:#?}");
    assert!(said.err.contains(&address.to_string()), "{said:#?}");
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
