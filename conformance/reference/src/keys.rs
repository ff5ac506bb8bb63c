//! Who may touch what.

use std::collections::BTreeMap;

/// What an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// The program's own device reads, to send.
    LocalRead,
    /// It writes what was received or read.
    LocalWrite,
    /// A peer reads.
    RemoteRead,
    /// A peer writes.
    RemoteWrite,
    /// A peer changes 8 bytes atomically.
    RemoteAtomic,
}

/// What a region or window allows. Reading by the program itself is always allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// See [`Access::LocalWrite`].
    pub local_write: bool,
    /// See [`Access::RemoteRead`].
    pub remote_read: bool,
    /// See [`Access::RemoteWrite`].
    pub remote_write: bool,
    /// See [`Access::RemoteAtomic`].
    pub remote_atomic: bool,
}

impl Rights {
    /// All of them.
    pub const ALL: Self =
        Self { local_write: true, remote_read: true, remote_write: true, remote_atomic: true };

    const fn allow(self, access: Access) -> bool {
        match access {
            Access::LocalRead => true,
            Access::LocalWrite => self.local_write,
            Access::RemoteRead => self.remote_read,
            Access::RemoteWrite => self.remote_write,
            Access::RemoteAtomic => self.remote_atomic,
        }
    }
}

/// Who accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// The protection domain of the queue pair.
    pub domain: u32,
    /// The queue pair that the request came by.
    pub qp: u32,
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// The key names nothing (any more).
    UnknownKey,
    /// It is of another protection domain.
    WrongDomain,
    /// The window is bound to another queue pair.
    WrongQueuePair,
    /// A window does not serve the program itself, or is not bound.
    WrongKind,
    /// The right is not there.
    NoRight,
    /// Some byte is outside.
    OutOfRange,
}

#[derive(Clone, Copy, Debug)]
struct Region {
    domain: u32,
    memory: usize,
    /// The address by which the first byte is named, and the number of bytes.
    base: u64,
    len: u64,
    rights: Rights,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    domain: u32,
    bound: Option<Bound>,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    region: u32,
    /// The one queue pair that it serves; all of its domain if none.
    qp: Option<u32>,
    base: u64,
    len: u64,
    rights: Rights,
}

#[derive(Clone, Copy, Debug)]
enum Object {
    Region(Region),
    Window(Window),
}

/// All that has a key.
#[derive(Clone, Debug, Default)]
pub struct Keys(BTreeMap<u32, Object>);

impl Keys {
    /// A region is there: `len` bytes of `memory` (a number of the caller's) from its beginning on,
    /// named by addresses from `base` on.
    pub fn register(
        &mut self,
        key: u32,
        domain: u32,
        (memory, base, len): (usize, u64, u64),
        rights: Rights,
    ) {
        self.0.insert(key, Object::Region(Region { domain, memory, base, len, rights }));
    }

    /// A region or window is gone.
    pub fn remove(&mut self, key: u32) {
        self.0.remove(&key);
    }

    /// A window is there, bound to nothing.
    pub fn allocate_window(&mut self, key: u32, domain: u32) {
        self.0.insert(key, Object::Window(Window { domain, bound: None }));
    }

    /// A window is bound to a part of a region and has another key from now on. With a queue pair it
    /// serves that one only.
    pub fn bind(
        &mut self,
        (old, new): (u32, u32),
        qp: Option<u32>,
        region: u32,
        (base, len): (u64, u64),
        rights: Rights,
    ) {
        if let Some(Object::Window(window)) = self.0.remove(&old) {
            let bound = Some(Bound { region, qp, base, len, rights });
            self.0.insert(new, Object::Window(Window { bound, ..window }));
        }
    }

    /// A window is bound no more; its key stays.
    pub fn unbind(&mut self, key: u32) {
        if let Some(Object::Window(window)) = self.0.get_mut(&key) {
            window.bound = None;
        }
    }

    /// Whether an access is allowed, and which byte of which memory it begins at. An access of no
    /// bytes must begin within or at the end.
    ///
    /// # Errors
    /// A reason; if there are several, any of them.
    pub fn judge(
        &self,
        key: u32,
        who: Who,
        (address, len): (u64, u64),
        access: Access,
    ) -> Result<(usize, u64), Refusal> {
        match self.0.get(&key).ok_or(Refusal::UnknownKey)? {
            Object::Region(region) => judge_region(region, who, (address, len), access),
            Object::Window(window) => {
                if matches!(access, Access::LocalRead | Access::LocalWrite) {
                    return Err(Refusal::WrongKind);
                }
                if window.domain != who.domain {
                    return Err(Refusal::WrongDomain);
                }
                let bound = window.bound.ok_or(Refusal::WrongKind)?;
                if bound.qp.is_some_and(|qp| qp != who.qp) {
                    return Err(Refusal::WrongQueuePair);
                }
                if !bound.rights.allow(access) {
                    return Err(Refusal::NoRight);
                }
                if !inside((address, len), (bound.base, bound.len)) {
                    return Err(Refusal::OutOfRange);
                }
                let Some(Object::Region(region)) = self.0.get(&bound.region) else {
                    return Err(Refusal::WrongKind);
                };
                if !inside((address, len), (region.base, region.len)) {
                    return Err(Refusal::OutOfRange);
                }
                Ok((region.memory, address - region.base))
            }
        }
    }
}

fn judge_region(
    region: &Region,
    who: Who,
    range: (u64, u64),
    access: Access,
) -> Result<(usize, u64), Refusal> {
    if region.domain != who.domain {
        Err(Refusal::WrongDomain)
    } else if !region.rights.allow(access) {
        Err(Refusal::NoRight)
    } else if !inside(range, (region.base, region.len)) {
        Err(Refusal::OutOfRange)
    } else {
        Ok((region.memory, range.0 - region.base))
    }
}

/// Whether all bytes of a range are bytes of another one. In numbers that cannot wrap.
fn inside((address, len): (u64, u64), (base, size): (u64, u64)) -> bool {
    let (first, end) = (u128::from(address), u128::from(address) + u128::from(len));
    u128::from(base) <= first && end <= u128::from(base) + u128::from(size)
}
