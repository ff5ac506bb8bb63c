//! What a connection manager offers, one method each.

use std::fmt;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::Arc;

use softrnic_model::cm::{PortSpace, RejectReason};
use softrnic_model::verbs::{QpAttributeMask, QpAttributes, QpState};

use super::{CmError, CmEvent, CmId, CmOption, ConnParam, EventChannelId, IdInfo, Path};
use crate::provider::{Context, Timeout};

/// What the connection manager returns.
pub type Cm<T> = Result<T, CmError>;

/// Finds ways to addresses. What the system's own rules say is in one place, whoever asks.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The way from `source`, if the caller has said one, to `destination`, by one of `devices`.
    /// The port of the source in the answer is that of `source`, or 0.
    ///
    /// # Errors
    /// `ENETUNREACH`, `EHOSTUNREACH`: no route; `ENODEV`: no device has the source;
    /// `EADDRNOTAVAIL`: `source` is not an address of this host; `EAFNOSUPPORT`: the families differ.
    fn path(
        &self,
        devices: &[Arc<dyn Context>],
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Cm<Path>;
}

/// A connection manager. Every method may be called from any thread at any time.
///
/// The rules are those of `rdma_cm(7)` where it does not know the queue pair of an identifier:
/// a peer that takes a connection is told as [`ConnectResponse`](super::CmEventKind::ConnectResponse),
/// and [`establish`](Self::establish) completes it when the queue pair is ready. Every method may
/// answer `EINVAL` for an identifier that does not exist or is in a state where that is not done.
pub trait ConnectionManager: fmt::Debug + Send + Sync {
    /// The devices that it works with, and that listen where an identifier is bound to all addresses.
    fn devices(&self) -> Vec<Arc<dyn Context>>;

    /// Lets it work with one more device. Identifiers that listen at all addresses do so there too.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a device of another kind.
    fn add_device(&self, device: &Arc<dyn Context>) -> Cm<()>;

    /// Makes an event channel (`rdma_create_event_channel(3)`).
    ///
    /// # Errors
    /// `ENOMEM`.
    fn create_event_channel(&self) -> Cm<EventChannelId>;

    /// Destroys one (`rdma_destroy_event_channel(3)`); who waits at it is sent away with `EINVAL`.
    ///
    /// # Errors
    /// `EBUSY`: identifiers still report to it.
    fn destroy_event_channel(&self, channel: EventChannelId) -> Cm<()>;

    /// A descriptor that polls as readable while the channel holds an event; a duplicate from which
    /// nothing may be read. `O_NONBLOCK` on it matters to [`read_event`](Self::read_event) only.
    ///
    /// # Errors
    /// `ENOMEM`.
    #[cfg(unix)]
    fn event_channel_fd(&self, channel: EventChannelId) -> Cm<OwnedFd>;

    /// Waits for an event and takes it (`rdma_get_cm_event(3)`); `None` when the time is over. It
    /// counts as acknowledged.
    ///
    /// # Errors
    /// `EINVAL`: no such channel, or it was destroyed.
    fn get_event(&self, channel: EventChannelId, timeout: Timeout) -> Cm<Option<CmEvent>>;

    /// The same as `read(2)` of [`event_channel_fd`](Self::event_channel_fd) would: waits unless
    /// `O_NONBLOCK` is set on that descriptor, and signals interrupt it.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`, `EINVAL`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn read_event(&self, channel: EventChannelId) -> std::io::Result<CmEvent>;

    /// Puts an event into the channel of its identifier, behind those that are there: for layers
    /// above that do part of the work.
    ///
    /// # Errors
    /// `EINVAL`.
    fn post_event(&self, event: CmEvent) -> Cm<()>;

    /// Makes an identifier (`rdma_create_id(3)`).
    ///
    /// # Errors
    /// `ENOMEM`: as many as there can be.
    fn create_id(&self, channel: EventChannelId, space: PortSpace) -> Cm<CmId>;

    /// Destroys one (`rdma_destroy_id(3)`): a request that was not answered is refused, a connection
    /// ends, requests of a listener that nobody has taken are refused. Events that were not taken
    /// are forgotten. Returns how many were taken in its life.
    ///
    /// # Errors
    /// `EINVAL`.
    fn destroy_id(&self, id: CmId) -> Cm<u32>;

    /// Lets it report to another channel, with the events that were not taken yet
    /// (`rdma_migrate_id(3)`). Returns how many were taken before.
    ///
    /// # Errors
    /// `EINVAL`.
    fn migrate_id(&self, id: CmId, channel: EventChannelId) -> Cm<u32>;

    /// All that is known about it.
    ///
    /// # Errors
    /// `EINVAL`.
    fn query_id(&self, id: CmId) -> Cm<IdInfo>;

