//! The fuzzer's side of `targets/`.

/// A program that fuzzes a target of `softrnic-fuzz-targets`.
#[macro_export]
macro_rules! target {
    ($name:literal) => {
        libfuzzer_sys::fuzz_target!(
            init: {
                softrnic_fuzz_targets::reach::tell();
                softrnic_fuzz_targets::target($name).plant();
            },
            |bytes: &[u8]| { (softrnic_fuzz_targets::target($name).run)(bytes); }
        );
    };
}
