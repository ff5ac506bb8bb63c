//! Commands, as text.

use std::net::IpAddr;
use std::str::FromStr;

use softrnic_model::verbs::{
    Access, DeviceCapabilities, Gid, Mtu, Placement, Psn, QpNum, QpState, QpType, Selectivity,
    SendFlags, WcOpcode, WindowType,
};

use crate::names::{self, value};
use crate::text::{Arguments, Bytes, Reason, Value, number};

/// One command, and the line that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The line.
    pub text: String,
    /// What it asks for.
    pub action: Action,
}

/// What the program can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `qp TYPE ..`: makes a queue pair and brings it up.
    Qp(QpSetup),
    /// `region NAME ..`: registers memory.
    Region(RegionSetup),
    /// `window NAME type=1|2`: makes a window.
    Window(WindowSetup),
    /// `dereg NAME`: deregisters a region, or frees a window.
    Dereg(String),
    /// `recv id=.. at=.. len=..`: posts a receive.
    Recv {
        /// To which queue pair.
        qp: String,
        /// The program's own number.
        id: u64,
        /// Where it goes.
        elements: Vec<Element>,
    },
    /// `post OPCODE ..`: posts a send.
    Post(Box<Post>),
    /// `poll`: takes completions.
    Poll,
    /// `memory PLACE len=..`: reads memory.
    Memory {
        /// From where on.
        at: Place,
        /// How many bytes.
        len: usize,
    },
    /// `store PLACE BYTES`: writes memory, as the program may at any time.
    Store {
        /// From where on.
        at: Place,
        /// What.
        bytes: Vec<u8>,
    },
    /// `state`: asks for the state of a queue pair.
    State {
        /// Which.
        qp: String,
    },
    /// `move STATE`: moves a queue pair.
    Move {
        /// Which.
        qp: String,
        /// Where to.
        state: QpState,
    },
    /// `rights LETTERS`: changes what peers may do through a queue pair.
    Rights {
        /// Which.
        qp: String,
        /// What.
        access: Access,
    },
    /// `events`: takes asynchronous events.
    Events,
    /// `destroy`: destroys a queue pair.
    Destroy {
        /// Which.
        qp: String,
    },
    /// `limit N`: arms the limit of the shared receive queue.
    Limit {
        /// Of which queue pair.
        qp: String,
        /// At how many.
        limit: u32,
    },
    /// `capabilities`: asks what the device can do.
    Capabilities,
    /// `close`: destroys everything.
    Close,
}

/// How a queue pair is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QpSetup {
    /// What it is called; `qp` if nothing is said.
    pub name: String,
    /// Its type.
    pub qp_type: QpType,
    /// Path MTU.
    pub mtu: Mtu,
    /// What peers may do through it.
    pub access: Access,
    /// READs and atomics that may be open as responder.
    pub depth: u8,
    /// The same as requester.
    pub reads: u8,
    /// Local ACK timeout code; 0 waits for ever.
    pub timeout: u8,
    /// Retries after silence.
    pub retry: u8,
    /// Retries after RNR; 7 is without end.
    pub rnr: u8,
    /// RNR timer code.
    pub min_rnr: u8,
    /// Q_Key.
    pub qkey: u32,
    /// First sequence number that is expected.
    pub rq_psn: Psn,
    /// First sequence number that is sent.
    pub sq_psn: Psn,
    /// The last state that it is brought to.
    pub state: QpState,
    /// Places of a shared receive queue, if it has one.
    pub srq: Option<u32>,
    /// Places of its queues.
    pub places: u32,
    /// Places of its completion queue.
    pub cq: u32,
    /// The peer's address; nobody's if nothing is said.
    pub peer: Gid,
    /// The peer's queue pair.
    pub peer_qp: QpNum,
}

/// How memory is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionSetup {
    /// What it is called.
    pub name: String,
    /// Bytes. Byte i holds i modulo 256 at first.
    pub len: usize,
    /// Its rights.
    pub access: Access,
    /// The protection domain it is in; `pd`, that of the queue pairs, if nothing is said.
    pub pd: String,
}

/// A window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowSetup {
    /// What it is called.
    pub name: String,
    /// Its type.
    pub window_type: WindowType,
    /// The protection domain it is in.
    pub pd: String,
}

