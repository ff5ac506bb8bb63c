//! Faults on purpose, one at a time, in builds with the feature `planted-faults` alone. A fuzz target that does not
//! find the fault that is planted for it would find no other.

/// A check that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// Fragments pass for whole IPv4 datagrams.
    Fragment = 1,
    /// A range may wrap around the end of the addresses.
    Range,
    /// Local keys of other protection domains serve.
    Domain,
    /// A request that comes again after the one behind it is carried out again.
    Again,
    /// A packet that was not sent yet can be acknowledged.
    Ahead,
    /// What is left over at the end of a message of the port service is ignored.
    LeftOver,
    /// Queue pair attributes of C are taken whatever bits the mask has.
    Mask,
    /// One byte behind a region may be reached.
    OneByteMore,
    /// An old key of an entry leads to its present object.
    StaleKey,
    /// A deregistered region serves on.
    DeregisteredServes,
    /// The last byte of a WRITE packet is not placed.
    LastByteMissing,
    /// FETCH ADD adds twice.
    AddsTwice,
    /// A SEND that was received before is received again.
    ReceivesTwice,
    /// A fence does not wait.
    FenceOpen,
    /// A timeout is not followed by a repetition.
    NoRetry,
    /// A flushed send request is not reported.
    FlushUnreported,
    /// SENDs are not counted.
    SendsUncounted,
    /// Who knows a connection's IDs passes for its peer.
    OtherAddress,
    /// A packet of a capture file that is longer than its block is cut off without a word.
    PastTheBlock,
    /// Windows of other protection domains serve.
    WindowDomain,
    /// A window that was invalidated serves on.
    WindowUnbound,
    /// A window of type 2 serves queue pairs that have not bound it.
    WindowQueuePair,
    /// A window of type 2 that is bound can be bound again.
    WindowBoundTwice,
    /// A window of type 2 can be invalidated by queue pairs that have not bound it.
    InvalidatedByOthers,
    /// A receive may be of memory that the device may not write.
    ReceiveReadOnly,
    /// RNR NAKs are not counted.
    RnrUncounted,
    /// A congestion notification that was received is counted twice.
    NotificationTwice,
}

#[cfg(feature = "planted-faults")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// From now on this fault is there.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Fault) {
    PLANTED.store(fault as u8, core::sync::atomic::Ordering::Relaxed);
}

/// From now on none is there.
#[cfg(feature = "planted-faults")]
pub fn uproot() {
    PLANTED.store(0, core::sync::atomic::Ordering::Relaxed);
}

/// Whether this fault is there.
#[cfg(feature = "planted-faults")]
#[must_use]
pub fn has(fault: Fault) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Whether this fault is there: no.
#[cfg(not(feature = "planted-faults"))]
#[must_use]
pub const fn has(_fault: Fault) -> bool {
    false
}
