//! The fuzzer's side of `targets/`.

use softrnic_fuzz_targets::reach;
use softrnic_model::planted::{Fault, plant};

/// Before the first run: counts are told, and with `PLANTED=1` in the environment the fault is there.
pub fn begin(fault: Fault) {
    reach::tell();
    if std::env::var_os("PLANTED").is_some_and(|value| value == "1") {
        plant(fault);
    }
}

/// A program that fuzzes a target of `softrnic-fuzz-targets`.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(
            init: $crate::begin(softrnic_fuzz_targets::target($name).fault),
            |bytes: &[u8]| { (softrnic_fuzz_targets::target($name).run)(bytes); }
        );
    };
}
