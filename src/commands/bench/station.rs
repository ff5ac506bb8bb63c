//! One end of a measurement: its queue pairs, its memory, and what the peer has.

use softrnic_model::wire::Grh;
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, Ah, ConnectOptions, Context, DeviceAttributes, Mr, Pd, Qp, QpCapabilities, QpType,
    RecvWr, RemoteAddress, SendFlags, SendOp, SendWr, Sge,
};

use super::plan::{Operation, Test};
use super::{Atomic, Metric};
use crate::error::Failure;
use crate::exchange::{ANSWER_WITHIN, Exchange, Hello, Purpose, QueuePairInfo, RegionInfo};
use crate::peer::Completions;

/// The Q_Key of datagrams.
const QKEY: u32 = 0x1111_1111;
/// Bytes in front of a datagram.
const GRH: u64 = Grh::LEN as u64;
/// Receives that a queue pair keeps posted at least, where SENDs come.
const RECEIVES_MIN: u32 = 512;
/// Sends under way where one waits for an answer: the one, and those whose completion was not
/// polled yet.
const LATENCY_SENDS: u32 = 16;
/// Work requests in one list.
const LIST_MAX: usize = 32;
/// Words begin at multiples of this.
const ALIGNMENT: u64 = 64;

/// One end.
pub(super) struct Station<'a> {
    pub(super) test: &'a Test,
    pub(super) completions: Completions,
    pub(super) lanes: Vec<Lane>,
    /// Outgoing messages and results, then incoming messages.
    memory: Mr,
    /// The peer's memory, laid out alike.
    region: RegionInfo,
    /// Where incoming messages lie, in both.
    incoming: u64,
    receives: u32,
}

/// A queue pair and its peer.
pub(super) struct Lane {
    qp: Qp,
    peer: QueuePairInfo,
    ah: Option<Ah>,
    /// Sends that may still be posted.
    pub(super) free: u32,
    /// Receives that are posted.
    posted: u32,
}

impl<'a> Station<'a> {
    /// Makes everything and connects it to the peer.
    pub(super) fn prepare(
        test: &'a Test,
        context: &Context,
        exchange: &mut Exchange,
    ) -> Result<Self, Failure> {
        let limits = context.attributes()?;
        let sends = match test.metric {
            Metric::Bw => u32::from(test.depth),
            Metric::Lat => LATENCY_SENDS,
        };
        let receives = match test.operation {
            Operation::Send => (2 * sends).max(RECEIVES_MIN).min(limits.max_qp_wr),
            Operation::Write | Operation::Read | Operation::Atomic(_) => 1,
        };
        let entries = u32::from(test.queue_pairs) * (sends + receives);
        judge(test, context, &limits, entries)?;
        let completions = Completions::new(context, entries, test.events)?;
        let largest = test.sizes.iter().copied().max().unwrap_or(1);
        let incoming = largest.next_multiple_of(ALIGNMENT);
        let pd = context.alloc_pd()?;
        let bytes = usize::try_from(incoming + GRH + largest).unwrap_or(usize::MAX);
        let memory = pd.register(Buffer::new(bytes)?, Access::LOCAL_WRITE.union(Access::REMOTE))?;
        let cap = QpCapabilities {
            max_send_wr: sends,
            max_recv_wr: receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: u32::try_from(test.inline_max).unwrap_or(u32::MAX),
        };
        let qps = (0..test.queue_pairs)
            .map(|_| {
                let builder = pd.create_qp(test.transport, completions.cq());
                Ok(builder.capabilities(cap).qkey(QKEY).build()?)
            })
            .collect::<Result<Vec<Qp>, Failure>>()?;
        let qkey = (test.transport == QpType::Ud).then_some(QKEY);
        let infos = qps.iter().map(|qp| QueuePairInfo::of(qp, qkey));
        let ours = Hello {
            purpose: Purpose::Bench,
            settings: test.settings(),
            queue_pairs: infos.collect::<Result<_, _>>()?,
            regions: vec![RegionInfo::of(&memory)],
        };
        let theirs = exchange.introduce(&ours)?;
        let region = theirs.regions.first().copied();
        let region = region.ok_or_else(|| Failure::plain("the peer has no memory to offer"))?;
        let lanes = qps.into_iter().zip(theirs.queue_pairs);
        let lanes = lanes.map(|(qp, peer)| Lane::connect(test, &pd, qp, peer, sends));
        let mut station = Self {
            test,
            completions,
            lanes: lanes.collect::<Result<_, _>>()?,
            memory,
            region,
            incoming,
            receives,
        };
        if test.operation == Operation::Send {
            (0..station.lanes.len()).try_for_each(|lane| station.refill(lane))?;
        }
        exchange.meet("connected", ANSWER_WITHIN)?;
        Ok(station)
    }

    /// Posts receives until all are. They share one place: what arrives is counted, not kept.
    pub(super) fn refill(&mut self, lane: usize) -> Result<(), Failure> {
        let sges = [self.receive_place()];
        let Some(at) = self.lanes.get_mut(lane) else { return Ok(()) };
        let missing = (self.receives - at.posted) as usize;
        at.qp.post_recv(&vec![RecvWr { wr_id: lane as u64, sges: &sges }; missing])?;
        at.posted = self.receives;
        Ok(())
    }

    /// A receive of `lane` was used; posts new ones when half of them are gone.
    pub(super) fn received(&mut self, lane: u64) -> Result<(), Failure> {
        let lane = usize::try_from(lane).unwrap_or(usize::MAX);
        let Some(at) = self.lanes.get_mut(lane) else { return Ok(()) };
        at.posted = at.posted.saturating_sub(1);
        if at.posted <= self.receives / 2 { self.refill(lane) } else { Ok(()) }
    }

