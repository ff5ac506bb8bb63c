//! Packets as scripts spell them: made of a line, and held against one.

use softrnic_model::verbs::{Key, QpNum, QpType};
use softrnic_model::wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extensions, Feth, HeaderBuf, Ieth, ImmDt, NakCode,
    Opcode, OpcodeFacts, Packet, Reth, Route, Service, Syndrome, XrcEth,
};

use crate::text::{Arguments, Bytes, Reason, Value, number};

/// A packet of a script. What is not said of one that arrives is as usual; what is not said of one
/// that leaves is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketSpec {
    /// Its name without the service.
    pub name: String,
    /// Its opcode, if it has no name.
    pub opcode: Option<u8>,
    /// The service, if it is not that of the queue pair.
    pub service: Option<Service>,
    /// The queue pair of the device.
    pub qp: String,
    /// From somebody else than the peer.
    pub stranger: bool,
    /// The two bits of the IP header for congestion; 3 is the mark of a switch.
    pub ecn: Option<u8>,
    /// The ICRC is wrong.
    pub bad_icrc: bool,
    /// A bit of the finished frame that is flipped under way, from the base transport header on.
    pub flip: Option<u32>,
    /// Bytes that are replaced before the ICRC is made: where, by what.
    pub set: Vec<(usize, u8)>,
    /// It leaves from the same UDP port as the packet before it.
    pub same_port: bool,
    /// Bytes that are missing at the end.
    pub cut: usize,
    /// Bytes that are too many at the end.
    pub more: Vec<u8>,
    /// Sequence number.
    pub psn: Option<Psn>,
    /// Acknowledge request.
    pub ack: Option<bool>,
    /// Solicited event.
    pub se: Option<bool>,
    /// Migration request.
    pub mig: Option<bool>,
    /// Congestion marks of the header.
    pub fecn: Option<bool>,
    /// The same, backward.
    pub becn: Option<bool>,
    /// Pad count.
    pub pad: Option<u8>,
    /// Transport header version.
    pub tver: Option<u8>,
    /// Partition key.
    pub pkey: Option<u16>,
    /// Destination queue pair.
    pub dest: Option<Value>,
    /// Queue key.
    pub qkey: Option<u32>,
    /// Source queue pair (UD).
    pub src: Option<u32>,
    /// Shared receive queue (XRC).
    pub srq: Option<u32>,
    /// Remote address.
    pub va: Option<Value>,
    /// Remote key.
    pub rkey: Option<Value>,
    /// Length of the message.
    pub len: Option<u32>,
    /// Swap or add.
    pub swap: Option<u64>,
    /// Compare.
    pub compare: Option<u64>,
    /// What an atomic found.
    pub orig: Option<u64>,
    /// Syndrome of the acknowledgement, as a byte.
    pub syndrome: Option<Acknowledged>,
    /// Message sequence number.
    pub msn: Option<u32>,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Key to invalidate.
    pub inv: Option<Value>,
    /// Placement type and selectivity of a FLUSH.
    pub placement: Option<u8>,
    /// The same.
    pub selectivity: Option<u8>,
    /// The payload.
    pub data: Option<Vec<u8>>,
    /// Bytes of payload.
    pub size: Option<usize>,
}

/// A sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Psn {
    /// Counted from the first of that direction.
    Plus(i64),
    /// As it is.
    Absolute(u32),
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// This syndrome.
    Exactly(u8),
    /// An acknowledgement with any credits.
    Positive,
    /// An RNR NAK with any time.
    NotReady,
}

/// What a script's names stand for while it is played.
pub trait Symbols {
    /// The queue pair.
    fn pair(&self, name: &str) -> Option<PairFacts>;
    /// Address and key of a region or window.
    fn key(&self, name: &str) -> Option<(u64, u32)>;
}

