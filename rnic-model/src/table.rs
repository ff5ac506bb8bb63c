//! A table of objects whose numbers say when they are stale.

use alloc::vec::Vec;

/// A number that a [`Table`] gives out: index in the low 16 bits, generation in the high 16.
pub(crate) trait TableId: Copy {
    /// From the 32 bits.
    fn from_raw(raw: u32) -> Self;
    /// The 32 bits.
    fn raw(self) -> u32;
}

macro_rules! table_id {
    ($($id:ty),*) => {$(
        impl TableId for $id {
            fn from_raw(raw: u32) -> Self { Self(raw) }
            fn raw(self) -> u32 { self.0 }
        }
    )*};
}
table_id!(
    crate::verbs::PdId,
    crate::verbs::CqId,
    crate::verbs::SrqId,
    crate::verbs::AhId,
    crate::verbs::XrcdId
);

#[derive(Debug)]
struct Slot<T> {
    generation: u16,
    object: Option<T>,
}

/// Objects by number. A removed object's index is used again as late as possible, and under
/// another generation.
#[derive(Debug)]
pub(crate) struct Table<I, T> {
    slots: Vec<Slot<T>>,
    free: alloc::collections::VecDeque<u16>,
    limit: u32,
    id: core::marker::PhantomData<I>,
}

impl<I: TableId, T> Table<I, T> {
    /// An empty table for at most `limit` objects (no more than 2^16).
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: alloc::collections::VecDeque::new(),
            limit: limit.min(1 << 16),
            id: core::marker::PhantomData,
        }
    }

    /// Adds an object; none when the table is full.
    // [attacks/exhaustion]
    pub(crate) fn insert(&mut self, object: T) -> Option<I> {
        // Fresh indices first: a freed one waits until all others were used.
        let index = if (self.slots.len() as u64) < u64::from(self.limit) {
            self.slots.push(Slot { generation: 0, object: None });
            u16::try_from(self.slots.len() - 1).ok()?
        } else {
            self.free.pop_front()?
        };
        let slot = self.slots.get_mut(usize::from(index))?;
        slot.object = Some(object);
        Some(I::from_raw(u32::from(slot.generation) << 16 | u32::from(index)))
    }

    pub(crate) fn remove(&mut self, id: I) -> Option<T> {
        let slot = self.slots.get_mut((id.raw() & 0xffff) as usize)?;
        if u32::from(slot.generation) != id.raw() >> 16 {
            return None;
        }
        let object = slot.object.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push_back((id.raw() & 0xffff) as u16);
        Some(object)
    }

    /// The object with this index, of whatever generation it is.
    pub(crate) fn at(&self, index: u32) -> Option<(I, &T)> {
        let slot = self.slots.get(index as usize)?;
        let object = slot.object.as_ref()?;
        Some((I::from_raw(u32::from(slot.generation) << 16 | index), object))
    }

    /// Like [`Table::at`], to change it.
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<(I, &mut T)> {
        let slot = self.slots.get_mut(index as usize)?;
        let id = I::from_raw(u32::from(slot.generation) << 16 | index);
        slot.object.as_mut().map(|object| (id, object))
    }

    /// All objects, by index.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        (0..).zip(&mut self.slots).filter_map(|(index, slot)| {
            let id = I::from_raw(u32::from(slot.generation) << 16 | index);
            slot.object.as_mut().map(|object| (id, object))
        })
    }

    #[inline]
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        let slot = self.slots.get((id.raw() & 0xffff) as usize)?;
        if u32::from(slot.generation) != id.raw() >> 16 {
            return None;
        }
        slot.object.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: I) -> Option<&mut T> {
        let slot = self.slots.get_mut((id.raw() & 0xffff) as usize)?;
        if u32::from(slot.generation) != id.raw() >> 16 {
            return None;
        }
        slot.object.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::PdId;

    #[test]
    fn a_stale_number_names_nothing() {
        let mut table: Table<PdId, u8> = Table::new(2);
        let a = table.insert(1).unwrap();
        let b = table.insert(2).unwrap();
        assert!(table.insert(3).is_none(), "the table is full");
        assert_eq!(table.remove(a), Some(1));
        assert_eq!(table.remove(a), None);
        let c = table.insert(3).unwrap();
        assert_ne!(a, c);
        assert_eq!((table.get(a), table.get(b), table.get(c)), (None, Some(&2), Some(&3)));
    }
}
