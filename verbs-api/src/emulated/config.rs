//! How an emulated device is opened.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use softrnic_model::DeviceConfig;
use softrnic_model::profile::Profile;
use softrnic_model::protection::KeyPolicy;
use softrnic_model::verbs::{Gid, Mtu, VerbError};
use softrnic_transport::interfaces::Interface;
use softrnic_transport::{UdpConfig, udp};

use crate::provider::OpenFailure;

/// How to open an emulated device.
#[derive(Clone, Debug)]
pub struct EmulatedConfig {
    /// Its name.
    pub name: String,
    /// Its addresses, each one GID, in the order of the GID table. At least one, unless there is
    /// an interface.
    pub addresses: Vec<IpAddr>,
    /// The network interface that it follows: it has all addresses of the interface, now and
    /// later. Without one it keeps to [`EmulatedConfig::addresses`].
    pub interface: Option<String>,
    /// UDP port, 4791 unless both ends are told otherwise.
    pub port: u16,
    /// How it behaves where devices differ.
    pub profile: Profile,
    /// How keys are chosen.
    pub key_policy: KeyPolicy,
    /// Records all frames into this file (pcapng).
    pub capture: Option<PathBuf>,
    /// Fault rules: `drop=1%,reorder=2%,seed=7`.
    pub faults: Option<String>,
    /// Writes one line per frame to standard error.
    pub trace: bool,
    /// Tells its counters to whoever of the same user asks (`softrnic stat`; unix only). That it
    /// cannot is no reason not to open.
    pub publish: bool,
    /// Whether other processes may use its addresses and port as well.
    pub sharing: Sharing,
    /// Several frames per system call where the kernel can (`UDP_SEGMENT`, `UDP_GRO`).
    pub offload: udp::Offload,
    /// Bytes that one queue pair may have unacknowledged; 0 lets the receive buffer decide.
    pub window_bytes: u32,
    /// Whether queue pairs send less when peers report congestion; see
    /// [`DeviceConfig::reaction_point`].
    pub reaction_point: bool,
}

impl EmulatedConfig {
    /// The usual device at `address`.
    #[must_use]
    pub fn new(address: IpAddr) -> Self {
        Self {
            name: "softrnic0".into(),
            addresses: vec![address],
            interface: None,
            port: softrnic_model::wire::ROCE_PORT,
            profile: Profile::SPEC,
            key_policy: KeyPolicy::Sequential,
            capture: None,
            faults: None,
            trace: false,
            publish: false,
            sharing: Sharing::Alone,
            offload: udp::Offload::Auto,
            window_bytes: 0,
            reaction_point: false,
        }
    }

    /// The usual device at all addresses of the network interface `name`, named after it as
    /// [`EmulatedProvider`](super::EmulatedProvider) does. When addresses come or go, so do GIDs.
    #[must_use]
    pub fn on_interface(name: &str) -> Self {
        Self {
            name: device_name(name),
            addresses: Vec::new(),
            interface: Some(name.into()),
            ..Self::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
        }
    }

    /// The same on another UDP port. Peers must use the same one.
    #[must_use]
    pub const fn with_port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// What the environment asks for: `SOFTRNIC_CAPTURE`, `SOFTRNIC_FAULTS`, `SOFTRNIC_TRACE`,
    /// `SOFTRNIC_STAT`, `SOFTRNIC_REACTION_POINT`, `SOFTRNIC_PROFILE`, each only where nothing else was
    /// said before, and
    /// `SOFTRNIC_SERVICE` ([`Sharing::with_environment`]).
    ///
    /// # Errors
    /// A profile that does not exist.
    pub fn with_environment(mut self) -> Result<Self, OpenError> {
        if self.capture.is_none() {
            self.capture = variable("SOFTRNIC_CAPTURE").map(PathBuf::from);
        }
        if self.faults.is_none() {
            self.faults = variable("SOFTRNIC_FAULTS");
        }
        self.trace |= variable("SOFTRNIC_TRACE").is_some_and(|value| value != "0");
        self.sharing = self.sharing.with_environment();
        self.publish |= variable("SOFTRNIC_STAT").is_some_and(|value| value != "0");
        self.reaction_point |=
            variable("SOFTRNIC_REACTION_POINT").is_some_and(|value| value != "0");
        if let Some(name) = variable("SOFTRNIC_PROFILE") {
            self.profile = name
                .parse()
                .map_err(|error| OpenError::Setting(format!("SOFTRNIC_PROFILE: {error}")))?;
        }
        Ok(self)
    }

