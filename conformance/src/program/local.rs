//! Commands carried out on an open device.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use softrnic_model::verbs::{
    Access, AddressVector, AhId, BindInfo, CqId, Gid, Key, PdId, QpAttributeMask, QpAttributes,
    QpCapabilities, QpCreateFlags, QpInit, QpNum, QpState, QpType, RecvWr, SendFlags, SendOp,
    SendWr, Sge, SrqAttributes, SrqId, SrqInit, SrqNum, VerbError, Wc, WcOpcode, WindowType,
    XrcSrq, XrcdId,
};
use softrnic_verbs::provider::{self, MwBind};

use super::{
    Action, Answer, Command, Completion, Element, Place, Post, Program, QpSetup, Refusal, Region,
    RegionSetup, WindowSetup, describe,
};
use crate::lab::Connection;
use crate::names;
use crate::text::{Value, to_hex};

/// A program on an open device. What it has made goes with it.
#[derive(Debug)]
pub struct Local {
    verbs: Arc<dyn provider::Context>,
    sgid_index: u8,
    gid: Gid,
    pds: BTreeMap<String, PdId>,
    pairs: BTreeMap<String, Pair>,
    regions: BTreeMap<String, Region>,
    windows: BTreeMap<String, Window>,
}

/// A queue pair and what was made for it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    number: QpNum,
    cq: CqId,
    srq: Option<SrqId>,
    xrcd: Option<XrcdId>,
    ah: Option<AhId>,
    peer: QpNum,
    qkey: u32,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    key: Key,
    window_type: WindowType,
}

/// Enough for any network; a device may send 0 as it is.
const HOPS: u8 = 64;
/// Scatter/gather elements of each request.
const ELEMENTS: u32 = 4;
/// Bytes that may be sent inline.
const INLINE: u32 = 64;
/// GIDs that are looked at for one that can be used.
const GIDS_MAX: u32 = 256;

impl Local {
    /// A program on `verbs` that sends from its first address.
    ///
    /// # Errors
    /// The device has no address.
    pub fn new(verbs: Arc<dyn provider::Context>) -> Result<Self, VerbError> {
        let gids = (0..GIDS_MAX).map_while(|index| verbs.query_gid(1, index).ok().zip(Some(index)));
        let usable = |entry: &provider::GidEntry| {
            entry.gid != Gid::default() && entry.gid_type == provider::GidType::RoceV2
        };
        let found = gids.into_iter().find(|(entry, _)| usable(entry));
        let (entry, index) = found.ok_or(VerbError::Unreachable("the device has no address"))?;
        let sgid_index = u8::try_from(index).unwrap_or(0);
        Ok(Self::sending_from(verbs, sgid_index, entry.gid))
    }

    /// The same for an address that is known.
    #[must_use]
    pub fn sending_from(verbs: Arc<dyn provider::Context>, sgid_index: u8, gid: Gid) -> Self {
        Self {
            verbs,
            sgid_index,
            gid,
            pds: BTreeMap::new(),
            pairs: BTreeMap::new(),
            regions: BTreeMap::new(),
            windows: BTreeMap::new(),
        }
    }

    /// The address that it sends from.
    #[must_use]
    pub const fn gid(&self) -> Gid {
        self.gid
    }

    fn pd(&mut self, name: &str) -> Result<PdId, Refusal> {
        if let Some(pd) = self.pds.get(name) {
            return Ok(*pd);
        }
        let pd = self.verbs.alloc_pd()?;
        self.pds.insert(name.to_owned(), pd);
        Ok(pd)
    }

    fn pair(&self, name: &str) -> Result<Pair, Refusal> {
        let found = self.pairs.get(name).copied();
        found.ok_or_else(|| Refusal::plain(format!("there is no queue pair called {name}")))
    }

    fn region(&self, name: &str) -> Result<&Region, Refusal> {
        let found = self.regions.get(name);
        found.ok_or_else(|| Refusal::plain(format!("there is no region called {name}")))
    }

