//! Headers in the making.

use core::fmt;

use zerocopy::{Immutable, IntoBytes};

use super::opcode::HEADER_LEN_MAX;

/// Base transport header and extension headers of one packet, held inline.
#[derive(Clone, Copy)]
pub struct HeaderBuf {
    bytes: [u8; Self::CAPACITY],
    len: u8,
}

const _: () = assert!(HEADER_LEN_MAX <= HeaderBuf::CAPACITY, "room for every opcode");

impl HeaderBuf {
    /// Bytes of room: more than the headers of any opcode take, and than a CNP.
    pub const CAPACITY: usize = 64;

    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    /// Appends `header`. Headers past [`HeaderBuf::CAPACITY`], which no packet has, are left out
    /// (and are a failed assertion in a debug build).
    #[inline]
    pub fn push(&mut self, header: &(impl IntoBytes + Immutable)) {
        let start = usize::from(self.len);
        let header = header.as_bytes();
        let room = self.bytes.get_mut(start..start + header.len());
        debug_assert!(room.is_some(), "no packet has such long headers");
        if let (Some(room), Ok(len)) = (room, u8::try_from(header.len())) {
            room.copy_from_slice(header);
            self.len += len;
        }
    }

    /// Forgets what was pushed.
    #[inline]
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// What was pushed.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Bytes pushed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether nothing was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for HeaderBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for HeaderBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for HeaderBuf {}

impl fmt::Debug for HeaderBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeaderBuf({:02x?})", self.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reth;
    use zerocopy::FromZeros;

    #[test]
    fn holds_what_was_pushed() {
        let mut buf = HeaderBuf::new();
        assert!(buf.is_empty());
        buf.push(&[1u8, 2, 3]);
        buf.push(&Reth::new_zeroed());
        buf.push(&[4u8]);
        assert_eq!(buf.len(), 20);
        assert_eq!(buf.as_slice()[..4], [1, 2, 3, 0]);
        assert_eq!(buf.as_slice()[18..], [0, 4]);
    }

    #[test]
    fn is_equal_by_content() {
        let (mut a, mut b) = (HeaderBuf::new(), HeaderBuf::new());
        a.push(&[7u8; HeaderBuf::CAPACITY]);
        assert_ne!(a, b);
        b.push(&[7u8; HeaderBuf::CAPACITY]);
        assert_eq!(a, b);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no packet has such long headers")]
    fn more_than_fits_is_a_mistake_of_the_caller() {
        let mut buf = HeaderBuf::new();
        buf.push(&[0u8; HeaderBuf::CAPACITY]);
        buf.push(&[0u8; 1]);
    }
}
