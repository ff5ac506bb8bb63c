//! The service comes when it is needed, goes when it is not, and may die in between.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::child::{Child, connect, start_write, write};
use crate::world::{Foreground, SERVICE, free_port, kill, lives, service_of, signal, until};

#[test]
fn traffic_goes_on_whoever_of_service_and_keeper_is_killed() {
    let port = free_port();
    let at = "127.0.0.1";
    let (mut a, mut b) = (Child::new(port, at), Child::new(port, at));
    connect(&mut a, &mut b);
    let mut slots = vec![a.slot(), b.slot()];
    let mut others = Vec::new();
    let before = service_of(port).unwrap();
    start_write(&mut a, &b, 20_000);
    for service_first in [true, false, true] {
        let now = service_of(port).unwrap();
        kill(if service_first { now.service } else { now.keeper });
        let then = until("it is replaced", || {
            let then = service_of(port)?;
            let replaced = if service_first {
                then.service != now.service && then.keeper == now.keeper
            } else {
                then.keeper != now.keeper && then.service == now.service
            };
            replaced.then_some(then)
        });
        // The others are known, and a new process gets a slot that nobody has.
        assert_eq!(then.members.len(), slots.len());
        others.push(Child::new(port, at));
        slots.push(others.last().unwrap().slot());
        assert_eq!(service_of(port).unwrap().members.len(), slots.len());
    }
    assert_eq!(a.hear(), "done");
    assert_eq!(write(&mut b, &a, 100), "done");
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3, 4, 5]);
    // A process that goes while the service is away loses its slot all the same.
    kill(service_of(port).unwrap().service);
    b.kill();
    until("its slot is free", || (service_of(port)?.members.len() == 4).then_some(()));
    // The newcomers are where the others send to.
    let (mut c, mut d) = (others.remove(0), others.remove(0));
    connect(&mut c, &mut d);
    assert_eq!(write(&mut c, &d, 100), "done");
    assert!(!lives(before.service));
}

/// The program of the target does nothing: its engine does all, and hears the service all the same.
#[test]
fn processes_tell_how_they_are_while_they_are_busy() {
    const LOOKS: usize = 8;
    let (port, at) = (free_port(), "127.0.0.1");
    let (mut a, mut b) = (Child::new(port, at), Child::new(port, at));
    connect(&mut a, &mut b);
    start_write(&mut a, &b, 30_000);
    let told = (0..LOOKS).filter(|_| {
        let members = service_of(port).unwrap().members;
        members.len() == 2 && members.iter().all(|member| member.status.is_some())
    });
    // A busy host may be late for some.
    let told = told.count();
    assert!(told > LOOKS / 2, "{told} of {LOOKS}");
    assert_eq!(a.hear(), "done");
}

#[test]
fn a_killed_process_is_missed_and_its_slot_is_used_again() {
    let port = free_port();
    let at = "127.0.0.1";
    let (mut a, mut b) = (Child::new(port, at), Child::new(port, at));
    connect(&mut a, &mut b);
    assert_eq!(write(&mut a, &b, 10), "done");
    let slot = b.slot();
    b.kill();
    let started = Instant::now();
    until("its slot is free", || (service_of(port)?.members.len() == 1).then_some(()));
    // A goes on sending to it for four seconds: half a second, eight times.
    start_write(&mut a, &b, 1);
    std::thread::sleep(Duration::from_millis(2100).saturating_sub(started.elapsed()));
    let mut heir = Child::new(port, at);
    assert_eq!(heir.slot(), slot);
    assert_ne!(heir.endpoint.unwrap().qp_num, b.endpoint.unwrap().qp_num);
    assert_eq!(a.hear(), "failed RetryExceeded");
    let dropped: u64 = heir.ask("counter drop_unknown_qp").parse().unwrap();
    assert!(dropped > 0, "what is for the dead one has come, and met no queue pair");
    let mut c = Child::new(port, at);
    connect(&mut heir, &mut c);
    assert_eq!(write(&mut heir, &c, 10), "done");
}

/// Kills service and keeper so that neither can start the other one again.
fn kill_both(port: u16) {
    let before = service_of(port).unwrap();
    signal("STOP", before.keeper);
    signal("STOP", before.service);
    kill(before.service);
    kill(before.keeper);
    until("both are gone", || (!lives(before.service) && !lives(before.keeper)).then_some(()));
}

