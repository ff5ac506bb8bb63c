//! Every verb, misused: the errno that the man page gives, and a device that is none the worse.
#![expect(unsafe_code, reason = "registers memory by address")]

use std::fmt::Debug;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use softrnic_verbs::provider::{
    ChannelId, Context as Verbs, MemoryRange, MwBind, PostError, Reregistration, Verb,
};
use softrnic_verbs::{
    Access, AddressVector, BindInfo, Gid, Key, QpAttributeMask, QpAttributes, QpCapabilities,
    QpInit, QpNum, QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, Srq, SrqAttributes,
    VerbError, Wc, WindowRange, WindowType,
};

use crate::world::{LEN, SIZES, World, builder, pair};

const EBUSY: i32 = 16;
const EFAULT: i32 = 14;
const EINVAL: i32 = 22;
const ENOMEM: i32 = 12;
const EOPNOTSUPP: i32 = 95;

const NO_KEY: Key = Key(0xffff_ff00);
const NO_QP: QpNum = QpNum::new(0x7f_1234);

/// A device with one of everything.
struct Bench {
    world: World,
    verbs: Arc<dyn Verbs>,
    srq: Srq,
    /// An object of each kind that was destroyed.
    stale: Stale,
}

struct Stale {
    pd: softrnic_model::verbs::PdId,
    cq: softrnic_model::verbs::CqId,
    srq: softrnic_model::verbs::SrqId,
    ah: softrnic_model::verbs::AhId,
    channel: ChannelId,
    mr: Key,
    mw: Key,
    qp: QpNum,
}

const SRQ: SrqAttributes = SrqAttributes { max_wr: 4, max_sge: 2, srq_limit: 0 };

impl Bench {
    fn new(qp_type: QpType) -> Self {
        Self::of(World::new(qp_type), qp_type)
    }

    fn of(world: World, qp_type: QpType) -> Self {
        let near = &world.near;
        let verbs = Arc::clone(near.context.verbs());
        let stale = Stale {
            pd: near.context.alloc_pd().unwrap().id(),
            cq: near.context.create_cq(1).unwrap().id(),
            srq: near.pd.create_srq(&SRQ).unwrap().id(),
            ah: near.pd.create_ah(&near.qp.path_to(Gid::from_v4([127, 0, 0, 3]))).unwrap().id(),
            channel: near.context.create_comp_channel().unwrap().id(),
            mr: near.pd.register(crate::world::pattern(8, 0), Access::empty()).unwrap().lkey(),
            mw: near.pd.alloc_mw(WindowType::Type1).unwrap().rkey(),
            qp: builder(&near.pd, qp_type, &near.cq).build().unwrap().num(),
        };
        let srq = near.pd.create_srq(&SRQ).unwrap();
        Self { world, verbs, srq, stale }
    }

    fn register(&self, memory: MemoryRange, access: Access) -> i32 {
        // SAFETY: it is refused.
        errno(unsafe { self.verbs.reg_mr(self.world.near.pd.id(), memory, 0x1000, access) })
    }

    fn send(&self, wr: &SendWr<'_>) -> i32 {
        posted(self.verbs.post_send(self.world.near.qp.num(), &[*wr]))
    }

    fn init(&self) -> QpInit {
        let near = &self.world.near;
        QpInit {
            pd: near.pd.id(),
            qp_type: QpType::Rc,
            send_cq: near.cq.id(),
            recv_cq: near.cq.id(),
            srq: None,
            xrcd: None,
            cap: SIZES,
            signal_all: false,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        }
    }

    fn size(&self, cap: QpCapabilities) -> i32 {
        errno(self.verbs.create_qp(&QpInit { cap, ..self.init() }))
    }

    fn memory(&self) -> MemoryRange {
        self.world.near.mr.buffer().range()
    }

    fn too_many(&self) -> Vec<Sge> {
        vec![self.world.near.sge(0, 1); 5]
    }
}

