//! Looking at other processes by `/proc`.

use std::path::Path;
use std::time::{Duration, Instant};

/// Processes whose parent is `pid`.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let processes = Path::new("/proc").read_dir().unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&child| state_and_parent(child).is_some_and(|(_, parent)| parent == pid))
        .collect()
}

/// From `/proc/PID/stat`: after the name, which ends with the last `)`, come the state and the
/// parent.
pub(crate) fn state_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.into(), fields.next()?.parse().ok()?))
}

/// Tries again until `attempt` finds something.
pub(crate) fn soon<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(2));
    }
}
