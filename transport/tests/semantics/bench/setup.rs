//! How a bench is set up.

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, CqId, DeviceCapabilities, Gid, Mtu, Psn, QpAttributeMask, QpAttributes, QpCapabilities,
    QpCreateFlags, QpInit, QpState, QpType, SrqAttributes, SrqId, SrqInit, VerbError, XrcSrq,
};
use softrnic_model::{Device, DeviceConfig};
use softrnic_transport::sim::{Fabric, FabricConfig, HostId};

use super::{A, B, BASE, Bench, End, EndId, Tap};

/// What the ends of a bench are like. Change fields, then call [`Setup::pair`].
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) qp_type: QpType,
    pub(crate) mtu: Mtu,
    /// The sequence numbers that A and B start sending with.
    pub(crate) first_psn: [u32; 2],
    /// Read depths, timers and retry counts; the rest is filled in.
    pub(crate) attributes: QpAttributes,
    pub(crate) cap: QpCapabilities,
    pub(crate) signal_all: bool,
    pub(crate) create_flags: QpCreateFlags,
    /// Both ends receive from shared queues.
    pub(crate) srq: Option<SrqAttributes>,
    /// Entries of each completion queue.
    pub(crate) cqe: u32,
    /// Bytes of memory of each end.
    pub(crate) memory: usize,
    pub(crate) device: DeviceConfig,
    pub(crate) v6: bool,
}

/// The Q_Key of all datagram ends.
pub(crate) const QKEY: u32 = 0x1122_3344;

impl Setup {
    pub(crate) fn of(qp_type: QpType) -> Self {
        Self {
            qp_type,
            mtu: Mtu::B1024,
            first_psn: [0x00_1000, 0x50_0000],
            attributes: QpAttributes {
                access: Access::REMOTE | Access::LOCAL_WRITE | Access::FLUSH_GLOBAL,
                qkey: QKEY,
                max_dest_rd_atomic: 4,
                max_rd_atomic: 4,
                min_rnr_timer: 12,
                timeout: 14,
                retry_count: 7,
                rnr_retry: 7,
                ..QpAttributes::default()
            },
            cap: QpCapabilities {
                max_send_wr: 64,
                max_recv_wr: 64,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 256,
            },
            signal_all: false,
            create_flags: QpCreateFlags::empty(),
            srq: None,
            cqe: 256,
            memory: 1 << 16,
            device: DeviceConfig::default(),
            v6: false,
        }
    }

    pub(crate) fn rc() -> Self {
        Self::of(QpType::Rc)
    }

    /// Ends that have an initiator and a target each.
    pub(crate) fn xrc() -> Self {
        let mut setup = Self::of(QpType::XrcSend);
        let QpCapabilities { max_recv_wr: max_wr, max_recv_sge: max_sge, .. } = setup.cap;
        setup.srq = Some(SrqAttributes { max_wr, max_sge, srq_limit: 0 });
        setup
    }

    pub(crate) fn uc() -> Self {
        Self::of(QpType::Uc)
    }

    pub(crate) fn ud() -> Self {
        Self::of(QpType::Ud)
    }

    /// Two hosts with one end each, connected and ready to send.
    pub(crate) fn pair(&self) -> Bench {
        let mut bench = Bench::new(FabricConfig::default());
        for _ in [A, B] {
            let host = bench.add_host(self);
            bench.add_end(self, host);
        }
        bench.connect(self, A, B);
        bench
    }

    fn gid(&self, host: HostId) -> Gid {
        let last = u8::try_from(host + 1).unwrap();
        if self.v6 {
            Gid([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last])
        } else {
            Gid::from_v4([10, 0, 0, last])
        }
    }

    /// The attributes of a queue pair that sends from `first_psn` on to one at `dgid`.
    fn attributes_towards(&self, me: &End, peer: &End, dgid: Gid) -> QpAttributes {
        let mut attributes = self.attributes;
        attributes.path.dgid = dgid;
        attributes.path_mtu = self.mtu;
        attributes.dest_qp = peer.qp;
        attributes.sq_psn = me.first_psn;
        attributes.rq_psn = peer.first_psn;
        attributes
    }
}