fn errno<T: Debug>(result: Verb<T>) -> i32 {
    result.map_or_else(VerbError::errno, |_| 0)
}

fn posted(result: Result<(), PostError>) -> i32 {
    result.map_or_else(|refused| refused.error.errno(), |()| 0)
}

const SEND: SendWr<'static> = SendWr {
    wr_id: 0,
    op: SendOp::Send { imm: None, invalidate: None },
    flags: SendFlags::SIGNALED,
    sges: &[],
    inline: &[],
    remote_srq: softrnic_verbs::SrqNum::new(0),
};

/// Verb, what is wrong, the errno, and how it is done.
type Case = (&'static str, &'static str, i32, fn(&Bench) -> i32);

const OBJECTS: &[Case] = &[
    ("query_port", "no such port", EINVAL, |b| errno(b.verbs.query_port(2))),
    ("query_port", "ports count from 1", EINVAL, |b| errno(b.verbs.query_port(0))),
    ("query_gid", "no such port", EINVAL, |b| errno(b.verbs.query_gid(2, 0))),
    ("query_gid", "past the table", EINVAL, |b| errno(b.verbs.query_gid(1, 200))),
    ("query_pkey", "no such port", EINVAL, |b| errno(b.verbs.query_pkey(2, 0))),
    ("query_pkey", "past the table", EINVAL, |b| errno(b.verbs.query_pkey(1, 1))),
    ("dealloc_pd", "stale", EINVAL, |b| errno(b.verbs.dealloc_pd(b.stale.pd))),
    ("dealloc_pd", "in use", EBUSY, |b| errno(b.verbs.dealloc_pd(b.world.near.pd.id()))),
    ("reg_mr", "stale domain", EINVAL, |b| {
        // SAFETY: it is refused.
        errno(unsafe { b.verbs.reg_mr(b.stale.pd, b.memory(), 0, Access::empty()) })
    }),
    ("reg_mr", "remote write without local write", EINVAL, |b| {
        b.register(b.memory(), Access::REMOTE_WRITE)
    }),
    ("reg_mr", "remote atomic without local write", EINVAL, |b| {
        b.register(b.memory(), Access::REMOTE_ATOMIC)
    }),
    ("reg_mr", "nothing there", EFAULT, |b| {
        let base = ptr::without_provenance_mut(4096);
        b.register(MemoryRange { base, len: 4096 }, Access::empty())
    }),
    ("reg_mr", "read-only memory to be written", EFAULT, |b| {
        let base = "constant".as_ptr().cast_mut();
        b.register(MemoryRange { base, len: 8 }, Access::LOCAL_WRITE)
    }),
    ("reg_mr", "wraps", EFAULT, |b| {
        b.register(MemoryRange { len: usize::MAX, ..b.memory() }, Access::empty())
    }),
    ("rereg_mr", "stale", EINVAL, |b| {
        // SAFETY: it is refused.
        errno(unsafe { b.verbs.rereg_mr(b.stale.mr, &Reregistration::default()) })
    }),
    ("rereg_mr", "stale domain", EINVAL, |b| {
        let change = Reregistration { pd: Some(b.stale.pd), ..Reregistration::default() };
        // SAFETY: it is refused.
        errno(unsafe { b.verbs.rereg_mr(b.world.near.mr.lkey(), &change) })
    }),
    ("rereg_mr", "remote write without local write", EINVAL, |b| {
        let access = Some(Access::REMOTE_WRITE);
        let change = Reregistration { access, ..Reregistration::default() };
        // SAFETY: it is refused.
        errno(unsafe { b.verbs.rereg_mr(b.world.near.mr.lkey(), &change) })
    }),
    ("dereg_mr", "stale", EINVAL, |b| errno(b.verbs.dereg_mr(b.stale.mr))),
    ("dereg_mr", "never was", EINVAL, |b| errno(b.verbs.dereg_mr(NO_KEY))),
    ("dereg_mr", "a window", EINVAL, |b| {
        let window = b.world.near.pd.alloc_mw(WindowType::Type1).unwrap();
        errno(b.verbs.dereg_mr(window.rkey()))
    }),
    ("alloc_mw", "stale domain", EINVAL, |b| {
        errno(b.verbs.alloc_mw(b.stale.pd, WindowType::Type1))
    }),
    ("dealloc_mw", "stale", EINVAL, |b| errno(b.verbs.dealloc_mw(b.stale.mw))),
    ("dealloc_mw", "a region", EINVAL, |b| errno(b.verbs.dealloc_mw(b.world.near.mr.rkey()))),
    ("bind_mw", "stale window", EINVAL, |b| {
        errno(b.verbs.bind_mw(b.world.near.qp.num(), b.stale.mw, &bind(b)))
    }),
    ("bind_mw", "type 2", EINVAL, |b| {
        let window = b.world.near.pd.alloc_mw(WindowType::Type2B).unwrap();
        errno(b.verbs.bind_mw(b.world.near.qp.num(), window.rkey(), &bind(b)))
    }),
    ("bind_mw", "no such queue pair", EINVAL, |b| {
        let window = b.world.near.pd.alloc_mw(WindowType::Type1).unwrap();
        errno(b.verbs.bind_mw(NO_QP, window.rkey(), &bind(b)))
    }),
    ("destroy_comp_channel", "stale", EINVAL, |b| {
        errno(b.verbs.destroy_comp_channel(b.stale.channel))
    }),
    ("destroy_comp_channel", "in use", EBUSY, |b| {
        let channel = b.world.near.context.create_comp_channel().unwrap();
        let _user = channel.create_cq(1).unwrap();
        errno(b.verbs.destroy_comp_channel(channel.id()))
    }),
    ("get_cq_event", "stale", EINVAL, |b| {
        errno(b.verbs.get_cq_event(b.stale.channel, Some(Duration::ZERO)))
    }),
    ("comp_channel_fd", "stale", EINVAL, |b| errno(b.verbs.comp_channel_fd(b.stale.channel))),
    ("create_cq", "no entries", EINVAL, |b| errno(b.verbs.create_cq(0, None))),
    ("create_cq", "too many entries", EINVAL, |b| {
        let max = b.verbs.query_device().unwrap().max_cqe;
        errno(b.verbs.create_cq(max + 1, None))
    }),
    ("create_cq", "stale channel", EINVAL, |b| errno(b.verbs.create_cq(1, Some(b.stale.channel)))),
    ("resize_cq", "stale", EINVAL, |b| errno(b.verbs.resize_cq(b.stale.cq, 4))),
    ("resize_cq", "no entries", EINVAL, |b| errno(b.verbs.resize_cq(b.world.near.cq.id(), 0))),
    ("resize_cq", "fewer than wait", EINVAL, |b| {
        let cq = b.world.near.context.create_cq(8).unwrap();
        let qp = builder(&b.world.near.pd, QpType::Rc, &cq).build().unwrap();
        (0..2).for_each(|n| qp.recv(n, b.world.near.sge(0, 8)).unwrap());
        qp.move_to(QpState::Err).unwrap();
        errno(b.verbs.resize_cq(cq.id(), 1))
    }),
    ("destroy_cq", "stale", EINVAL, |b| errno(b.verbs.destroy_cq(b.stale.cq))),
    ("destroy_cq", "in use", EBUSY, |b| errno(b.verbs.destroy_cq(b.world.near.cq.id()))),
    ("poll_cq", "stale", EINVAL, |b| errno(b.verbs.poll_cq(b.stale.cq, &mut [Wc::default()]))),
    ("req_notify_cq", "stale", EINVAL, |b| errno(b.verbs.req_notify_cq(b.stale.cq, false))),
    ("create_ah", "stale domain", EINVAL, |b| {
        errno(b.verbs.create_ah(b.stale.pd, &to([127, 0, 0, 3])))
    }),
    ("create_ah", "no such source", EINVAL, |b| {
        let path = AddressVector { sgid_index: 9, ..to([127, 0, 0, 3]) };
        errno(b.verbs.create_ah(b.world.near.pd.id(), &path))
    }),
    ("create_ah", "to nowhere", EINVAL, |b| {
        errno(b.verbs.create_ah(b.world.near.pd.id(), &to([0, 0, 0, 0])))
    }),
    ("create_ah", "from v4 to v6", EINVAL, |b| {
        let path = AddressVector { dgid: Gid([0xfd; 16]), ..AddressVector::default() };
        errno(b.verbs.create_ah(b.world.near.pd.id(), &path))
    }),
    ("destroy_ah", "stale", EINVAL, |b| errno(b.verbs.destroy_ah(b.stale.ah))),
];