/// A place in memory: `NAME` or `NAME+OFFSET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub name: String,
    /// Bytes from its start on; may lie outside.
    pub offset: u64,
}

/// A scatter/gather element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Where.
    pub at: Place,
    /// How much.
    pub len: u32,
    /// Another key than that of the region.
    pub lkey: Option<Value>,
}

/// A send work request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Post {
    /// To which queue pair.
    pub qp: String,
    /// What it is; a completion of it would say so.
    pub opcode: WcOpcode,
    /// The program's own number.
    pub id: u64,
    /// Local memory.
    pub elements: Vec<Element>,
    /// Address at the peer, or that a window is bound to.
    pub to: Value,
    /// Key at the peer.
    pub rkey: Value,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Key that the peer, or this device, shall invalidate.
    pub inv: Option<Value>,
    /// Value to compare with.
    pub compare: u64,
    /// Value to swap or add.
    pub swap: u64,
    /// How.
    pub flags: SendFlags,
    /// Bytes that a FLUSH or a window is about.
    pub range: u64,
    /// Where flushed bytes shall be.
    pub placement: Placement,
    /// Which bytes are flushed.
    pub selectivity: Selectivity,
    /// The window to bind.
    pub window: String,
    /// The variant part of its new key.
    pub variant: u8,
    /// Rights of the window.
    pub rights: Access,
    /// The peer's queue pair, of a datagram; that of the queue pair's peer if nothing is said.
    pub dest: Option<QpNum>,
    /// Q_Key of a datagram; that of the queue pair if nothing is said.
    pub qkey: Option<u32>,
    /// Number of the peer's shared receive queue (XRC).
    pub srq: u32,
}

const QP: &str = "qp";

/// The name of a queue pair that nothing is said of.
fn qp(args: &mut Arguments) -> String {
    args.pair(QP).unwrap_or_else(|| QP.into())
}

impl FromStr for Command {
    type Err = Reason;

    fn from_str(line: &str) -> Result<Self, Reason> {
        let mut args = Arguments::new(line);
        let verb = args.word("a command")?;
        let action = match verb.as_str() {
            "qp" => Action::Qp(qp_setup(&mut args)?),
            "region" => Action::Region(RegionSetup {
                name: args.word("the name of a region")?,
                len: args.number("len", 4096)?,
                access: args.read("rights", default_rights(), rights)?,
                pd: args.pair("pd").unwrap_or_else(|| "pd".into()),
            }),
            "window" => Action::Window(WindowSetup {
                name: args.word("the name of a window")?,
                window_type: args.read("type", WindowType::Type2A, window_type)?,
                pd: args.pair("pd").unwrap_or_else(|| "pd".into()),
            }),
            "dereg" => Action::Dereg(args.word("the name of a region or window")?),
            "recv" => Action::Recv {
                qp: qp(&mut args),
                id: args.number("id", 0)?,
                elements: elements(&mut args)?,
            },
            "post" => Action::Post(Box::new(post(&mut args)?)),
            "poll" => Action::Poll,
            "memory" => Action::Memory {
                at: Place::parse(&args.word("a place")?)?,
                len: args.required("len")?,
            },
            "store" => Action::Store {
                at: Place::parse(&args.word("a place")?)?,
                bytes: Bytes::parse(&args.word("bytes")?)?.0,
            },
            "state" => Action::State { qp: qp(&mut args) },
            "move" => Action::Move { qp: qp(&mut args), state: state(&args.word("a state")?)? },
            "rights" => {
                Action::Rights { qp: qp(&mut args), access: rights(&args.word("letters")?)? }
            }
            "events" => Action::Events,
            "destroy" => Action::Destroy { qp: qp(&mut args) },
            "limit" => Action::Limit {
                qp: qp(&mut args),
                limit: u32::try_from(number(&args.word("a number")?)?)
                    .map_err(|_| "too large".to_owned())?,
            },
            "capabilities" => Action::Capabilities,
            "close" => Action::Close,
            _ => return Err(format!("{verb:?} is no command")),
        };
        args.finish()?;
        Ok(Self { text: line.trim().to_owned(), action })
    }
}