/// The steps from RESET to RTS: the state, and what is given with it.
pub(crate) fn steps(qp_type: QpType) -> [(QpState, QpAttributeMask); 3] {
    use QpAttributeMask as M;
    let base = [M::STATE | M::PKEY_INDEX | M::PORT, M::STATE, M::STATE | M::SQ_PSN];
    let connected = [M::ACCESS_FLAGS, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN, M::empty()];
    let reliable = [
        M::empty(),
        M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
        M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY,
    ];
    let target = [M::empty(), reliable[1], M::TIMEOUT];
    let initiator = [M::empty(), M::empty(), reliable[2]];
    let more = |step: usize| match qp_type {
        QpType::XrcSend => connected[step] | initiator[step],
        QpType::XrcRecv => connected[step] | target[step],
        QpType::Rc => connected[step] | reliable[step],
        QpType::Uc => connected[step],
        QpType::Ud => [M::QKEY, M::empty(), M::empty()][step],
    };
    let states = [QpState::Init, QpState::Rtr, QpState::Rts];
    std::array::from_fn(|step| (states[step], base[step] | more(step)))
}

impl Bench {
    pub(crate) fn new(config: FabricConfig) -> Self {
        let mut fabric = Fabric::new(config);
        let tap = Tap::default();
        fabric.set_weather(Some(tap.weather()));
        Self { fabric, tap, ends: Vec::new() }
    }

    pub(crate) fn add_host(&mut self, setup: &Setup) -> HostId {
        let gid = setup.gid(self.fabric.hosts());
        let config = DeviceConfig { gids: vec![gid], ..setup.device.clone() };
        self.fabric.add_host(Device::new(config))
    }

    /// Another queue pair on `host`, in RESET, with objects and memory of its own. The bytes of
    /// its memory are different from those of other ends.
    pub(crate) fn add_end(&mut self, setup: &Setup, host: HostId) -> EndId {
        let id = EndId(self.ends.len());
        let seed = id.0 as u64;
        let bytes = (0..setup.memory as u64).map(|at| (at * 7 + (at >> 8) * 13 + seed * 101) as u8);
        let host_mut = self.fabric.host_mut(host);
        let memory = host_mut.memory.add(bytes.collect());
        let device = &mut host_mut.device;
        let pd = device.alloc_pd().unwrap();
        let mut access = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
        let capabilities = device.query_device().capabilities;
        access.set(Access::FLUSH_GLOBAL, capabilities.contains(DeviceCapabilities::FLUSH_GLOBAL));
        let spec = RegionSpec {
            pd,
            memory,
            memory_offset: 0,
            addr: BASE,
            length: setup.memory as u64,
            access,
        };
        let key = device.register(spec).unwrap();
        let send_cq = device.create_cq(setup.cqe).unwrap();
        let recv_cq = device.create_cq(setup.cqe).unwrap();
        let xrcd = (setup.qp_type == QpType::XrcSend).then(|| device.open_xrcd().unwrap());
        let xrc = xrcd.map(|xrcd| XrcSrq { xrcd, cq: recv_cq });
        let srq = setup
            .srq
            .map(|attributes| device.create_srq_ex(&SrqInit { pd, attributes, xrc }).unwrap());
        let first_psn = Psn::new(setup.first_psn[id.0 % 2]);
        let end = End {
            host,
            pd,
            send_cq,
            recv_cq,
            srq,
            qp: softrnic_model::verbs::QpNum::new(0),
            target: softrnic_model::verbs::QpNum::new(0),
            xrcd,
            memory,
            key,
            first_psn,
            peer: None,
        };
        self.ends.push(end);
        self.create_qp(setup, id);
        id
    }

    /// Another queue pair beside `of`, in RESET, with the same objects and memory.
    pub(crate) fn add_sibling(&mut self, setup: &Setup, of: EndId) -> EndId {
        let id = EndId(self.ends.len());
        self.ends.push(End { peer: None, ..self.end(of) });
        self.create_qp(setup, id);
        id
    }

