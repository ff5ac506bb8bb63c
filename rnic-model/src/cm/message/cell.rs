//! Fields of a message: where they are, and how values of each type are read and written there.

use core::fmt;

use crate::cm::{RejectReason, ServiceId};
use crate::verbs::{Gid, Psn, QpNum};

/// Where a field is: its first bit (bit 0 is the high bit of byte 0), and how many bits it has where
/// its type does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    bit: usize,
    width: Option<u32>,
}

impl Place {
    /// A field that begins at a byte and is as wide as its type.
    #[must_use]
    pub const fn byte(byte: usize) -> Self {
        Self { bit: byte * 8, width: None }
    }

    /// A field of `width` bits that begins at bit `bit` of a byte.
    #[must_use]
    pub const fn bits(byte: usize, bit: usize, width: u32) -> Self {
        Self { bit: byte * 8 + bit, width: Some(width) }
    }
}

/// A type that a field can have.
pub trait Cell: Sized {
    /// Reads it; what is behind the end reads as zeros.
    fn get(bytes: &[u8], place: Place) -> Self;
    /// Writes it; higher bits than the field has are cut off.
    fn put(&self, bytes: &mut [u8], place: Place);
}

/// Reads `width` bits, at most 128.
fn read(bytes: &[u8], bit: usize, width: u32) -> u128 {
    let end = bit + width as usize;
    let covered = bytes.get(bit / 8..end.div_ceil(8)).unwrap_or(&[]);
    // At most 17 bytes, of which the first loses its leading bits.
    let mut value = 0_u128;
    for (at, byte) in covered.iter().enumerate() {
        let byte = if at == 0 { byte & 0xff >> (bit % 8) } else { *byte };
        let last = at + 1 == covered.len();
        let tail = if last { end.div_ceil(8) * 8 - end } else { 0 };
        value = value << (8 - tail) | u128::from(byte >> tail);
    }
    value
}

/// Writes the low `width` bits of `value`.
fn write(bytes: &mut [u8], bit: usize, width: u32, value: u128) {
    for at in 0..width as usize {
        let position = bit + width as usize - 1 - at;
        let Some(byte) = bytes.get_mut(position / 8) else { continue };
        let mask = 0x80 >> (position % 8);
        if value >> at & 1 == 1 {
            *byte |= mask;
        } else {
            *byte &= !mask;
        }
    }
}

macro_rules! cells {
    ($($type:ty, $width:literal, $from:expr, $to:expr;)*) => {$(
        impl Cell for $type {
            fn get(bytes: &[u8], place: Place) -> Self {
                let from: fn(u128) -> Self = $from;
                from(read(bytes, place.bit, place.width.unwrap_or($width)))
            }
            fn put(&self, bytes: &mut [u8], place: Place) {
                let to: fn(&Self) -> u128 = $to;
                write(bytes, place.bit, place.width.unwrap_or($width), to(self));
            }
        }
    )*};
}

cells! {
    bool, 1, |raw| raw != 0, |value| u128::from(*value);
    u8, 8, |raw| raw.to_le_bytes()[0], |value| u128::from(*value);
    u16, 16, |raw| (raw & 0xffff) as u16, |value| u128::from(*value);
    u32, 32, |raw| (raw & 0xffff_ffff) as u32, |value| u128::from(*value);
    u64, 64, |raw| (raw & 0xffff_ffff_ffff_ffff) as u64, |value| u128::from(*value);
    Gid, 128, |raw| Gid(raw.to_be_bytes()), |value| u128::from_be_bytes(value.0);
    QpNum, 24, |raw| QpNum::new((raw & 0xff_ffff) as u32), |value| u128::from(value.get());
    Psn, 24, |raw| Psn::new((raw & 0xff_ffff) as u32), |value| u128::from(value.get());
    CommId, 32, |raw| CommId((raw & 0xffff_ffff) as u32), |value| u128::from(value.0);
    Guid, 64, |raw| Guid((raw & 0xffff_ffff_ffff_ffff) as u64), |value| u128::from(value.0);
    ServiceId, 64, |raw| ServiceId((raw & 0xffff_ffff_ffff_ffff) as u64),
        |value| u128::from(value.0);
    RejectReason, 16, |raw| RejectReason((raw & 0xffff) as u16), |value| u128::from(value.0);
}

/// A communication ID: by which one end of a connection names it. The high 8 bits are the slot of
/// the process, as in queue pair numbers; 0 is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

impl CommId {
    /// The ID `index`, 24 bits, of slot `slot`.
    #[must_use]
    pub const fn from_parts(slot: u8, index: u32) -> Self {
        Self((slot as u32) << 24 | index & 0x00ff_ffff)
    }

    /// The slot: which process of the address has given it.
    #[must_use]
    pub const fn slot(self) -> u8 {
        (self.0 >> 24 & 0xff) as u8
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for CommId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The number of a channel adapter (EUI-64).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

/// A field of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes<const N: usize>(pub [u8; N]);

impl<const N: usize> Bytes<N> {
    /// The field that begins with these bytes; the rest is zeros. `None` if there are too many.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut field = Self::default();
        field.0.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(field)
    }
}

impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Self([0; N])
    }
}

impl<const N: usize> fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write!(f, "{N} bytes {:02x?}", &self.0[..end])
    }
}

impl<const N: usize> Cell for Bytes<N> {
    fn get(bytes: &[u8], place: Place) -> Self {
        let at = place.bit / 8;
        bytes.get(at..at + N).and_then(Self::of).unwrap_or_default()
    }

    fn put(&self, bytes: &mut [u8], place: Place) {
        let at = place.bit / 8;
        if let Some(field) = bytes.get_mut(at..at + N) {
            field.copy_from_slice(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_widths_come_back_and_touch_nothing_else() {
        for bit in 0..24 {
            for width in 1..=64 {
                let value = 0x9e37_79b9_7f4a_7c15_u128 & ((1 << width) - 1);
                for ground in [0_u8, 0xff] {
                    let mut bytes = [ground; 12];
                    write(&mut bytes, bit, width, value);
                    assert_eq!(read(&bytes, bit, width), value, "{bit} {width}");
                    write(&mut bytes, bit, width, if ground == 0 { 0 } else { u128::MAX });
                    assert_eq!(bytes, [ground; 12], "{bit} {width}");
                }
            }
        }
    }

    #[test]
    fn a_field_past_the_end_reads_as_zeros_and_is_not_written() {
        let mut bytes = [0xff; 4];
        assert_eq!(u64::get(&bytes, Place::byte(0)), 0);
        7_u32.put(&mut bytes, Place::byte(4));
        assert_eq!(Bytes::<8>::get(&bytes, Place::byte(0)), Bytes([0; 8]));
        assert_eq!(bytes, [0xff; 4]);
    }
}