/// What packets of a queue pair have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairFacts {
    /// Its type.
    pub qp_type: QpType,
    /// Its number.
    pub number: QpNum,
    /// The number of the peer's.
    pub peer: QpNum,
    /// First sequence number that the device expects.
    pub rq_psn: u32,
    /// First sequence number that the device sends.
    pub sq_psn: u32,
    /// Queue key.
    pub qkey: u32,
    /// Number of its shared receive queue (XRC).
    pub srq: u32,
}

impl PairFacts {
    /// Its service.
    #[must_use]
    pub const fn service(&self) -> Service {
        match self.qp_type {
            QpType::Rc => Service::Rc,
            QpType::Uc => Service::Uc,
            QpType::Ud => Service::Ud,
            QpType::XrcSend | QpType::XrcRecv => Service::Xrc,
        }
    }
}

/// Names that stand for an ACKNOWLEDGE with a syndrome.
const ACKNOWLEDGED: [(&str, Acknowledged); 6] = [
    ("ACK", Acknowledged::Positive),
    ("RNR_NAK", Acknowledged::NotReady),
    ("NAK_PSN", nak(NakCode::PsnSequence)),
    ("NAK_INVALID", nak(NakCode::InvalidRequest)),
    ("NAK_ACCESS", nak(NakCode::RemoteAccess)),
    ("NAK_OPERATION", nak(NakCode::RemoteOperational)),
];

const fn nak(code: NakCode) -> Acknowledged {
    Acknowledged::Exactly(0x60 | code as u8)
}

/// The code of an RNR NAK that scripts send unless they say otherwise: 0.64 ms.
const RNR_TIMER: u8 = 12;

impl PacketSpec {
    /// Reads one: a name and fields.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let mut args = Arguments::new(text);
        let mut spec = Self { qp: "qp".into(), ..Self::default() };
        let name = args.word("the name of a packet")?;
        if let Some((_, syndrome)) = ACKNOWLEDGED.iter().find(|(known, _)| *known == name) {
            spec.syndrome = Some(*syndrome);
            spec.name = "ACKNOWLEDGE".into();
        } else if name == "RAW" {
            spec.opcode = Some(args.required("opcode")?);
            spec.name = name;
        } else {
            spec.name = long_name(&name).ok_or_else(|| format!("{name:?} is no packet"))?;
        }
        while let Some((key, value)) = args.next_pair() {
            spec.set(&key, &value).map_err(|why| format!("{key}: {why}"))?;
        }
        while let Some(word) = args.next_word() {
            spec.mark(&word)?;
        }
        Ok(spec)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Reason> {
        fn short<T: TryFrom<u64>>(text: &str) -> Result<Option<T>, Reason> {
            let wide = number(text)?;
            T::try_from(wide).map(Some).map_err(|_| format!("{text} is too large"))
        }
        match key {
            "psn" => self.psn = Some(psn(value)?),
            "qp" => self.qp = value.into(),
            "service" => self.service = Some(service(value)?),
            "from" if value == "stranger" => self.stranger = true,
            "icrc" if value == "bad" => self.bad_icrc = true,
            "ecn" => self.ecn = short(value)?.map(|bits: u8| bits & 0b11),
            "flip" => self.flip = short(value)?,
            "set" => {
                let (at, byte) = value.split_once(':').ok_or("set=OFFSET:BYTE")?;
                let at = short(at)?.unwrap_or(0);
                self.set.push((at, short(byte)?.unwrap_or(0)));
            }
            "cut" => self.cut = short(value)?.unwrap_or(0),
            "more" => self.more = Bytes::parse(value)?.0,
            "pad" => self.pad = short(value)?,
            "tver" => self.tver = short(value)?,
            "pkey" => self.pkey = short(value)?,
            "dest" => self.dest = Some(Value::parse(value)?),
            "qkey" => self.qkey = short(value)?,
            "src" => self.src = short(value)?,
            "srq" => self.srq = short(value)?,
            "va" => self.va = Some(Value::parse(value)?),
            "rkey" => self.rkey = Some(Value::parse(value)?),
            "len" => self.len = short(value)?,
            "swap" | "add" => self.swap = short(value)?,
            "compare" => self.compare = short(value)?,
            "orig" => self.orig = short(value)?,
            "syndrome" => self.syndrome = short(value)?.map(Acknowledged::Exactly),
            "credits" => {
                self.syndrome = short(value)?.map(|code: u8| Acknowledged::Exactly(code & 0x1f));
            }
            "timer" => {
                let code = short(value)?.map(|code: u8| 0x20 | code & 0x1f);
                self.syndrome = code.map(Acknowledged::Exactly);
            }
            "msn" => self.msn = short(value)?,
            "imm" => self.imm = short(value)?,
            "inv" => self.inv = Some(Value::parse(value)?),
            "placement" => self.placement = short(value)?,
            "selectivity" => self.selectivity = short(value)?,
            "data" => self.data = Some(Bytes::parse(value)?.0),
            "size" => self.size = short(value)?,
            _ => return Err("means nothing here".into()),
        }
        Ok(())
    }