const QUEUES: &[Case] = &[
    ("create_srq", "stale domain", EINVAL, |b| errno(b.verbs.create_srq(b.stale.pd, &SRQ))),
    ("create_srq", "no room", EINVAL, |b| {
        let attributes = SrqAttributes { max_wr: 0, ..SRQ };
        errno(b.verbs.create_srq(b.world.near.pd.id(), &attributes))
    }),
    ("create_srq", "too many elements", EINVAL, |b| {
        let max_sge = b.verbs.query_device().unwrap().max_srq_sge + 1;
        let attributes = SrqAttributes { max_sge, ..SRQ };
        errno(b.verbs.create_srq(b.world.near.pd.id(), &attributes))
    }),
    ("modify_srq", "stale", EINVAL, |b| errno(b.verbs.modify_srq(b.stale.srq, Some(1), None))),
    ("modify_srq", "a limit above the size", EINVAL, |b| {
        errno(b.verbs.modify_srq(b.srq.id(), Some(5), None))
    }),
    ("modify_srq", "no size", EINVAL, |b| errno(b.verbs.modify_srq(b.srq.id(), None, Some(0)))),
    ("get_srq_num", "not for XRC", EOPNOTSUPP, |b| errno(b.verbs.srq_number(b.srq.id()))),
    ("open_qp", "no XRC target", EINVAL, |b| {
        let xrcd = b.world.near.context.open_xrcd().unwrap();
        errno(b.verbs.open_qp(xrcd.id(), b.world.near.qp.num()))
    }),
    ("close_xrcd", "stale", EINVAL, |b| {
        let xrcd = b.world.near.context.open_xrcd().unwrap().id();
        errno(b.verbs.close_xrcd(xrcd))
    }),
    ("modify_srq", "nothing", EINVAL, |b| errno(b.verbs.modify_srq(b.srq.id(), None, None))),
    ("query_srq", "stale", EINVAL, |b| errno(b.verbs.query_srq(b.stale.srq))),
    ("destroy_srq", "stale", EINVAL, |b| errno(b.verbs.destroy_srq(b.stale.srq))),
    ("destroy_srq", "in use", EBUSY, |b| {
        let near = &b.world.near;
        let _user = builder(&near.pd, QpType::Rc, &near.cq).srq(&b.srq).build().unwrap();
        errno(b.verbs.destroy_srq(b.srq.id()))
    }),
    ("post_srq_recv", "stale", EINVAL, |b| posted(b.verbs.post_srq_recv(b.stale.srq, &[recv()]))),
    ("post_srq_recv", "too many elements", EINVAL, |b| {
        let sges = b.too_many();
        posted(b.verbs.post_srq_recv(b.srq.id(), &[RecvWr { wr_id: 0, sges: &sges }]))
    }),
    ("post_srq_recv", "full", ENOMEM, |b| {
        let refused = b.verbs.post_srq_recv(b.srq.id(), &[recv(); 5]).unwrap_err();
        assert_eq!(refused.index, 4);
        refused.error.errno()
    }),
    ("create_qp", "stale domain", EINVAL, |b| {
        errno(b.verbs.create_qp(&QpInit { pd: b.stale.pd, ..b.init() }))
    }),
    ("create_qp", "stale send queue", EINVAL, |b| {
        errno(b.verbs.create_qp(&QpInit { send_cq: b.stale.cq, ..b.init() }))
    }),
    ("create_qp", "stale receive queue", EINVAL, |b| {
        errno(b.verbs.create_qp(&QpInit { recv_cq: b.stale.cq, ..b.init() }))
    }),
    ("create_qp", "stale shared queue", EINVAL, |b| {
        errno(b.verbs.create_qp(&QpInit { srq: Some(b.stale.srq), ..b.init() }))
    }),
    ("create_qp", "too many sends", EINVAL, |b| {
        b.size(QpCapabilities { max_send_wr: u32::MAX, ..SIZES })
    }),
    ("create_qp", "too many receives", EINVAL, |b| {
        b.size(QpCapabilities { max_recv_wr: u32::MAX, ..SIZES })
    }),
    ("create_qp", "too many send elements", EINVAL, |b| {
        b.size(QpCapabilities { max_send_sge: u32::MAX, ..SIZES })
    }),
    ("create_qp", "too many receive elements", EINVAL, |b| {
        b.size(QpCapabilities { max_recv_sge: u32::MAX, ..SIZES })
    }),
    ("create_qp", "too much inline data", EINVAL, |b| {
        b.size(QpCapabilities { max_inline_data: u32::MAX, ..SIZES })
    }),
    ("modify_qp", "stale", EINVAL, |b| {
        errno(b.verbs.modify_qp(b.stale.qp, &QpAttributes::default(), QpAttributeMask::STATE))
    }),
    ("modify_qp", "no such step", EINVAL, |b| {
        let attributes = QpAttributes { state: QpState::Init, ..QpAttributes::default() };
        errno(b.verbs.modify_qp(b.world.near.qp.num(), &attributes, QpAttributeMask::STATE))
    }),
    ("modify_qp", "attributes are missing", EINVAL, |b| {
        let qp = builder(&b.world.near.pd, QpType::Rc, &b.world.near.cq).build().unwrap();
        let attributes = QpAttributes { state: QpState::Rtr, ..QpAttributes::default() };
        errno(b.verbs.modify_qp(qp.num(), &attributes, QpAttributeMask::STATE))
    }),
    ("modify_qp", "a value out of range", EINVAL, |b| {
        let attributes = QpAttributes { min_rnr_timer: 32, ..QpAttributes::default() };
        errno(b.verbs.modify_qp(b.world.near.qp.num(), &attributes, QpAttributeMask::MIN_RNR_TIMER))
    }),
    ("query_qp", "stale", EINVAL, |b| errno(b.verbs.query_qp(b.stale.qp))),
    ("destroy_qp", "stale", EINVAL, |b| errno(b.verbs.destroy_qp(b.stale.qp))),
    ("attach_mcast", "no such queue pair", EINVAL, |b| errno(b.verbs.attach_mcast(NO_QP, GROUP))),
    ("attach_mcast", "not for datagrams", EINVAL, |b| {
        errno(b.verbs.attach_mcast(b.world.near.qp.num(), GROUP))
    }),
    ("detach_mcast", "no such queue pair", EINVAL, |b| errno(b.verbs.detach_mcast(NO_QP, GROUP))),
];

