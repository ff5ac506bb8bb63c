//! Nothing is allocated on the way of a packet, at either end: in the verbs, the engine, the model,
//! the link and the taps that are not asked for.
#![cfg(target_os = "linux")]
#![expect(unsafe_code, reason = "an allocator that counts")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, CompletionChannel, ConnectOptions, Context, Cq, Mr, Qp, QpType, RecvWr, SendFlags,
    SendOp, SendWr, emulated,
};

/// Counts what all threads allocate.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const LONG: u32 = 64 << 10;
const SHORT: u32 = 64;
const DEPTH: u64 = 16;
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

struct End {
    context: Context,
    channel: CompletionChannel,
    cq: Cq,
    qp: Qp,
    mr: Mr,
}

impl End {
    fn new(context: Context) -> Self {
        let pd = context.alloc_pd().unwrap();
        let channel = context.create_comp_channel().unwrap();
        let cq = channel.create_cq(256).unwrap();
        let qp = pd.create_qp(QpType::Rc, &cq).build().unwrap();
        let buffer = Buffer::new(2 * LONG as usize).unwrap();
        let mr = pd.register(buffer, Access::LOCAL_WRITE | Access::REMOTE).unwrap();
        Self { context, channel, cq, qp, mr }
    }

    fn packets(&self) -> u64 {
        let counters = self.context.counters().unwrap();
        counters.iter().find(|counter| counter.name == "sent_pkts").unwrap().value
    }

    /// The next completion, asleep rather than polling until it comes.
    fn asleep(&self) {
        loop {
            self.cq.arm(false).unwrap();
            if let Some(completion) = self.cq.poll_one().unwrap() {
                softrnic_verbs::successful(completion).unwrap();
                // Events that nobody takes pile up, in memory that has to come from somewhere.
                while self.channel.wait(Some(Duration::ZERO)).unwrap().is_some() {}
                return;
            }
            self.channel.wait(PATIENCE).unwrap().expect("an event");
        }
    }
}

/// How often `round` takes to send at least `packets`, found out while everything warms up.
fn warm_up(near: &End, far: &End, packets: u64, round: &mut dyn FnMut()) -> u64 {
    let sent = || near.packets() + far.packets();
    let (before, mut rounds) = (sent(), 0);
    while sent() - before < packets / 4 {
        (0..32).for_each(|_| round());
        rounds += 32;
    }
    5 * rounds
}

/// What is allocated while `round` sends at least `packets`. Now and then the engine looks at the
/// interfaces of the host because one of them has changed; what is allocated for every so many
/// packets is so each time.
fn allocations(near: &End, far: &End, packets: u64, mut round: impl FnMut()) -> u64 {
    let rounds = warm_up(near, far, packets, &mut round);
    let mut attempt = || {
        // The counters are read into a vector: before and after.
        let sent = near.packets() + far.packets();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..rounds).for_each(|_| round());
        let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let sent = near.packets() + far.packets() - sent;
        assert!(sent >= packets, "{sent} packets are too few");
        allocated
    };
    (0..3).map(|_| attempt()).find(|&allocated| allocated == 0).unwrap_or_else(attempt)
}

#[test]
fn nothing_is_allocated_on_the_way_of_a_packet() {
    let (near, far) = emulated::open_pair().unwrap();
    let (near, far) = (End::new(near), End::new(far));
    // Patient with threads that do not get to run for a while.
    let options = ConnectOptions { timeout: 18, ..ConnectOptions::default() };
    near.qp.connect_with(&far.qp.endpoint().unwrap(), &options).unwrap();
    far.qp.connect_with(&near.qp.endpoint().unwrap(), &options).unwrap();
    let place = near.mr.sge(0, LONG);
    let there = far.mr.remote(0);

    let writes = allocations(&near, &far, 40_000, || {
        near.qp.write(1, place, there).unwrap();
        near.cq.wait_success(PATIENCE).unwrap();
    });
    let reads = allocations(&near, &far, 40_000, || {
        near.qp.read(1, place, there).unwrap();
        near.cq.wait_success(PATIENCE).unwrap();
    });
    let atomics = allocations(&near, &far, 5_000, || {
        near.qp.fetch_add(1, near.mr.sge(0, 8), there, 1).unwrap();
        near.cq.wait_success(PATIENCE).unwrap();
    });
    let into = [far.mr.sge(0, SHORT)];
    let receive = || far.qp.post_recv(&[RecvWr { wr_id: 0, sges: &into }]).unwrap();
    (0..DEPTH).for_each(|_| receive());
    let from = [near.mr.sge(0, SHORT)];
    let op = SendOp::Send { imm: None, invalidate: None };
    let flags = SendFlags::SIGNALED;
    let send = [SendWr { wr_id: 0, op, flags, sges: &from, ..SendWr::default() }];
    let sends = allocations(&near, &far, 20_000, || {
        near.qp.post_send(&send).unwrap();
        near.cq.wait_success(PATIENCE).unwrap();
        far.cq.wait_success(PATIENCE).unwrap();
        receive();
    });
    let asleep = allocations(&near, &far, 5_000, || {
        near.qp.post_send(&send).unwrap();
        near.asleep();
        far.asleep();
        receive();
    });
    let found = [("WRITE", writes), ("READ", reads), ("FETCH ADD", atomics), ("SEND", sends)];
    assert_eq!(found.map(|(_, count)| count), [0; 4], "{found:?}");
    assert_eq!(asleep, 0, "allocations with events");
}
