//! What is said in the exchange: the lines, their version, and what both ends must agree on.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use softrnic_model::verbs::{Gid, Key, Mtu, Psn, QpNum};
use softrnic_verbs::{Endpoint, Mr, Qp, RemoteAddress};

use super::ExchangeError;

/// Version of the lines below. Fields may be added without raising it: unknown ones are ignored.
pub(crate) const VERSION: u32 = 1;

/// One line: the version and what is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) softrnic: u32,
    #[serde(flatten)]
    pub(super) body: Body,
}

/// What every version of a line has; read first, so that a newer peer is told from nonsense.
#[derive(Debug, Deserialize)]
struct LineVersion {
    softrnic: u32,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(super) enum Body {
    /// Who I am.
    Hello(Hello),
    /// I have come to this point.
    Reached {
        /// Its name.
        point: String,
    },
    /// Something that only the two ends of one command understand.
    Told {
        /// It.
        told: serde_json::Value,
    },
    /// I cannot go on.
    Failed {
        /// The reason, for people.
        why: String,
    },
}

/// What the exchange is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Purpose {
    /// `softrnic pingpong`
    Pingpong,
    /// `softrnic bench`
    Bench,
    /// `softrnic demo`
    Demo,
}

impl Purpose {
    /// The command to type.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Pingpong => "softrnic pingpong",
            Self::Bench => "softrnic bench",
            Self::Demo => "softrnic demo",
        }
    }
}

/// The introduction of one end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Which command this is.
    pub(crate) purpose: Purpose,
    /// What both ends must have been told alike.
    pub(crate) settings: Settings,
    /// Its queue pairs; the n-th of one end talks to the n-th of the other.
    pub(crate) queue_pairs: Vec<QueuePairInfo>,
    /// Its regions that the other end may access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) regions: Vec<RegionInfo>,
}

impl Hello {
    /// Whether `theirs`, from `peer`, goes with this.
    pub(super) fn check_against(
        &self,
        theirs: &Self,
        peer: SocketAddr,
    ) -> Result<(), ExchangeError> {
        if self.purpose != theirs.purpose {
            return Err(ExchangeError::OtherPurpose {
                peer,
                ours: self.purpose.command(),
                theirs: theirs.purpose.command(),
            });
        }
        if let Some(Difference { name, ours, theirs }) =
            self.settings.first_difference(&theirs.settings)
        {
            return Err(ExchangeError::OtherSetting { peer, name, ours, theirs });
        }
        if self.queue_pairs.len() != theirs.queue_pairs.len() {
            return Err(ExchangeError::OtherSetting {
                peer,
                name: "the number of queue pairs".into(),
                ours: self.queue_pairs.len().to_string(),
                theirs: theirs.queue_pairs.len().to_string(),
            });
        }
        Ok(())
    }
}

/// Options that both ends must have been given alike, in an order that both share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings(Vec<(String, String)>);

/// One setting that two ends do not share.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Its name: as a rule the option to change.
    pub(crate) name: String,
    /// Our value.
    pub(crate) ours: String,
    /// Their value.
    pub(crate) theirs: String,
}

impl Settings {
    /// Settings by name.
    pub(crate) fn from_pairs<const N: usize>(pairs: [(&str, String); N]) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("not given", |(_, value)| value)
    }

    /// The first setting that is not the same in `theirs`, be it only there.
    pub(crate) fn first_difference(&self, theirs: &Self) -> Option<Difference> {
        let names = self.0.iter().chain(&theirs.0).map(|(name, _)| name);
        names.map(|name| (name, self.get(name), theirs.get(name))).find_map(|(name, a, b)| {
            (a != b).then(|| Difference { name: name.clone(), ours: a.into(), theirs: b.into() })
        })
    }
}

/// How to reach a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawQueuePair", into = "RawQueuePair")]
pub(crate) struct QueuePairInfo {
    /// Its number.
    pub(crate) qpn: QpNum,
    /// The number of the first packet that it will send.
    pub(crate) psn: Psn,
    /// The address of its port.
    pub(crate) gid: Gid,
    /// The Q_Key that datagrams to it must carry (UD).
    pub(crate) qkey: Option<u32>,
    /// READs and atomics that it answers at the same time.
    pub(crate) read_depth: u8,
}

