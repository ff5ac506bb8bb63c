//! The crate `sideway`, which opens libibverbs at run time, by classic and by extended verbs.

use std::sync::Arc;

use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::address::{AddressHandleAttribute, Gid};
use sideway::ibverbs::completion::{GenericCompletionQueue, WorkCompletionStatus};
use sideway::ibverbs::device::DeviceList;
use sideway::ibverbs::device_context::{DeviceContext, Mtu};
use sideway::ibverbs::memory_region::MemoryRegion;
use sideway::ibverbs::protection_domain::ProtectionDomain;
use sideway::ibverbs::queue_pair::{
    GenericQueuePair, PostSendGuard, QueuePair, QueuePairAttribute, QueuePairState,
    SendOperationFlags, SetScatterGatherEntry, WorkRequestFlags,
};

use crate::peer::{Link, Side, content, two_processes, within};

const ROUNDS: u64 = 100;
/// Elements of 8 bytes.
const LENGTHS: [usize; 3] = [1, 500, 5000];
const LONGEST: usize = 5000;
const BYTES: u32 = 8;

/// Places in the buffer, in elements: what is sent, what is received, what peers write, and a counter.
const SENT: usize = 0;
const RECEIVED: usize = LONGEST;
const WRITTEN: usize = 2 * LONGEST;
const COUNTER: usize = 3 * LONGEST;
const ELEMENTS: usize = COUNTER + 1;

/// What comes with every message.
const IMMEDIATE: u32 = 0xabcd_0123;

/// What identifies a work request.
const SEND: u64 = 1;
const RECEIVE: u64 = 2;
const ONE_SIDED: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verbs {
    Classic,
    Extended,
}

/// What the peer has to know.
#[derive(serde::Serialize, serde::Deserialize)]
struct Told {
    qp_number: u32,
    gid: [u8; 16],
    rkey: u32,
    address: u64,
}

/// A connected queue pair with a buffer.
struct End {
    // In the order in which they may go.
    qp: GenericQueuePair,
    cq: GenericCompletionQueue,
    region: Arc<MemoryRegion>,
    buffer: Vec<u64>,
    peer: Told,
}

fn queues(
    context: &Arc<DeviceContext>,
    pd: &Arc<ProtectionDomain>,
    verbs: Verbs,
) -> (GenericCompletionQueue, GenericQueuePair) {
    let mut cq = context.create_cq_builder();
    cq.setup_cqe(16);
    let mut qp = pd.create_qp_builder();
    qp.setup_max_send_wr(4).setup_max_recv_wr(4);
    match verbs {
        Verbs::Classic => {
            let cq = GenericCompletionQueue::from(cq.build().unwrap());
            let qp = qp.setup_send_cq(cq.clone()).setup_recv_cq(cq.clone()).build().unwrap();
            (cq, GenericQueuePair::Basic(qp))
        }
        Verbs::Extended => {
            let cq = GenericCompletionQueue::from(cq.build_ex().unwrap());
            qp.setup_send_ops_flags(
                SendOperationFlags::SendWithImmediate
                    | SendOperationFlags::Write
                    | SendOperationFlags::Read
                    | SendOperationFlags::AtomicFetchAndAdd,
            );
            let qp = qp.setup_send_cq(cq.clone()).setup_recv_cq(cq.clone()).build_ex().unwrap();
            (cq, GenericQueuePair::Extended(qp))
        }
    }
}

fn connect(qp: &mut GenericQueuePair, peer: &Told) {
    let mut init = QueuePairAttribute::new();
    let access = AccessFlags::LocalWrite
        | AccessFlags::RemoteWrite
        | AccessFlags::RemoteRead
        | AccessFlags::RemoteAtomic;
    init.setup_state(QueuePairState::Init)
        .setup_pkey_index(0)
        .setup_port(1)
        .setup_access_flags(access);
    qp.modify(&init).unwrap();

    let mut path = AddressHandleAttribute::new();
    path.setup_port(1).setup_grh(&Gid { raw: peer.gid }, 0, 0, 64, 0);
    let mut receive = QueuePairAttribute::new();
    receive.setup_state(QueuePairState::ReadyToReceive).setup_path_mtu(Mtu::Mtu1024);
    receive.setup_dest_qp_num(peer.qp_number).setup_rq_psn(77).setup_address_vector(&path);
    receive.setup_max_dest_read_atomic(4).setup_min_rnr_timer(1);
    qp.modify(&receive).unwrap();

    let mut send = QueuePairAttribute::new();
    send.setup_state(QueuePairState::ReadyToSend).setup_sq_psn(77).setup_max_read_atomic(4);
    send.setup_timeout(14).setup_retry_cnt(7).setup_rnr_retry(7);
    qp.modify(&send).unwrap();
}

impl End {
    fn new(verbs: Verbs, link: &mut Link) -> Self {
        let devices = DeviceList::new().unwrap();
        let context = devices.get(0).expect("a device").open().unwrap();
        let pd = context.alloc_pd().unwrap();
        let (cq, mut qp) = queues(&context, &pd, verbs);
        let buffer = vec![0_u64; ELEMENTS];
        let access = AccessFlags::LocalWrite
            | AccessFlags::RemoteWrite
            | AccessFlags::RemoteRead
            | AccessFlags::RemoteAtomic;
        // SAFETY: the buffer lives as long as the region, and does not move.
        let region = unsafe { pd.reg_mr(buffer.as_ptr() as usize, ELEMENTS * 8, access) }.unwrap();
        let peer = link.exchange(&Told {
            qp_number: qp.qp_number(),
            gid: context.query_gid(1, 0).unwrap().raw,
            rkey: region.rkey(),
            address: buffer.as_ptr() as u64,
        });
        connect(&mut qp, &peer);
        link.meet();
        Self { qp, cq, region, buffer, peer }
    }

