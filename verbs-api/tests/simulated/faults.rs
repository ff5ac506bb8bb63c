//! What can befall a fabric, and what programs see of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use softrnic_verbs::simulated::{Cable, Event, Fabric, Fate, FaultRules, Seen, What};
use softrnic_verbs::{AsyncEvent, QpType, RecvWr, SendFlags, SendWr, VerbError, WcStatus};

use super::{End, SECOND, pair, star};

/// Notes how often each thing happens.
fn watch(fabric: &Fabric) -> Arc<Mutex<Vec<What>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    fabric.observe(Some(Box::new(move |event: &Event<'_>| notes.lock().unwrap().push(event.what))));
    seen
}

fn count(seen: &Arc<Mutex<Vec<What>>>, what: What) -> usize {
    seen.lock().unwrap().iter().filter(|one| **one == what).count()
}

/// Writes that must all arrive.
fn writes(a: &End, b: &End, rounds: u64) {
    for wr_id in 0..rounds {
        a.region.buffer().write(0, &[wr_id as u8; 20_000]).unwrap();
        a.qp.write(wr_id, a.region.sge(0, 20_000), b.region.remote(0)).unwrap();
        assert_eq!(a.ok().wr_id, wr_id);
        assert_eq!(b.region.buffer().to_vec().unwrap()[..20_000], [wr_id as u8; 20_000]);
    }
}

#[test]
fn each_kind_of_fault_happens_and_is_repaired() {
    let kinds = [
        ("drop=10%", What::Dropped),
        ("duplicate=10%", What::Duplicated),
        ("reorder=10%", What::Delayed),
        ("delay=10%:20us", What::Delayed),
        ("corrupt=10%", What::Damaged),
        ("ecn=10%", What::Marked),
    ];
    for (text, what) in kinds {
        let (fabric, hosts) = star(2);
        let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
        fabric.set_faults_everywhere(text).unwrap();
        let seen = watch(&fabric);
        writes(&a, &b, 20);
        assert!(count(&seen, what) > 5, "{text}");
        if what == What::Damaged {
            assert!(count(&seen, What::BadIcrc) > 5);
        }
        fabric.set_faults_everywhere("").unwrap();
        let before = count(&seen, what);
        writes(&a, &b, 5);
        assert_eq!(count(&seen, what), before, "{text}: calm again");
    }
    let (fabric, _) = star(2);
    let error = fabric.set_faults_everywhere("drop=200%").unwrap_err();
    assert!(error.to_string().contains("drop=200%"));
}

#[test]
fn a_rule_of_the_tests_own() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let mut left = 1;
    let once = move |seen: &Seen<'_>| match seen.opcode().map(|opcode| opcode.0) {
        Some(0x0a) if left > 0 => {
            left -= 1;
            Fate::Drop
        }
        _ => Fate::Pass,
    };
    let link = fabric.links()[0];
    fabric.set_rules(link, [Some(FaultRules::new().with(once)), None]);
    let seen = watch(&fabric);
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    a.ok();
    assert_eq!((count(&seen, What::Dropped), count(&seen, What::Sent)), (1, 3));
}

#[test]
fn a_partition_parts_and_heals() {
    let (fabric, hosts) = star(3);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let [c, d] = pair(&fabric, hosts[0], hosts[2], QpType::Rc);
    fabric.partition(&[&[hosts[0], hosts[2]], &[hosts[1]]]);
    let seen = watch(&fabric);
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    writes(&c, &d, 3);
    fabric.run_for(Duration::from_millis(100));
    assert_eq!(a.cq.poll_one().unwrap(), None);
    assert!(count(&seen, What::Parted) >= 1);
    fabric.heal();
    assert_eq!(a.ok().wr_id, 1, "repeated after the time-out");
}

