//! Control messages: the fields of an IP header that travel beside a datagram (`cmsg(3)`).
//!
//! They are laid out here with plain slices: a native `usize` length that counts its own header, a
//! level and a type (`c_int`), the data, padding to the size of a `usize`.

const WORD: usize = size_of::<usize>();
const HEADER: usize = WORD + 8;

/// Room for every control message that a datagram may come or go with.
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Control {
    pub(super) const CAPACITY: usize = 256;

    pub(super) const fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    /// Forgets what was pushed.
    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends one message. The few that this crate sends always fit; one that did not would be
    /// left out.
    pub(super) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let space = (HEADER + data.len()).next_multiple_of(WORD);
        let Some(room) = self.bytes.get_mut(self.len..self.len + space) else { return };
        room.fill(0);
        room[..WORD].copy_from_slice(&(HEADER + data.len()).to_ne_bytes());
        room[WORD..WORD + 4].copy_from_slice(&level.to_ne_bytes());
        room[WORD + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER..HEADER + data.len()].copy_from_slice(data);
        self.len += space;
    }

    /// What was pushed.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The whole room, for the kernel to fill.
    pub(super) const fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The messages in the first `len` bytes of the room.
    pub(super) fn received(&self, len: usize) -> Messages<'_> {
        Messages { rest: &self.bytes[..len.min(Self::CAPACITY)] }
    }
}

/// One control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) level: i32,
    pub(super) kind: i32,
    pub(super) data: &'a [u8],
}

impl Message<'_> {
    /// The data as a C `int`; of shorter data (`IP_TOS` is one byte) the first byte.
    pub(super) fn int(&self) -> Option<i32> {
        match *self.data {
            [a, b, c, d, ..] => Some(i32::from_ne_bytes([a, b, c, d])),
            [a, ..] => Some(i32::from(a)),
            [] => None,
        }
    }
}

/// The messages of a received datagram; stops at the first that is not well formed.
#[derive(Clone, Debug)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (header, _) = self.rest.split_at_checked(HEADER)?;
        let len = usize::from_ne_bytes(header[..WORD].try_into().ok()?);
        let data = self.rest.get(HEADER..len)?;
        let message = Message {
            level: i32::from_ne_bytes(header[WORD..WORD + 4].try_into().ok()?),
            kind: i32::from_ne_bytes(header[WORD + 4..].try_into().ok()?),
            data,
        };
        self.rest = self.rest.get(len.next_multiple_of(WORD)..).unwrap_or(&[]);
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read_back() {
        let mut control = Control::new();
        control.push(1, 2, &[7]);
        control.push(-3, 4, &0x0102_0304_i32.to_ne_bytes());
        control.push(5, 6, &[]);
        let len = control.filled().len();
        assert_eq!(len % WORD, 0);
        let read: Vec<_> = control.received(len).collect();
        assert_eq!(read.len(), 3);
        assert_eq!((read[0].level, read[0].kind, read[0].int()), (1, 2, Some(7)));
        assert_eq!((read[1].level, read[1].kind, read[1].int()), (-3, 4, Some(0x0102_0304)));
        assert_eq!((read[2].level, read[2].kind, read[2].int()), (5, 6, None));
    }

    #[test]
    fn more_than_fits_is_left_out() {
        let mut control = Control::new();
        for _ in 0..100 {
            control.push(1, 2, &[0; 4]);
        }
        assert!(control.filled().len() <= Control::CAPACITY);
        assert!(control.filled().len() > Control::CAPACITY - 2 * HEADER);
    }

    #[test]
    fn broken_lengths_end_the_list() {
        for len in [0, 1, HEADER - 1, 200, usize::MAX, usize::MAX - WORD] {
            let mut control = Control::new();
            control.room()[..WORD].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(control.received(64).count(), 0, "{len}");
        }
        assert_eq!(Control::new().received(usize::MAX).count(), 0);
    }

    #[test]
    fn layout_is_that_of_the_c_library() {
        let mut control = Control::new();
        control.push(libc::IPPROTO_IP, libc::IP_TTL, &9i32.to_ne_bytes());
        #[expect(unsafe_code, reason = "asks the C library's own macros for their numbers")]
        // SAFETY: both only compute with their argument.
        let (space, payload) = unsafe { (libc::CMSG_SPACE(4), libc::CMSG_LEN(4)) };
        assert_eq!(control.filled().len(), usize::try_from(space).unwrap());
        assert_eq!(HEADER + 4, usize::try_from(payload).unwrap());
    }
}
