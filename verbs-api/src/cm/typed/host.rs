//! The devices of this host, and the connector that a process has of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{ConnectError, Connector};
use crate::backend::{self, Backend, Choice};
use crate::cm::ConnectionManager;
use crate::device::Context;
use crate::emulated::{DeviceChoice, EmulatedConfig, EmulatedProvider, Sharing};
use crate::provider::{OpenFailure, Provider};

/// The connection manager of the process, as long as somebody has it.
static OF_HOST: Mutex<Option<Weak<dyn ConnectionManager>>> = Mutex::new(None);

pub(super) fn connector() -> Result<Connector, ConnectError> {
    let mut known = OF_HOST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cm) = known.as_ref().and_then(Weak::upgrade) {
        return Ok(Connector::over(cm));
    }
    let connector = Connector::of(Backend::from_environment()?)?;
    *known = Some(Arc::downgrade(&connector.cm));
    Ok(connector)
}

/// Opens all devices of a kind.
pub(super) fn devices(backend: Backend) -> Result<Vec<Context>, ConnectError> {
    let choice = backend.choose()?;
    backend::tell(backend, &choice);
    let provider = match choice {
        Choice::Hardware(provider) => provider,
        Choice::Emulated(_) => emulated()?,
    };
    let (mut devices, mut failure) = (Vec::new(), None);
    for info in provider.devices().map_err(OpenFailure::from)? {
        match provider.open(&info.name) {
            Ok(device) => devices.push(Context::new(device)),
            Err(error) => failure = Some(error),
        }
    }
    // One that cannot be had is no reason to do without the others.
    match failure {
        Some(failure) if devices.is_empty() => Err(failure.into()),
        Some(_) | None => Ok(devices),
    }
}

/// Those that the environment names, or all, shared with other processes.
fn emulated() -> Result<Arc<dyn Provider>, ConnectError> {
    let settings = EmulatedConfig {
        sharing: Sharing::Service,
        ..EmulatedConfig::new(std::net::Ipv4Addr::LOCALHOST.into())
    };
    let mut provider = EmulatedProvider::from_environment(settings).map_err(OpenFailure::from)?;
    if provider.choice == DeviceChoice::Usable {
        provider.choice = DeviceChoice::Every;
    }
    Ok(Arc::new(provider))
}
