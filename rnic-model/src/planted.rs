//! Faults on purpose, to see that whoever looks for faults finds them. Without the feature
//! `planted-faults` there are none, and no trace of them in the code that is made.

/// A fault that a device could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Planted {
    /// One byte behind a region or window may be reached.
    OneByteMore = 1,
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
    /// A WRITE needs no right.
    WriteUnjudged,
}

impl Planted {
    /// All.
    pub const ALL: [Self; 11] = [
        Self::OneByteMore,
        Self::StaleKey,
        Self::DeregisteredServes,
        Self::LastByteMissing,
        Self::AddsTwice,
        Self::ReceivesTwice,
        Self::FenceOpen,
        Self::NoRetry,
        Self::FlushUnreported,
        Self::SendsUncounted,
        Self::WriteUnjudged,
    ];
}

#[cfg(feature = "planted-faults")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Plants a fault in all devices of the process, or takes it out again.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Option<Planted>) {
    let number = fault.map_or(0, |fault| fault as u8);
    PLANTED.store(number, core::sync::atomic::Ordering::Relaxed);
}

/// Whether the devices have this fault.
#[cfg(feature = "planted-faults")]
pub(crate) fn has(fault: Planted) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Whether the devices have this fault: never.
#[cfg(not(feature = "planted-faults"))]
#[inline]
pub(crate) const fn has(_fault: Planted) -> bool {
    false
}
