//! Arithmetic of address ranges that cannot wrap.

/// Consecutive addresses. The last byte has an address of 64 bits, so `start + length` may be 2^64
/// but not more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Span {
    /// Whether every byte has an address.
    pub(super) const fn is_addressable(self) -> bool {
        self.length == 0 || self.start.checked_add(self.length - 1).is_some()
    }

    /// How far from the start `addr` is, if `length` bytes from there on lie inside. Of length 0,
    /// the address must be between the first byte and the one after the last.
    ///
    /// Only subtractions that are checked: no sum of what a peer sent is ever formed.
    // [protection/range-first-byte] [protection/range-last-byte] [protection/range-wrap]
    // [protection/range-4gib]
    pub(super) const fn offset_of(self, addr: u64, length: u64) -> Option<u64> {
        let Some(offset) = addr.checked_sub(self.start) else { return None };
        let Some(room) = self.length.checked_sub(offset) else { return None };
        if length <= room { Some(offset) } else { None }
    }
}
