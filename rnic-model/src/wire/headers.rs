//! Extension headers, laid out as on the wire (IBA volume 1, section 9.3).
//!
//! Reserved bits are ignored on receipt and zero in a header made by `new`.

use core::fmt;

use zerocopy::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Syndrome;
use super::opcode::Extensions;
use crate::verbs::{Key, QpNum};

const LOW_24: u32 = 0x00ff_ffff;

/// A header that some opcodes put behind the base transport header.
pub(super) trait ExtensionHeader: FromBytes + KnownLayout + Immutable + Unaligned {
    /// Its bit, and so its place among the others.
    const FLAG: Extensions;
}

macro_rules! header {
    (
        $(#[$doc:meta])*
        $name:ident, $len:literal, $flag:ident { $($field:ident: $type:ty),* $(,)? }
        shows $($getter:ident),*
    ) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
        )]
        #[repr(C)]
        pub struct $name { $($field: $type),* }

        const _: () = assert!(size_of::<$name>() == $len);

        impl ExtensionHeader for $name {
            const FLAG: Extensions = Extensions::$flag;
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($getter), &self.$getter()))*
                    .finish()
            }
        }
    };
}

header! {
    /// RDMA extended transport header: the remote range of a WRITE, READ, FLUSH or ATOMIC WRITE.
    Reth, 16, RETH { va: U64, rkey: U32, len: U32 }
    shows va, rkey, len
}

impl Reth {
    /// The range of `len` bytes at virtual address `va` under `rkey`.
    #[must_use]
    pub fn new(va: u64, rkey: Key, len: u32) -> Self {
        Self { va: va.into(), rkey: rkey.0.into(), len: len.into() }
    }

    /// Virtual address.
    #[must_use]
    pub fn va(&self) -> u64 {
        self.va.get()
    }

    /// Remote key.
    #[must_use]
    pub fn rkey(&self) -> Key {
        Key(self.rkey.get())
    }

    /// Length of the whole message, in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a field of the protocol, not a container")]
    pub fn len(&self) -> u32 {
        self.len.get()
    }
}

header! {
    /// ACK extended transport header: how a request went, and how many have completed.
    Aeth, 4, AETH { word: U32 }
    shows syndrome, msn
}

impl Aeth {
    /// `syndrome`, with the low 24 bits of `msn`.
    #[must_use]
    pub fn new(syndrome: Syndrome, msn: u32) -> Self {
        Self { word: (u32::from(u8::from(syndrome)) << 24 | msn & LOW_24).into() }
    }

    /// Acknowledgement, or why not.
    #[must_use]
    pub fn syndrome(&self) -> Syndrome {
        Syndrome::from(self.word.get().to_be_bytes()[0])
    }

    /// Message sequence number: 24 bits, messages completed by the responder.
    #[must_use]
    pub fn msn(&self) -> u32 {
        self.word.get() & LOW_24
    }
}

header! {
    /// Atomic extended transport header: target and operands of a compare-and-swap or
    /// fetch-and-add.
    AtomicEth, 28, ATOMIC_ETH { va: U64, rkey: U32, swap_or_add: U64, compare: U64 }
    shows va, rkey, swap_or_add, compare
}

impl AtomicEth {
    /// A fetch-and-add adds `swap_or_add` and leaves `compare` 0.
    #[must_use]
    pub fn new(va: u64, rkey: Key, swap_or_add: u64, compare: u64) -> Self {
        Self {
            va: va.into(),
            rkey: rkey.0.into(),
            swap_or_add: swap_or_add.into(),
            compare: compare.into(),
        }
    }

    /// Virtual address.
    #[must_use]
    pub fn va(&self) -> u64 {
        self.va.get()
    }

    /// Remote key.
    #[must_use]
    pub fn rkey(&self) -> Key {
        Key(self.rkey.get())
    }

    /// The value to store, or to add.
    #[must_use]
    pub fn swap_or_add(&self) -> u64 {
        self.swap_or_add.get()
    }

    /// The value that memory must hold for the swap to happen.
    #[must_use]
    pub fn compare(&self) -> u64 {
        self.compare.get()
    }
}

header! {
    /// Atomic ACK extended transport header: what memory held before.
    AtomicAckEth, 8, ATOMIC_ACK_ETH { original: U64 }
    shows original
}

impl AtomicAckEth {
    /// The value before the operation.
    #[must_use]
    pub fn new(original: u64) -> Self {
        Self { original: original.into() }
    }

    /// The value before the operation.
    #[must_use]
    pub fn original(&self) -> u64 {
        self.original.get()
    }
}

header! {
    /// Immediate data: 4 bytes for the receive completion.
    ImmDt, 4, IMM { data: U32 }
    shows data
}

impl ImmDt {
    /// `data` as a number; it travels big-endian.
    #[must_use]
    pub fn new(data: u32) -> Self {
        Self { data: data.into() }
    }

    /// The data as a number.
    #[must_use]
    pub fn data(&self) -> u32 {
        self.data.get()
    }
}

header! {
    /// Invalidate extended transport header: the remote key that a SEND invalidates.
    Ieth, 4, IETH { rkey: U32 }
    shows rkey
}

impl Ieth {
    /// Invalidates `rkey`.
    #[must_use]
    pub fn new(rkey: Key) -> Self {
        Self { rkey: rkey.0.into() }
    }

