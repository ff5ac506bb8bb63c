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