    fn receive_place(&self) -> Sge {
        let len = self.memory.buffer().len() as u64 - self.incoming;
        let grh = if self.test.transport == QpType::Ud { GRH } else { 0 };
        let len = u32::try_from(len - GRH + grh).unwrap_or(u32::MAX);
        self.memory.sge(self.incoming, len)
    }

    /// Posts up to `wanted` requests of `size` bytes on `lane`, as many as there is room for, and
    /// returns how many.
    pub(super) fn post(&mut self, lane: usize, size: u64, wanted: u64) -> Result<u64, Failure> {
        let Some(at) = self.lanes.get(lane) else { return Ok(0) };
        let count = u64::from(at.free).min(wanted).min(LIST_MAX as u64);
        let length = u32::try_from(size).unwrap_or(u32::MAX);
        let sges = [self.memory.sge(0, length)];
        let mut wr = SendWr {
            wr_id: lane as u64,
            op: self.request(at),
            flags: SendFlags::SIGNALED,
            sges: &sges,
            ..SendWr::default()
        };
        let inline;
        let sends = matches!(self.test.operation, Operation::Write | Operation::Send);
        if sends && size <= self.test.inline_max {
            let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
            self.memory.buffer().read(0, &mut bytes)?;
            inline = bytes;
            wr.flags |= SendFlags::INLINE;
            wr.inline = &inline;
        }
        let list = vec![wr; usize::try_from(count).unwrap_or(0)];
        at.qp.post_send(&list)?;
        if let Some(at) = self.lanes.get_mut(lane) {
            at.free -= u32::try_from(count).unwrap_or(0);
        }
        Ok(count)
    }

    /// A send of `lane` has completed.
    pub(super) fn sent(&mut self, lane: u64) {
        if let Some(at) = usize::try_from(lane).ok().and_then(|lane| self.lanes.get_mut(lane)) {
            at.free += 1;
        }
    }

    fn request(&self, lane: &Lane) -> SendOp {
        let RemoteAddress { addr: remote_addr, rkey } = self.region.at(self.incoming);
        match (self.test.operation, &lane.ah) {
            (Operation::Send, Some(ah)) => SendOp::SendTo {
                ah: ah.id(),
                remote_qpn: lane.peer.qpn,
                remote_qkey: lane.peer.qkey.unwrap_or(QKEY),
                imm: None,
            },
            (Operation::Send, None) => SendOp::Send { imm: None, invalidate: None },
            (Operation::Write, _) => SendOp::Write { remote_addr, rkey, imm: None },
            (Operation::Read, _) => SendOp::Read { remote_addr, rkey },
            (Operation::Atomic(Atomic::FetchAdd), _) => {
                SendOp::FetchAdd { remote_addr, rkey, add: 1 }
            }
            (Operation::Atomic(Atomic::CompareSwap), _) => {
                SendOp::CompareSwap { remote_addr, rkey, compare: 0, swap: 0 }
            }
        }
    }

    /// The address of the peer.
    pub(super) fn peer_gid(&self) -> Option<String> {
        self.lanes.first().map(|lane| lane.peer.gid.to_string())
    }

    /// Sets the last byte of an outgoing message.
    pub(super) fn mark(&self, size: u64, mark: u8) -> Result<(), Failure> {
        let at = usize::try_from(size - 1).unwrap_or(usize::MAX);
        Ok(self.memory.buffer().write(at, &[mark])?)
    }

    /// The last byte of an incoming message.
    pub(super) fn mark_seen(&self, size: u64) -> Result<u8, Failure> {
        let mut mark = [0];
        self.memory.buffer().read(self.mark_place(size), &mut mark)?;
        Ok(mark[0])
    }

    /// Forgets it.
    pub(super) fn clear_mark(&self, size: u64) -> Result<(), Failure> {
        Ok(self.memory.buffer().write(self.mark_place(size), &[0])?)
    }

    fn mark_place(&self, size: u64) -> usize {
        usize::try_from(self.incoming + size - 1).unwrap_or(usize::MAX)
    }
}

impl Lane {
    fn connect(
        test: &Test,
        pd: &Pd,
        qp: Qp,
        peer: QueuePairInfo,
        free: u32,
    ) -> Result<Self, Failure> {
        let ah = match test.transport {
            QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
                let options = ConnectOptions { mtu: Some(test.mtu), ..ConnectOptions::default() };
                qp.connect_with(&peer.endpoint(test.mtu), &options)?;
                None
            }
            QpType::Ud => {
                qp.activate()?;
                Some(pd.create_ah(&qp.path_to(peer.gid))?)
            }
        };
        Ok(Self { qp, peer, ah, free, posted: 0 })
    }
}

/// What the options ask for and the device does not have.
fn judge(
    test: &Test,
    context: &Context,
    limits: &DeviceAttributes,
    entries: u32,
) -> Result<(), Failure> {
    let mtu = context.port()?.active_mtu.bytes();
    for (what, given, limit, advice) in [
        ("--inline", test.inline_max, u64::from(limits.max_inline_data), "lower it"),
        (
            "--mtu",
            u64::from(test.mtu.bytes()),
            u64::from(mtu),
            "lower it, or take an interface \
            with a larger MTU",
        ),
        (
            "the completion queue, of all queue pairs,",
            entries.into(),
            limits.max_cqe.into(),
            "lower --qps or --tx-depth",
        ),
    ] {
        if given > limit {
            let what = format!("{what} {given} is more than the device has: {limit}");
            return Err(Failure::usage(what, advice));
        }
    }
    Ok(())
}
