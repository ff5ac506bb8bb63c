//! The hardware backend through the drop-in: the tests of the verbs, and what is its own.

use crate::drop_in::{again, check, is_inside, library};

/// Tests of the modules below that are about more than verbs.
const NOT_RUN: &[&str] = &[
    // The drop-in copies device memory in words of 4 bytes, as other devices do.
    "memory_kinds::device_memory_is_memory_whose_addresses_count_from_zero",
    // It ends with a counter, and those of a real device are the kernel's.
    "operations::ud_to_the_wrong_key_or_nobody_is_lost_without_trace",
];

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
