//! Receives that wait in a queue.

use std::collections::VecDeque;

use crate::words::{Violation, demand};

/// A receive queue: of one queue pair, where receives are taken in order, or shared, where messages of
/// several queue pairs finish in any order. What each receive carries is the caller's.
#[derive(Clone, Debug)]
pub struct Receives<T> {
    posted: VecDeque<(u64, T)>,
    shared: bool,
    /// The queue pair is in error: from now on receives are flushed.
    flushing: bool,
}

impl<T> Receives<T> {
    /// An empty queue.
    #[must_use]
    pub const fn new(shared: bool) -> Self {
        Self { posted: VecDeque::new(), shared, flushing: false }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.posted.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty()
    }

    /// A receive was posted.
    pub fn post(&mut self, id: u64, carries: T) {
        self.posted.push_back((id, carries));
    }

    /// A receive has completed, well or with an error of its own.
    ///
    /// # Errors
    /// It was not posted, has completed before, or overtook another one.
    pub fn take(&mut self, id: u64) -> Result<T, Violation> {
        demand(!self.flushing, || format!("receive {id} was filled after others were flushed"))?;
        let at = self.posted.iter().position(|(posted, _)| *posted == id);
        let at =
            at.ok_or_else(|| Violation(format!("receive {id} completes, but waits no more")))?;
        demand(self.shared || at == 0, || format!("receive {id} overtook {}", self.posted[0].0))?;
        self.posted
            .remove(at)
            .map(|(_, carries)| carries)
            .ok_or_else(|| Violation(format!("receive {id} is gone")))
    }

    /// A receive was flushed. Of a shared queue that can only be one that a queue pair had begun to
    /// fill; the others stay.
    ///
    /// # Errors
    /// As [`Receives::take`].
    pub fn flush(&mut self, id: u64) -> Result<T, Violation> {
        self.flushing = false;
        let carries = self.take(id)?;
        self.flushing = !self.shared;
        Ok(carries)
    }

    /// The queue pair is gone, and all that was posted with it.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.flushing = false;
        std::mem::take(&mut self.posted).into_iter().map(|(_, carries)| carries)
    }
}