/// All rights that every device knows.
fn default_rights() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND
}

fn qp_setup(args: &mut Arguments) -> Result<QpSetup, Reason> {
    let word = args.word("the type of a queue pair")?;
    let qp_type = value(names::TYPES, &word).ok_or_else(|| format!("{word:?} is no type"))?;
    let psn = |raw: u64| Psn::new(u32::try_from(raw & 0xff_ffff).unwrap_or(0));
    Ok(QpSetup {
        name: args.pair("name").unwrap_or_else(|| QP.into()),
        qp_type,
        mtu: args.read("mtu", Mtu::B256, mtu)?,
        access: args.read("rights", Access::REMOTE, rights)?,
        depth: args.number("depth", 4)?,
        reads: args.number("reads", 4)?,
        timeout: args.number("timeout", 0)?,
        retry: args.number("retry", 7)?,
        rnr: args.number("rnr", 7)?,
        min_rnr: args.number("minrnr", 12)?,
        qkey: args.number("qkey", 0x1111_1111)?,
        rq_psn: psn(args.number("psn", 0x00_1000_u64)?),
        sq_psn: psn(args.number("sqpsn", 0x7a_0000_u64)?),
        state: args.read("to", QpState::Rts, state)?,
        srq: args.read("srq", None, |text| {
            u32::try_from(number(text)?).map(Some).map_err(|_| "too large".into())
        })?,
        places: args.number("places", 16)?,
        cq: args.number("cq", 64)?,
        peer: args.read("peer", Gid::default(), |text| {
            let ip: IpAddr = text.parse().map_err(|_| format!("{text:?} is no address"))?;
            Ok(Gid::from(ip))
        })?,
        peer_qp: QpNum::new(args.number("peerqp", 0)?),
    })
}

fn post(args: &mut Arguments) -> Result<Post, Reason> {
    let word = args.word("what to post")?;
    let opcode = value(names::OPCODES, &word).ok_or_else(|| format!("{word:?} is no opcode"))?;
    let mut flags = SendFlags::SIGNALED;
    for (name, flag) in [
        ("fence", SendFlags::FENCE),
        ("solicited", SendFlags::SOLICITED),
        ("inline", SendFlags::INLINE),
    ] {
        flags.set(flag, args.flag(name));
    }
    flags.set(SendFlags::SIGNALED, !args.flag("unsignaled"));
    let qp = qp(args);
    let is_range = matches!(opcode, WcOpcode::Flush | WcOpcode::BindMw);
    let range = if is_range { args.number("len", 0)? } else { 0 };
    let value = |text: &str| Value::parse(text);
    let some_value = |text: &str| Value::parse(text).map(Some);
    let zero = Value { name: None, plus: 0 };
    Ok(Post {
        qp,
        opcode,
        id: args.number("id", 0)?,
        elements: elements(args)?,
        to: args.read("to", zero.clone(), value)?,
        rkey: args.read("rkey", zero, value)?,
        imm: args.read("imm", None, |text| some_number(text))?,
        inv: args.read("inv", None, some_value)?,
        compare: args.number("compare", 0)?,
        swap: args.number("swap", 0)?,
        flags,
        range,
        placement: args.read("placement", Placement::GLOBAL, |text| {
            let bits = u8::try_from(number(text)?).unwrap_or(u8::MAX);
            Placement::from_bits(bits).ok_or_else(|| format!("{text} is no placement"))
        })?,
        selectivity: args.read("selectivity", Selectivity::Range, |text| match text {
            "range" => Ok(Selectivity::Range),
            "region" => Ok(Selectivity::Region),
            _ => Err(format!("{text} is neither range nor region")),
        })?,
        window: args.pair("window").unwrap_or_default(),
        variant: args.number("variant", 1)?,
        rights: args.read("rights", Access::REMOTE, rights)?,
        dest: args.read("dest", None, |text| Ok(some_number(text)?.map(QpNum::new)))?,
        qkey: args.read("qkey", None, |text| some_number(text))?,
        srq: args.number("srq", 0)?,
    })
}

fn some_number(text: &str) -> Result<Option<u32>, Reason> {
    u32::try_from(number(text)?).map(Some).map_err(|_| format!("{text} is too large"))
}

