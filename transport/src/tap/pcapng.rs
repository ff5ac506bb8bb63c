//! Blocks of a capture file in the pcapng format (draft-ietf-opsawg-pcapng): a section header, one
//! description per interface, one enhanced packet block per frame. Numbers have the byte order of
//! this host, which the section header tells.

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;

const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const SECTION_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_TIME_RESOLUTION: u16 = 9;
const PACKET_FLAGS: u16 = 2;
/// Timestamps count units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Whole blocks, one after the other.
#[derive(Debug)]
pub(super) struct Blocks {
    bytes: Vec<u8>,
    /// Where the open block starts.
    start: usize,
}

impl Blocks {
    /// No blocks yet, and room for so many bytes of them.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), start: 0 }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The block that every file begins with.
    pub(super) fn section(&mut self, application: &str) {
        self.begin(SECTION_HEADER);
        self.put(&BYTE_ORDER_MAGIC.to_ne_bytes());
        self.put(&1u16.to_ne_bytes());
        self.put(&0u16.to_ne_bytes());
        // length of the section: not told
        self.put(&u64::MAX.to_ne_bytes());
        self.option(SECTION_APPLICATION, |out| out.extend_from_slice(application.as_bytes()));
        self.end();
    }

    /// An interface; the first is number 0.
    pub(super) fn interface(&mut self, name: &str) {
        self.begin(INTERFACE_DESCRIPTION);
        self.put(&LINKTYPE_ETHERNET.to_ne_bytes());
        self.put(&0u16.to_ne_bytes());
        // no limit to the length of packets
        self.put(&0u32.to_ne_bytes());
        self.option(INTERFACE_NAME, |out| out.extend_from_slice(name.as_bytes()));
        self.option(INTERFACE_TIME_RESOLUTION, |out| out.push(NANOSECONDS));
        self.end();
    }

    /// A frame, which `frame` appends, with a comment, which `comment` appends.
    pub(super) fn packet(
        &mut self,
        interface: u32,
        time_ns: u64,
        inbound: bool,
        frame: impl FnOnce(&mut Vec<u8>),
        comment: impl FnOnce(&mut Vec<u8>),
    ) {
        self.begin(ENHANCED_PACKET);
        self.put(&interface.to_ne_bytes());
        let (high, low) = (low_32(time_ns >> 32), low_32(time_ns));
        self.put(&high.to_ne_bytes());
        self.put(&low.to_ne_bytes());
        let lengths = self.bytes.len();
        self.put(&[0; 8]);
        frame(&mut self.bytes);
        let len = low_32((self.bytes.len() - lengths - 8) as u64).to_ne_bytes();
        self.bytes[lengths..lengths + 4].copy_from_slice(&len);
        self.bytes[lengths + 4..lengths + 8].copy_from_slice(&len);
        self.pad();
        let direction: u32 = if inbound { 1 } else { 2 };
        self.option(PACKET_FLAGS, |out| out.extend_from_slice(&direction.to_ne_bytes()));
        self.option(OPTION_COMMENT, comment);
        self.end();
    }

    fn begin(&mut self, kind: u32) {
        self.start = self.bytes.len();
        self.put(&kind.to_ne_bytes());
        self.put(&[0; 4]);
    }

    /// Ends the options and the block; its length stands at both ends.
    fn end(&mut self) {
        self.put(&OPTION_END.to_ne_bytes());
        self.put(&0u16.to_ne_bytes());
        let len = low_32((self.bytes.len() + 4 - self.start) as u64).to_ne_bytes();
        self.bytes[self.start + 4..self.start + 8].copy_from_slice(&len);
        self.put(&len);
    }

    /// An option whose value `value` appends; what is longer than an option can be is cut.
    fn option(&mut self, code: u16, value: impl FnOnce(&mut Vec<u8>)) {
        self.put(&code.to_ne_bytes());
        let start = self.bytes.len() + 2;
        self.put(&[0; 2]);
        value(&mut self.bytes);
        let len = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes.truncate(start + usize::from(len));
        self.bytes[start - 2..start].copy_from_slice(&len.to_ne_bytes());
        self.pad();
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        let len = (self.bytes.len() - self.start).next_multiple_of(4);
        self.bytes.resize(self.start + len, 0);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "half of a timestamp; a length under 2^17")]
const fn low_32(value: u64) -> u32 {
    value as u32
}
