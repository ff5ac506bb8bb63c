//! READs and atomics: how many may be open, fences, and long answers.

use softrnic_model::DeviceConfig;
use softrnic_model::verbs::WcStatus::Success;
use softrnic_model::verbs::{Mtu, SendFlags};
use softrnic_transport::sim::Fate;

use crate::bench::{A, B, Seen, Setup, send, wr};

/// READ requests and atomics among the frames.
fn asked(frames: &[String]) -> usize {
    let asks =
        |text: &&String| text.starts_with("A ") && (text.contains("READ") || text.contains("_ADD"));
    frames.iter().filter(asks).count()
}

#[test]
fn no_more_are_open_than_the_requester_may_have() {
    for depth in 1..=16 {
        let mut setup = super::setup();
        setup.attributes.max_rd_atomic = depth;
        setup.attributes.max_dest_rd_atomic = depth;
        let mut bench = setup.pair();
        let b = bench.remote(B);
        bench.tap.rule(|seen| if seen.text.starts_with("B ") { Fate::Drop } else { Fate::Pass });
        for id in 0..20 {
            let op = if id % 3 == 0 { b.add(0, 1) } else { b.read(0) };
            bench.post(A, wr(id, op).at(100..108));
        }
        assert_eq!(asked(&bench.frames()), usize::from(depth));
        bench.tap.calm();
        bench.run();
        assert_eq!(bench.sends(A).len(), 20);
    }
}

#[test]
fn other_requests_overtake_no_read_that_waits() {
    let mut setup = super::setup();
    setup.attributes.max_rd_atomic = 1;
    let mut bench = setup.pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.read(0)).at(0..8));
    bench.post(A, wr(2, b.read(8)).at(8..16));
    bench.post(A, wr(3, b.write(100)).at(0..8));
    bench.run();
    let frames: Vec<_> =
        bench.tap.take().into_iter().filter(|text| text.starts_with("A ")).collect();
    assert_eq!(frames, ["A RDMA_READ_REQUEST 0", "A RDMA_READ_REQUEST 1", "A RDMA_WRITE_ONLY 2"]);
    assert_eq!(bench.sends(A), [(1, Success), (2, Success), (3, Success)]);
}

#[test]
fn a_fence_waits_for_reads_and_nothing_else() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.write(200)).at(200..208));
    bench.post(A, wr(2, b.write(300)).at(200..208).with_flags(SendFlags::FENCE));
    bench.post(A, wr(3, b.read(0)).at(0..8));
    bench.post(A, wr(4, b.add(64, 1)).at(8..16));
    // What the READ brings is sent back, but only behind the fence.
    bench.post(A, wr(5, b.write(400)).at(0..8).with_flags(SendFlags::FENCE));
    bench.run();
    let frames = bench.tap.take();
    assert_eq!(
        frames,
        [
            "A RDMA_WRITE_ONLY 0",
            "A RDMA_WRITE_ONLY 1",
            "A RDMA_READ_REQUEST 2",
            "A FETCH_ADD 3",
            "B RDMA_READ_RESPONSE_ONLY 2",
            "B ATOMIC_ACKNOWLEDGE 3",
            "A RDMA_WRITE_ONLY 4",
            "B ACK 4",
        ]
    );
    assert_eq!(bench.bytes(B, 400..408), bench.bytes(B, 0..8));
}

#[test]
fn a_fence_holds_when_the_read_is_asked_for_again() {
    let mut bench = super::setup().pair();
    let b = bench.remote(B);
    bench.tap.once("B RDMA_READ_RESPONSE_ONLY 0", Fate::Drop);
    bench.post(A, wr(1, b.read(0)).at(0..8));
    bench.post(A, wr(2, b.write(400)).at(0..8).with_flags(SendFlags::FENCE));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    assert_eq!(bench.bytes(B, 400..408), bench.bytes(B, 0..8));
}

#[test]
fn a_long_read_is_asked_for_in_parts_that_fit_the_window() {
    let device = DeviceConfig { window_bytes: 16 * 256, ..DeviceConfig::default() };
    let mut bench = Setup { mtu: Mtu::B256, device, ..super::setup() }.pair();
    let b = bench.remote(B);
    bench.post(A, wr(1, b.read(0)).at(30_000..40_000));
    bench.run();
    let log = bench.tap.log();
    let parts: Vec<u32> =
        log.iter().filter_map(|seen| seen.packet().reth().map(|r| r.len())).collect();
    assert_eq!(parts, [2048, 2048, 2048, 2048, 10_000 - 4 * 2048]);
    // At no time are more bytes on their way than the window has.
    let mut open = 0_i64;
    for seen in &log {
        let packet = seen.packet();
        open += packet.reth().map_or(0, |reth| i64::from(reth.len()));
        assert!(open <= 16 * 256, "{open}");
        open -= packet.payload.len() as i64;
    }
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.bytes(A, 30_000..40_000), bench.bytes(B, 0..10_000));
}

#[test]
fn a_window_bounds_what_is_on_its_way() {
    let device = DeviceConfig { window_bytes: 16 * 256, ..DeviceConfig::default() };
    let mut bench = Setup { mtu: Mtu::B256, device, ..super::setup() }.pair();
    let b = bench.remote(B);
    bench.tap.rule(|seen| if seen.text.starts_with("B ") { Fate::Drop } else { Fate::Pass });
    bench.post(A, wr(1, b.write(0)).at(0..20_000));
    let sent = bench.seen();
    assert_eq!(sent.iter().filter(|seen| seen.text.starts_with("A ")).count(), 16);
    let asks = |seen: &Seen| seen.text.starts_with("A ") && seen.packet().bth.ack_req();
    assert!(sent.iter().filter(|seen| asks(seen)).count() >= 2, "it never stalls for want of one");
    bench.tap.calm();
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success)]);
    assert_eq!(bench.bytes(A, 0..20_000), bench.bytes(B, 0..20_000));
}

#[test]
fn answers_are_scattered_over_all_elements() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let b = bench.remote(B);
    let request = wr(1, b.read(0)).at(1000..1100).at(2000..2000).at(3000..3700).at(900..1000);
    bench.post(A, request);
    bench.run();
    let got = [bench.bytes(A, 1000..1100), bench.bytes(A, 3000..3700), bench.bytes(A, 900..1000)];
    assert_eq!(got.concat(), bench.bytes(B, 0..900));
}

#[test]
fn messages_are_gathered_from_all_elements() {
    let mut bench = Setup { mtu: Mtu::B256, ..super::setup() }.pair();
    let receive = wr(7, send()).at(0..300).at(5000..5001).at(400..1000);
    bench.try_recv(B, &receive).unwrap();
    bench.post(A, wr(1, send()).at(10..20).at(9000..9500).at(50..50).at(0..30));
    bench.run();
    let sent = [bench.bytes(A, 10..20), bench.bytes(A, 9000..9500), bench.bytes(A, 0..30)];
    let got = [bench.bytes(B, 0..300), bench.bytes(B, 5000..5001), bench.bytes(B, 400..639)];
    assert_eq!(got.concat(), sent.concat());
    assert_eq!(bench.received(B)[0].byte_len, 540);
}
