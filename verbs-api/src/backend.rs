//! Which kind of device drives the verbs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::Arc;

use softrnic_model::verbs::{PortState, VerbError};

use crate::device::Context;
use crate::emulated::{self, EmulatedConfig, EmulatedProvider};
use crate::hardware::{HardwareConfig, HardwareProvider};
use crate::provider::{OpenFailure, Provider};

/// Which kind of device drives the verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// Hardware if there is some, else emulated.
    #[default]
    Auto,
    /// A real device, through rdma-core ([`crate::hardware`]).
    Hardware,
    /// An emulated one ([`crate::emulated`]).
    Emulated,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Hardware, Self::Emulated];

    /// As `--backend` and `SOFTRNIC_BACKEND` spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Hardware => "hardware",
            Self::Emulated => "emulated",
        }
    }

    /// What `SOFTRNIC_BACKEND` says; [`Backend::Auto`] if it says nothing.
    ///
    /// # Errors
    /// `EINVAL`: it says something else.
    pub fn from_environment() -> Result<Self, OpenFailure> {
        match std::env::var("SOFTRNIC_BACKEND") {
            Ok(text) if !text.is_empty() => text.parse().map_err(|_| OpenFailure {
                error: VerbError::Invalid("SOFTRNIC_BACKEND"),
                reason: format!("SOFTRNIC_BACKEND={text}: not auto, hardware or emulated"),
            }),
            Ok(_) | Err(_) => Ok(Self::Auto),
        }
    }

    /// Decides, and finds the hardware if that is what it comes to. With [`Backend::Hardware`], that
    /// there is none is an error, whose text says what is missing and how to get it.
    ///
    /// # Errors
    /// No rdma-core, or no device.
    pub fn choose(self) -> Result<Choice, OpenFailure> {
        match self {
            Self::Emulated => Ok(Choice::Emulated("it was asked for".into())),
            Self::Hardware => real_devices().map(Choice::Hardware),
            Self::Auto => Ok(match real_devices() {
                Ok(provider) => Choice::Hardware(provider),
                Err(why) => Choice::Emulated(first_sentence(&why.reason)),
            }),
        }
    }
}

/// What a text says before it comes to advice.
fn first_sentence(text: &str) -> String {
    text.split("; ").next().unwrap_or(text).to_owned()
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text is not the name of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBackend;

impl fmt::Display for UnknownBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not auto, hardware or emulated")
    }
}

impl core::error::Error for UnknownBackend {}

impl FromStr for Backend {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        Self::ALL.into_iter().find(|backend| backend.name() == text).ok_or(UnknownBackend)
    }
}

/// What a [`Backend`] came to.
#[derive(Clone, Debug)]
pub enum Choice {
    /// There are real devices.
    Hardware(Arc<dyn Provider>),
    /// Devices are emulated, for this reason.
    Emulated(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hardware(_) => f.write_str("hardware"),
            Self::Emulated(why) => write!(f, "emulated ({why})"),
        }
    }
}

/// A provider that has devices.
fn real_devices() -> Result<Arc<dyn Provider>, OpenFailure> {
    let refused = |reason: String| OpenFailure {
        error: VerbError::NotSupported("there is no real device"),
        reason,
    };
    let config = HardwareConfig::from_environment();
    let provider = HardwareProvider::load(&config).map_err(|error| refused(error.to_string()))?;
    match provider.devices() {
        Ok(devices) if devices.is_empty() => Err(refused(
            "there is no RDMA device; is its driver loaded (rdma link)? A kernel with soft-RoCE gets \
             one by: rdma link add rxe0 type rxe netdev eth0"
                .into(),
        )),
        Ok(_) => Ok(Arc::new(provider)),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// The first real device whose port is up and has an address, else the first one.
fn open_real(provider: &dyn Provider) -> Result<Context, OpenFailure> {
    let mut fallback = None;
    for device in provider.devices()? {
        let context = Context::new(provider.open(&device.name)?);
        let up = context.port().is_ok_and(|port| port.state == PortState::Active);
        if up && context.first_gid().is_ok() {
            return Ok(context);
        }
        fallback.get_or_insert(context);
    }
    fallback.ok_or_else(|| VerbError::NoSuchObject("the devices are gone").into())
}

/// The first of the emulated devices that the environment asks for.
fn open_emulated() -> Result<Context, OpenFailure> {
    let settings = EmulatedConfig::new(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let provider = EmulatedProvider::from_environment(settings)?;
    let first = provider.devices()?.into_iter().next();
    let first = first.ok_or(VerbError::NoSuchObject("no interface is up and has an address"))?;
    Ok(Context::new(provider.open(&first.name)?))
}

/// Says which kind it is where nobody asked for one.
pub(crate) fn tell(backend: Backend, choice: &Choice) {
    if backend == Backend::Auto {
        eprintln!("backend: {choice}");
    }
}

/// Opens a device: of real ones the first that is up and has an address; of emulated ones the first that
/// the environment asks for ([`EmulatedProvider::from_environment`]). With [`Backend::Auto`], standard
/// error is told which kind it is.
///
/// ```no_run
/// use softrnic_verbs::{Backend, open};
///
/// let context = open(Backend::from_environment()?)?;
/// println!("{:?}", context.verbs().device());
/// # Ok::<(), softrnic_verbs::provider::OpenFailure>(())
/// ```
///
/// # Errors
/// As [`Backend::choose`] and [`Provider::open`].
pub fn open(backend: Backend) -> Result<Context, OpenFailure> {
    let choice = backend.choose()?;
    tell(backend, &choice);
    match choice {
        Choice::Hardware(provider) => open_real(&*provider),
        Choice::Emulated(_) => open_emulated(),
    }
}

/// Opens two devices that reach each other, for examples and for trying things out: one real device
/// twice, or two emulated ones on loopback ([`emulated::open_pair`]). With [`Backend::Auto`], standard
/// error is told which kind it is.
///
/// # Errors
/// As [`open`].
pub fn open_pair(backend: Backend) -> Result<(Context, Context), OpenFailure> {
    let choice = backend.choose()?;
    tell(backend, &choice);
    match choice {
        Choice::Hardware(provider) => {
            let near = open_real(&*provider)?;
            let far = Context::new(provider.open(&near.verbs().device().name)?);
            Ok((near, far))
        }
        Choice::Emulated(_) => Ok(emulated::open_pair()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for backend in Backend::ALL {
            assert_eq!(backend.to_string().parse(), Ok(backend));
        }
        assert_eq!("real".parse::<Backend>(), Err(UnknownBackend));
    }
}
