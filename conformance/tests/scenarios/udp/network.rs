//! Where tests over UDP run: here, or in a network namespace that has the addresses.
//!
//! IPv4 has a whole network on the loopback interface, IPv6 one address. So tests over IPv6 run in
//! a child: the same test program again in a network namespace of its own, in which the loopback
//! interface is given two addresses. The child runs all of them, once; each test here looks up
//! how it went there.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Output};
use std::sync::LazyLock;

use softrnic_conformance::lab::Family;

/// In the child this is set, and the addresses are there.
const INSIDE: &str = "SOFTRNIC_TEST_IN_OWN_NETWORK";
/// What tests over IPv6 have in their names.
const TESTS: &str = "udp::v6::";
/// What the child ends with when the interface cannot be had as it should be.
const NO_ADDRESSES: i32 = 99;

/// Runs the work of a test that needs the loopback addresses of a family. `test` is its path.
///
/// # Panics
/// The work does, here or there.
pub(crate) fn on(family: Family, test: &str, work: impl FnOnce()) {
    if family == Family::V4 {
        if has_v4() {
            work();
        }
        return;
    }
    if std::env::var_os(INSIDE).is_some() {
        work();
        return;
    }
    static CHILD: LazyLock<Child> = LazyLock::new(Child::run);
    let (_crate, test) = test.split_once("::").expect("tests are in modules");
    match &*CHILD {
        Child::NotRun => {}
        Child::Ended { passed, text } => match passed.get(test) {
            Some(true) => {}
            Some(false) => panic!("in its own network:\n{}", section(text, test)),
            None => panic!("it did not end in its own network:\n{text}"),
        },
    }
}

/// Whether the loopback interface has the IPv4 addresses, as on Linux; tells if not.
fn has_v4() -> bool {
    static HAS: LazyLock<bool> = LazyLock::new(|| {
        let bound = Family::V4.loopback().map(|address| UdpSocket::bind((address, 0)));
        let missing = bound.into_iter().find_map(Result::err);
        if let Some(error) = &missing {
            let addresses = Family::V4.loopback();
            tell(&format!("\nnot run: the tests over UDP at {addresses:?}: {error}\n"));
        }
        missing.is_none()
    });
    *HAS
}

/// What became of the child.
enum Child {
    /// It may not be; that was told.
    NotRun,
    /// It ran.
    Ended {
        /// Which tests ended, and how.
        passed: BTreeMap<String, bool>,
        /// All that it said.
        text: String,
    },
}

impl Child {
    fn run() -> Self {
        let mut reasons = String::new();
        // An ordinary user may have a network namespace only in a user namespace of its own.
        for options in ["-n", "-rn"] {
            match in_namespace(options) {
                Ok(output) if output.status.code() == Some(NO_ADDRESSES) => {
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    reasons += &format!("\n  unshare {options}: {}", said.trim_end());
                }
                Ok(output) => {
                    tell(&String::from_utf8_lossy(&output.stderr));
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    return Self::Ended { passed: results(&text), text };
                }
                Err(why) => reasons += &format!("\n  unshare {options}: {why}"),
            }
        }
        tell(&format!(
            "\nnot run: the tests {TESTS}*, for want of a network of their own{reasons}\n"
        ));
        Self::NotRun
    }
}

/// Runs the tests over IPv6 of this program in a new network namespace. An error says why there is
/// none.
fn in_namespace(options: &str) -> Result<Output, String> {
    let try_it = Command::new("unshare").args([options, "true"]).output();
    let tried = try_it.map_err(|error| format!("it cannot be run: {error}"))?;
    if !tried.status.success() {
        return Err(String::from_utf8_lossy(&tried.stderr).trim_end().to_owned());
    }
    let [first, second] = Family::V6.loopback();
    // Without "nodad" an address can be bound to only after a moment, which a busy kernel draws out.
    let script = format!(
        "ip link set lo up && ip addr add {first}/128 dev lo nodad \
         && ip addr add {second}/128 dev lo nodad || exit {NO_ADDRESSES}; exec \"$0\" {TESTS}"
    );
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let child = Command::new("unshare")
        .args([options, "sh", "-c", &script])
        .arg(program)
        .env(INSIDE, "1")
        .output();
    child.map_err(|error| error.to_string())
}

/// Past the capture of test output: whoever runs the tests is to see this.
pub(super) fn tell(text: &str) {
    // There is nobody left to tell that it cannot be told.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The results that a run of tests has printed.
fn results(text: &str) -> BTreeMap<String, bool> {
    let result = |line: &str| {
        let (test, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
        Some((test.to_owned(), result == "ok"))
    };
    text.lines().filter_map(result).collect()
}

/// What a test has said that failed.
fn section<'a>(text: &'a str, test: &str) -> &'a str {
    let head = format!("---- {test} stdout ----\n");
    let behind = text.split_once(&head).map_or(text, |(_, behind)| behind);
    behind.split_once("\n\n").map_or(behind, |(section, _)| section)
}

#[test]
fn results_of_a_child_are_read() {
    let text = "\nrunning 2 tests\ntest udp::v6::a ... ok\ntest udp::v6::b ... FAILED\n\n\
                failures:\n\n---- udp::v6::b stdout ----\n\nthread panicked\nwhy\n\n\nfailures:\n";
    let read = results(text);
    assert!(read["udp::v6::a"]);
    assert!(!read["udp::v6::b"]);
    assert_eq!(read.len(), 2);
    assert_eq!(section(text, "udp::v6::b").trim(), "thread panicked\nwhy");
}
