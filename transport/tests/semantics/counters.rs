//! Counters that Linux has too count what they count there (`rxe_hw_counters.c`).

use softrnic_model::counters::Counter;

use crate::bench::{A, B, Setup, send, send_imm, wr};

#[test]
fn sends_are_counted_apart_from_other_operations() {
    let mut bench = Setup::rc().pair();
    let b = bench.remote(B);
    for id in 0..3 {
        bench.recv(B, id, 0..64);
    }
    bench.post(A, wr(0, send()).at(0..64));
    bench.post(A, wr(1, b.write(0)).at(0..64));
    bench.post(A, wr(2, send_imm(7)).at(0..64));
    bench.post(A, wr(3, b.read(0)).at(0..64));
    bench.post(A, wr(4, b.add(0, 1)).at(0..8));
    bench.post(A, wr(5, b.write_imm(0, 7)).at(0..64));
    bench.run();
    assert_eq!(bench.sends(A).len(), 6);
    assert_eq!(bench.count(A, Counter::RdmaSends), 2);
    // A WRITE with immediate takes a posted receive as well.
    assert_eq!(bench.count(B, Counter::RdmaReceives), 3);
}
