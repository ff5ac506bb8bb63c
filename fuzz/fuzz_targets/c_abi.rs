//! The drop-in is not of the ordinary workspace's fuzz targets: it is linked as a library only here, and
//! its own unit test replays hostile structs.
#![no_main]

use softrnic_fuzz_targets::reach::{self, Reach};
use softrnic_ibverbs::hostile;
use softrnic_model::planted::Fault;

libfuzzer_sys::fuzz_target!(
    init: softrnic_fuzz::begin(Fault::Mask),
    |bytes: &[u8]| {
        let hostile::Reached { attributes, posted } = hostile::run(bytes);
        (0..attributes).for_each(|_| reach::hit(Reach::AttributesTaken));
        (0..posted).for_each(|_| reach::hit(Reach::Posted));
    }
);
