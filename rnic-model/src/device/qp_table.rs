//! Queue pairs by number.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::qp::pair::Qp;
use crate::verbs::QpNum;

/// Queue pairs by place. The number of a place is fixed; a freed place is used again as late as
/// possible, so that packets for the old queue pair do not meet a new one.
#[derive(Debug)]
pub(super) struct QpTable {
    slot: u8,
    first_index: u16,
    limit: u32,
    // The box keeps the table small where few numbers are in use, and growing it cheap.
    places: Vec<Option<Box<Qp>>>,
    free: VecDeque<u32>,
    len: u32,
}

impl QpTable {
    pub(super) fn new(slot: u8, first_index: u16, limit: u32) -> Self {
        Self { slot, first_index, limit, places: Vec::new(), free: VecDeque::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// The place and number that the next queue pair would have; none when the table is full.
    // [attacks/qpn-prediction]
    pub(super) fn vacancy(&self) -> Option<(u32, QpNum)> {
        if self.len >= self.limit {
            return None;
        }
        // Twice as many places as queue pairs, so that a number rests before it is used again.
        let mut place = u32::try_from(self.places.len()).ok()?;
        if place >= (2 * self.limit).min(1 << 16) {
            place = *self.free.front()?;
        }
        Some((place, self.number(place)))
    }

    /// Numbers 0 and 1 are the special queue pairs, 0xffffff is multicast: those places stay
    /// empty, see [`QpTable::insert`].
    fn number(&self, place: u32) -> QpNum {
        QpNum::from_parts(self.slot, self.first_index.wrapping_add((place & 0xffff) as u16))
    }

    // [qp-states/number-unique]
    fn is_reserved(number: QpNum) -> bool {
        number.get() <= QpNum::GSI.get() || number == QpNum::MULTICAST
    }

    /// Passes over reserved numbers, which a vacancy must not name.
    pub(super) fn skip_reserved(&mut self) {
        while let Some((place, number)) = self.vacancy()
            && Self::is_reserved(number)
        {
            if place as usize == self.places.len() {
                self.places.push(None);
            } else {
                self.free.pop_front();
            }
        }
    }

    /// Puts a queue pair where [`QpTable::vacancy`] said.
    pub(super) fn insert(&mut self, qp: Box<Qp>) {
        let place = qp.index as usize;
        if place == self.places.len() {
            self.places.push(Some(qp));
        } else if let Some(empty) = self.places.get_mut(place) {
            self.free.pop_front();
            *empty = Some(qp);
        }
        self.len += 1;
    }

    pub(super) fn remove(&mut self, number: QpNum) -> Option<Box<Qp>> {
        let place = self.place_of(number)?;
        let qp = self.places.get_mut(place as usize)?.take()?;
        self.free.push_back(place);
        self.len -= 1;
        Some(qp)
    }

    #[inline]
    fn place_of(&self, number: QpNum) -> Option<u32> {
        (number.slot() == self.slot)
            .then(|| u32::from(number.index().wrapping_sub(self.first_index)))
    }

    #[inline]
    pub(super) fn get(&self, number: QpNum) -> Option<&Qp> {
        self.places.get(self.place_of(number)? as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: QpNum) -> Option<&mut Qp> {
        let place = self.place_of(number)?;
        self.at_mut(place)
    }

    #[inline]
    pub(super) fn at_mut(&mut self, place: u32) -> Option<&mut Qp> {
        self.places.get_mut(place as usize)?.as_deref_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Qp> {
        self.places.iter().filter_map(|place| place.as_deref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Qp> {
        self.places.iter_mut().filter_map(|place| place.as_deref_mut())
    }
}