#[test]
fn when_both_are_killed_members_come_back() {
    let (port, at) = (free_port(), "127.0.66.31");
    let mut members: Vec<Child> = (0..4).map(|_| Child::new(port, at)).collect();
    let slots: Vec<u8> = members.iter().map(Child::slot).collect();
    let [a, b, c, d] = &mut members[..] else { panic!("there are four") };
    connect(a, b);
    let listens = c.ask(&format!("cm-listen {at}:0"));
    let listens = listens.strip_prefix("listening ").unwrap();
    for _ in 0..2 {
        start_write(a, b, 2_000);
        kill_both(port);
        let slots_now = || {
            let mut slots: Vec<u8> = service_of(port)?.members.iter().map(|row| row.slot).collect();
            slots.sort_unstable();
            (slots == [1, 2, 3, 4]).then_some(slots)
        };
        assert_eq!(until("all are back", slots_now), slots);
        assert_eq!(a.hear(), "done", "what was under way goes on");
        assert_eq!(write(b, a, 10), "done");
        // Who listened does so again, and is the only one at its port.
        c.say("cm-accept");
        assert_eq!(d.ask(&format!("cm-connect {listens}")), "connected");
        assert_eq!(c.hear(), "accepted");
        let taken = d.ask(&format!("cm-listen {listens}"));
        assert!(taken.ends_with("(EADDRINUSE)"), "{taken}");
    }
    // What is left to say for a process is known to the new service, and newcomers are welcome.
    d.kill();
    assert_eq!(c.ask("cm-closed 20"), "closed");
    let mut e = Child::new(port, at);
    let mut f = Child::new(port, at);
    connect(&mut e, &mut f);
    assert_eq!(write(&mut e, &f, 10), "done");
}

/// A process that is stopped keeps its socket, and nobody can have the port: the others are told.
#[test]
fn who_cannot_come_back_is_told() {
    let (port, at) = (free_port(), "127.0.66.34");
    let (mut a, b) = (Child::new(port, at), Child::new(port, at));
    signal("STOP", b.id());
    kill_both(port);
    assert_eq!(a.ask("failure 30"), "DeviceFatal");
    signal("CONT", b.id());
    drop(a);
    // The other one has the address for itself now.
    until("it is back", || (service_of(port)?.members.len() == 1).then_some(()));
}

#[test]
fn a_port_that_a_process_has_for_itself_is_not_shared() {
    let (port, at) = (free_port(), "127.0.66.33");
    let alone = std::net::UdpSocket::bind((at, port)).unwrap();
    let told = Child::start(port, at, None).ready().unwrap_err();
    assert!(told.contains(&format!("in use by process {}", std::process::id())), "{told}");
    drop(alone);
    Child::new(port, at);
}

#[test]
fn the_service_ends_when_nobody_needs_it_and_comes_back() {
    let port = free_port();
    let at = "127.0.0.1";
    for _ in 0..2 {
        let child = Child::new(port, at);
        let listing = service_of(port).unwrap();
        drop(child);
        let started = Instant::now();
        until("the service is gone", || service_of(port).is_none().then_some(()));
        until("so are its processes", || {
            (!lives(listing.service) && !lives(listing.keeper)).then_some(())
        });
        assert!(started.elapsed() > Duration::from_secs(2), "it waits for others a while");
    }
}

#[test]
fn a_service_in_the_foreground_ends_when_it_is_asked_to() {
    let port = free_port();
    let service = Foreground::start(port, "");
    let listing = service_of(port).unwrap();
    assert_eq!(listing.service, service.id());
    let second = Command::new(SERVICE).args(["service", "--udp-port", &port.to_string()]).output();
    let second = second.unwrap();
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8(second.stderr).unwrap();
    assert!(told.contains("there is a port service of this user"), "{told}");
    std::thread::sleep(Duration::from_secs(4));
    assert!(service_of(port).is_some(), "it stays without members");
    drop(service);
    until("the keeper is gone", || (!lives(listing.keeper)).then_some(()));
    assert_eq!(service_of(port), None);
}

#[test]
fn ps_shows_who_is_there() {
    let port = free_port();
    let (mut a, mut b) = (Child::new(port, "127.0.0.1"), Child::new(port, "127.0.66.9"));
    let ps = |options: &str| -> Value {
        let port = port.to_string();
        let mut command = Command::new(SERVICE);
        let command = command.args(["--json", "ps", "--udp-port", &port]).args(options.split(' '));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(a.ask("counter drop_unknown_qp"), "0");
    let said = ps("--profile spec");
    let rows = said["tables"]["members"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{said}");
    assert_eq!(rows[0]["pid"], a.id());
    assert_eq!((&rows[1]["pid"], &rows[1]["address"]), (&b.id().into(), &"127.0.66.9".into()));
    assert_eq!((&rows[1]["queue_pairs"], &rows[1]["regions"]), (&1.into(), &1.into()));
    // Of listeners and connections as well; who listens everywhere does so there.
    assert!(a.ask("cm-listen 127.0.0.1:0").starts_with("listening"));
    for at in ["127.0.66.9:0", "0.0.0.0:0"] {
        assert!(b.ask(&format!("cm-listen {at}")).starts_with("listening"));
    }
    for (address, own, listeners) in [("127.0.66.9", b.id(), 2), ("127.0.0.1", a.id(), 1)] {
        let said = ps(&format!("-d {address}"));
        assert_eq!(said["tables"]["members"].as_array().unwrap().len(), 1, "{said}");
        let conversations = said["tables"]["connections"].as_array().unwrap();
        assert_eq!(conversations.len(), listeners, "{said}");
        assert!(conversations.iter().all(|one| one["pid"] == own), "{said}");
    }
}
