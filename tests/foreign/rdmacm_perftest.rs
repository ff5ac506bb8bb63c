//! perftest with queue pairs that the connection manager connects (`-R`); it refuses to do so for UC.

use super::ends::is_installed;
use super::meeting::{Meeting, Places, all_meet};

/// The operations, and the services that have them.
const OPERATIONS: [(&str, &[&str]); 4] =
    [("write", &["RC"]), ("read", &["RC"]), ("send", &["RC", "UD"]), ("atomic", &["RC"])];

fn run_all(operation: &str) {
    if !is_installed(&format!("ib_{operation}_bw"), "perftest") {
        return;
    }
    let (_, services) = OPERATIONS.iter().find(|(known, _)| *known == operation).unwrap();
    let mut lines = Vec::new();
    for service in *services {
        for kind in ["bw", "lat"] {
            let line = format!("ib_{operation}_{kind} -R -x 0 -c {service} -n 200 -p PORT");
            lines.push((line.clone(), Places::Two));
            if *service == "RC" {
                lines.push((line, Places::One));
            }
        }
    }
    lines.push((format!("ib_{operation}_bw -R -x 0 -n 200 -q 8 -p PORT"), Places::Two));
    let clients: Vec<_> = lines.iter().map(|(line, _)| format!("{line} SERVER")).collect();
    let meetings = lines.iter().zip(&clients);
    all_meet(meetings.map(|((line, places), client)| Meeting::new(line, client).at(*places)));
}

#[test]
fn write() {
    run_all("write");
}

#[test]
fn read() {
    run_all("read");
}

#[test]
fn send() {
    run_all("send");
}

#[test]
fn atomic() {
    run_all("atomic");
}