    fn mark(&mut self, word: &str) -> Result<(), Reason> {
        let (word, on) = word.strip_prefix("no-").map_or((word, true), |word| (word, false));
        let place = match word {
            "ack" => &mut self.ack,
            "se" => &mut self.se,
            "mig" => &mut self.mig,
            "fecn" => &mut self.fecn,
            "becn" => &mut self.becn,
            "same-port" => {
                self.same_port = on;
                return Ok(());
            }
            "ce" if on => {
                self.ecn = Some(Route::ECN_CE);
                return Ok(());
            }
            _ => return Err(format!("{word:?} means nothing here")),
        };
        *place = Some(on);
        Ok(())
    }

    /// Its opcode on this queue pair.
    fn opcode(&self, pair: &PairFacts) -> Result<Opcode, Reason> {
        if let Some(raw) = self.opcode {
            return Ok(Opcode(raw));
        }
        let service = self.service.unwrap_or(pair.service());
        let service = if self.name == "CNP" { Service::Cnp } else { service };
        let named = |code: &u8| {
            let facts = Opcode(*code).facts();
            facts.is_some_and(|facts| facts.service == service && facts.name == self.name)
        };
        let found = (0..=u8::MAX).find(named);
        found.map(Opcode).ok_or_else(|| format!("{service:?} has no {}", self.name))
    }

