//! CRC-32 as algebra: what a 16-bit field adds, and going backwards over bytes.
//!
//! A register of the reflected CRC-32 is a polynomial modulo P over GF(2); bit 31 is the
//! coefficient of x^0, bit 0 that of x^31. Feeding a byte of zeros multiplies it by x^8. The
//! checksum is linear: flipping bits of the input flips in the output what those bits alone, fed
//! into an empty register, leave there.

/// P without x^32, reflected.
// [icrc/polynomial]
const POLYNOMIAL: u32 = 0xedb8_8320;

/// x^0.
const ONE: u32 = 1 << 31;

/// `register` times x.
const fn times_x(register: u32) -> u32 {
    register >> 1 ^ if register & 1 == 1 { POLYNOMIAL } else { 0 }
}

/// `register` divided by x; P has the coefficient 1 at x^0, so x can always be divided out.
const fn over_x(register: u32) -> u32 {
    if register & ONE == 0 { register << 1 } else { (register ^ POLYNOMIAL) << 1 | 1 }
}

const fn times_x8(mut register: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        register = times_x(register);
        bit += 1;
    }
    register
}

const fn over_x8(mut register: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        register = over_x(register);
        bit += 1;
    }
    register
}

/// What a big-endian 16-bit field at a fixed distance from the end adds to a checksum: one small
/// table per nibble of the field.
#[derive(Debug)]
pub(super) struct FieldEffect([[u32; 16]; 4]);

impl FieldEffect {
    /// Of a field that is followed by `behind` bytes.
    pub(super) const fn followed_by(behind: usize) -> Self {
        let mut tables = [[0; 16]; 4];
        let mut nibble = 0;
        while nibble < 4 {
            let mut value = 0u16;
            while value < 16 {
                // The first byte on the wire is the high one and enters the low bits.
                let field = (value << (4 * nibble)).swap_bytes() as u32;
                tables[nibble][value as usize] = times_x8_often(field, behind + 2);
                value += 1;
            }
            nibble += 1;
        }
        Self(tables)
    }

    /// What `value` adds, compared with a field of 0.
    #[inline]
    pub(super) const fn of(&self, value: u16) -> u32 {
        let Self([t0, t1, t2, t3]) = self;
        t0[(value & 0xf) as usize]
            ^ t1[(value >> 4 & 0xf) as usize]
            ^ t2[(value >> 8 & 0xf) as usize]
            ^ t3[(value >> 12) as usize]
    }
}

const fn times_x8_often(mut register: u32, times: usize) -> u32 {
    let mut n = 0;
    while n < times {
        register = times_x8(register);
        n += 1;
    }
    register
}

/// The low 16 bits of `register` as the field that it came from, or `None` if the register is no
/// image of a field: the inverse of [`FieldEffect::of`] for a field followed by `behind` bytes.
/// It looks at all 32 bits, so of all registers one in 65,536 passes.
#[inline]
pub(super) fn field_from_effect(register: u32, behind: u16) -> Option<u16> {
    let [low, high] = behind.to_le_bytes();
    // The way back does not wait for the register.
    let back = times(BACK_LOW[usize::from(low)], BACK_HIGH[usize::from(high)]);
    u16::try_from(times(register, back)).ok().map(u16::swap_bytes)
}

/// x^(-8 (2 + n)): back over the field and `n` bytes.
static BACK_LOW: [u32; 256] = {
    let mut powers = [0; 256];
    let mut power = over_x8(over_x8(ONE));
    let mut n = 0;
    while n < 256 {
        powers[n] = power;
        power = over_x8(power);
        n += 1;
    }
    powers
};

/// x^(-8 * 256 n): back over `256 n` bytes.
static BACK_HIGH: [u32; 256] = {
    let mut powers = [0; 256];
    let mut power = ONE;
    let mut n = 0;
    while n < 256 {
        powers[n] = power;
        let mut byte = 0;
        while byte < 256 {
            power = over_x8(power);
            byte += 1;
        }
        n += 1;
    }
    powers
};

/// The product of two registers modulo P.
fn times(a: u32, b: u32) -> u32 {
    // The product of two reflections is the reflection of the product, one bit too low.
    let product = carryless(a, b) << 1;
    let [l0, l1, l2, l3, h0, h1, h2, h3] = product.to_le_bytes();
    // The low half holds the coefficients from x^32 up.
    u32::from_le_bytes([h0, h1, h2, h3]) ^ times_x32(0, u32::from_le_bytes([l0, l1, l2, l3]))
}

/// The product of two polynomials over GF(2), by integer multiplication: with one bit in four
/// set, at most 8 ones meet in a column, and their carries stay below the next bit that counts.
fn carryless(a: u32, b: u32) -> u64 {
    const EVERY_FOURTH: u64 = 0x1111_1111_1111_1111;
    let a = [0, 1, 2, 3].map(|i| u64::from(a) & EVERY_FOURTH << i);
    let b = [0, 1, 2, 3].map(|i| u64::from(b) & EVERY_FOURTH << i);
    let mut product = 0;
    for column in 0..4 {
        let mut sum = 0;
        for i in 0..4 {
            sum ^= a[i].wrapping_mul(b[(column + 4 - i) % 4]);
        }
        product |= sum & EVERY_FOURTH << column;
    }
    product
}

