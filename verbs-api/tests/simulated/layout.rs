//! Hosts, switches, cables.

use std::time::Duration;

use softrnic_verbs::QpType;
use softrnic_verbs::simulated::{Cable, Fabric, FabricConfig};

use super::pair;

#[test]
fn frames_find_another_way_when_a_cable_is_pulled() {
    // Two hosts, two switches between them, and a cable of its own that is shorter.
    let fabric = Fabric::new(FabricConfig::default());
    let [a, b] = ["a", "b"].map(|name| fabric.add_host(name));
    let [near, far] = [(), ()].map(|()| fabric.add_switch());
    let cable = |latency_ns| Cable { latency_ns, ..Cable::default() };
    let direct = fabric.connect(a, b, cable(100));
    let long = [
        fabric.connect(a, near, cable(1000)),
        fabric.connect(near, far, cable(2000)),
        fabric.connect(far, b, cable(3000)),
    ];
    let [left, right] = pair(&fabric, a, b, QpType::Rc);
    let round = || {
        let started = fabric.now();
        left.qp.write(1, left.region.sge(0, 8), right.region.remote(0)).unwrap();
        left.ok();
        fabric.now() - started
    };
    assert_eq!(round(), Duration::from_nanos(200));
    fabric.unplug(direct);
    assert_eq!(round(), Duration::from_micros(12));
    fabric.plug(direct);
    fabric.unplug(long[1]);
    assert_eq!(round(), Duration::from_nanos(200));
    fabric.unplug(direct);
    left.qp.write(2, left.region.sge(0, 8), right.region.remote(0)).unwrap();
    fabric.run_for(Duration::from_millis(10));
    assert_eq!(left.cq.poll_one().unwrap(), None, "no way leads there");
    fabric.plug(long[1]);
    left.ok();
}

#[test]
fn many_hosts_on_many_switches() {
    // Four racks of eight hosts below two spines.
    let fabric = Fabric::new(FabricConfig { seed: 3, ..FabricConfig::default() });
    let spines = [(), ()].map(|()| fabric.add_switch());
    let mut hosts = Vec::new();
    for rack in 0..4 {
        let switch = fabric.add_switch();
        for spine in spines {
            fabric.connect(switch, spine, Cable::default());
        }
        for host in 0..8 {
            let node = fabric.add_host(&format!("rack{rack}host{host}"));
            fabric.connect(node, switch, Cable::default());
            hosts.push(node);
        }
    }
    fabric.set_faults_everywhere("drop=1%").unwrap();
    let pairs: Vec<_> = (0..hosts.len())
        .map(|n| pair(&fabric, hosts[n], hosts[(n * 7 + 9) % hosts.len()], QpType::Rc))
        .collect();
    for [a, b] in &pairs {
        a.region.buffer().write(0, &[3; 10_000]).unwrap();
        a.qp.write(1, a.region.sge(0, 10_000), b.region.remote(0)).unwrap();
    }
    for [a, b] in &pairs {
        a.ok();
        assert_eq!(b.region.buffer().to_vec().unwrap()[..10_000], [3; 10_000]);
    }
}

#[test]
fn the_frames_of_all_hosts_are_captured() {
    let path =
        std::env::temp_dir().join(format!("softrnic-simulated-{}.pcapng", std::process::id()));
    let fabric = Fabric::star(2, 1);
    fabric.capture(&path).unwrap();
    let hosts = fabric.hosts();
    let [a, b] = pair(&fabric, hosts[0], hosts[1], QpType::Rc);
    a.qp.write(1, a.region.sge(0, 8), b.region.remote(0)).unwrap();
    a.ok();
    drop((a, b, fabric));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // Section header, and the ICRC's port in network order in each of four frames.
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert_eq!(bytes.windows(2).filter(|w| *w == 4791_u16.to_be_bytes()).count(), 4);
}