    /// The packet, from base transport header to the end of the pad.
    ///
    /// # Errors
    /// A name stands for nothing, or the service has no such packet.
    pub fn build(&self, symbols: &dyn Symbols) -> Result<Vec<u8>, Reason> {
        let pair = pair(symbols, &self.qp)?;
        let opcode = self.opcode(&pair)?;
        let facts = opcode.facts();
        let psn = self.absolute_psn(&pair, facts);
        let dest = match &self.dest {
            None => pair.number,
            Some(value) => dest(symbols, value)?,
        };
        let data = self.data.as_deref().unwrap_or_default();
        let padding = data.len().wrapping_neg() & 3;
        let pad = self.pad.map_or(padding, usize::from);
        let bth = Bth::new(opcode, dest, psn)
            .with_ack_req(self.ack == Some(true))
            .with_solicited(self.se == Some(true))
            .with_migreq(self.mig == Some(true))
            .with_fecn(self.fecn == Some(true))
            .with_becn(self.becn == Some(true))
            .with_transport_version(self.tver.unwrap_or(0))
            .with_pkey(self.pkey.unwrap_or(Bth::DEFAULT_PKEY))
            .with_pad(pad);
        let mut header = HeaderBuf::new();
        header.push(&bth);
        if let Some(facts) = facts {
            self.extend(&mut header, facts, symbols, &pair)?;
        }
        let mut bytes = header.as_slice().to_vec();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len() + padding, 0);
        bytes.extend_from_slice(&self.more);
        for (at, byte) in &self.set {
            let place = bytes.get_mut(*at).ok_or_else(|| format!("set: there is no byte {at}"))?;
            *place = *byte;
        }
        bytes.truncate(bytes.len().saturating_sub(self.cut));
        Ok(bytes)
    }

    fn extend(
        &self,
        header: &mut HeaderBuf,
        facts: &OpcodeFacts,
        symbols: &dyn Symbols,
        pair: &PairFacts,
    ) -> Result<(), Reason> {
        let buf = Value { name: Some("buf".into()), plus: 0 };
        let va = || address(symbols, self.va.as_ref().unwrap_or(&buf));
        let rkey = || key(symbols, self.rkey.as_ref().unwrap_or(&buf)).map(Key);
        let has = |extension| facts.extensions.contains(extension);
        if has(Extensions::DETH) {
            let src = self.src.map_or(pair.peer, QpNum::new);
            header.push(&Deth::new(self.qkey.unwrap_or(pair.qkey), src));
        }
        if has(Extensions::XRCETH) {
            header.push(&XrcEth::new(self.srq.unwrap_or(pair.srq)));
        }
        if has(Extensions::FETH) {
            let placement = self.placement.unwrap_or(Feth::GLOBAL_VISIBILITY);
            header.push(&Feth::new(placement, self.selectivity.unwrap_or(Feth::RANGE)));
        }
        if has(Extensions::RETH) {
            let whole = self.data.as_ref().map_or(0, Vec::len);
            let len = self.len.unwrap_or(u32::try_from(whole).unwrap_or(u32::MAX));
            header.push(&Reth::new(va()?, rkey()?, len));
        }
        if has(Extensions::ATOMIC_ETH) {
            let (swap, compare) = (self.swap.unwrap_or(0), self.compare.unwrap_or(0));
            header.push(&AtomicEth::new(va()?, rkey()?, swap, compare));
        }
        if has(Extensions::AETH) {
            let syndrome = match self.syndrome {
                Some(Acknowledged::Exactly(byte)) => Syndrome::from(byte),
                Some(Acknowledged::NotReady) => Syndrome::RnrNak { timer: RNR_TIMER },
                Some(Acknowledged::Positive) | None => Syndrome::ACK,
            };
            header.push(&Aeth::new(syndrome, self.msn.unwrap_or(0)));
        }
        if has(Extensions::ATOMIC_ACK_ETH) {
            header.push(&AtomicAckEth::new(self.orig.unwrap_or(0)));
        }
        if has(Extensions::IMM) {
            header.push(&ImmDt::new(self.imm.unwrap_or(0)));
        }
        if has(Extensions::IETH) {
            let value = self.inv.as_ref().unwrap_or(&buf);
            header.push(&Ieth::new(Key(key(symbols, value)?)));
        }
        if facts.service == Service::Cnp {
            header.push(&[0_u8; 16]);
        }
        Ok(())
    }

    fn absolute_psn(
        &self,
        pair: &PairFacts,
        facts: Option<&OpcodeFacts>,
    ) -> softrnic_model::verbs::Psn {
        self.psn_from(pair, facts.is_some_and(|facts| facts.operation.is_response()))
    }

    /// Sequence number of a packet that arrives as a response, or as a request.
    fn psn_from(&self, pair: &PairFacts, is_response: bool) -> softrnic_model::verbs::Psn {
        let base = if is_response { pair.sq_psn } else { pair.rq_psn };
        let raw = match self.psn.unwrap_or(Psn::Plus(0)) {
            Psn::Plus(plus) => i64::from(base).wrapping_add(plus),
            Psn::Absolute(raw) => i64::from(raw),
        };
        softrnic_model::verbs::Psn::new(u32::try_from(raw & 0xff_ffff).unwrap_or(0))
    }

    /// What of a packet that left is not as the line says; nothing is well.
    ///
    /// # Errors
    /// A name stands for nothing, or the service has no such packet.
    pub fn compare(&self, bytes: &[u8], symbols: &dyn Symbols) -> Result<Vec<String>, Reason> {
        let pair = pair(symbols, &self.qp)?;
        let opcode = self.opcode(&pair)?;
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return Ok(vec![format!("it is malformed: {error}")]),
        };
        let mut found = Differences(Vec::new());
        if packet.opcode != opcode {
            found.0.push(format!("it is {:?}", packet.opcode));
            return Ok(found.0);
        }
        self.compare_bth(&packet, &pair, symbols, &mut found)?;
        self.compare_extensions(&packet, symbols, &mut found)?;
        if let Some(data) = &self.data
            && packet.payload != data.as_slice()
        {
            found.0.push(different_bytes(packet.payload, data));
        }
        found.same("size", self.size, Some(packet.payload.len()));
        Ok(found.0)
    }

    fn compare_bth(
        &self,
        packet: &Packet<'_>,
        pair: &PairFacts,
        symbols: &dyn Symbols,
        found: &mut Differences,
    ) -> Result<(), Reason> {
        let bth = &packet.bth;
        let is_response = packet.facts.is_some_and(|facts| facts.operation.is_response());
        if self.psn.is_some() {
            // What the device answers counts from what it expects, what it asks from what it sends.
            let expected = self.psn_from(pair, !is_response);
            found.same("psn", Some(expected), Some(bth.psn()));
        }
        found.same("ack", self.ack, Some(bth.ack_req()));
        found.same("se", self.se, Some(bth.solicited()));
        found.same("mig", self.mig, Some(bth.migreq()));
        found.same("fecn", self.fecn, Some(bth.fecn()));
        found.same("becn", self.becn, Some(bth.becn()));
        found.same("pad", self.pad.map(usize::from), Some(bth.pad()));
        found.same("tver", Some(self.tver.unwrap_or(0)), Some(bth.transport_version()));
        found.same("pkey", Some(self.pkey.unwrap_or(Bth::DEFAULT_PKEY)), Some(bth.pkey()));
        let dest = match &self.dest {
            None => pair.peer,
            Some(value) => dest(symbols, value)?,
        };
        found.same("dest", Some(dest), Some(bth.dest_qp()));
        Ok(())
    }

    fn compare_extensions(
        &self,
        packet: &Packet<'_>,
        symbols: &dyn Symbols,
        found: &mut Differences,
    ) -> Result<(), Reason> {
        let va = self.va.as_ref().map(|value| address(symbols, value)).transpose()?;
        let rkey = self.rkey.as_ref().map(|value| key(symbols, value)).transpose()?;
        let (reth, atomic) = (packet.reth(), packet.atomic_eth());
        let got_va = reth.map(Reth::va).or(atomic.map(AtomicEth::va));
        let got_rkey = reth.map(Reth::rkey).or(atomic.map(AtomicEth::rkey));
        found.same("va", va, got_va);
        found.same("rkey", rkey, got_rkey.map(|key| key.0));
        found.same("len", self.len, reth.map(Reth::len));
        found.same("swap", self.swap, atomic.map(AtomicEth::swap_or_add));
        found.same("compare", self.compare, atomic.map(AtomicEth::compare));
        found.same("orig", self.orig, packet.atomic_ack_eth().map(AtomicAckEth::original));
        found.same("msn", self.msn, packet.aeth().map(Aeth::msn));
        found.same("imm", self.imm, packet.imm_dt().map(ImmDt::data));
        let inv = self.inv.as_ref().map(|value| key(symbols, value)).transpose()?;
        found.same("inv", inv, packet.ieth().map(|ieth| ieth.rkey().0));
        found.same("qkey", self.qkey, packet.deth().map(Deth::qkey));
        found.same("src", self.src, packet.deth().map(|deth| deth.src_qp().get()));
        found.same("srq", self.srq, packet.xrc_eth().map(XrcEth::srq));
        found.same("placement", self.placement, packet.feth().map(Feth::placement));
        found.same("selectivity", self.selectivity, packet.feth().map(Feth::selectivity));
        if let (Some(expected), Some(aeth)) = (self.syndrome, packet.aeth()) {
            let got = aeth.syndrome();
            let fits = match expected {
                Acknowledged::Exactly(byte) => u8::from(got) == byte,
                Acknowledged::Positive => matches!(got, Syndrome::Ack { .. }),
                Acknowledged::NotReady => matches!(got, Syndrome::RnrNak { .. }),
            };
            if !fits {
                found.0.push(format!("its syndrome is {got:?}"));
            }
        }
        Ok(())
    }
}