    fn make_pair(&mut self, setup: &QpSetup) -> Result<Answer, Refusal> {
        if self.pairs.contains_key(&setup.name) {
            return Err(Refusal::plain(format!("there is a queue pair called {}", setup.name)));
        }
        let pd = self.pd("pd")?;
        let (cq, _) = self.verbs.create_cq(setup.cq, None)?;
        // What was made so far is found by `close` even if what follows fails.
        let number = QpNum::new(0);
        let qkey = setup.qkey;
        let mut pair =
            Pair { number, cq, srq: None, xrcd: None, ah: None, peer: setup.peer_qp, qkey };
        let made = self.make_pair_on(setup, pd, &mut pair);
        self.pairs.insert(setup.name.clone(), pair);
        made?;
        let srq = pair.srq.filter(|_| pair.xrcd.is_some());
        let srq = srq.map(|srq| self.verbs.srq_number(srq)).transpose()?;
        Ok(Answer::Qp {
            number: pair.number.get(),
            gid: self.gid.to_string(),
            srq: srq.map(SrqNum::get),
        })
    }

    fn make_pair_on(&self, setup: &QpSetup, pd: PdId, pair: &mut Pair) -> Result<(), Refusal> {
        let verbs = &*self.verbs;
        if setup.qp_type == QpType::XrcRecv {
            pair.xrcd = Some(verbs.open_xrcd()?);
        }
        if let Some(places) = setup.srq {
            let attributes = SrqAttributes { max_wr: places, max_sge: ELEMENTS, srq_limit: 0 };
            let xrc = pair.xrcd.map(|xrcd| XrcSrq { xrcd, cq: pair.cq });
            pair.srq = Some(verbs.create_srq_ex(&SrqInit { pd, attributes, xrc })?.0);
        }
        let (number, _) = verbs.create_qp(&QpInit {
            pd,
            qp_type: setup.qp_type,
            send_cq: pair.cq,
            recv_cq: pair.cq,
            srq: pair.srq.filter(|_| pair.xrcd.is_none()),
            xrcd: pair.xrcd,
            cap: QpCapabilities {
                max_send_wr: setup.places,
                max_recv_wr: setup.places,
                max_send_sge: ELEMENTS,
                max_recv_sge: ELEMENTS,
                max_inline_data: INLINE,
            },
            signal_all: false,
            create_flags: QpCreateFlags::empty(),
        })?;
        pair.number = number;
        let path = AddressVector {
            dgid: setup.peer,
            sgid_index: self.sgid_index,
            hop_limit: HOPS,
            ..AddressVector::default()
        };
        let connection = Connection {
            qp_type: setup.qp_type,
            path_mtu: setup.mtu,
            psn: [setup.sq_psn, setup.rq_psn],
            access: setup.access,
            read_depth: setup.depth,
            retry_count: setup.retry,
            rnr_retry: setup.rnr,
            min_rnr_timer: setup.min_rnr,
            timeout: setup.timeout,
            qkey: setup.qkey,
            buffer_len: 0,
        };
        let mut steps = connection.steps(0, path, setup.peer_qp);
        steps[2].attributes.max_rd_atomic = setup.reads;
        let wanted = [QpState::Init, QpState::Rtr, QpState::Rts];
        let count = wanted.iter().position(|state| *state == setup.state).map_or(0, |at| at + 1);
        for step in &steps[..count] {
            verbs.modify_qp(number, &step.attributes, step.mask)?;
        }
        if setup.qp_type == QpType::Ud {
            pair.ah = Some(verbs.create_ah(pd, &path)?);
        }
        Ok(())
    }

    fn make_region(&mut self, setup: &RegionSetup) -> Result<Answer, Refusal> {
        let pd = self.pd(&setup.pd)?;
        let region = Region::new(&self.verbs, pd, setup.len, setup.access)?;
        let answer = Answer::Key { addr: region.addr(), rkey: region.rkey().0 };
        self.regions.insert(setup.name.clone(), region);
        Ok(answer)
    }

    fn make_window(&mut self, setup: &WindowSetup) -> Result<Answer, Refusal> {
        let pd = self.pd(&setup.pd)?;
        let key = self.verbs.alloc_mw(pd, setup.window_type)?;
        let window = Window { key, window_type: setup.window_type };
        self.windows.insert(setup.name.clone(), window);
        Ok(Answer::Key { addr: 0, rkey: key.0 })
    }

