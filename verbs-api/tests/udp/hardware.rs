//! The hardware backend through the drop-in: the tests of the verbs, and what is its own.

use crate::drop_in::{again, check, is_inside, library};

/// Tests that are about an emulated device, its configuration or its host, and why others of the
/// modules below cannot be run.
const NOT_RUN: &[&str] = &[];

/// Modules whose tests take any two devices.
const MODULES: &[&str] = &[
    "events::",
    "memory::",
    "memory_kinds::",
    "misuse::",
    "operations::",
    "passive::",
    "shared_receive::",
    "windows::",
    "xrc::",
];

#[test]
fn the_verbs_through_the_drop_in() {
    assert!(!is_inside(), "not a test of the child");
    let skips = NOT_RUN.iter().flat_map(|test| ["--skip", test]);
    let arguments: Vec<&str> = MODULES.iter().copied().chain(skips).collect();
    let _ = library();
    check(&again("127.0.0.2;127.0.0.3", &arguments), 40);
}
