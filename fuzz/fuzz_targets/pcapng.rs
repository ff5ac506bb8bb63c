#![no_main]
softrnic_fuzz::target!("pcapng");