    fn let_go(&mut self, name: &str) -> Result<Answer, Refusal> {
        if let Some(window) = self.windows.get(name) {
            self.verbs.dealloc_mw(window.key)?;
            self.windows.remove(name);
            return Ok(Answer::Done);
        }
        let region = self.regions.get_mut(name);
        let missing = || Refusal::plain(format!("there is no region or window called {name}"));
        region.ok_or_else(missing)?.deregister()?;
        Ok(Answer::Done)
    }

    /// Elements as the device wants them.
    fn sges(&self, elements: &[Element]) -> Result<Vec<Sge>, Refusal> {
        let sge = |element: &Element| {
            let region = self.region(&element.at.name)?;
            let lkey = match &element.lkey {
                Some(value) => self.key(value)?,
                None => region.lkey(),
            };
            let addr = region.addr().wrapping_add(element.at.offset);
            Ok(Sge { addr, length: element.len, lkey })
        };
        elements.iter().map(sge).collect()
    }

    /// A key: a number, or that of a region or window, changed by what is added.
    fn key(&self, value: &Value) -> Result<Key, Refusal> {
        let base = match &value.name {
            Some(name) => match self.windows.get(name) {
                Some(window) => window.key,
                None => self.region(name)?.rkey(),
            },
            None => Key(0),
        };
        let plus = u32::try_from(value.plus & 0xffff_ffff).unwrap_or(0);
        Ok(Key(base.0.wrapping_add(plus)))
    }

    /// An address: a number, or within a region.
    fn address(&self, value: &Value) -> Result<u64, Refusal> {
        let base = match &value.name {
            Some(name) => self.region(name)?.addr(),
            None => 0,
        };
        Ok(base.wrapping_add(value.plus))
    }

    fn post(&mut self, post: &Post) -> Result<Answer, Refusal> {
        let pair = self.pair(&post.qp)?;
        if post.opcode == WcOpcode::BindMw {
            return self.bind(pair, post);
        }
        let sges = self.sges(&post.elements)?;
        let inline = if post.flags.contains(SendFlags::INLINE) {
            self.bytes_of(&post.elements)?
        } else {
            Vec::new()
        };
        let op = self.operation(pair, post)?;
        let wr = SendWr {
            wr_id: post.id,
            op,
            flags: post.flags,
            sges: &sges,
            inline: &inline,
            remote_srq: SrqNum::new(post.srq),
        };
        self.verbs.post_send(pair.number, &[wr]).map_err(|refused| refused.error)?;
        Ok(Answer::Done)
    }

    fn operation(&self, pair: Pair, post: &Post) -> Result<SendOp, Refusal> {
        let (remote_addr, rkey) = (self.address(&post.to)?, self.key(&post.rkey)?);
        let (compare, swap) = (post.compare, post.swap);
        let invalidate = post.inv.as_ref().map(|key| self.key(key)).transpose()?;
        Ok(match (post.opcode, pair.ah) {
            (WcOpcode::Send, Some(ah)) => SendOp::SendTo {
                ah,
                remote_qpn: post.dest.unwrap_or(pair.peer),
                remote_qkey: post.qkey.unwrap_or(pair.qkey),
                imm: post.imm,
            },
            (WcOpcode::Send, None) => SendOp::Send { imm: post.imm, invalidate },
            (WcOpcode::RdmaWrite, _) => SendOp::Write { remote_addr, rkey, imm: post.imm },
            (WcOpcode::RdmaRead, _) => SendOp::Read { remote_addr, rkey },
            (WcOpcode::CompareSwap, _) => SendOp::CompareSwap { remote_addr, rkey, compare, swap },
            (WcOpcode::FetchAdd, _) => SendOp::FetchAdd { remote_addr, rkey, add: swap },
            (WcOpcode::AtomicWrite, _) => SendOp::AtomicWrite { remote_addr, rkey },
            (WcOpcode::Flush, _) => SendOp::Flush {
                remote_addr,
                rkey,
                length: u32::try_from(post.range).unwrap_or(u32::MAX),
                placement: post.placement,
                selectivity: post.selectivity,
            },
            (WcOpcode::LocalInvalidate, _) => {
                SendOp::LocalInvalidate { key: invalidate.unwrap_or(rkey) }
            }
            (WcOpcode::BindMw | WcOpcode::Recv | WcOpcode::RecvRdmaWithImm, _) => {
                return Err(Refusal::plain("that is nothing to post"));
            }
        })
    }

