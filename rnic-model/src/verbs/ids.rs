//! Numbers that name objects, each a type of its own.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
    };
}

id! {
    /// A protection domain. The low 16 bits are an index, the high 16 a generation, so that the
    /// number of a destroyed domain does not soon name another one.
    PdId
}
id! {
    /// A completion queue; numbered like [`PdId`].
    CqId
}
id! {
    /// A shared receive queue; numbered like [`PdId`].
    SrqId
}
id! {
    /// An address handle; numbered like [`PdId`].
    AhId
}
id! {
    /// An XRC domain; numbered like [`PdId`].
    XrcdId
}

/// The number by which requests of XRC name a shared receive queue: 24 bits
/// (`ibv_get_srq_num(3)`).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SrqNum(u32);

impl SrqNum {
    /// The low 24 bits of `raw`.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw & 0x00ff_ffff)
    }

    /// The 24 bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for SrqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A queue pair number: 24 bits, the high 8 a slot (which process of an address), the low 16 an
/// index within it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// [qp-attributes/numbers-24-bits]
pub struct QpNum(u32);

impl QpNum {
    /// The destination of a datagram to a multicast group.
    pub const MULTICAST: Self = Self(0x00ff_ffff);
    /// The general services queue pair, where connection management messages go.
    pub const GSI: Self = Self(1);

    /// The low 24 bits of `raw`.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw & 0x00ff_ffff)
    }

    /// The number `index` of slot `slot`.
    #[must_use]
    pub const fn from_parts(slot: u8, index: u16) -> Self {
        Self((slot as u32) << 16 | index as u32)
    }

    /// The 24 bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The slot: which process of the address owns the number.
    #[must_use]
    pub const fn slot(self) -> u8 {
        (self.0 >> 16 & 0xff) as u8
    }

    /// The index within the slot.
    #[must_use]
    pub const fn index(self) -> u16 {
        (self.0 & 0xffff) as u16
    }
}

impl fmt::Debug for QpNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A local or remote key: an index in the high 24 bits and a variant in the low 8.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Key(pub u32);

impl Key {
    /// The key of entry `index` in its `variant`-th use.
    #[must_use]
    pub const fn from_parts(index: u32, variant: u8) -> Self {
        Self(index << 8 | variant as u32)
    }

    /// Which entry of the key table.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// Which use of that entry; of a type 2 window, chosen by the program.
    #[must_use]
    pub const fn variant(self) -> u8 {
        (self.0 & 0xff) as u8
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// A packet sequence number: 24 bits, circular. Order exists only relative to an origin, so there
/// is no `Ord`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0x00ff_ffff;

    /// The low 24 bits of `raw`.
    #[must_use]
    pub const fn new(raw: u32) -> Self {
        Self(raw & Self::MASK)
    }

    /// The 24 bits.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `packets` further on.
    #[must_use]
    // [rc-responder/psn-wraps]
    pub const fn plus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_add(packets))
    }

    /// The number `packets` back.
    #[must_use]
    pub const fn minus(self, packets: u32) -> Self {
        Self::new(self.0.wrapping_sub(packets))
    }

    /// The signed distance from `origin`, in `-2^23 .. 2^23`.
    #[must_use]
    // [rc-responder/psn-window]
    pub const fn distance_from(self, origin: Self) -> i32 {
        (self.0.wrapping_sub(origin.0) << 8).cast_signed() >> 8
    }

    /// How many packets after `origin` this is, in `0 .. 2^24`.
    #[must_use]
    pub const fn offset_from(self, origin: Self) -> u32 {
        self.0.wrapping_sub(origin.0) & Self::MASK
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_at_the_corners_of_the_circle() {
        let corners = [0, 1, 0x7f_ffff, 0x80_0000, 0x80_0001, 0xff_ffff];
        for origin in corners.map(Psn::new) {
            for step in [0, 1, 2, 0x7f_fffe, 0x7f_ffff] {
                let ahead = origin.plus(step);
                assert_eq!(ahead.distance_from(origin), i32::try_from(step).unwrap());
                assert_eq!(origin.distance_from(ahead), -i32::try_from(step).unwrap());
                assert_eq!(ahead.minus(step), origin);
                assert_eq!(ahead.offset_from(origin), step);
            }
            assert_eq!(origin.plus(0x80_0000).distance_from(origin), -0x80_0000);
        }
    }

    #[test]
    fn qp_number_has_a_slot_and_an_index() {
        let qpn = QpNum::from_parts(3, 0x1234);
        assert_eq!((qpn.get(), qpn.slot(), qpn.index()), (0x03_1234, 3, 0x1234));
        assert_eq!(QpNum::new(0xab03_1234), qpn);
    }
}
