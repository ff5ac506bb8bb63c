//! A connection that is there.

use std::net::SocketAddr;

use softrnic_model::verbs::{QpAttributeMask, QpState, QpType};

use super::ConnectError;
use super::connector::Options;
use super::waiting::{Held, deadline_of};
use crate::cm::{CmEventKind, ConnParam};
use crate::provider::Timeout;
use crate::queue_pair::Qp;

/// A connected queue pair. When this is dropped the connection ends.
#[derive(Debug)]
pub struct Connection {
    held: Held,
    qp: Qp,
    local: SocketAddr,
    peer: SocketAddr,
    private_data: Vec<u8>,
}

impl Connection {
    pub(super) fn new(held: Held, qp: Qp, private_data: Vec<u8>) -> Result<Self, ConnectError> {
        let info = held.cm.query_id(held.id)?;
        let nowhere = || ConnectError::Ended;
        let (local, peer) = (info.local.ok_or_else(nowhere)?, info.peer.ok_or_else(nowhere)?);
        Ok(Self { held, qp, local, peer, private_data })
    }

    /// The queue pair. A clone may outlive the connection; then its requests fail.
    #[must_use]
    pub const fn qp(&self) -> &Qp {
        &self.qp
    }

    /// The own address.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    #[must_use]
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What the peer's program has said when it asked, or took the connection; padded with zeros.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Ends the connection: the peer is told, and outstanding requests are flushed.
    ///
    /// # Errors
    /// The queue pair does not move.
    pub fn disconnect(&self) -> Result<(), ConnectError> {
        // It may have ended already, and then there is nobody to tell.
        let _ = self.held.cm.disconnect(self.held.id);
        Ok(self.qp.move_to(QpState::Err)?)
    }

    /// Waits until the connection has ended, whoever ended it; false when the time is over.
    ///
    /// # Errors
    /// The connection manager is gone.
    pub fn wait_closed(&self, timeout: Timeout) -> Result<bool, ConnectError> {
        let deadline = deadline_of(timeout);
        loop {
            match self.held.event(deadline) {
                Ok(event) if is_end(event.kind) => return self.disconnect().map(|()| true),
                Ok(_) => {}
                Err(ConnectError::Timeout) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// The same as a future.
    ///
    /// # Errors
    /// As [`Connection::wait_closed`].
    #[cfg(all(unix, feature = "tokio"))]
    pub async fn closed(&self) -> Result<(), ConnectError> {
        while !is_end(self.held.event_async().await?.kind) {}
        self.disconnect()
    }
}

fn is_end(kind: CmEventKind) -> bool {
    matches!(
        kind,
        CmEventKind::Disconnected | CmEventKind::DeviceRemoval | CmEventKind::TimewaitExit
    )
}

/// Moves a queue pair on as the connection manager says.
pub(super) fn advance(held: &Held, qp: &Qp, states: &[QpState]) -> Result<(), ConnectError> {
    for state in states {
        let (attributes, mask) = held.cm.init_qp_attr(held.id, *state)?;
        // The rights are those that the queue pair was made with.
        qp.modify(&attributes, mask - QpAttributeMask::ACCESS_FLAGS)?;
    }
    Ok(())
}

/// What is told to the peer about a queue pair.
pub(super) fn param(
    qp: &Qp,
    qp_type: QpType,
    options: &Options,
) -> Result<ConnParam, ConnectError> {
    let device = qp.pd().context().attributes()?;
    Ok(ConnParam {
        private_data: options.private_data.clone(),
        responder_resources: options.responder_resources.unwrap_or(device.max_qp_rd_atom),
        initiator_depth: options.initiator_depth.unwrap_or(device.max_qp_init_rd_atom),
        flow_control: qp_type == QpType::Rc,
        retry_count: options.retry_count,
        rnr_retry_count: options.rnr_retry_count,
        srq: qp.srq().is_some(),
        qp_num: qp.num(),
        qp_type,
        ..ConnParam::default()
    })
}
