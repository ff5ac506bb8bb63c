//! Bytes of the fuzzer as numbers and records. Where the input ends there are zeros: every input
//! means something, and a shorter one means less.

use arbitrary::{Arbitrary, Unstructured};

/// Steps until the input ends.
pub(crate) fn steps<'a, T: Arbitrary<'a>>(input: &mut Unstructured<'a>) -> impl Iterator<Item = T> {
    core::iter::from_fn(|| if input.is_empty() { None } else { input.arbitrary().ok() })
}

/// Takes values off the front.
#[derive(Debug)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let front = self.take(N);
        let mut array = [0; N];
        array[..front.len()].copy_from_slice(front);
        array
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Up to `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        front
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.u8()) % choices.len()]
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