const POSTS: &[Case] = &[
    ("post_send", "stale", EINVAL, |b| posted(b.verbs.post_send(b.stale.qp, &[SEND]))),
    ("post_send", "not ready", EINVAL, |b| {
        let qp = builder(&b.world.near.pd, QpType::Rc, &b.world.near.cq).build().unwrap();
        posted(b.verbs.post_send(qp.num(), &[SEND]))
    }),
    ("post_send", "too many elements", EINVAL, |b| {
        let sges = b.too_many();
        b.send(&SendWr { sges: &sges, ..SEND })
    }),
    ("post_send", "too much inline data", EINVAL, |b| {
        b.send(&SendWr { flags: SendFlags::INLINE, inline: &[0; 257], ..SEND })
    }),
    ("post_send", "inline data without the flag", EINVAL, |b| {
        b.send(&SendWr { inline: &[0; 8], ..SEND })
    }),
    ("post_send", "a READ into nowhere", EINVAL, |b| {
        let op = SendOp::Read { remote_addr: 0, rkey: NO_KEY };
        b.send(&SendWr { op, flags: SendFlags::INLINE, inline: &[0; 8], ..SEND })
    }),
    ("post_send", "an atomic of 4 bytes", EINVAL, |b| {
        let op = SendOp::FetchAdd { remote_addr: 0, rkey: NO_KEY, add: 1 };
        b.send(&SendWr { op, sges: &[b.world.near.sge(0, 4)], ..SEND })
    }),
    ("post_send", "immediate and invalidation", EINVAL, |b| {
        let op = SendOp::Send { imm: Some(1), invalidate: Some(NO_KEY) };
        b.send(&SendWr { op, ..SEND })
    }),
    ("post_send", "a datagram on a connection", EINVAL, |b| {
        let (ah, remote_qpn) = (b.stale.ah, NO_QP);
        b.send(&SendWr { op: SendOp::SendTo { ah, remote_qpn, remote_qkey: 0, imm: None }, ..SEND })
    }),
    ("post_send", "longer than a message may be", EINVAL, |b| {
        let long = Sge { length: u32::MAX, ..b.world.near.sge(0, 0) };
        b.send(&SendWr { sges: &[long, long], ..SEND })
    }),
    ("post_send", "full", ENOMEM, |b| {
        // Nobody polls, so no place becomes free.
        let (qp, many) = (b.world.near.qp.num(), [SEND; 129]);
        let refused = b.verbs.post_send(qp, &many).unwrap_err();
        assert_eq!(refused.index, 128);
        refused.error.errno()
    }),
    ("post_recv", "stale", EINVAL, |b| posted(b.verbs.post_recv(b.stale.qp, &[recv()]))),
    ("post_recv", "in the reset state", EINVAL, |b| {
        let (qp, _) = b.verbs.create_qp(&b.init()).unwrap();
        let refused = posted(b.verbs.post_recv(qp, &[recv()]));
        b.verbs.destroy_qp(qp).unwrap();
        refused
    }),
    ("post_recv", "has a shared queue", EINVAL, |b| {
        let near = &b.world.near;
        let user = builder(&near.pd, QpType::Rc, &near.cq).srq(&b.srq).build().unwrap();
        posted(b.verbs.post_recv(user.num(), &[recv()]))
    }),
    ("post_recv", "too many elements", EINVAL, |b| {
        let sges = b.too_many();
        posted(b.verbs.post_recv(b.world.near.qp.num(), &[RecvWr { wr_id: 0, sges: &sges }]))
    }),
    ("post_recv", "full", ENOMEM, |b| {
        let refused = b.verbs.post_recv(b.world.near.qp.num(), &[recv(); 129]).unwrap_err();
        assert_eq!(refused.index, 128);
        refused.error.errno()
    }),
];