/// What is not as it was said.
struct Differences(Vec<String>);

impl Differences {
    fn same<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        expected: Option<T>,
        got: Option<T>,
    ) {
        match (expected, got) {
            (Some(expected), Some(got)) if expected != got => {
                self.0.push(format!("{what} is {got:x?}, not {expected:x?}"));
            }
            (Some(expected), None) => self.0.push(format!("there is no {what} ({expected:x?})")),
            (None, _) | (Some(_), Some(_)) => {}
        }
    }
}

/// Where two runs of bytes differ first.
pub(super) fn different_bytes(got: &[u8], expected: &[u8]) -> String {
    if got.len() != expected.len() {
        return format!("it has {} bytes, not {}", got.len(), expected.len());
    }
    let at = got.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(0);
    format!("byte {at} is {:#04x}, not {:#04x}", got[at], expected[at])
}

fn pair(symbols: &dyn Symbols, name: &str) -> Result<PairFacts, Reason> {
    symbols.pair(name).ok_or_else(|| format!("there is no queue pair called {name}"))
}

fn dest(symbols: &dyn Symbols, value: &Value) -> Result<QpNum, Reason> {
    let base = match &value.name {
        Some(name) => pair(symbols, name)?.number.get(),
        None => 0,
    };
    let plus = u32::try_from(value.plus & 0xff_ffff).unwrap_or(0);
    Ok(QpNum::new(base.wrapping_add(plus)))
}

