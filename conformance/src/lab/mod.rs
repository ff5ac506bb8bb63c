//! What a case needs of devices: two ends that can be connected, and a little of the verbs.

mod connection;
mod family;
mod loopback;
mod simulated;
mod verbs;

use std::time::Duration;

use softrnic_model::verbs::{
    AhId, CqId, Gid, Key, PdId, QpNum, QpState, RecvWr, SendWr, VerbError, Wc,
};

pub use connection::{ALL_RIGHTS, CAPABILITIES, Connection, Step};
pub use family::Family;
pub use loopback::Loopback;
pub use simulated::{Pace, SimulatedLab, Tapped};
pub use verbs::VerbsLab;

/// Two devices that can reach each other, and programs that use them.
///
/// Cases call it from one thread and wait for nothing but what [`Lab::poll`] and [`Lab::pause`] wait
/// for, so a lab may live in virtual or in real time.
pub trait Lab {
    /// How long cases wait here.
    fn waits(&self) -> Waits;

    /// Makes a domain, a completion queue, a buffer and a queue pair at each device and connects
    /// the two queue pairs.
    ///
    /// # Errors
    /// What the device refused.
    fn connect(&mut self, connection: &Connection) -> Result<[Endpoint; 2], VerbError>;

    /// Destroys everything that [`Lab::connect`] made at one end.
    ///
    /// # Errors
    /// What the device refused.
    fn destroy(&mut self, at: &Endpoint) -> Result<(), VerbError>;

    /// Posts a send request.
    ///
    /// # Errors
    /// As `ibv_post_send(3)`.
    fn post_send(&mut self, at: &Endpoint, wr: &SendWr<'_>) -> Result<(), VerbError>;

    /// Posts a receive request.
    ///
    /// # Errors
    /// As `ibv_post_recv(3)`.
    fn post_recv(&mut self, at: &Endpoint, wr: &RecvWr<'_>) -> Result<(), VerbError>;

    /// Takes completions until there are `want` of them or the time is over.
    ///
    /// # Errors
    /// As `ibv_poll_cq(3)`.
    fn poll(&mut self, at: &Endpoint, want: usize, within: Duration) -> Result<Vec<Wc>, VerbError>;

    /// The state of the queue pair.
    ///
    /// # Errors
    /// As `ibv_query_qp(3)`.
    fn state(&self, at: &Endpoint) -> Result<QpState, VerbError>;

    /// Lets time pass.
    fn pause(&mut self, time: Duration);

    /// A copy of the buffer.
    fn read(&self, at: &Endpoint) -> Vec<u8>;

    /// Writes into the buffer, as the program would; it must fit. Nothing is under way then.
    fn write(&mut self, at: &Endpoint, offset: usize, bytes: &[u8]);
}

/// How long cases wait, in the time of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// At most, for what is to come. Retries of the cases take up to 2.2 s.
    pub patience: Duration,
    /// For what is not to come.
    pub quiet: Duration,
}

impl Waits {
    /// For devices that share a machine with others: patient enough for a busy one.
    pub const REAL: Self =
        Self { patience: Duration::from_secs(20), quiet: Duration::from_millis(5) };
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Which device of the lab.
    pub device: usize,
    /// Its address.
    pub gid: Gid,
    /// Protection domain of all that follows.
    pub pd: PdId,
    /// Where sends and receives complete.
    pub cq: CqId,
    /// The queue pair.
    pub qp: QpNum,
    /// How a datagram queue pair reaches the other end.
    pub ah: Option<AhId>,
    /// Memory that is registered with every right.
    pub buffer: Buffer,
}

/// A buffer that is registered as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The lab's own number of the memory.
    pub memory: u32,
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
    /// Key for work requests.
    pub lkey: Key,
    /// Key for peers.
    pub rkey: Key,
}