    /// Where an element is. Peers write there: what is behind it is read and written as volatile.
    fn place(&self, element: usize) -> *mut u64 {
        self.buffer[element..].as_ptr().cast_mut()
    }

    fn get(&self, element: usize) -> u64 {
        // SAFETY: `place` checks the bounds.
        unsafe { self.place(element).read_volatile() }
    }

    fn set(&mut self, element: usize, value: u64) {
        // SAFETY: `place` checks the bounds.
        unsafe { self.place(element).write_volatile(value) }
    }

    fn remote(&self, element: usize) -> u64 {
        self.peer.address + 8 * element as u64
    }

    fn post_receive(&mut self, length: usize) {
        let (lkey, address) = (self.region.lkey(), self.place(RECEIVED) as u64);
        let mut guard = self.qp.start_post_recv();
        // SAFETY: the buffer outlives the queue pair.
        unsafe { guard.construct_wr(RECEIVE).setup_sge(lkey, address, BYTES * length as u32) };
        guard.post().unwrap();
    }

    /// Awaits these completions, and nothing else.
    fn complete(&self, mut awaited: Vec<u64>) {
        while !awaited.is_empty() {
            within("a completion", || {
                // A poller takes several at once: what it is not asked for is lost with it.
                let mut found = None;
                for wc in self.cq.start_poll().ok()? {
                    assert_eq!(wc.status(), WorkCompletionStatus::Success as u32, "{}", wc.wr_id());
                    let place = awaited.iter().position(|id| *id == wc.wr_id());
                    awaited.remove(place.expect("nobody asked for it"));
                    if wc.wr_id() == RECEIVE {
                        assert_eq!(u32::from_be(wc.imm_data()), IMMEDIATE);
                    }
                    found = Some(());
                }
                found
            });
        }
    }

    fn send(&mut self, length: usize) {
        let (lkey, address) = (self.region.lkey(), self.place(SENT) as u64);
        let mut guard = self.qp.start_post_send();
        let work = guard.construct_wr(SEND, WorkRequestFlags::Signaled);
        let work = work.setup_send_imm(IMMEDIATE.to_be());
        // SAFETY: the buffer outlives the queue pair.
        unsafe { work.setup_sge(lkey, address, BYTES * length as u32) };
        guard.post().unwrap();
    }
}

fn rounds(end: &mut End, side: Side, link: &mut Link) {
    for length in LENGTHS {
        for number in 0..ROUNDS {
            (0..length).for_each(|index| end.set(SENT + index, content(side, number, index)));
            end.post_receive(length);
            link.meet();
            if side == Side::Pong {
                end.complete(vec![RECEIVE]);
            }
            end.send(length);
            end.complete(if side == Side::Pong { vec![SEND] } else { vec![SEND, RECEIVE] });
            for index in 0..length {
                let right = content(side.other(), number, index);
                assert_eq!(end.get(RECEIVED + index), right, "round {number}, element {index}");
            }
        }
    }
}

/// Each writes to the other, reads back what it wrote, and counts at the other.
fn one_sided(end: &mut End, side: Side, link: &mut Link) {
    let (lkey, rkey) = (end.region.lkey(), end.peer.rkey);
    let bytes = BYTES * LONGEST as u32;
    let (sent, received) = (end.place(SENT) as u64, end.place(RECEIVED) as u64);
    let (written, counter) = (end.remote(WRITTEN), end.remote(COUNTER));
    (0..LONGEST).for_each(|index| end.set(SENT + index, content(side, 7, index)));

    let mut guard = end.qp.start_post_send();
    // SAFETY: the buffers of both sides outlive their queue pairs.
    unsafe {
        let work = guard.construct_wr(ONE_SIDED, WorkRequestFlags::Signaled);
        work.setup_write(rkey, written).setup_sge(lkey, sent, bytes);
        let work = guard.construct_wr(ONE_SIDED, WorkRequestFlags::Signaled);
        work.setup_read(rkey, written).setup_sge(lkey, received, bytes);
    }
    guard.post().unwrap();
    end.complete(vec![ONE_SIDED; 2]);
    link.meet();
    for index in 0..LONGEST {
        assert_eq!(end.get(WRITTEN + index), content(side.other(), 7, index), "written, {index}");
        assert_eq!(end.get(RECEIVED + index), content(side, 7, index), "read, {index}");
    }

    for step in 0..10 {
        let mut guard = end.qp.start_post_send();
        let work = guard.construct_wr(ONE_SIDED, WorkRequestFlags::Signaled);
        // SAFETY: as above.
        unsafe { work.setup_atomic_fetch_add(rkey, counter, 3).setup_sge(lkey, received, BYTES) };
        guard.post().unwrap();
        end.complete(vec![ONE_SIDED]);
        assert_eq!(end.get(RECEIVED), 3 * step);
    }
    link.meet();
    assert_eq!(end.get(COUNTER), 30);
}

fn play(verbs: Verbs, side: Side, link: &mut Link) {
    let mut end = End::new(verbs, link);
    rounds(&mut end, side, link);
    one_sided(&mut end, side, link);
    link.meet();
}

#[test]
fn classic_verbs() {
    two_processes("by_sideway::classic_verbs", |side, link| play(Verbs::Classic, side, link));
}

#[test]
fn extended_verbs() {
    two_processes("by_sideway::extended_verbs", |side, link| play(Verbs::Extended, side, link));
}
