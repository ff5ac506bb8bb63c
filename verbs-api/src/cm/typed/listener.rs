//! Listening.

use std::net::SocketAddr;

use softrnic_model::cm::RejectReason;
use softrnic_model::verbs::QpState;

use super::connection::{Connection, param};
use super::connector::type_of;
use super::waiting::{Held, deadline_of};
use super::{ConnectError, Connector, Options};
use crate::cm::{CmEvent, CmEventKind, ConnParam, EventParam};
use crate::device::Context;
use crate::provider::Timeout;
use crate::queue_pair::Qp;

/// A listener for connections. Requests that nobody has taken are refused when it goes.
#[derive(Debug)]
pub struct Listener {
    held: Held,
    local: SocketAddr,
}

impl Listener {
    /// Listens at an address of this host, with [`Connector::of_host`]; port 0 is any, address 0 all.
    ///
    /// # Errors
    /// [`ConnectError::Refusal`]: the port is taken, or no device has the address;
    /// [`ConnectError::Device`].
    pub fn bind(address: SocketAddr) -> Result<Self, ConnectError> {
        Self::at(&Connector::of_host()?, address)
    }

    pub(super) fn at(connector: &Connector, address: SocketAddr) -> Result<Self, ConnectError> {
        let held = Held::new(&connector.cm)?;
        held.cm.bind(held.id, address)?;
        held.cm.listen(held.id, 0)?;
        let local = held.cm.query_id(held.id)?.local.unwrap_or(address);
        Ok(Self { held, local })
    }

    /// Where it listens.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a request; `None` when the time is over.
    ///
    /// # Errors
    /// The connection manager is gone.
    pub fn request(&self, timeout: Timeout) -> Result<Option<Request>, ConnectError> {
        let deadline = deadline_of(timeout);
        loop {
            match self.held.event(deadline) {
                Ok(event) => {
                    if let Some(request) = self.request_of(event)? {
                        return Ok(Some(request));
                    }
                }
                Err(ConnectError::Timeout) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a request and takes it, with the queue pair that `make` makes on the device by which
    /// it came; receives can be posted there.
    ///
    /// # Errors
    /// See [`ConnectError`]; the listener goes on.
    pub fn accept(
        &self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        let request = self.request(None)?.ok_or(ConnectError::Ended)?;
        request.accept(options, make)
    }

    /// A request as a future.
    ///
    /// # Errors
    /// As [`Listener::request`].
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn request_async(&self) -> Result<Request, ConnectError> {
        loop {
            if let Some(request) = self.request_of(self.held.event_async().await?)? {
                return Ok(request);
            }
        }
    }

    /// [`Listener::accept`] as a future.
    ///
    /// # Errors
    /// See [`ConnectError`]; the listener goes on.
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn accept_async(
        &self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        self.request_async().await?.accept_async(options, make).await
    }

    fn request_of(&self, event: CmEvent) -> Result<Option<Request>, ConnectError> {
        let (CmEventKind::ConnectRequest, EventParam::Conn(param)) = (event.kind, event.param)
        else {
            return Ok(None);
        };
        let held = Held::adopt(&self.held.cm, event.id)?;
        let info = held.cm.query_id(held.id)?;
        let (Some(path), Some(local), Some(peer)) = (info.path, info.local, info.peer) else {
            return Ok(None);
        };
        let device = Context::new(path.device);
        Ok(Some(Request { held, device, local, peer, asked: *param }))
    }
}

/// Somebody who wants a connection. It is refused when this is dropped.
#[derive(Debug)]
pub struct Request {
    held: Held,
    device: Context,
    local: SocketAddr,
    peer: SocketAddr,
    asked: ConnParam,
}

impl Request {
    /// The device by which it came; its queue pair is made there.
    #[must_use]
    pub const fn device(&self) -> &Context {
        &self.device
    }

    /// The address that was asked for.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Who asks.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What the peer's program says: 56 bytes, padded with zeros.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.asked.private_data
    }

    /// All that is asked for, from the point of view of this end.
    #[must_use]
    pub const fn asked(&self) -> &ConnParam {
        &self.asked
    }

    /// Says no, with at most 148 bytes of private data.
    ///
    /// # Errors
    /// Too much of it, or the peer has given up.
    pub fn reject(self, private_data: &[u8]) -> Result<(), ConnectError> {
        let reason = RejectReason::CONSUMER_DEFINED;
        Ok(self.held.cm.reject(self.held.id, reason, private_data)?)
    }

    /// Takes it, see [`Listener::accept`].
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn accept(
        self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        let qp = self.say_yes(options, make)?;
        let answer = self.held.event(deadline_of(options.timeout))?;
        self.complete(qp, answer)
    }

    /// The same as a future.
    ///
    /// # Errors
    /// See [`ConnectError`].
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn accept_async(
        self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Connection, ConnectError> {
        let qp = self.say_yes(options, make)?;
        let answer = match options.timeout {
            None => self.held.event_async().await?,
            Some(timeout) => tokio::time::timeout(timeout, self.held.event_async())
                .await
                .map_err(|_| ConnectError::Timeout)??,
        };
        self.complete(qp, answer)
    }

    /// The queue pair is ready for the peer before the peer knows.
    fn say_yes(
        &self,
        options: &Options,
        make: impl FnOnce(&Context) -> crate::Result<Qp>,
    ) -> Result<Qp, ConnectError> {
        let qp = make(&self.device)?;
        let own = param(&qp, type_of(&qp)?, options)?;
        let agreed = ConnParam {
            responder_resources: own.responder_resources.min(self.asked.responder_resources),
            initiator_depth: own.initiator_depth.min(self.asked.initiator_depth),
            ..own
        };
        for state in [QpState::Rtr, QpState::Rts] {
            let (mut attributes, mask) = self.held.cm.init_qp_attr(self.held.id, state)?;
            attributes.max_dest_rd_atomic = agreed.responder_resources;
            attributes.max_rd_atomic = agreed.initiator_depth;
            qp.modify(&attributes, mask)?;
        }
        self.held.cm.accept(self.held.id, &agreed)?;
        Ok(qp)
    }

    fn complete(self, qp: Qp, answer: CmEvent) -> Result<Connection, ConnectError> {
        if answer.kind == CmEventKind::Established {
            Connection::new(self.held, qp, self.asked.private_data)
        } else {
            Err(ConnectError::of(answer))
        }
    }
}
