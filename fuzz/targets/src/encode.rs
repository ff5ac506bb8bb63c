//! Bytes from which `arbitrary` makes the calls that are meant.

/// Bytes in the making.
#[derive(Clone, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    /// Variant `index` of an enum of `count`.
    pub(crate) fn variant(&mut self, index: u32, count: u32) -> &mut Self {
        let scaled = (u64::from(index) << 32).div_ceil(count.into());
        self.bytes(&(scaled as u32).to_le_bytes())
    }

    /// The same of something with bytes of its own behind it.
    pub(crate) fn with(&mut self, index: u32, count: u32, bytes: &[u8]) -> &mut Self {
        self.variant(index, count).bytes(bytes)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
}