    fn bind(&mut self, pair: Pair, post: &Post) -> Result<Answer, Refusal> {
        let missing = || Refusal::plain(format!("there is no window called {}", post.window));
        let window = *self.windows.get(&post.window).ok_or_else(missing)?;
        let region = post.to.name.as_ref().map(|name| self.region(name)).transpose()?;
        let addr = self.address(&post.to)?;
        let info = BindInfo {
            mr_lkey: region.map_or(Key(0), Region::lkey),
            addr,
            length: post.range,
            access: post.rights,
        };
        let rkey = if window.window_type == WindowType::Type1 {
            let bind = MwBind { wr_id: post.id, flags: post.flags, info };
            self.verbs.bind_mw(pair.number, window.key, &bind)?
        } else {
            let new_rkey = Key::from_parts(window.key.index(), post.variant);
            let window_type = window.window_type;
            let op = SendOp::BindMw { window: window.key, new_rkey, window_type, bind: info };
            let wr = SendWr { wr_id: post.id, op, flags: post.flags, ..SendWr::default() };
            self.verbs.post_send(pair.number, &[wr]).map_err(|refused| refused.error)?;
            new_rkey
        };
        let zero_based = post.rights.contains(Access::ZERO_BASED);
        self.windows.insert(post.window.clone(), Window { key: rkey, ..window });
        Ok(Answer::Key { addr: if zero_based { 0 } else { addr }, rkey: rkey.0 })
    }

    /// The bytes that elements name now.
    fn bytes_of(&self, elements: &[Element]) -> Result<Vec<u8>, Refusal> {
        let mut all = Vec::new();
        for element in elements {
            all.extend(self.read(&element.at, element.len as usize)?);
        }
        Ok(all)
    }

    fn read(&self, at: &Place, len: usize) -> Result<Vec<u8>, Refusal> {
        let buffer = self.region(&at.name)?.buffer();
        let outside = || Refusal::plain(format!("{} bytes at {at:?} are outside", len));
        let offset = usize::try_from(at.offset).map_err(|_| outside())?;
        if offset.checked_add(len).is_none_or(|end| end > buffer.len()) {
            return Err(outside());
        }
        let mut bytes = vec![0; len];
        buffer.read(offset, &mut bytes).map_err(|error| Refusal::plain(error.to_string()))?;
        Ok(bytes)
    }

    fn receive(&self, pair: Pair, id: u64, elements: &[Element]) -> Result<Answer, Refusal> {
        let sges = self.sges(elements)?;
        let wr = RecvWr { wr_id: id, sges: &sges };
        let posted = match pair.srq {
            Some(srq) => self.verbs.post_srq_recv(srq, &[wr]),
            None => self.verbs.post_recv(pair.number, &[wr]),
        };
        posted.map_err(|refused| refused.error)?;
        Ok(Answer::Done)
    }

    fn poll(&self) -> Result<Answer, Refusal> {
        let mut all = Vec::new();
        let mut some = [Wc::default(); 16];
        for pair in self.pairs.values() {
            loop {
                let count = self.verbs.poll_cq(pair.cq, &mut some)?;
                all.extend(some[..count].iter().map(in_words));
                if count < some.len() {
                    break;
                }
            }
        }
        Ok(Answer::Completions(all))
    }

    fn modify(
        &self,
        pair: Pair,
        attributes: &QpAttributes,
        mask: QpAttributeMask,
    ) -> Result<Answer, Refusal> {
        self.verbs.modify_qp(pair.number, attributes, mask)?;
        Ok(Answer::Done)
    }

    fn events(&self) -> Result<Answer, Refusal> {
        let mut names = Vec::new();
        while let Some(event) = self.verbs.get_async_event(Some(Duration::ZERO))? {
            names.push(names::event(event).to_owned());
        }
        Ok(Answer::Events(names))
    }

