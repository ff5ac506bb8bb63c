//! See `softrnic_fuzz_targets::service`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    softrnic_fuzz_targets::service::run(bytes);
});
