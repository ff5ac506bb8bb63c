//! Program memory of a simulated host.

use std::cell::RefCell;

use softrnic_model::{Memory, MemoryFault, MemoryId};

/// Program memory of a simulated host: blocks of bytes that can be unmapped at any time.
#[derive(Debug, Default)]
pub struct SimMemory {
    blocks: RefCell<Vec<Vec<u8>>>,
}

impl SimMemory {
    /// Adds a block.
    pub fn add(&self, bytes: Vec<u8>) -> MemoryId {
        let mut blocks = self.blocks.borrow_mut();
        blocks.push(bytes);
        MemoryId(u32::try_from(blocks.len() - 1).unwrap_or(u32::MAX))
    }

    /// Takes a block's bytes away, as `munmap` does: every access faults from now on.
    pub fn unmap(&self, memory: MemoryId) {
        if let Some(block) = self.blocks.borrow_mut().get_mut(memory.0 as usize) {
            *block = Vec::new();
        }
    }

    /// A copy of a block.
    #[must_use]
    pub fn bytes(&self, memory: MemoryId) -> Vec<u8> {
        self.blocks.borrow().get(memory.0 as usize).cloned().unwrap_or_default()
    }

    fn with<T>(
        &self,
        memory: MemoryId,
        offset: u64,
        len: usize,
        act: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, MemoryFault> {
        let mut blocks = self.blocks.borrow_mut();
        let block = blocks.get_mut(memory.0 as usize).ok_or(MemoryFault)?;
        let start = usize::try_from(offset).map_err(|_| MemoryFault)?;
        let end = start.checked_add(len).ok_or(MemoryFault)?;
        block.get_mut(start..end).map(act).ok_or(MemoryFault)
    }

    fn with_word(
        &self,
        memory: MemoryId,
        offset: u64,
        act: impl FnOnce(u64) -> u64,
    ) -> Result<u64, MemoryFault> {
        if !offset.is_multiple_of(8) {
            return Err(MemoryFault);
        }
        self.with(memory, offset, 8, |bytes| {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            let found = u64::from_ne_bytes(word);
            bytes.copy_from_slice(&act(found).to_ne_bytes());
            found
        })
    }
}

impl Memory for SimMemory {
    fn read(&self, memory: MemoryId, offset: u64, into: &mut [u8]) -> Result<(), MemoryFault> {
        self.with(memory, offset, into.len(), |bytes| into.copy_from_slice(bytes))
    }

    fn write(&self, memory: MemoryId, offset: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.with(memory, offset, bytes.len(), |place| place.copy_from_slice(bytes))
    }

    fn compare_swap(
        &self,
        memory: MemoryId,
        offset: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, MemoryFault> {
        self.with_word(memory, offset, |found| if found == compare { swap } else { found })
    }

    fn fetch_add(&self, memory: MemoryId, offset: u64, add: u64) -> Result<u64, MemoryFault> {
        self.with_word(memory, offset, |found| found.wrapping_add(add))
    }
}
