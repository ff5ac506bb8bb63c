//! Connecting.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use softrnic_model::verbs::{QpState, QpType};

use super::connection::{Connection, advance, param};
use super::waiting::{Held, deadline_of};
use super::{ConnectError, Listener, host};
use crate::backend::Backend;
use crate::cm::resolve::SystemResolver;
use crate::cm::{CmError, CmEvent, CmEventKind, ConnectionManager, EmulatedManager, EventParam};
use crate::device::Context;
use crate::provider::Timeout;
use crate::queue_pair::Qp;

/// How a connection is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What the peer's program gets to see: at most 56 bytes of who asks, 196 of who takes.
    pub private_data: Vec<u8>,
    /// READs and atomics that the peer may have outstanding here; `None` is as many as the device can.
    pub responder_resources: Option<u8>,
    /// READs and atomics outstanding at the peer; `None` is as many as the device can. The lower of both
    /// ends' wishes counts.
    pub initiator_depth: Option<u8>,
    /// Retries after a timeout, up to 7. Linux's soft-RoCE takes 7 for "without end": the default is 6.
    pub retry_count: u8,
    /// Retries after RNR; 7 is without end.
    pub rnr_retry_count: u8,
    /// How long connecting may take; `None` is as long as the connection manager tries, minutes.
    pub timeout: Timeout,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            private_data: Vec::new(),
            responder_resources: None,
            initiator_depth: None,
            retry_count: 6,
            rnr_retry_count: 7,
            timeout: Some(Duration::from_secs(30)),
        }
    }
}

impl Options {
    /// The usual ones, with private data.
    #[must_use]
    pub fn saying(private_data: impl Into<Vec<u8>>) -> Self {
        Self { private_data: private_data.into(), ..Self::default() }
    }
}

/// What connects and listens: some devices and their connection manager. A clone is the same.
#[derive(Clone, Debug)]
pub struct Connector {
    pub(super) cm: Arc<dyn ConnectionManager>,
}

impl Connector {
    /// Over a connection manager.
    #[must_use]
    pub const fn over(cm: Arc<dyn ConnectionManager>) -> Self {
        Self { cm }
    }

    /// Over open devices of one kind, with the connection manager of that kind.
    ///
    /// # Errors
    /// Devices of two kinds; no librdmacm for real ones.
    pub fn new(devices: &[Context]) -> Result<Self, ConnectError> {
        let cm: Arc<dyn ConnectionManager> = match devices {
            [] => EmulatedManager::new(Arc::new(SystemResolver)),
            [first, ..] => first.verbs().connection_manager()?,
        };
        for device in devices {
            cm.add_device(device.verbs())?;
        }
        Ok(Self { cm })
    }

    /// Over all devices of this host, opened for this connector: of real ones those that open, of
    /// emulated ones those that the environment names ([`EmulatedProvider::from_environment`]), shared
    /// with other processes. With [`Backend::Auto`], standard error is told which kind it is.
    ///
    /// [`EmulatedProvider::from_environment`]: crate::emulated::EmulatedProvider::from_environment
    ///
    /// # Errors
    /// No device can be opened; no librdmacm for real ones.
    pub fn of(backend: Backend) -> Result<Self, ConnectError> {
        Self::new(&host::devices(backend)?)
    }

    /// [`Connector::of`] the kind that `SOFTRNIC_BACKEND` says, once for the process. The devices are
    /// closed when nobody uses them any more.
    ///
    /// # Errors
    /// As [`Connector::of`].
    pub fn of_host() -> Result<Self, ConnectError> {
        host::connector()
    }

    /// Listens at an address; port 0 is any, address 0 all.
    ///
    /// # Errors
    /// [`ConnectError::Refusal`]: the port is taken, or no device has the address.
    pub fn listen(&self, address: SocketAddr) -> Result<Listener, ConnectError> {
        Listener::at(self, address)
    }

    /// Finds the way to an address.
    ///
    /// # Errors
    /// [`ConnectError::NoRoute`].
    pub fn resolve(&self, address: SocketAddr) -> Result<Route, ConnectError> {
        let search = Search::start(self, address)?;
        search.address_is(&search.held.event(None)?)?;
        let found = search.held.event(None)?;
        search.route_is(&found)
    }

