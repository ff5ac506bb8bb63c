//! Opening the device that the command line asks for.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use softrnic_model::profile;
use softrnic_transport::{interfaces, udp};
use softrnic_verbs::Context;
use softrnic_verbs::emulated::{EmulatedConfig, EmulatedContext, OpenError, Sharing};
use softrnic_verbs::provider::Provider;

use crate::cli::{Profile, Shared};
use crate::error::Failure;
use crate::hardware;
use crate::units::Address;

/// Addresses that processes of one host take when nobody says which: all are local on Linux.
fn free_for_all() -> impl Iterator<Item = IpAddr> {
    (2..=250).map(|last| IpAddr::from(Ipv4Addr::new(127, 0, 0, last)))
}

/// How a device is opened: all that the command line says but the address.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// A real device is to be opened, of these.
    hardware: Option<Arc<dyn Provider>>,
    emulated: EmulatedConfig,
}

impl Settings {
    /// As the command line says, be it a real device or an emulated one. Where nobody said which,
    /// standard error is told.
    pub(crate) fn new(shared: &Shared) -> Result<Self, Failure> {
        let hardware = hardware::chosen(shared)?;
        Ok(Self { hardware, ..Self::emulated(shared) })
    }

    /// The same, always emulated.
    pub(crate) fn emulated(shared: &Shared) -> Self {
        let trace = std::env::var_os("SOFTRNIC_TRACE");
        let trace = trace.is_some_and(|value| !value.is_empty() && value != "0");
        Self::of(EmulatedConfig {
            capture: shared.capture.clone(),
            faults: shared.faults.clone(),
            trace: shared.trace || trace,
            ..Self::quiet(shared).emulated
        })
    }

    /// The same without taps: for the second of two ends, whose frames the first one sees anyway.
    pub(crate) fn quiet(shared: &Shared) -> Self {
        let mut config = EmulatedConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
        config.profile = shared.profile.model();
        config.publish = true;
        config.sharing = Sharing::Service.with_environment();
        Self::of(config)
    }

    const fn of(emulated: EmulatedConfig) -> Self {
        Self { hardware: None, emulated }
    }

    /// The second of two ends on this host, of the same kind.
    pub(crate) fn second(shared: &Shared) -> Result<Self, Failure> {
        let hardware = hardware::chosen_silently(shared)?;
        Ok(Self { hardware, ..Self::quiet(shared) })
    }

    /// Whether it is a real device.
    pub(crate) const fn is_hardware(&self) -> bool {
        self.hardware.is_some()
    }

    /// Without anything that the command line could say: for a measurement.
    pub(crate) fn bare() -> Self {
        Self::of(EmulatedConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST)))
    }

    /// All settings, for a list of devices; its address means nothing.
    pub(crate) fn into_config(self) -> EmulatedConfig {
        self.emulated
    }

    /// Opens the device at `address`.
    pub(crate) fn open(&self, address: &Address) -> Result<Context, Failure> {
        if let Some(provider) = &self.hardware {
            return hardware::open(&**provider, Some(address), None);
        }
        match address {
            Address::Ips(ips) => self.open_at(ips.clone()),
            Address::Several(_) => return Err(not_one(address)),
            Address::Interface(name) => {
                let interface = interfaces::by_name(name)
                    .map_err(|error| cannot_list(&error))?
                    .ok_or_else(|| unknown_interface(name))?;
                self.open_at(interface.addresses)
            }
        }
        .map_err(Failure::from)
    }

    /// Opens a device at the first loopback address that no other process has, for itself.
    /// Of real devices, the first that is usable.
    pub(crate) fn open_anywhere(&self) -> Result<Context, Failure> {
        if let Some(provider) = &self.hardware {
            return hardware::open(&**provider, None, None);
        }
        let mut last = None;
        let alone = Self::of(EmulatedConfig { sharing: Sharing::Alone, ..self.emulated.clone() });
        for address in free_for_all() {
            match alone.open_at(vec![address]) {
                Err(error) if is_taken(&error) => last = Some(error),
                result => return result.map_err(Failure::from),
            }
        }
        let last = last.unwrap_or_else(|| OpenError::Setting("no address to try".into()));
        Err(Failure::failed(
            format!("every loopback address is taken; the last: {last}"),
            "end other softrnic processes, or name an address with --address",
        ))
    }

    /// Opens the device at `address` or, where nobody said which, at `reached`, by which the peer
    /// found this host. When the peer is on this host too and has that address for itself, any
    /// other will do.
    pub(crate) fn open_for_peer(
        &self,
        address: Option<&Address>,
        reached: IpAddr,
        peer: IpAddr,
    ) -> Result<Context, Failure> {
        if let Some(provider) = &self.hardware {
            return hardware::open(&**provider, address, Some(reached));
        }
        match address {
            Some(address) => self.open(address),
            None if reached == peer && peer.is_loopback() && peer.is_ipv4() => {
                match self.open_at(vec![reached]) {
                    Err(error) if is_taken(&error) => self.open_anywhere(),
                    result => result.map_err(Failure::from),
                }
            }
            None => self.open(&Address::Ips(vec![reached])),
        }
    }

    fn open_at(&self, addresses: Vec<IpAddr>) -> Result<Context, OpenError> {
        let config = EmulatedConfig { addresses, ..self.emulated.clone() };
        Ok(Context::new(Arc::new(EmulatedContext::open(config)?)))
    }
}

impl Profile {
    /// The profile of that name.
    pub(crate) const fn model(self) -> profile::Profile {
        match self {
            Self::Strict => profile::Profile::STRICT,
            Self::Spec => profile::Profile::SPEC,
            Self::Rxe => profile::Profile::RXE,
            Self::Cx5 => profile::Profile::CX5,
        }
    }
}

/// Several devices, for what opens one.
pub(crate) fn not_one(address: &Address) -> Failure {
    Failure::usage(
        format!("--address {address}: several devices, and this opens one"),
        "name the addresses of one, with commas between them",
    )
}

/// Whether another process has the port at the address, and does not share it.
const fn is_taken(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::Sharing(_)
            | OpenError::Link(udp::OpenError::PortInUse { .. })
            | OpenError::Unshared(udp::OpenError::PortInUse { .. }, _)
    )
}

fn cannot_list(error: &std::io::Error) -> Failure {
    Failure::plain(format!("the system does not list its interfaces: {error}"))
}

fn unknown_interface(name: &str) -> Failure {
    let known = interfaces::all().unwrap_or_default();
    let known: Vec<String> = known.into_iter().map(|interface| interface.name).collect();
    Failure::usage(
        format!("--address: no interface called {name} has an address"),
        format!("those that have one: {}", known.join(", ")),
    )
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let text = format!("the device cannot be opened: {error}");
        let (OpenError::Link(cause) | OpenError::Unshared(cause, _)) = &error else {
            return Self::plain(text);
        };
        match cause {
            udp::OpenError::NotOneAddress(_)
            | udp::OpenError::AddressNotHere { .. }
            | udp::OpenError::UnknownInterface { .. } => {
                Self::usage(text, "give this end one of the addresses of this host (--address)")
            }
            udp::OpenError::PortInUse { .. } => Self::failed(
                text,
                "a process that does not share the port needs an address of its own, such as \
                 --address 127.0.0.3",
            ),
            udp::OpenError::NotPermitted { .. }
            | udp::OpenError::NoSourcePort(_)
            | udp::OpenError::Failed { .. } => Self::plain(text),
        }
    }
}