/// The register after `bytes`, at compile time.
pub(super) const fn feed_slowly(mut register: u32, bytes: &[u8]) -> u32 {
    let mut n = 0;
    while n < bytes.len() {
        register = times_x8(register ^ bytes[n] as u32);
        n += 1;
    }
    register
}

/// Up to this many bytes the tables here beat the start-up cost of vector instructions.
pub(super) const SHORT: usize = 32;

/// The register after `bytes`.
#[inline]
pub(super) fn feed(register: u32, bytes: &[u8]) -> u32 {
    if bytes.len() <= SHORT {
        return feed_short(register, bytes);
    }
    // The library speaks in finished checksums, which are complements of registers.
    let mut hasher = crc32fast::Hasher::new_with_initial(!register);
    hasher.update(bytes);
    !hasher.finalize()
}

/// The register after 12 bytes, all of which are looked up at once.
#[inline]
pub(super) fn feed_12(register: u32, bytes: [u8; 12]) -> u32 {
    let [b0, b1, b2, b3, behind @ ..] = bytes;
    let [b0, b1, b2, b3] = (register ^ u32::from_le_bytes([b0, b1, b2, b3])).to_le_bytes();
    let [b4, b5, b6, b7, b8, b9, b10, b11] = behind;
    after_all([b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11])
}

/// As [`feed`], 16 bytes at a time.
#[inline]
pub(super) fn feed_short(mut register: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    for block in blocks {
        let [b0, b1, b2, b3, behind @ ..] = *block;
        let ahead = u32::from_le_bytes([b0, b1, b2, b3]);
        // Only the second term waits for the block before.
        register = after_all(behind) ^ times_x32(12, register ^ ahead);
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        register = times_x32(0, register ^ u32::from_le_bytes(*word));
    }
    for &byte in rest {
        let [low, ..] = register.to_le_bytes();
        register = register >> 8 ^ AFTER[0][usize::from(low ^ byte)];
    }
    register
}

/// What `bytes` leave in an empty register.
#[inline]
fn after_all(bytes: [u8; 12]) -> u32 {
    let mut register = 0;
    for (zeros, byte) in bytes.into_iter().rev().enumerate() {
        register ^= AFTER[zeros][usize::from(byte)];
    }
    register
}

/// `register` times x^(32 + 8 zeros).
#[inline]
fn times_x32(zeros: usize, register: u32) -> u32 {
    let [r0, r1, r2, r3] = register.to_le_bytes().map(usize::from);
    AFTER[zeros + 3][r0] ^ AFTER[zeros + 2][r1] ^ AFTER[zeros + 1][r2] ^ AFTER[zeros][r3]
}

/// By number and byte: the register after the byte and then that many bytes of zeros, fed into an
/// empty register.
static AFTER: [[u32; 256]; 16] = {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "below 256")]
        let mut register = byte as u32;
        let mut zeros = 0;
        while zeros < 16 {
            register = times_x8(register);
            tables[zeros][byte] = register;
            zeros += 1;
        }
        byte += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition of a carry-less product, one bit at a time.
    fn long_multiplication(a: u32, b: u32) -> u64 {
        (0..32).filter(|i| b >> i & 1 == 1).fold(0, |sum, i| sum ^ u64::from(a) << i)
    }

    #[test]
    fn divides_what_it_multiplied() {
        let mut register = 1;
        for _ in 0..1_000 {
            assert_eq!(over_x(times_x(register)), register);
            assert_eq!(times_x(over_x(register)), register);
            register = times_x(register);
        }
    }

    #[test]
    fn a_field_is_found_again_at_every_distance() {
        for behind in 0..=u16::MAX {
            let field = behind.wrapping_mul(0x9e37) ^ 0x5a5a;
            let zeros = [0; 256];
            let mut register = feed(0, &field.to_be_bytes());
            let mut left = usize::from(behind);
            while left > 0 {
                let step = left.min(zeros.len());
                register = feed(register, &zeros[..step]);
                left -= step;
            }
            assert_eq!(field_from_effect(register, behind), Some(field), "{behind}");
        }
    }

    #[test]
    fn only_images_of_fields_are_found() {
        let effect = FieldEffect::followed_by(30);
        for field in 0..=u16::MAX {
            let image = effect.of(field);
            assert_eq!(image, feed(feed(0, &field.to_be_bytes()), &[0; 30]));
            assert_eq!(field_from_effect(image, 30), Some(field));
            // Two images differ by an image, so a single bit off is none: it is no image itself.
            for bit in [0, 7, 16, 31] {
                assert_eq!(field_from_effect(image ^ 1 << bit, 30), None, "{field} {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn products(a: u32, b: u32) {
            prop_assert_eq!(carryless(a, b), long_multiplication(a, b));
            prop_assert_eq!(times(a, ONE), a);
            prop_assert_eq!(times(a, b), times(b, a));
            prop_assert_eq!(times(a, times_x8(ONE)), feed(a, &[0]));
        }

        #[test]
        fn all_ways_to_feed_agree(register: u32, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let expected = feed_slowly(register, &bytes);
            prop_assert_eq!(feed(register, &bytes), expected);
            prop_assert_eq!(feed_short(register, &bytes), expected);
            if let Some((first, rest)) = bytes.split_first_chunk() {
                prop_assert_eq!(feed(feed_12(register, *first), rest), expected);
            }
        }
    }
}
