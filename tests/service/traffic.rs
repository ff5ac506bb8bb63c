//! Processes at one address talk to each other.

use std::collections::BTreeSet;

use crate::child::{Child, connect, write};
use crate::world::{free_port, service_of, services};

#[test]
fn two_processes_at_one_address_reach_each_other_both_ways() {
    let port = free_port();
    let (mut a, mut b) = (Child::new(port, "127.0.0.1"), Child::new(port, "127.0.0.1"));
    assert_eq!((a.slot(), b.slot()), (1, 2));
    connect(&mut a, &mut b);
    assert_eq!(write(&mut a, &b, 200), "done");
    assert_eq!(write(&mut b, &a, 200), "done");
    for child in [&mut a, &mut b] {
        let wrong: u64 = child.ask("counter drop_unknown_qp").parse().unwrap();
        assert_eq!(wrong, 0, "each gets its own packets only");
    }
}

#[test]
fn groups_reach_every_process_of_an_address() {
    let port = free_port();
    let mut children: Vec<_> = (0..3).map(|_| Child::new(port, "127.0.0.1")).collect();
    let group = "239.77.8.9";
    let [listeners @ .., speaker] = &mut children[..] else { panic!("three") };
    for listener in listeners.iter_mut() {
        assert_eq!(listener.ask(&format!("listen {group}")), "listening");
    }
    assert_eq!(speaker.ask(&format!("tell {group} 77")), "told");
    for listener in listeners {
        assert_eq!(listener.hear(), "heard 77");
    }
}

#[test]
fn thirty_processes_that_start_at_once_have_one_service_and_a_slot_each() {
    const COUNT: usize = 30;
    let port = free_port();
    let mut children: Vec<_> = (0..COUNT).map(|_| Child::start(port, "127.0.0.1", None)).collect();
    children.iter_mut().for_each(|child| child.ready().unwrap());
    let slots: BTreeSet<u8> = children.iter().map(Child::slot).collect();
    assert_eq!(slots.len(), COUNT);
    let listing = service_of(port).expect("one service");
    let told: BTreeSet<_> = listing.members.iter().map(|row| (row.pid, row.slot)).collect();
    let known: BTreeSet<_> = children.iter().map(|child| (child.id(), child.slot())).collect();
    assert_eq!(told, known);
    for row in &listing.members {
        let status = row.status.expect("everybody answers");
        assert_eq!((status.queue_pairs, status.regions), (1, 1));
    }
    // The first and the last of them talk.
    let (first, rest) = children.split_at_mut(1);
    let (first, last) = (&mut first[0], &mut rest[COUNT - 2]);
    connect(first, last);
    assert_eq!(write(first, last, 20), "done");
    assert_eq!(services(port).len(), 1);
}
