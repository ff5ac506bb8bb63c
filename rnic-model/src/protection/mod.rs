//! Who may touch which bytes.
//!
//! [`Protection`] holds the memory regions and windows of a device under their keys.
//! [`Protection::check`] is the only way to memory: scatter/gather elements, receive buffers and
//! peers' requests all pass it, and it judges in this order, which decides what fault is reported:
//!
//! 1. the key: an object has this index, under this variant, and is of a kind that serves
//!    ([`UnknownKey`], [`StaleKey`], [`WrongKind`]);
//! 2. the state: a window is bound ([`NotBound`]);
//! 3. the protection domain ([`WrongPd`]);
//! 4. the queue pair, of a window that serves only the one that bound it ([`WrongQp`]);
//! 5. the rights ([`AccessDenied`]);
//! 6. the range, without a sum that could wrap ([`OutOfRange`]).
//!
//! What a queue pair itself allows to peers, the alignment of atomics, and that a READ or WRITE of
//! length 0 needs no key are the caller's to judge.
//!
//! A key is the index of an entry and a variant. Regions and windows share the entries. An index is
//! reused as late as possible, and always under a variant that it has not had since all 256 turned
//! over, so that the key of an object that is gone leads nowhere. The local and the remote key of a
//! region are the same number.
//!
//! [`UnknownKey`]: AccessFault::UnknownKey
//! [`StaleKey`]: AccessFault::StaleKey
//! [`WrongKind`]: AccessFault::WrongKind
//! [`NotBound`]: AccessFault::NotBound
//! [`WrongPd`]: AccessFault::WrongPd
//! [`WrongQp`]: AccessFault::WrongQp
//! [`AccessDenied`]: AccessFault::AccessDenied
//! [`OutOfRange`]: AccessFault::OutOfRange

mod access;
mod audit;
mod fault;
mod key_policy;
mod key_table;
mod region;
mod span;
mod window;

pub use access::{AccessRequest, Grant, Side};
pub use audit::Exposure;
pub use fault::{AccessFault, BindError};
pub use key_policy::KeyPolicy;
pub use region::{RegionChanges, RegionSpec, Translation};
pub use window::BindRequest;

use alloc::collections::BTreeSet;

use crate::verbs::QpNum;
use key_table::KeyTable;

/// How many objects there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Memory regions.
    pub max_mr: u32,
    /// Memory windows.
    pub max_mw: u32,
}

impl KeyLimits {
    /// Both together have at most 2^24 - 1 indices; windows give way.
    fn bounded(self) -> Self {
        let max_mr = self.max_mr.min(KeyTable::CAPACITY_MAX);
        Self { max_mr, max_mw: self.max_mw.min(KeyTable::CAPACITY_MAX - max_mr) }
    }
}

/// The regions and windows of a device. See the [module](self) for the rules.
#[derive(Clone, Debug)]
pub struct Protection {
    limits: KeyLimits,
    table: KeyTable,
    regions: u32,
    windows: u32,
    /// Which windows serve only which queue pair: (queue pair, index of the key).
    of_qp: BTreeSet<(QpNum, u32)>,
}

impl Protection {
    /// Without any object. The table grows as indices are used; nothing is allocated here.
    #[must_use]
    pub fn new(limits: KeyLimits, policy: KeyPolicy) -> Self {
        let limits = limits.bounded();
        let table = KeyTable::new(limits.max_mr + limits.max_mw, policy);
        Self { limits, table, regions: 0, windows: 0, of_qp: BTreeSet::new() }
    }

    /// How many objects there may be: as asked for, within the 2^24 - 1 indices of the table.
    #[must_use]
    pub const fn limits(&self) -> KeyLimits {
        self.limits
    }
}
