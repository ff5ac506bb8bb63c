//! Opening devices, and saying why not.

use std::net::UdpSocket;
use std::sync::Arc;

use softrnic_transport::udp;
use softrnic_verbs::emulated::{self, EmulatedConfig, EmulatedProvider, OpenError};
use softrnic_verbs::provider::{GidType, Provider};
use softrnic_verbs::{Device, Gid, PortState, QpType};

use crate::world::{End, World, builder, connect, patient};

/// A port that nobody has, and a config at `last` with it.
fn config(last: u8) -> EmulatedConfig {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    EmulatedConfig::new([127, 0, 0, last].into()).with_port(port)
}

#[test]
fn a_port_in_use_names_its_owner() {
    let config = config(90);
    let _first = emulated::open(config.clone()).unwrap();
    let error = emulated::open(config.clone()).unwrap_err();
    assert!(matches!(error, OpenError::Link(udp::OpenError::PortInUse { .. })), "{error:?}");
    let text = error.to_string();
    for part in ["127.0.0.90", &config.port.to_string(), &std::process::id().to_string()] {
        assert!(text.contains(part), "{part} is not in {text:?}");
    }
}

#[test]
fn a_device_that_is_closed_frees_its_port() {
    let config = config(91);
    for _ in 0..5 {
        drop(emulated::open(config.clone()).unwrap());
    }
}

#[test]
fn what_is_not_of_this_host_is_refused_in_words() {
    for (config, kind, words) in [
        (
            EmulatedConfig::new([198, 51, 100, 1].into()),
            "AddressNotHere",
            &["198.51.100.1", "127.0.0.1"][..],
        ),
        (EmulatedConfig::on_interface("nosuch0"), "UnknownInterface", &["nosuch0", "lo"]),
        (EmulatedConfig::new([0, 0, 0, 0].into()), "NotOneAddress", &["0.0.0.0"]),
        (EmulatedConfig::new([239, 1, 1, 1].into()), "NotOneAddress", &["239.1.1.1"]),
        (
            EmulatedConfig { addresses: Vec::new(), ..config(92) },
            "Setting",
            &["at least one address"],
        ),
        (EmulatedConfig { faults: Some("rain".into()), ..config(92) }, "Setting", &["rain"]),
    ] {
        let error = emulated::open(config).unwrap_err();
        assert!(format!("{error:?}").contains(kind), "{error:?}");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn a_provider_lists_and_opens_and_says_why_not() {
    let settings = config(93);
    let port = settings.port;
    let provider: Arc<dyn Provider> = Arc::new(EmulatedProvider::new(settings));
    let devices = Device::list(&provider).unwrap();
    let lo = devices.iter().find(|device| device.name() == "softrnic_lo").expect("lo is up");
    let context = lo.open().unwrap();
    let (index, gid) = context.first_gid().unwrap();
    assert_eq!(gid, Gid::from_v4([127, 0, 0, 1]));
    let entry = context.gid(index).unwrap();
    assert_eq!(entry.gid_type, GidType::RoceV2);
    assert_ne!(entry.interface_index, 0);
    assert_eq!(context.port().unwrap().state, PortState::Active);
    let failure = lo.open().unwrap_err();
    assert_eq!(failure.error.errno(), 101);
    let text = failure.to_string();
    assert!(text.contains(&port.to_string()) && text.contains("in use"), "{text}");
    let failure = provider.open("softrnic_none").unwrap_err();
    assert_eq!(failure.error.errno(), 22);
    assert!(failure.to_string().contains("softrnic_lo"), "{failure}");
}

#[test]
fn a_device_with_two_addresses_is_reached_at_both() {
    let mut two = config(94);
    two.addresses.push([127, 0, 0, 95].into());
    let other = EmulatedConfig { addresses: vec![[127, 0, 0, 96].into()], ..two.clone() };
    let (near, far) = (emulated::open(two).unwrap(), emulated::open(other).unwrap());
    let port = near.port().unwrap();
    assert_eq!(port.gid_tbl_len, 2);
    assert_eq!(near.gid(2).unwrap_err().source.errno(), 22);
    let (near, far) = (End::new(near, QpType::Rc, 3), End::new(far, QpType::Rc, 5));
    for (index, last) in [(0, 94), (1, 95)] {
        let gid = Gid::from_v4([127, 0, 0, last]);
        assert_eq!(near.context.gid(index).unwrap().gid, gid);
        let qp = builder(&near.pd, QpType::Rc, &near.cq).sgid_index(index).build().unwrap();
        let peer = builder(&far.pd, QpType::Rc, &far.cq).build().unwrap();
        assert_eq!(qp.endpoint().unwrap().gid, gid);
        connect(&qp, &peer, &patient());
        // Both ways: the far end reaches the address, and the near end sends from it.
        qp.write(1, near.sge(0, 10_000), far.mr.remote(0)).unwrap();
        near.success();
        peer.read(2, far.sge(20_000, 10_000), near.mr.remote(0)).unwrap();
        far.success();
        assert!(far.bytes(0, 10_000) == far.bytes(20_000, 10_000));
    }
}

#[test]
fn two_pairs_go_side_by_side() {
    let worlds = [World::new(QpType::Rc), World::new(QpType::Rc)];
    for World { near, far } in &worlds {
        near.qp.write(1, near.sge(0, 8), far.mr.remote(0)).unwrap();
        near.success();
    }
}

#[test]
fn every_profile_and_no_offload_work() {
    use softrnic_model::profile::Profile;
    for profile in Profile::ALL {
        let World { near, far } = World::with(QpType::Rc, |config| {
            config.profile = profile;
            config.offload = udp::Offload::Off;
        });
        near.qp.write(1, near.sge(0, 100_000), far.mr.remote(0)).unwrap();
        near.success();
        assert!(far.bytes(0, 100_000) == near.bytes(0, 100_000));
    }
}
