//! The crate `ibverbs`, which links libibverbs.

use ibverbs::{MemoryRegion, QueuePair, ibv_qp_type, ibv_wc};

use crate::peer::{Link, Side, content, two_processes, within};

const ROUNDS: u64 = 200;
/// Elements of 8 bytes: within one packet, and of many.
const LENGTHS: [usize; 3] = [1, 500, 5000];
const LONGEST: usize = 5000;
const SEND: u64 = 1;
const RECEIVE: u64 = 2;

/// Awaits a completion each of these work requests, in any order.
fn complete(cq: &ibverbs::CompletionQueue<'_>, mut awaited: Vec<u64>) {
    let mut room = [ibv_wc::default(); 4];
    while !awaited.is_empty() {
        within("a completion", || {
            let found = cq.poll(&mut room).unwrap();
            for wc in found.iter() {
                assert_eq!(wc.error(), None, "work request {}", wc.wr_id());
                let place = awaited.iter().position(|id| *id == wc.wr_id());
                awaited.remove(place.expect("nobody asked for it"));
            }
            (!found.is_empty()).then_some(())
        });
    }
}

/// One message there and one back; the buffer's first half is sent, the second received into.
fn round(
    side: Side,
    qp: &mut QueuePair<'_>,
    cq: &ibverbs::CompletionQueue<'_>,
    buffer: &mut MemoryRegion<u64>,
    length: usize,
    number: u64,
) {
    for index in 0..length {
        buffer[index] = content(side, number, index);
    }
    if side == Side::Pong {
        complete(cq, vec![RECEIVE]);
    }
    // SAFETY: the range is not touched before its completion.
    unsafe { qp.post_send(buffer, ..length, SEND) }.unwrap();
    complete(cq, if side == Side::Pong { vec![SEND] } else { vec![SEND, RECEIVE] });
    for index in 0..length {
        let right = content(side.other(), number, index);
        assert_eq!(buffer[LONGEST + index], right, "round {number}, element {index}");
    }
}

fn play(side: Side, link: &mut Link) {
    let devices = ibverbs::devices().unwrap();
    let context = devices.iter().next().expect("a device").open().unwrap();
    assert!(!context.gid_table().is_empty());
    let cq = context.create_cq(16, 0).unwrap();
    let pd = context.alloc_pd().unwrap();
    let mut builder = pd.create_qp(&cq, &cq, ibv_qp_type::IBV_QPT_RC);
    // The default timeout is that of a device that answers within microseconds, in hardware.
    let prepared = builder.set_gid_index(0).set_timeout(14).build().unwrap();
    let remote = link.exchange(&prepared.endpoint());
    let mut qp = prepared.handshake(remote).unwrap();
    let mut buffer = pd.allocate::<u64>(2 * LONGEST).unwrap();
    for length in LENGTHS {
        for number in 0..ROUNDS {
            // SAFETY: the range is not touched before its completion.
            unsafe { qp.post_receive(&mut buffer, LONGEST..LONGEST + length, RECEIVE) }.unwrap();
            link.meet();
            round(side, &mut qp, &cq, &mut buffer, length, number);
        }
    }
    // Nobody destroys its queue pair under the other's last acknowledgement.
    link.meet();
}

#[test]
fn ping_pong() {
    two_processes("by_ibverbs::ping_pong", play);
}
