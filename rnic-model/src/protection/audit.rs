//! What peers can reach.

use crate::verbs::{Access, Key, PdId, QpNum, WindowType};

use super::access::REMOTE_RIGHTS;
use super::key_table::Object;
use super::region::Region;
use super::{Grant, Protection};

/// Memory that a peer can reach by a key, as long as its queue pair has the rights as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// The key.
    pub key: Key,
    /// The type of the window; `None` of a region.
    pub window: Option<WindowType>,
    /// Protection domain that the queue pair must be in.
    pub pd: PdId,
    /// The one queue pair that is served, if not every one of the protection domain.
    pub only_qp: Option<QpNum>,
    /// First address.
    pub addr: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// Rights that a peer can exercise, at least one.
    pub rights: Access,
    /// Where the first byte is.
    pub grant: Grant,
}

impl Protection {
    /// How many regions and windows `pd` has; it cannot be deallocated before there are none.
    #[must_use]
    pub fn objects_of_pd(&self, pd: PdId) -> usize {
        let of_pd = |object: &Object| match object {
            Object::Region(region) => region.spec.pd == pd,
            Object::Window(window) => window.pd == pd,
            Object::Free { .. } => false,
        };
        self.table.objects().filter(|(_, object)| of_pd(object)).count()
    }

    /// All that peers can reach, by ascending index.
    // [attacks/exposure-audit] [protection/register-zero-length]
    pub fn exposures(&self) -> impl Iterator<Item = Exposure> {
        self.table.objects().filter_map(|(key, object)| self.exposure(key, object))
    }

    fn exposure(&self, key: Key, object: &Object) -> Option<Exposure> {
        let (window, pd, only_qp, span, rights, grant) = match object {
            Object::Region(Region { spec, .. }) => {
                (None, spec.pd, None, spec.span(), spec.access, spec.place(0))
            }
            Object::Window(window) => {
                let binding = window.binding?;
                let grant = self.through(&binding, 0, binding.span.length);
                let window_type = Some(window.window_type);
                (window_type, window.pd, window.only_qp(), binding.span, binding.rights, grant)
            }
            Object::Free { .. } => return None,
        };
        let rights = rights.intersection(REMOTE_RIGHTS);
        let exposure = Exposure {
            key,
            window,
            pd,
            only_qp,
            addr: span.start,
            length: span.length,
            rights,
            grant: grant.ok()?,
        };
        (span.length > 0 && !rights.is_empty()).then_some(exposure)
    }
}
