//! A number of the device together with the verb that destroys it.

use core::fmt;
use std::sync::Arc;

use softrnic_model::verbs::VerbError;

use crate::error::{Error, Result};
use crate::provider::{self, Verb};

/// An object of the device. Dropping it destroys it there; an error of that has nobody to go to.
///
/// A handle keeps this in front of its parents: fields are dropped in the order in which they are
/// declared.
pub(crate) struct Owned<I: Copy> {
    verbs: Arc<dyn provider::Context>,
    id: I,
    destroy: fn(&dyn provider::Context, I) -> Verb<()>,
}

impl<I: Copy> Owned<I> {
    pub(crate) fn new(
        verbs: &Arc<dyn provider::Context>,
        id: I,
        destroy: fn(&dyn provider::Context, I) -> Verb<()>,
    ) -> Self {
        Self { verbs: Arc::clone(verbs), id, destroy }
    }

    pub(crate) const fn id(&self) -> I {
        self.id
    }

    pub(crate) const fn verbs(&self) -> &Arc<dyn provider::Context> {
        &self.verbs
    }

    /// Judges whether another object is of the same open device: numbers of one mean nothing to
    /// another.
    pub(crate) fn same_device<J: Copy>(&self, other: &Owned<J>, verb: &'static str) -> Result<()> {
        if Arc::ptr_eq(&self.verbs, &other.verbs) {
            return Ok(());
        }
        Err(Error { verb, source: VerbError::Invalid("the objects belong to different devices") })
    }
}

impl<I: Copy> Drop for Owned<I> {
    fn drop(&mut self) {
        let _ = (self.destroy)(&*self.verbs, self.id);
    }
}

impl<I: Copy + fmt::Debug> fmt::Debug for Owned<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