#[test]
fn a_paused_port_holds_what_comes_and_goes() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let seen = watch(&fabric);
    fabric.pause(hosts[1]);
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    fabric.run_for(Duration::from_millis(10));
    assert_eq!(a.cq.poll_one().unwrap(), None);
    assert_eq!((count(&seen, What::Held), count(&seen, What::Arrived)), (1, 0));
    fabric.resume(hosts[1]);
    fabric.run_for(Duration::from_micros(3));
    assert_eq!(a.cq.poll_one().unwrap().map(|wc| wc.wr_id), Some(1));
    assert_eq!(count(&seen, What::Sent), 2, "nothing was repeated");
    // A queue that is full loses the rest.
    let link = fabric.links()[1];
    fabric.set_cable(link, Cable { queue_bytes: 5000, ..Cable::default() });
    fabric.pause(hosts[1]);
    a.qp.write(2, a.region.sge(0, 40_000), b.region.remote(0)).unwrap();
    fabric.run_for(Duration::from_millis(1));
    assert!(count(&seen, What::QueueFull) > 0);
    fabric.resume(hosts[1]);
    fabric.set_cable(link, Cable::default());
    assert_eq!(a.ok().wr_id, 2);
}

#[test]
fn a_crash_is_the_end_of_a_device_but_not_of_its_host() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    b.qp.post_recv(&[RecvWr { wr_id: 5, sges: &[] }]).unwrap();
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    fabric.crash(hosts[1]);
    assert_eq!(b.context.next_async_event(SECOND).unwrap(), Some(AsyncEvent::DeviceFatal));
    assert_eq!(b.cq.wait_one(SECOND).unwrap().unwrap().status, WcStatus::WorkRequestFlushed);
    assert_eq!(a.cq.wait_one(None).unwrap().unwrap().status, WcStatus::RetryExceeded);
    assert!(matches!(fabric.open(hosts[1]).unwrap_err().error, VerbError::Invalid(_)));
    fabric.restart(hosts[1]);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    writes(&a, &b, 2);
}

#[test]
fn a_narrow_cable_is_slow_and_marks() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let started = fabric.now();
    writes(&a, &b, 1);
    let fast = fabric.now() - started;
    let narrow =
        Cable { rate_bps: Some(1_000_000_000), mark_above_bytes: 2000, ..Cable::default() };
    for link in fabric.links() {
        fabric.set_cable(link, narrow);
    }
    let started = fabric.now();
    writes(&a, &b, 1);
    let slow = fabric.now() - started;
    // 20,000 bytes take 160 µs at 1 Gbit/s.
    assert!(
        fast < Duration::from_micros(10) && slow > Duration::from_micros(160),
        "{fast:?} {slow:?}"
    );
    assert!(slow < Duration::from_micros(250), "{slow:?}");
}

#[test]
fn congestion_marks_reach_the_sender_as_notifications() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    fabric.set_faults(fabric.links()[0], "ecn=100%").unwrap();
    writes(&a, &b, 3);
    fabric.run_for(Duration::from_millis(1));
    let of = |end: &End, name: &str| {
        let counters = end.context.counters().unwrap();
        counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    };
    assert!(of(&b, "ecn_marked") > Some(0), "{:?}", b.context.counters());
    assert!(of(&a, "cnp_received") > Some(0), "{:?}", a.context.counters());
}

#[test]
fn unreliable_messages_are_lost_for_good() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Uc);
    for wr_id in 0..20 {
        b.qp.post_recv(&[RecvWr { wr_id, sges: &[b.region.sge(0, 64)] }]).unwrap();
    }
    fabric.set_faults_everywhere("drop=20%").unwrap();
    for wr_id in 0..20 {
        let flags = SendFlags::SIGNALED;
        let sges = [a.region.sge(0, 64)];
        a.qp.post_send(&[SendWr { wr_id, flags, sges: &sges, ..SendWr::default() }]).unwrap();
        a.ok();
    }
    assert!(fabric.run_until_idle(Duration::from_secs(1)));
    let received = std::iter::from_fn(|| b.cq.poll_one().unwrap()).count();
    assert!((5..20).contains(&received), "{received}");
}
