//! How a test says that a check cannot run here: past the test harness, which keeps for itself what
//! passing tests print, and, for want of what can be installed, as a failure where all is required.

use std::io::Write as _;

/// Says that this test, or a part of it, is not run and why: the host does not permit it, or lacks what
/// nobody can install (another user, a namespace, IPv6).
pub fn not_run(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // There is nobody to tell if this fails.
    _ = writeln!(std::io::stderr(), "\nnot run: {test}: {why}");
}

/// The same for want of a program, a library or headers.
///
/// # Panics
/// `SOFTRNIC_FOREIGN` is `required`, as in CI, where all of them are installed.
pub fn not_installed(why: &str) {
    let required = std::env::var_os("SOFTRNIC_FOREIGN").is_some_and(|value| value == "required");
    assert!(!required, "{why}");
    not_run(why);
}

/// Whether `program` is in the search path. If not, that is [said](not_installed).
pub fn is_installed(program: &str, package: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !found {
        not_installed(&format!("{program} is not installed (Debian: {package})"));
    }
    found
}
