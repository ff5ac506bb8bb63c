//! The blocks of a pcapng file that hold packets (draft-ietf-opsawg-pcapng).

use std::fmt;

use softrnic_model::planted::{self, Fault};

/// A packet of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number, from 1 on.
    pub number: u64,
    /// When, in nanoseconds since the beginning of 1970; 0 where the file does not say.
    pub at_ns: u64,
    /// From the Ethernet header on.
    pub bytes: &'a [u8],
}

/// Why a file cannot be read (any further).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFile {
    /// The byte at which the block begins that is bad.
    pub offset: usize,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block at byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for BadFile {}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const ETHERNET: u16 = 1;
const IF_TSRESOL: u16 = 9;

/// An interface: its link type, and how many units of time a second has.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u16,
    units: u64,
}

/// Reads packets, one by one; after an error there are no more.
#[derive(Debug)]
pub struct Reader<'a> {
    file: &'a [u8],
    offset: usize,
    little: bool,
    interfaces: Vec<Interface>,
    packets: u64,
    ended: bool,
}

impl<'a> Reader<'a> {
    /// Reads a file that is in memory.
    #[must_use]
    pub const fn new(file: &'a [u8]) -> Self {
        Self { file, offset: 0, little: true, interfaces: Vec::new(), packets: 0, ended: false }
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u16::from_le_bytes(word) } else { u16::from_be_bytes(word) })
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk()?;
        Some(if self.little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    }

    /// The next block: its type and what is inside. `None` at the end of the file.
    fn block(&mut self) -> Result<Option<(u32, &'a [u8])>, &'static str> {
        let rest = self.file.get(self.offset..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let kind = self.u32(rest, 0).ok_or("it ends within its type")?;
        if kind == SECTION {
            self.little = match rest.get(8..12) {
                Some([0x4d, 0x3c, 0x2b, 0x1a]) => true,
                Some([0x1a, 0x2b, 0x3c, 0x4d]) => false,
                Some(_) => return Err("no byte-order magic: not a section header"),
                None => return Err("it ends within a section header"),
            };
        } else if self.offset == 0 {
            return Err("not a section header: this is no pcapng file");
        }
        let length = self.u32(rest, 4).ok_or("it ends within its length")? as usize;
        if length < 12 || !length.is_multiple_of(4) {
            return Err("its length is no multiple of 4, or below 12");
        }
        let block = rest.get(..length).ok_or("it is longer than the rest of the file")?;
        if self.u32(block, length - 4) != u32::try_from(length).ok() {
            return Err("its two lengths differ");
        }
        self.offset += length;
        Ok(Some((kind, block.get(8..length - 4).unwrap_or_default())))
    }

    fn interface(&self, body: &[u8]) -> Result<Interface, &'static str> {
        let link_type = self.u16(body, 0).ok_or("an interface without a link type")?;
        let mut units = 1_000_000;
        let mut at = 8;
        while let (Some(code), Some(len)) = (self.u16(body, at), self.u16(body, at + 2)) {
            if code == 0 {
                break;
            }
            if code == IF_TSRESOL {
                let resolution = *body.get(at + 4).ok_or("an interface with an option cut off")?;
                let power = u32::from(resolution & 0x7f);
                let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
                units = base.checked_pow(power).ok_or("an interface with a clock too fine")?;
            }
            at += 4 + usize::from(len).next_multiple_of(4);
        }
        Ok(Interface { link_type, units })
    }

    fn enhanced(&self, body: &'a [u8]) -> Result<(u64, &'a [u8]), &'static str> {
        let short = "a packet block shorter than its header";
        let word = |at| self.u32(body, at).ok_or(short);
        let interface = self.interfaces.get(word(0)? as usize);
        let interface = interface.ok_or("a packet of an interface that was not described")?;
        if interface.link_type != ETHERNET {
            return Err("a packet of an interface that is not Ethernet");
        }
        let ticks = u128::from(word(4)?) << 32 | u128::from(word(8)?);
        let ns = ticks * 1_000_000_000 / u128::from(interface.units.max(1));
        let at_ns = u64::try_from(ns).map_err(|_| "a packet from beyond the year 2554")?;
        let captured = word(12)? as usize;
        if (captured as u64) < u64::from(word(16)?) {
            return Err("a packet that was cut off when it was captured");
        }
        let rest = body.get(20..).unwrap_or_default();
        let most = if planted::has(Fault::PastTheBlock) { rest.len() } else { usize::MAX };
        let bytes = rest.get(..captured.min(most));
        Ok((at_ns, bytes.ok_or("a packet longer than its block")?))
    }

    fn simple(&self, body: &'a [u8]) -> Result<(u64, &'a [u8]), &'static str> {
        let Some(interface) = self.interfaces.first() else {
            return Err("a packet of an interface that was not described");
        };
        if interface.link_type != ETHERNET {
            return Err("a packet of an interface that is not Ethernet");
        }
        let len = self.u32(body, 0).ok_or("a packet block shorter than its header")? as usize;
        let bytes = body.get(4..).and_then(|rest| rest.get(..len));
        Ok((0, bytes.ok_or("a packet longer than its block, or cut off")?))
    }

    fn advance(&mut self) -> Result<Option<Frame<'a>>, &'static str> {
        loop {
            let Some((kind, body)) = self.block()? else { return Ok(None) };
            let (at_ns, bytes) = match kind {
                SECTION => {
                    self.interfaces.clear();
                    continue;
                }
                INTERFACE => {
                    let interface = self.interface(body)?;
                    self.interfaces.push(interface);
                    continue;
                }
                ENHANCED_PACKET => self.enhanced(body)?,
                SIMPLE_PACKET => self.simple(body)?,
                // Names, statistics, decryption secrets, and what nobody has heard of yet.
                _ => continue,
            };
            self.packets += 1;
            return Ok(Some(Frame { number: self.packets, at_ns, bytes }));
        }
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Frame<'a>, BadFile>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let offset = self.offset;
        match self.advance() {
            Ok(Some(frame)) => Some(Ok(frame)),
            Ok(None) => {
                self.ended = true;
                if offset == 0 && self.packets == 0 && self.file.is_empty() {
                    return Some(Err(BadFile { offset: 0, reason: "the file is empty" }));
                }
                None
            }
            Err(reason) => {
                self.ended = true;
                // The block that is bad may come behind others that hold no packets.
                let offset = self.offset.max(offset);
                Some(Err(BadFile { offset, reason }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(12 + body.len()).unwrap().to_le_bytes();
        [&kind.to_le_bytes(), &length, body, &length[..]].concat()
    }

    fn file() -> Vec<u8> {
        let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
        let interface = [&[1, 0, 0, 0][..], &[0; 4], &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat();
        let packet = |ticks: u32, bytes: &[u8]| {
            let len = u32::try_from(bytes.len()).unwrap().to_le_bytes();
            let mut body = [&[0; 8][..], &ticks.to_le_bytes(), &len, &len, bytes].concat();
            body.resize(body.len().next_multiple_of(4), 0);
            block(ENHANCED_PACKET, &body)
        };
        let blocks = [
            block(SECTION, &section),
            block(INTERFACE, &interface),
            packet(7, &[1, 2, 3]),
            block(4, &[0; 4]),
            packet(9, &[4, 5, 6, 7]),
        ];
        blocks.concat()
    }

    #[test]
    fn packets_are_read_with_their_times() {
        let file = file();
        let frames: Vec<_> = Reader::new(&file).map(Result::unwrap).collect();
        assert_eq!(
            frames,
            [
                Frame { number: 1, at_ns: 7, bytes: &[1, 2, 3] },
                Frame { number: 2, at_ns: 9, bytes: &[4, 5, 6, 7] }
            ]
        );
    }

    #[test]
    fn a_file_that_is_cut_off_or_damaged_gives_place_and_reason() {
        let whole = file();
        fn last(bytes: &[u8]) -> Option<Result<Frame<'_>, BadFile>> {
            Reader::new(bytes).last()
        }
        let reason = |bytes: &[u8]| last(bytes).unwrap().unwrap_err().to_string();
        assert_eq!(reason(&[]), "block at byte 0: the file is empty");
        assert!(reason(b"not a capture at all").contains("no pcapng file"));
        for len in 1..whole.len() {
            let ends_well = last(&whole[..len]).is_none_or(|frame| frame.is_ok());
            // Only between two blocks may it end.
            let between = [28, 60, 96, 112].contains(&len);
            assert_eq!(ends_well, between, "{len}");
        }
        let mut damaged = whole.clone();
        damaged[60 + 4] ^= 4;
        assert_eq!(reason(&damaged), "block at byte 60: its two lengths differ");
        damaged[60 + 4] ^= 5;
        assert!(reason(&damaged).starts_with("block at byte 60: its length"));
        let mut other = whole;
        other[28 + 8] = 113;
        assert!(reason(&other).contains("not Ethernet"));
    }
}