    /// Sets an option (`rdma_set_option(3)`).
    ///
    /// # Errors
    /// `EINVAL`.
    fn set_option(&self, id: CmId, option: CmOption) -> Cm<()>;

    /// Gives it an address (`rdma_bind_addr(3)`); port 0 lets one be chosen, address 0 is all.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EACCES`: the port is taken, by another user; `EADDRNOTAVAIL`: not an address
    /// of this host; `ENODEV`: no device has it; `EINVAL`: it has one already.
    fn bind(&self, id: CmId, address: SocketAddr) -> Cm<()>;

    /// Finds device and way to `destination` (`rdma_resolve_addr(3)`); binds the identifier if it is
    /// not bound. Without a timeout the manager takes the time that it thinks right. Ends in an event `AddrResolved` or `AddrError`.
    ///
    /// # Errors
    /// `ENODEV`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EINVAL`.
    fn resolve_addr(
        &self,
        id: CmId,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Timeout,
    ) -> Cm<()>;

    /// Finds the route (`rdma_resolve_route(3)`). Ends in an event `RouteResolved` or `RouteError`.
    ///
    /// # Errors
    /// `EINVAL`: the address is not resolved.
    fn resolve_route(&self, id: CmId, timeout: Timeout) -> Cm<()>;

    /// Takes address and route as resolved, without events; binds the identifier if it is not bound.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: a manager that finds ways itself; `EADDRINUSE`; `ENODEV`: not a device of this manager; `EINVAL`.
    fn set_path(&self, id: CmId, path: &Path) -> Cm<()>;

    /// Listens for requests (`rdma_listen(3)`). At most `backlog` of them wait to be answered; 0, and
    /// more than 1,024, is 1,024. An identifier without an address gets one.
    ///
    /// # Errors
    /// `EADDRINUSE`: another one listens there; `EINVAL`.
    fn listen(&self, id: CmId, backlog: u32) -> Cm<()>;

    /// Asks the peer for a connection, or for its datagram service (`rdma_connect(3)`). Ends in
    /// `ConnectResponse` (`Established` of datagrams), `Rejected` or `Unreachable`.
    ///
    /// # Errors
    /// `EINVAL`: not resolved, or too much private data; `ENOMEM`.
    fn connect(&self, id: CmId, param: &ConnParam) -> Cm<()>;

    /// Says yes to a request (`rdma_accept(3)`). Ends in `Established`, or in `Unreachable` if the
    /// peer stays silent; a datagram service is answered and that is all.
    ///
    /// # Errors
    /// `EINVAL`.
    fn accept(&self, id: CmId, param: &ConnParam) -> Cm<()>;

    /// Completes a connection that the peer has taken (`rdma_establish(3)`).
    ///
    /// # Errors
    /// `EINVAL`.
    fn establish(&self, id: CmId) -> Cm<()>;

    /// Says no (`rdma_reject(3)`), to a request or to the peer's yes. At most 148 bytes of private
    /// data, 136 of datagrams.
    ///
    /// # Errors
    /// `EINVAL`.
    fn reject(&self, id: CmId, reason: RejectReason, private_data: &[u8]) -> Cm<()>;

    /// Ends a connection, or agrees that it has ended (`rdma_disconnect(3)`).
    ///
    /// # Errors
    /// `EINVAL`: there is none.
    fn disconnect(&self, id: CmId) -> Cm<()>;

    /// The queue pair has heard from the peer before its last message of connecting came
    /// (`rdma_notify(3)` with `IBV_EVENT_COMM_EST`): there is a connection.
    ///
    /// # Errors
    /// `EISCONN`: there is one already; `EINVAL`.
    fn notify_established(&self, id: CmId) -> Cm<()>;

    /// What brings the queue pair of an identifier to a state (`rdma_init_qp_attr(3)`).
    ///
    /// # Errors
    /// `EINVAL`: too early.
    fn init_qp_attr(&self, id: CmId, state: QpState) -> Cm<(QpAttributes, QpAttributeMask)>;

    /// Joins a group (`rdma_join_multicast(3)`): works out its GID and the way there, which come with
    /// an event `MulticastJoin`; the caller attaches its queue pair. `context` comes back with it.
    ///
    /// # Errors
    /// `EINVAL`: no device yet, or not a group.
    fn join_multicast(&self, id: CmId, group: SocketAddr, context: u64) -> Cm<()>;

    /// Leaves it (`rdma_leave_multicast(3)`).
    ///
    /// # Errors
    /// `EADDRNOTAVAIL`: it was not joined.
    fn leave_multicast(&self, id: CmId, group: SocketAddr) -> Cm<()>;
}
