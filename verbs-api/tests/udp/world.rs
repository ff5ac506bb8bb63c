//! Two ends that talk to each other.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::drop_in;
use softrnic_verbs::buffer::{Buffer, SharedBuffer};
use softrnic_verbs::emulated::{self, EmulatedConfig};
use softrnic_verbs::{
    Access, AsyncEvent, ConnectOptions, Context, Cq, Mr, Pd, Qp, QpBuilder, QpCapabilities, QpType,
    SendFlags, SendOp, SendWr, Sge, Wc, WcStatus,
};

/// Longer than anything takes, but for a machine that is very busy.
pub(crate) const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// Bytes of each end's region.
pub(crate) const LEN: usize = 1 << 20;
/// Every right that a region can give.
pub(crate) const ALL: Access = Access::LOCAL_WRITE.union(Access::REMOTE).union(Access::MW_BIND);

/// Patient with a peer whose threads do not get to run for a while: half a second, eight times.
pub(crate) fn patient() -> ConnectOptions {
    ConnectOptions { timeout: 17, ..ConnectOptions::default() }
}

/// Sizes of the queues of each end.
pub(crate) const SIZES: QpCapabilities = QpCapabilities {
    max_send_wr: 128,
    max_recv_wr: 128,
    max_send_sge: 4,
    max_recv_sge: 4,
    max_inline_data: 256,
};

/// One end: a queue pair and a region that is full of bytes that only this end has.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) context: Context,
    pub(crate) pd: Pd,
    pub(crate) cq: Cq,
    pub(crate) qp: Qp,
    pub(crate) mr: Mr,
}

/// Two ends, connected unless they are for datagrams.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) near: End,
    pub(crate) far: End,
}

impl World {
    pub(crate) fn new(qp_type: QpType) -> Self {
        Self::connected(qp_type, pair(), &ConnectOptions::default())
    }

    /// With devices that are not quite usual: packets may get lost, so silence means something.
    pub(crate) fn with(qp_type: QpType, change: impl Fn(&mut EmulatedConfig)) -> Self {
        let pair = emulated::open_pair_with(change).unwrap();
        Self::connected(qp_type, pair, &ConnectOptions::default())
    }

    pub(crate) fn of(qp_type: QpType, pair: (Context, Context)) -> Self {
        Self::connected(qp_type, pair, &patient())
    }

    pub(crate) fn connected(
        qp_type: QpType,
        (near, far): (Context, Context),
        options: &ConnectOptions,
    ) -> Self {
        let world = Self { near: End::new(near, qp_type, 3), far: End::new(far, qp_type, 5) };
        connect(&world.near.qp, &world.far.qp, options);
        world
    }

    /// A world whose near end gives up on a silent peer after `retries` more attempts, each after
    /// 4.096 µs · 2^`timeout`.
    pub(crate) fn impatient(timeout: u8, retry_count: u8) -> Self {
        let options = ConnectOptions { timeout, retry_count, ..ConnectOptions::default() };
        Self::connected(QpType::Rc, pair(), &options)
    }
}

/// Two devices that reach each other.
pub(crate) fn pair() -> (Context, Context) {
    if drop_in::is_inside() {
        let [near, far] = drop_in::open_both().map(Context::new);
        return (near, far);
    }
    emulated::open_pair().unwrap()
}

/// Connects two queue pairs, or activates them if they are for datagrams.
pub(crate) fn connect(near: &Qp, far: &Qp, options: &ConnectOptions) {
    if near.query().unwrap().1.qp_type == QpType::Ud {
        near.activate().unwrap();
        far.activate().unwrap();
        return;
    }
    near.connect_with(&far.endpoint().unwrap(), options).unwrap();
    far.connect_with(&near.endpoint().unwrap(), options).unwrap();
}

impl End {
    pub(crate) fn new(context: Context, qp_type: QpType, seed: usize) -> Self {
        let cq = context.create_cq(1024).unwrap();
        Self::on(context, qp_type, seed, cq)
    }

    /// With a completion queue that is not quite usual.
    pub(crate) fn on(context: Context, qp_type: QpType, seed: usize, cq: Cq) -> Self {
        let pd = context.alloc_pd().unwrap();
        let qp = builder(&pd, qp_type, &cq).build().unwrap();
        let mr = pd.register(pattern(LEN, seed), ALL).unwrap();
        Self { context, pd, cq, qp, mr }
    }

    pub(crate) fn sge(&self, offset: u64, length: u32) -> Sge {
        self.mr.sge(offset, length)
    }

    pub(crate) fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.mr.buffer().read(offset, &mut bytes).unwrap();
        bytes
    }

    pub(crate) fn word(&self, offset: usize) -> u64 {
        self.mr.buffer().load_u64(offset).unwrap()
    }

    /// Posts a signalled request of one element.
    pub(crate) fn post(&self, wr_id: u64, op: SendOp, local: Sge) {
        let flags = SendFlags::SIGNALED;
        let wr = SendWr { wr_id, op, flags, sges: &[local], ..SendWr::default() };
        self.qp.post_send(&[wr]).unwrap();
    }

    /// The next completion, whatever it is.
    pub(crate) fn completion(&self) -> Wc {
        self.cq.wait_one(PATIENCE).unwrap().expect("a completion comes")
    }

    /// The next completion, which is a success.
    pub(crate) fn success(&self) -> Wc {
        self.cq.wait_success(PATIENCE).unwrap()
    }

    /// The next completion, which is this failure.
    pub(crate) fn failure(&self, status: WcStatus) -> Wc {
        let completion = self.completion();
        assert_eq!(completion.status, status, "{completion:?}");
        completion
    }

    /// Nothing more waits in the completion queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.cq.poll_one().unwrap().is_none()
    }

    /// The next asynchronous event.
    pub(crate) fn event(&self) -> AsyncEvent {
        self.context.next_async_event(PATIENCE).unwrap().expect("an event comes")
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters = self.context.counters().unwrap();
        counters.iter().find(|counter| counter.name == name).unwrap().value
    }
}

/// A queue pair with room for everything that tests do.
pub(crate) fn builder(pd: &Pd, qp_type: QpType, cq: &Cq) -> QpBuilder {
    pd.create_qp(qp_type, cq).capabilities(SIZES)
}

/// Bytes that look like no others.
pub(crate) fn pattern(len: usize, seed: usize) -> SharedBuffer {
    static BYTES: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..LEN + 4096).map(|at| (at * 7 + at / 251).to_le_bytes()[0]).collect());
    Buffer::copy_of(&BYTES[97 * seed..][..len]).unwrap().into_shared()
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(Some(started.elapsed()) < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