fn address(symbols: &dyn Symbols, value: &Value) -> Result<u64, Reason> {
    Ok(named(symbols, value)?.0.wrapping_add(value.plus))
}

fn key(symbols: &dyn Symbols, value: &Value) -> Result<u32, Reason> {
    let plus = u32::try_from(value.plus & 0xffff_ffff).unwrap_or(0);
    Ok(named(symbols, value)?.1.wrapping_add(plus))
}

fn named(symbols: &dyn Symbols, value: &Value) -> Result<(u64, u32), Reason> {
    let Some(name) = &value.name else { return Ok((0, 0)) };
    symbols.key(name).ok_or_else(|| format!("there is no region or window called {name}"))
}

fn psn(text: &str) -> Result<Psn, Reason> {
    if let Some(raw) = text.strip_prefix("abs:") {
        let raw = u32::try_from(number(raw)?).map_err(|_| format!("{raw} is too large"))?;
        return Ok(Psn::Absolute(raw & 0xff_ffff));
    }
    Ok(Psn::Plus(number(text)?.cast_signed()))
}

fn service(text: &str) -> Result<Service, Reason> {
    match text {
        "rc" => Ok(Service::Rc),
        "uc" => Ok(Service::Uc),
        "ud" => Ok(Service::Ud),
        "xrc" => Ok(Service::Xrc),
        _ => Err(format!("{text} is no service")),
    }
}

/// The name of a packet as the opcode tables have it; `RDMA_` may be left out.
fn long_name(name: &str) -> Option<String> {
    let long = format!("RDMA_{name}");
    let known = |wanted: &str| {
        (0..=u8::MAX).any(|code| Opcode(code).facts().is_some_and(|facts| facts.name == wanted))
    };
    [name.to_owned(), long].into_iter().find(|name| known(name))
}