    /// Gives an end a (new) queue pair, made of the objects that it has.
    pub(crate) fn create_qp(&mut self, setup: &Setup, end: EndId) {
        self.try_create_qp(setup, end).unwrap();
    }

    pub(crate) fn try_create_qp(&mut self, setup: &Setup, end: EndId) -> Result<(), VerbError> {
        let End { pd, send_cq, recv_cq, srq, xrcd, .. } = self.end(end);
        let init = QpInit {
            pd,
            qp_type: setup.qp_type,
            send_cq,
            recv_cq,
            srq,
            xrcd: None,
            cap: setup.cap,
            signal_all: setup.signal_all,
            create_flags: setup.create_flags,
        };
        let qp = self.device(end).create_qp(&init)?;
        let target = match xrcd {
            None => qp,
            Some(_) => {
                let init = QpInit { qp_type: QpType::XrcRecv, xrcd, ..init };
                self.device(end).create_qp(&init)?
            }
        };
        self.ends[end.0].qp = qp;
        self.ends[end.0].target = target;
        Ok(())
    }

    /// Replaces an end's queue pair by one that receives from `srq`, and connects it again.
    pub(crate) fn use_srq(&mut self, setup: &Setup, end: EndId, srq: SrqId) {
        let End { qp, peer, .. } = self.end(end);
        self.device(end).destroy_qp(qp).unwrap();
        self.ends[end.0].srq = Some(srq);
        self.create_qp(setup, end);
        self.enter(peer.unwrap(), QpState::Reset);
        self.connect(setup, end, peer.unwrap());
    }

    /// Replaces an end's queue pair by one whose sends complete in `cq`, and connects it again.
    pub(crate) fn use_send_cq(&mut self, setup: &Setup, end: EndId, cq: CqId) {
        let End { qp, peer, .. } = self.end(end);
        self.device(end).destroy_qp(qp).unwrap();
        self.ends[end.0].send_cq = cq;
        self.create_qp(setup, end);
        self.enter(peer.unwrap(), QpState::Reset);
        self.connect(setup, end, peer.unwrap());
    }

    /// Gives an end other completion queues, and so another queue pair.
    pub(crate) fn replace_cqs(&mut self, setup: &Setup, end: EndId) {
        let End { qp, send_cq, recv_cq, .. } = self.end(end);
        let device = self.device(end);
        device.destroy_qp(qp).unwrap();
        device.destroy_cq(send_cq).unwrap();
        device.destroy_cq(recv_cq).unwrap();
        let cqs = [setup.cqe; 2].map(|cqe| device.create_cq(cqe).unwrap());
        [self.ends[end.0].send_cq, self.ends[end.0].recv_cq] = cqs;
        self.create_qp(setup, end);
    }

    /// Connects two ends with each other and moves both to RTS.
    pub(crate) fn connect(&mut self, setup: &Setup, one: EndId, other: EndId) {
        let both = [(one, other), (other, one)];
        for &(me, peer) in &both[usize::from(one == other)..] {
            self.ends[me.0].peer = Some(peer);
            self.advance(setup, me, QpState::Rts);
            self.tap.name(me, &self.end(me), &self.end(peer));
        }
    }

    /// Takes an end in RESET, whose peer is known, up to `state`.
    pub(crate) fn advance(&mut self, setup: &Setup, end: EndId, state: QpState) {
        let me = self.end(end);
        let peer = self.end(me.peer.unwrap());
        let dgid = self.fabric.host(peer.host).device.gids()[0];
        let mut attributes = setup.attributes_towards(&me, &peer, dgid);
        for (qp, qp_type, dest) in
            [(me.qp, setup.qp_type, peer.target), (me.target, QpType::XrcRecv, peer.qp)]
        {
            if qp_type == QpType::XrcRecv && me.xrcd.is_none() {
                continue;
            }
            attributes.dest_qp = dest;
            for (step, mask) in steps(qp_type) {
                if state >= step {
                    attributes.state = step;
                    self.device(end).modify_qp(qp, &attributes, mask).unwrap();
                }
            }
        }
    }
}