const GROUP: Gid = Gid::from_v4([239, 77, 3, 10]);

fn bind(bench: &Bench) -> MwBind {
    let near = &bench.world.near;
    let info = BindInfo {
        mr_lkey: near.mr.lkey(),
        addr: near.mr.remote(0).addr,
        length: 8,
        access: Access::REMOTE_READ,
    };
    MwBind { wr_id: 0, flags: SendFlags::empty(), info }
}

fn to(address: [u8; 4]) -> AddressVector {
    AddressVector { dgid: Gid::from_v4(address), ..AddressVector::default() }
}

const fn recv() -> RecvWr<'static> {
    RecvWr { wr_id: 0, sges: &[] }
}

/// Runs cases, each of which must give its errno.
fn judge(cases: &[Case]) {
    let (near, far) = pair();
    let world = || World::of(QpType::Rc, (near.clone(), far.clone()));
    let mut wrong = Vec::new();
    for (verb, why, expected, act) in cases {
        let bench = Bench::of(world(), QpType::Rc);
        let got = act(&bench);
        if got != *expected {
            wrong.push(format!("{verb}, {why}: errno {got}, not {expected}"));
        }
        // The device is none the worse.
        let World { near, far } = world();
        near.qp.write(1, near.sge(0, 64), far.mr.remote(0)).unwrap();
        near.success();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn objects() {
    judge(OBJECTS);
}

#[test]
fn queues() {
    judge(QUEUES);
}

#[test]
fn posts() {
    judge(POSTS);
}

#[test]
fn unreliable_services_lack_operations() {
    let read = SendOp::Read { remote_addr: 0, rkey: NO_KEY };
    let write = SendOp::Write { remote_addr: 0, rkey: NO_KEY, imm: None };
    let invalidate = SendOp::Send { imm: None, invalidate: Some(NO_KEY) };
    for (qp_type, op) in [
        (QpType::Uc, read),
        (QpType::Uc, invalidate),
        (QpType::Ud, read),
        (QpType::Ud, write),
        (QpType::Ud, SEND.op),
    ] {
        let bench = Bench::new(qp_type);
        assert_eq!(bench.send(&SendWr { op, ..SEND }), EINVAL, "{qp_type:?} {op:?}");
    }
}

#[test]
fn datagrams_are_short_and_groups_are_left_by_those_who_are_in() {
    let bench = Bench::new(QpType::Ud);
    let near = &bench.world.near;
    let ah = near.pd.create_ah(&to([127, 0, 0, 3])).unwrap();
    let op = SendOp::SendTo { ah: ah.id(), remote_qpn: NO_QP, remote_qkey: 0, imm: None };
    assert_eq!(bench.send(&SendWr { op, sges: &[near.sge(0, 4097)], ..SEND }), EINVAL);
    let qp = near.qp.num();
    assert_eq!(errno(bench.verbs.attach_mcast(qp, Gid::from_v4([10, 0, 0, 1]))), EINVAL);
    assert_eq!(errno(bench.verbs.detach_mcast(qp, GROUP)), EINVAL);
    bench.verbs.attach_mcast(qp, GROUP).unwrap();
    assert_eq!(errno(bench.verbs.destroy_qp(qp)), EBUSY);
    bench.verbs.detach_mcast(qp, GROUP).unwrap();
    assert_eq!(errno(bench.verbs.detach_mcast(qp, GROUP)), EINVAL);
}

#[test]
fn a_bound_region_is_busy_for_every_change() {
    let bench = Bench::new(QpType::Rc);
    let near = &bench.world.near;
    let window = near.pd.alloc_mw(WindowType::Type1).unwrap();
    let range = WindowRange { region: &near.mr, offset: 0, length: 8, access: Access::REMOTE_READ };
    window.bind(&near.qp, 1, SendFlags::SIGNALED, range).unwrap();
    near.success();
    assert_eq!(errno(bench.verbs.dereg_mr(near.mr.lkey())), EBUSY);
    let half = MemoryRange { len: LEN / 2, ..bench.memory() };
    let memory = Some((half, half.base.addr() as u64));
    let change = Reregistration { memory, ..Reregistration::default() };
    // SAFETY: it is refused.
    assert_eq!(errno(unsafe { bench.verbs.rereg_mr(near.mr.lkey(), &change) }), EBUSY);
}

#[test]
fn objects_of_two_devices_are_not_mixed() {
    let World { near, far } = World::new(QpType::Rc);
    let error = near.pd.create_qp(QpType::Rc, &far.cq).build().unwrap_err();
    assert_eq!(error.source.errno(), EINVAL);
    // By number alone a device cannot tell: the number names another object, or none.
    assert_eq!(errno(near.context.verbs().query_qp(far.qp.num())), EINVAL);
}