    /// The same as a future.
    ///
    /// # Errors
    /// [`ConnectError::NoRoute`].
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn resolve_async(&self, address: SocketAddr) -> Result<Route, ConnectError> {
        let search = Search::start(self, address)?;
        search.address_is(&search.held.event_async().await?)?;
        let found = search.held.event_async().await?;
        search.route_is(&found)
    }

    /// Connects to who listens at an address, with the reliable (or unreliable) connection queue pair
    /// that `make` makes on the device of the way there.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &self,
        address: SocketAddr,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        self.resolve(address)?.connect(options, make)
    }

    /// The same as a future.
    ///
    /// # Errors
    /// See [`ConnectError`].
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn connect_async(
        &self,
        address: SocketAddr,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        self.resolve_async(address).await?.connect_async(options, make).await
    }
}

/// Connects to who listens at an address, by a device of this host: [`Connector::of_host`].
///
/// # Errors
/// See [`ConnectError`].
pub fn connect(
    address: SocketAddr,
    options: &Options,
    make: impl FnOnce(&Context) -> crate::Result<Qp>,
) -> Result<Connection, ConnectError> {
    Connector::of_host()?.connect(address, options, make)
}

/// An identifier on its way to knowing its way.
struct Search {
    held: Held,
}

impl Search {
    fn start(connector: &Connector, address: SocketAddr) -> Result<Self, ConnectError> {
        let held = Held::new(&connector.cm)?;
        held.cm.resolve_addr(held.id, None, address, None).map_err(ConnectError::NoRoute)?;
        Ok(Self { held })
    }

    fn address_is(&self, event: &CmEvent) -> Result<(), ConnectError> {
        require(event, CmEventKind::AddrResolved)?;
        Ok(self.held.cm.resolve_route(self.held.id, None)?)
    }

    fn route_is(self, event: &CmEvent) -> Result<Route, ConnectError> {
        require(event, CmEventKind::RouteResolved)?;
        let path = self.held.cm.query_id(self.held.id)?.path;
        let device = path.map(|path| Context::new(path.device));
        let device = device.ok_or_else(|| {
            ConnectError::NoRoute(CmError::no_device("the device on the way is not one of these"))
        })?;
        Ok(Route { held: self.held, device })
    }
}

/// # Errors
/// What the event says, if it is not the one that was hoped for.
fn require(event: &CmEvent, kind: CmEventKind) -> Result<(), ConnectError> {
    if event.kind == kind { Ok(()) } else { Err(ConnectError::of(event.clone())) }
}

/// The way to an address.
#[derive(Debug)]
pub struct Route {
    held: Held,
    device: Context,
}

impl Route {
    /// The device that leads there; queue pairs for it are made there.
    #[must_use]
    pub const fn device(&self) -> &Context {
        &self.device
    }

    /// Connects, see [`Connector::connect`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        let qp = self.ask(options, make)?;
        let answer = self.held.event(deadline_of(options.timeout))?;
        self.complete(qp, answer)
    }

    /// The same as a future.
    ///
    /// # Errors
    /// See [`ConnectError`].
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn connect_async(
        self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        let qp = self.ask(options, make)?;
        let answer = match options.timeout {
            None => self.held.event_async().await?,
            Some(timeout) => tokio::time::timeout(timeout, self.held.event_async())
                .await
                .map_err(|_| ConnectError::Timeout)??,
        };
        self.complete(qp, answer)
    }

    fn ask(
        &self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Qp, ConnectError> {
        let qp = make(&self.device)?;
        let qp_type = type_of(&qp)?;
        self.held.cm.connect(self.held.id, &param(&qp, qp_type, options)?)?;
        Ok(qp)
    }

    fn complete(self, qp: Qp, answer: CmEvent) -> Result<Connection, ConnectError> {
        let (CmEventKind::ConnectResponse, EventParam::Conn(param)) = (answer.kind, &answer.param)
        else {
            return Err(ConnectError::of(answer));
        };
        let private_data = param.private_data.clone();
        advance(&self.held, &qp, &[QpState::Rtr, QpState::Rts])?;
        self.held.cm.establish(self.held.id)?;
        Connection::new(self.held, qp, private_data)
    }
}

/// The service of a queue pair.
pub(super) fn type_of(qp: &Qp) -> Result<QpType, ConnectError> {
    Ok(qp.query()?.1.qp_type)
}
