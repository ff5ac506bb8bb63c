//! One of each.
use softrnic_model::verbs::{Mtu, WcStatus::Success};

use crate::bench::{A, B, Setup, send, wr};

#[test]
fn a_message_of_each_kind() {
    let mut bench = Setup { mtu: Mtu::B256, ..Setup::rc() }.pair();
    let b = bench.remote(B);
    bench.recv(B, 7, 0..600);
    bench.post(A, wr(1, b.write(5000)).at(0..300));
    bench.post(A, wr(2, send()).at(0..600));
    bench.run();
    assert_eq!(bench.sends(A), [(1, Success), (2, Success)]);
    assert_eq!(bench.recvs(B), [(7, Success)]);
    assert_eq!(bench.bytes(B, 5000..5300), bench.bytes(A, 0..300));
    assert_eq!(
        bench.tap.take(),
        [
            "A RDMA_WRITE_FIRST 0",
            "A RDMA_WRITE_LAST 1",
            "A SEND_FIRST 2",
            "A SEND_MIDDLE 3",
            "A SEND_LAST 4",
            "B ACK 4"
        ]
    );
}