    /// With the addresses that its interface has now, if it follows one.
    pub(super) fn resolved(mut self, all: &[Interface]) -> Result<Self, OpenError> {
        if let Some(name) = &self.interface {
            let known = || all.iter().map(|interface| interface.name.clone()).collect();
            let unknown =
                || udp::OpenError::UnknownInterface { name: name.clone(), known: known() };
            let interface = all.iter().find(|interface| interface.name == *name);
            self.addresses = interface.ok_or_else(unknown)?.addresses.clone();
        }
        Ok(self)
    }

    pub(super) fn udp(&self, address: IpAddr) -> UdpConfig {
        UdpConfig {
            gso: self.offload,
            gro: self.offload,
            interface: self.interface.clone(),
            ..UdpConfig::new(address).with_port(self.port)
        }
    }

    /// What the model is made with. `slot` is that of its queue pair numbers, `receive_buffer` what
    /// the kernel granted.
    pub(super) fn device(
        &self,
        slot: u8,
        gids: Vec<Gid>,
        mtu: Mtu,
        receive_buffer: usize,
    ) -> DeviceConfig {
        let window_bytes = if self.window_bytes == 0 {
            u32::try_from(receive_buffer / 4).unwrap_or(u32::MAX).clamp(64 << 10, 1 << 20)
        } else {
            self.window_bytes
        };
        let mut config = DeviceConfig {
            profile: self.profile,
            key_policy: self.key_policy,
            gids,
            mtu,
            window_bytes,
            reaction_point: self.reaction_point,
            qp_slot: slot,
            first_qp_index: somewhere(),
            ..DeviceConfig::default()
        };
        config.attributes.node_guid = self.node_guid();
        config
    }

    /// The node GUID of its device: an EUI-64 of the local kind, made from the first address.
    #[must_use]
    pub fn node_guid(&self) -> [u8; 8] {
        let tail = match self.addresses.first() {
            Some(IpAddr::V4(v4)) => v4.octets(),
            Some(IpAddr::V6(v6)) => {
                let o = v6.octets();
                [o[12] ^ o[8], o[13] ^ o[9], o[14] ^ o[10], o[15] ^ o[11]]
            }
            None => [0; 4],
        };
        [0x02, tail[0], 0x52, 0xff, 0xfe, tail[1], tail[2], tail[3]]
    }
}

/// What a variable of the environment says, if it says anything.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// How a device has its addresses and port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// It owns the port itself: no other process has a device at these addresses.
    #[default]
    Alone,
    /// It has a slot of the port service, which is started if need be, so that many processes
    /// have devices at one address (Linux). Where there is none and none can be started, as
    /// [`Sharing::Alone`].
    Service,
}

impl Sharing {
    /// What the environment variable `SOFTRNIC_SERVICE` says: `off` is [`Sharing::Alone`], the
    /// path of an executable [`Sharing::Service`]; the same as before if it is not set.
    #[must_use]
    pub fn with_environment(self) -> Self {
        match std::env::var_os("SOFTRNIC_SERVICE") {
            Some(value) if value == "off" => Self::Alone,
            Some(value) if !value.is_empty() => Self::Service,
            Some(_) | None => self,
        }
    }
}

/// How the device of an interface is called.
pub(super) fn device_name(interface: &str) -> String {
    format!("softrnic_{interface}")
}

/// A number that differs from run to run, so that packets for an earlier run meet no queue pair.
fn somewhere() -> u16 {
    use std::hash::{BuildHasher, Hasher};
    let hash = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (hash & 0xffff) as u16
}

/// Why a device was not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The link could not be opened.
    Link(udp::OpenError),
    /// The port service refuses, or cannot be used; the text says why and what to do.
    Sharing(String),
    /// There is no port service, for the second reason, and without one the link could not be
    /// opened.
    Unshared(udp::OpenError, String),
    /// A setting is wrong.
    Setting(String),
    /// The system refused something else that a device needs.
    System(&'static str, io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => error.fmt(f),
            Self::Unshared(error, why) => write!(f, "{error} ({why})"),
            Self::Sharing(text) | Self::Setting(text) => f.write_str(text),
            Self::System(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Link(error) | Self::Unshared(error, _) => Some(error),
            Self::Sharing(_) | Self::Setting(_) => None,
            Self::System(_, error) => Some(error),
        }
    }
}

impl From<OpenError> for OpenFailure {
    fn from(error: OpenError) -> Self {
        let reason = error.to_string();
        let error = match error {
            OpenError::Link(_) | OpenError::Unshared(..) | OpenError::Sharing(_) => {
                VerbError::Unreachable("the address or port cannot be had")
            }
            OpenError::Setting(_) => VerbError::Invalid("a setting of the device is wrong"),
            OpenError::System(..) => VerbError::Full("the system has no room for the device"),
        };
        Self { error, reason }
    }
}

impl From<udp::OpenError> for OpenError {
    fn from(error: udp::OpenError) -> Self {
        Self::Link(error)
    }
}