    /// The key to invalidate.
    #[must_use]
    pub fn rkey(&self) -> Key {
        Key(self.rkey.get())
    }
}

header! {
    /// Datagram extended transport header.
    Deth, 8, DETH { qkey: U32, src_qp: U32 }
    shows qkey, src_qp
}

impl Deth {
    /// From queue pair `src_qp`, with `qkey` as authority.
    #[must_use]
    pub fn new(qkey: u32, src_qp: QpNum) -> Self {
        Self { qkey: qkey.into(), src_qp: src_qp.get().into() }
    }

    /// Queue key.
    #[must_use]
    pub fn qkey(&self) -> u32 {
        self.qkey.get()
    }

    /// The queue pair that sent it.
    #[must_use]
    pub fn src_qp(&self) -> QpNum {
        QpNum::new(self.src_qp.get())
    }
}

header! {
    /// XRC extended transport header: which shared receive queue the request is for.
    XrcEth, 4, XRCETH { srq: U32 }
    shows srq
}

impl XrcEth {
    /// The low 24 bits of `srq`.
    #[must_use]
    pub fn new(srq: u32) -> Self {
        Self { srq: (srq & LOW_24).into() }
    }

    /// Number of the shared receive queue, 24 bits.
    #[must_use]
    pub fn srq(&self) -> u32 {
        self.srq.get() & LOW_24
    }
}

header! {
    /// FLUSH extended transport header (annex A19).
    Feth, 4, FETH { word: U32 }
    shows placement, selectivity
}

impl Feth {
    /// Placement type: visible to everyone who can reach the memory.
    pub const GLOBAL_VISIBILITY: u8 = 1 << 0;
    /// Placement type: survives loss of power.
    pub const PERSISTENCE: u8 = 1 << 1;
    /// Selectivity level: the range that the RETH names.
    pub const RANGE: u8 = 0;
    /// Selectivity level: the whole memory region.
    pub const REGION: u8 = 1;

    /// Of `placement` the low 4 bits count, of `selectivity` the low 2.
    #[must_use]
    pub fn new(placement: u8, selectivity: u8) -> Self {
        Self { word: u32::from((selectivity & 0b11) << 4 | placement & 0b1111).into() }
    }

    /// Placement type, 4 bits.
    #[must_use]
    pub fn placement(&self) -> u8 {
        self.low_byte() & 0b1111
    }

    /// Selectivity level, 2 bits.
    #[must_use]
    pub fn selectivity(&self) -> u8 {
        self.low_byte() >> 4 & 0b11
    }

    fn low_byte(self) -> u8 {
        self.word.get().to_be_bytes()[3]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Syndrome;

    /// Makes a header of arbitrary bytes, makes it again from its fields, and expects the same
    /// bytes with the reserved bits cleared.
    macro_rules! round_trips {
        ($($test:ident: $type:ident($($field:ident),*) $(reserves $($reserved:expr),+)?;)*) => {
            proptest! {$(
                #[test]
                fn $test(bytes: [u8; size_of::<$type>()]) {
                    let read = $type::read_from_bytes(&bytes).unwrap();
                    let again = $type::new($(read.$field()),*);
                    let reserved: &[(usize, u8)] = &[$($($reserved),+)?];
                    let mut expected = bytes;
                    reserved.iter().for_each(|&(byte, kept)| expected[byte] &= kept);
                    prop_assert_eq!(again.as_bytes(), &expected[..]);
                    $(prop_assert_eq!(again.$field(), read.$field());)*
                }
            )*}
        };
    }

    round_trips! {
        reth: Reth(va, rkey, len);
        aeth: Aeth(syndrome, msn);
        atomic_eth: AtomicEth(va, rkey, swap_or_add, compare);
        atomic_ack_eth: AtomicAckEth(original);
        imm_dt: ImmDt(data);
        ieth: Ieth(rkey);
        deth: Deth(qkey, src_qp) reserves (4, 0);
        xrc_eth: XrcEth(srq) reserves (0, 0);
        feth: Feth(placement, selectivity) reserves (0, 0), (1, 0), (2, 0), (3, 0x3f);
    }

    #[test]
    fn bytes_are_where_they_belong() {
        let reth = Reth::new(0x0102_0304_0506_0708, Key(0x1112_1314), 0x2122_2324);
        assert_eq!(
            reth.as_bytes(),
            [1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24]
        );
        let aeth = Aeth::new(Syndrome::RnrNak { timer: 12 }, 0xff00_0102);
        assert_eq!(aeth.as_bytes(), [0x2c, 0, 1, 2]);
        let atomic = AtomicEth::new(1, Key(2), 3, 4);
        let words = atomic.as_bytes().chunks(4).map(|word| word[3]);
        assert!(words.eq([0, 1, 2, 0, 3, 0, 4]));
        assert_eq!(Deth::new(0x8001_0000, QpNum::GSI).as_bytes(), [0x80, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(XrcEth::new(0xff12_3456).as_bytes(), [0, 0x12, 0x34, 0x56]);
        let feth = Feth::new(Feth::PERSISTENCE, Feth::REGION);
        assert_eq!(feth.as_bytes(), [0, 0, 0, 0b01_0010]);
    }
}
