//! Ranges of bytes: every byte of a small one is listed in a map; all are reckoned in 128 bits.

use std::collections::BTreeMap;

use softrnic_model::MemoryId;

/// Above this, bytes are not listed one by one.
const LISTED_BYTES_MAX: u64 = 96;

/// Addresses and where their bytes are.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) start: i128,
    pub(crate) length: i128,
    pub(crate) memory: MemoryId,
    pub(crate) offset: i128,
    /// Each byte, if there are few.
    listed: Option<BTreeMap<i128, i128>>,
}

impl Extent {
    pub(crate) fn new(start: u64, length: u64, memory: MemoryId, offset: u64) -> Self {
        let (start, offset) = (i128::from(start), i128::from(offset));
        let listed = (length <= LISTED_BYTES_MAX)
            .then(|| (0..i128::from(length)).map(|i| (start + i, offset + i)).collect());
        Self { start, length: i128::from(length), memory, offset, listed }
    }

    fn end(&self) -> i128 {
        self.start + self.length
    }

    /// A part, named by its own addresses or from `renamed` on.
    pub(crate) fn part(&self, addr: u64, length: u64, renamed: Option<u64>) -> Option<Self> {
        let at = i128::from(addr);
        let first = self.locate(addr, length)?;
        let start = renamed.map_or(at, i128::from);
        let listed = self.listed.as_ref().map(|bytes| {
            bytes
                .iter()
                .filter(|&(&byte, _)| at <= byte && byte < at + i128::from(length))
                .map(|(&byte, &place)| (byte - at + start, place))
                .collect()
        });
        let memory = self.memory;
        Some(Self { start, length: i128::from(length), memory, offset: first, listed })
    }

    /// Where the first byte is, if all `length` are inside.
    pub(crate) fn locate(&self, addr: u64, length: u64) -> Option<i128> {
        let (at, count) = (i128::from(addr), i128::from(length));
        let inside = self.start <= at && at + count <= self.end() && at + count <= 1 << 64;
        if let Some(bytes) = &self.listed {
            let all = if count == 0 {
                self.start <= at && at <= self.end()
            } else {
                count <= self.length && (at..at + count).all(|byte| bytes.contains_key(&byte))
            };
            assert_eq!(all, inside, "the two ways to reckon agree");
            if let (true, Some(place)) = (all, bytes.get(&at)) {
                return Some(*place);
            }
        }
        inside.then_some(self.offset + at - self.start)
    }
}
