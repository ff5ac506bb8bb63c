//! See `softrnic_fuzz_targets::device`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    softrnic_fuzz_targets::device::run(bytes);
});
