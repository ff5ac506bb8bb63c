//! Memory windows.

use crate::verbs::{Access, BindInfo, Key, PdId, QpNum, WindowType};

use super::access::REMOTE_RIGHTS;
use super::region::{NEED_LOCAL_WRITE, RegionSpec};
use super::span::Span;
use super::{AccessFault, BindError};

/// A bind, as it is posted, with the queue pair that executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindRequest {
    /// The window's present key.
    pub window: Key,
    /// The key afterwards, of which only the variant counts. Of type 1, it must be another one than
    /// the present; if it is not, the key policy chooses.
    pub new_rkey: Key,
    /// Type that the window must be of.
    pub window_type: WindowType,
    /// What it is bound to. Rights that no peer can exercise (`LOCAL_WRITE`, `MW_BIND`) are dropped.
    pub bind: BindInfo,
    /// The queue pair.
    pub qp: QpNum,
    /// Its protection domain.
    pub qp_pd: PdId,
}

/// What a window is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binding {
    /// The region. It cannot go while the window is bound.
    pub(super) region: Key,
    /// Where the window begins in the region, in bytes.
    pub(super) region_offset: u64,
    /// The addresses by which it is accessed.
    pub(super) span: Span,
    /// Rights that a peer can exercise.
    pub(super) rights: Access,
    /// Who bound it.
    pub(super) qp: QpNum,
}

/// An allocated window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) pd: PdId,
    pub(super) window_type: WindowType,
    pub(super) binding: Option<Binding>,
}

impl Window {
    /// The one queue pair that it serves, if it is not for all of its protection domain.
    pub(super) fn only_qp(&self) -> Option<QpNum> {
        match self.window_type {
            WindowType::Type1 | WindowType::Type2A => None,
            WindowType::Type2B => self.binding.map(|binding| binding.qp),
        }
    }

    /// Judges who uses it: state, protection domain, queue pair.
    pub(super) fn judge_user(&self, pd: PdId, qp: QpNum) -> Result<Binding, AccessFault> {
        let binding = self.binding.ok_or(AccessFault::NotBound)?;
        if self.pd != pd {
            return Err(AccessFault::WrongPd);
        }
        if self.only_qp().is_some_and(|only| only != qp) {
            return Err(AccessFault::WrongQp);
        }
        Ok(binding)
    }

    /// Judges the window's side of a bind.
    pub(super) fn judge_bind(&self, request: &BindRequest) -> Result<(), BindError> {
        if self.window_type != request.window_type {
            return Err(BindError::Window(AccessFault::WrongKind));
        }
        if self.pd != request.qp_pd {
            return Err(BindError::Window(AccessFault::WrongPd));
        }
        match self.window_type {
            WindowType::Type1 => Ok(()),
            WindowType::Type2A | WindowType::Type2B if self.binding.is_some() => {
                Err(BindError::AlreadyBound)
            }
            WindowType::Type2A | WindowType::Type2B if request.bind.length == 0 => {
                Err(BindError::ZeroLength)
            }
            WindowType::Type2A | WindowType::Type2B => Ok(()),
        }
    }

    /// Judges an invalidation, posted or received with a SEND. Windows of type 1 are unbound by a
    /// bind of length 0 instead.
    pub(super) fn judge_invalidate(&self, pd: PdId, qp: QpNum) -> Result<(), AccessFault> {
        match self.window_type {
            WindowType::Type1 => Err(AccessFault::WrongKind),
            WindowType::Type2A | WindowType::Type2B => self.judge_user(pd, qp).map(|_| ()),
        }
    }
}

/// Judges the region's side of a bind.
pub(super) fn judge_region(
    region: &RegionSpec,
    request: &BindRequest,
) -> Result<Binding, BindError> {
    let BindInfo { mr_lkey, addr, length, access } = request.bind;
    if region.pd != request.qp_pd {
        return Err(BindError::Region(AccessFault::WrongPd));
    }
    if !region.access.contains(Access::MW_BIND) {
        return Err(BindError::NotBindable);
    }
    if access.intersects(NEED_LOCAL_WRITE) && !region.access.contains(Access::LOCAL_WRITE) {
        return Err(BindError::RightsExceedRegion);
    }
    let region_offset =
        region.span().offset_of(addr, length).ok_or(BindError::Region(AccessFault::OutOfRange))?;
    let start = if access.contains(Access::ZERO_BASED) { 0 } else { addr };
    Ok(Binding {
        region: mr_lkey,
        region_offset,
        span: Span { start, length },
        rights: access.intersection(REMOTE_RIGHTS),
        qp: request.qp,
    })
}