impl QueuePairInfo {
    /// What a peer needs to know of `qp`.
    pub(crate) fn of(qp: &Qp, qkey: Option<u32>) -> softrnic_verbs::Result<Self> {
        let Endpoint { gid, qp_num, psn, responder_depth, .. } = qp.endpoint()?;
        Ok(Self { qpn: qp_num, psn, gid, qkey, read_depth: responder_depth })
    }

    /// The same in the words of the verbs, for a path of this MTU.
    pub(crate) const fn endpoint(&self, mtu: Mtu) -> Endpoint {
        let Self { qpn, psn, gid, read_depth, .. } = *self;
        Endpoint { gid, qp_num: qpn, psn, mtu, responder_depth: read_depth }
    }
}

/// A region that the other end may access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawRegion", into = "RawRegion")]
pub(crate) struct RegionInfo {
    /// Its first virtual address.
    pub(crate) addr: u64,
    /// Its length in bytes.
    pub(crate) length: u64,
    /// The key to it.
    pub(crate) rkey: Key,
}

impl RegionInfo {
    /// What a peer needs to know of `region`.
    pub(crate) fn of(region: &Mr) -> Self {
        let RemoteAddress { addr, rkey } = region.remote(0);
        Self { addr, length: region.buffer().len() as u64, rkey }
    }

    /// The place `offset` bytes into it.
    pub(crate) const fn at(&self, offset: u64) -> RemoteAddress {
        RemoteAddress { addr: self.addr, rkey: self.rkey }.plus(offset)
    }
}

/// [`QueuePairInfo`] as on the line: plain numbers, the GID as an IP address.
#[derive(Serialize, Deserialize)]
struct RawQueuePair {
    qpn: u32,
    psn: u32,
    gid: IpAddr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qkey: Option<u32>,
    #[serde(default)]
    read_depth: u8,
}

impl TryFrom<RawQueuePair> for QueuePairInfo {
    type Error = String;

    fn try_from(raw: RawQueuePair) -> Result<Self, String> {
        let (qpn, psn) = (QpNum::new(raw.qpn), Psn::new(raw.psn));
        if (qpn.get(), psn.get()) != (raw.qpn, raw.psn) {
            return Err(format!("qpn {} or psn {} has more than 24 bits", raw.qpn, raw.psn));
        }
        let RawQueuePair { gid, qkey, read_depth, .. } = raw;
        Ok(Self { qpn, psn, gid: gid.into(), qkey, read_depth })
    }
}

impl From<QueuePairInfo> for RawQueuePair {
    fn from(info: QueuePairInfo) -> Self {
        let QueuePairInfo { qpn, psn, gid, qkey, read_depth } = info;
        Self { qpn: qpn.get(), psn: psn.get(), gid: gid.into(), qkey, read_depth }
    }
}

/// [`RegionInfo`] as on the line.
#[derive(Serialize, Deserialize)]
struct RawRegion {
    addr: u64,
    length: u64,
    rkey: u32,
}

impl TryFrom<RawRegion> for RegionInfo {
    type Error = String;

    fn try_from(RawRegion { addr, length, rkey }: RawRegion) -> Result<Self, String> {
        match addr.checked_add(length) {
            Some(_) => Ok(Self { addr, length, rkey: Key(rkey) }),
            None => Err(format!("a region of {length} bytes at {addr:#x} wraps around")),
        }
    }
}

impl From<RegionInfo> for RawRegion {
    fn from(RegionInfo { addr, length, rkey }: RegionInfo) -> Self {
        Self { addr, length, rkey: rkey.0 }
    }
}

/// Understands one line from `peer`, without its end.
pub(super) fn parse(line: &[u8], peer: SocketAddr) -> Result<Body, ExchangeError> {
    let Ok(LineVersion { softrnic }) = serde_json::from_slice(line) else {
        return Err(ExchangeError::NotSoftrnic { peer, start: excerpt(line) });
    };
    if softrnic != VERSION {
        return Err(ExchangeError::OtherVersion { peer, theirs: softrnic });
    }
    serde_json::from_slice(line)
        .map(|Line { body, .. }| body)
        .map_err(|error| ExchangeError::Malformed { peer, why: error.to_string() })
}

/// The beginning of what a stranger said, fit to be shown.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let start = bytes.get(..SHOWN).unwrap_or(bytes);
    let more = if bytes.len() > SHOWN { "..." } else { "" };
    format!("{}{more}", start.escape_ascii())
}