    fn destroy(&mut self, name: &str) -> Result<Answer, Refusal> {
        let pair = self.pair(name)?;
        // Children first; what cannot be destroyed is told of the queue pair only.
        let destroyed = self.verbs.destroy_qp(pair.number);
        if let Some(ah) = pair.ah {
            let _ = self.verbs.destroy_ah(ah);
        }
        if let Some(srq) = pair.srq {
            let _ = self.verbs.destroy_srq(srq);
        }
        if let Some(xrcd) = pair.xrcd {
            let _ = self.verbs.close_xrcd(xrcd);
        }
        let _ = self.verbs.destroy_cq(pair.cq);
        self.pairs.remove(name);
        destroyed?;
        Ok(Answer::Done)
    }

    fn close(&mut self) {
        for window in std::mem::take(&mut self.windows).into_values() {
            let _ = self.verbs.dealloc_mw(window.key);
        }
        for name in self.pairs.keys().cloned().collect::<Vec<_>>() {
            let _ = self.destroy(&name);
        }
        self.regions.clear();
        for pd in std::mem::take(&mut self.pds).into_values() {
            let _ = self.verbs.dealloc_pd(pd);
        }
    }
}

impl Program for Local {
    fn execute(&mut self, command: &Command) -> Result<Answer, Refusal> {
        match &command.action {
            Action::Qp(setup) => self.make_pair(setup),
            Action::Region(setup) => self.make_region(setup),
            Action::Window(setup) => self.make_window(setup),
            Action::Dereg(name) => self.let_go(name),
            Action::Recv { qp, id, elements } => self.receive(self.pair(qp)?, *id, elements),
            Action::Post(post) => self.post(post),
            Action::Poll => self.poll(),
            Action::Memory { at, len } => Ok(Answer::Memory(to_hex(&self.read(at, *len)?))),
            Action::Store { at, bytes } => {
                let offset = usize::try_from(at.offset).unwrap_or(usize::MAX);
                let written = self.region(&at.name)?.buffer().write(offset, bytes);
                written.map_err(|error| Refusal::plain(error.to_string()))?;
                Ok(Answer::Done)
            }
            Action::State { qp } => {
                let (attributes, _) = self.verbs.query_qp(self.pair(qp)?.number)?;
                Ok(Answer::State(names::name(names::STATES, attributes.state).to_owned()))
            }
            Action::Move { qp, state } => {
                let attributes = QpAttributes { state: *state, ..QpAttributes::default() };
                self.modify(self.pair(qp)?, &attributes, QpAttributeMask::STATE)
            }
            Action::Rights { qp, access } => {
                let attributes = QpAttributes { access: *access, ..QpAttributes::default() };
                self.modify(self.pair(qp)?, &attributes, QpAttributeMask::ACCESS_FLAGS)
            }
            Action::Events => self.events(),
            Action::Destroy { qp } => self.destroy(qp),
            Action::Limit { qp, limit } => {
                let none = || Refusal::plain("it has no shared receive queue");
                let srq = self.pair(qp)?.srq.ok_or_else(none)?;
                self.verbs.modify_srq(srq, Some(*limit), None)?;
                Ok(Answer::Done)
            }
            Action::Capabilities => {
                let attributes = self.verbs.query_device()?;
                Ok(Answer::Capabilities(describe(attributes.capabilities)))
            }
            Action::Close => {
                self.close();
                Ok(Answer::Done)
            }
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.close();
    }
}

fn in_words(wc: &Wc) -> Completion {
    let flags = names::FLAGS.iter().filter(|(_, flag)| wc.flags.contains(*flag));
    Completion {
        id: wc.wr_id,
        status: names::name(names::STATUSES, wc.status).to_owned(),
        opcode: names::name(names::OPCODES, wc.opcode).to_owned(),
        flags: flags.map(|(name, _)| (*name).to_owned()).collect(),
        len: wc.byte_len,
        imm: wc.imm_data,
        inv: wc.invalidated_rkey.0,
        vendor: wc.vendor_err,
        src: wc.src_qp.get(),
        qp: wc.qp_num.get(),
    }
}
