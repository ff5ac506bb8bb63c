#![no_main]
softrnic_fuzz::target!("cm");
