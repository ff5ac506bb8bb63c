//! Virtual time, and runs that repeat.

use std::time::{Duration, Instant};

use softrnic_verbs::simulated::{Fabric, FabricConfig};
use softrnic_verbs::{CompletionError, QpType, WcStatus};

use super::{pair, star};

#[test]
fn a_poll_takes_a_microsecond_and_a_wait_as_long_as_it_must() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let started = fabric.now();
    assert_eq!(a.cq.poll_one().unwrap(), None);
    assert_eq!(fabric.now() - started, Duration::from_micros(1));
    assert_eq!(a.cq.wait_one(Some(Duration::from_secs(3600))).unwrap(), None);
    assert_eq!(fabric.now() - started, Duration::from_micros(3_600_000_001));
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    let posted = fabric.now();
    a.ok();
    assert_eq!(fabric.now() - posted, Duration::from_micros(2), "there and back, two cables each");
}

/// No cable is on the way, and no time-out is waited for.
#[test]
fn what_a_host_sends_to_itself_is_there_at_once() {
    let (fabric, hosts) = star(1);
    let [a, b] = pair(&fabric, hosts[0], hosts[0], QpType::Rc);
    let started = fabric.now();
    b.qp.recv(7, b.region.sge(0, 8)).unwrap();
    a.qp.send(1, a.region.sge(0, 8)).unwrap();
    a.ok();
    assert_eq!(b.ok().wr_id, 7);
    a.qp.read(2, a.region.sge(8, 8), b.region.remote(0)).unwrap();
    a.ok();
    assert!(fabric.now() - started < Duration::from_micros(10), "{:?}", fabric.now() - started);
}

#[test]
fn a_test_may_keep_the_clock_to_itself() {
    let config = FabricConfig { poll_costs: Duration::ZERO, ..FabricConfig::default() };
    let fabric = Fabric::star_with(config, 2);
    let hosts = fabric.hosts();
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    for _ in 0..100 {
        assert_eq!(a.cq.poll_one().unwrap(), None);
    }
    let mut steps = 0;
    while fabric.step() {
        steps += 1;
    }
    assert!(steps >= 4, "each cable is a step");
    assert_eq!(a.cq.poll_one().unwrap().map(|wc| wc.wr_id), Some(1));
}

#[test]
fn a_wait_for_what_will_never_happen_is_refused() {
    let (fabric, hosts) = star(2);
    let [a, _b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let Err(CompletionError::Refused(error)) = a.cq.wait_success(None) else { panic!() };
    assert!(error.to_string().contains("wait for ever"), "{error}");
    assert!(a.context.next_async_event(None).is_err());
    assert_eq!(a.context.next_async_event(Some(Duration::from_secs(1))).unwrap(), None);
}

#[test]
fn a_time_out_of_seconds_costs_none() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    let clock = Instant::now();
    fabric.isolate(hosts[1]);
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    let wc = a.cq.wait_one(None).unwrap().unwrap();
    assert_eq!(wc.status, WcStatus::RetryExceeded);
    // Timeout code 14, 6 retries: at least seven times 67 ms.
    assert!(fabric.now() >= Duration::from_millis(7 * 67));
    assert!(clock.elapsed() < Duration::from_secs(10));
}

/// Some traffic under bad weather; what came of it.
fn run(seed: u64) -> (u64, u64, Duration) {
    let fabric = Fabric::star(3, seed);
    fabric
        .set_faults_everywhere("drop=3%,duplicate=2%,reorder=3%,corrupt=1%,delay=2%:30us")
        .unwrap();
    let hosts = fabric.hosts();
    let pairs =
        [(0, 1), (1, 2), (2, 0)].map(|(a, b)| pair(&fabric, hosts[a], hosts[b], QpType::Rc));
    for round in 0..20 {
        for [a, b] in &pairs {
            a.qp.write(round, a.region.sge(0, 9000), b.region.remote(0)).unwrap();
            a.qp.read(round, a.region.sge(9000, 9000), b.region.remote(0)).unwrap();
        }
        for [a, _] in &pairs {
            a.ok();
            a.ok();
        }
    }
    (fabric.event_hash().get(), fabric.events(), fabric.now())
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let first = run(7);
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[test]
fn a_trace_shows_what_each_step_did() {
    let (fabric, hosts) = star(2);
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    fabric.start_trace();
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    let mut steps = vec![fabric.take_trace()];
    while fabric.step() {
        steps.push(fabric.take_trace());
    }
    let of =
        |word: &str| steps.iter().filter(|lines| lines.iter().any(|l| l.contains(word))).count();
    assert_eq!((of(" sent"), of(" arrived"), of("lost")), (2, 2, 0));
    assert!(steps[0][0].starts_with("node 1 sent: 0.000us tx 10.0.0.1>10.0.0.2"), "{steps:?}");
    assert!(steps[0][0].contains("RDMA_WRITE_ONLY"), "{steps:?}");
}