/// `at=buf+8 len=16 lkey=..`, or `sge=buf+8:16,buf+64:8`; nothing is no memory at all.
fn elements(args: &mut Arguments) -> Result<Vec<Element>, Reason> {
    let lkey = args.read("lkey", None, |text| Value::parse(text).map(Some))?;
    if let Some(list) = args.pair("sge") {
        let element = |text: &str| {
            let (at, len) = text.split_once(':').ok_or("sge: an element is PLACE:LENGTH")?;
            let len = u32::try_from(number(len)?).map_err(|_| "sge: too long")?;
            Ok(Element { at: Place::parse(at)?, len, lkey: lkey.clone() })
        };
        return list.split(',').map(element).collect();
    }
    let at = args.pair("at");
    let len = args.number("len", 0)?;
    if at.is_none() && len == 0 {
        return Ok(Vec::new());
    }
    let at = Place::parse(at.as_deref().unwrap_or("buf"))?;
    Ok(vec![Element { at, len, lkey }])
}

impl Place {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let Value { name, plus } = Value::parse(text)?;
        let name = name.ok_or_else(|| format!("{text:?} is no place (such as buf+8)"))?;
        Ok(Self { name, offset: plus })
    }
}

fn rights(letters: &str) -> Result<Access, Reason> {
    names::rights(letters).map_err(|letter| format!("{letter:?} stands for no right"))
}

fn state(name: &str) -> Result<QpState, Reason> {
    value(names::STATES, name).ok_or_else(|| format!("{name:?} is no state"))
}

fn window_type(text: &str) -> Result<WindowType, Reason> {
    match text {
        "1" => Ok(WindowType::Type1),
        "2" | "2a" => Ok(WindowType::Type2A),
        "2b" => Ok(WindowType::Type2B),
        _ => Err(format!("{text} is no type of window")),
    }
}

fn mtu(text: &str) -> Result<Mtu, Reason> {
    let bytes = number(text)?;
    let found = Mtu::ALL.into_iter().find(|mtu| u64::from(mtu.bytes()) == bytes);
    found.ok_or_else(|| format!("{text} is no path MTU"))
}

/// The names of what the device can do.
#[must_use]
pub fn describe(capabilities: DeviceCapabilities) -> Vec<String> {
    let can = names::CAPABILITIES.iter().filter(|(_, bit)| capabilities.contains(*bit));
    can.map(|(name, _)| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood() {
        let action = |line: &str| line.parse::<Command>().map(|command| command.action);
        let Ok(Action::Qp(setup)) = action("qp rc psn=0xffffff mtu=1024 rights=wr srq=8") else {
            panic!("a queue pair")
        };
        assert_eq!(
            (setup.rq_psn, setup.mtu, setup.srq),
            (Psn::new(0xff_ffff), Mtu::B1024, Some(8))
        );
        assert_eq!(setup.access, Access::REMOTE_WRITE | Access::REMOTE_READ);
        let Ok(Action::Post(post)) = action("post RDMA_WRITE id=3 sge=buf:4,buf+8:2 to=0x10 fence")
        else {
            panic!("a request")
        };
        assert_eq!((post.elements.len(), post.to.plus, post.id), (2, 16, 3));
        assert!(post.flags.contains(SendFlags::FENCE | SendFlags::SIGNALED));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (line, why) in [
            ("", "a command is missing"),
            ("fly", "\"fly\" is no command"),
            ("qp", "the type of a queue pair is missing"),
            ("qp rq", "\"rq\" is no type"),
            ("qp rc mtu=7", "mtu: 7 is no path MTU"),
            ("qp rc rights=x", "rights: 'x' stands for no right"),
            ("qp rc depth=256", "depth: 256 is too large"),
            ("move HOME", "\"HOME\" is no state"),
            ("recv sge=buf", "sge: an element is PLACE:LENGTH"),
            ("memory 7 len=1", "\"7\" is no place (such as buf+8)"),
            ("memory buf", "len= is missing"),
            ("state now", "\"now\" means nothing here"),
        ] {
            assert_eq!(line.parse::<Command>().unwrap_err(), why, "{line}");
        }
    }
}
