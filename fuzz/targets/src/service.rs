//! Any bytes as a message of the port service: what is understood says the same again.

use crate::Reached;

/// Reads these bytes.
#[cfg(target_os = "linux")]
pub fn run(bytes: &[u8]) -> Reached {
    let read = softrnic_transport::service::read_message(bytes);
    for again in read.iter().flatten() {
        let twice = softrnic_transport::service::read_message(again);
        assert!(twice.iter().flatten().any(|twice| twice == again), "it says something else now");
    }
    let executed = read.iter().flatten().count() as u64;
    Reached { executed, ..Reached::default() }
}

/// There is no port service here.
#[cfg(not(target_os = "linux"))]
pub fn run(_bytes: &[u8]) -> Reached {
    Reached::default()
}
