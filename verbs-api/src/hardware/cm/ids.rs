//! Identifiers: how they come and go, and what is known of them.

use core::ffi::{CStr, c_int, c_void};
use std::net::SocketAddr;

use softrnic_model::cm::PortSpace;
use softrnic_model::verbs::{Gid, Mtu};

use super::super::layout::{Ptr, ibv_ece, rdma_cm_id};
use super::super::table::Handle;
use super::{HardwareManager, State, done};
use crate::cm::{Cm, CmError, CmId, CmOption, CmPhase, Ece, EventChannelId, IdInfo, Path};
use crate::provider::{Context, GidType};

/// Identifiers that there may be.
const IDS_MAX: usize = 1 << 17;

/// What is kept of an identifier.
pub(super) struct Id {
    pub(super) handle: Handle<rdma_cm_id>,
    pub(super) space: PortSpace,
    pub(super) channel: EventChannelId,
    pub(super) phase: CmPhase,
    /// Events that were taken.
    pub(super) taken: u32,
}

impl Id {
    pub(super) const fn ptr(&self) -> Ptr<rdma_cm_id> {
        self.handle.ptr()
    }

    /// Requires that it is this far.
    pub(super) fn require(&self, phases: &[CmPhase]) -> Cm<()> {
        if phases.contains(&self.phase) {
            return Ok(());
        }
        Err(CmError::invalid(format!("the identifier is in state {:?}", self.phase)))
    }
}

/// A number as what the library keeps for us with an identifier.
fn as_context(id: CmId) -> *mut c_void {
    core::ptr::without_provenance_mut(id.0 as usize)
}

/// The number that an identifier of the library has here.
///
/// # Safety
/// It has not been destroyed.
pub(super) unsafe fn number_of(id: Ptr<rdma_cm_id>) -> CmId {
    // SAFETY: the caller's promise. Nobody but `State::adopt` writes the field.
    let context = unsafe { (*id.as_ptr()).context };
    CmId(u32::try_from(context.addr()).unwrap_or(0))
}

impl State {
    pub(super) fn id(&self, id: CmId) -> Cm<&Id> {
        self.ids.get(&id).ok_or_else(no_such_id)
    }

    pub(super) fn id_mut(&mut self, id: CmId) -> Cm<&mut Id> {
        self.ids.get_mut(&id).ok_or_else(no_such_id)
    }

    /// A number that names no identifier yet; `None`: there are as many as there can be.
    pub(super) fn free_number(&mut self) -> Option<CmId> {
        if self.ids.len() >= IDS_MAX {
            return None;
        }
        loop {
            let id = CmId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1).max(1);
            if !self.ids.contains_key(&id) {
                return Some(id);
            }
        }
    }

    /// Knows an identifier of the library from now on.
    ///
    /// # Safety
    /// It has not been destroyed, and nobody else knows it.
    pub(super) unsafe fn adopt(&mut self, number: CmId, id: Id) {
        // SAFETY: the caller's promise.
        unsafe { (*id.ptr().as_ptr()).context = as_context(number) };
        if let Some(channel) = self.channels.get_mut(&id.channel) {
            channel.users += 1;
        }
        self.ids.insert(number, id);
    }
}

fn no_such_id() -> CmError {
    CmError::invalid("no such identifier")
}

/// What an identifier of the library says of itself.
struct Seen {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    device: Option<String>,
    port: u8,
    sgid: Gid,
    hop_limit: u8,
    mtu: Option<Mtu>,
}

impl HardwareManager {
    pub(super) fn make_id(&self, channel: EventChannelId, space: PortSpace) -> Cm<CmId> {
        let mut state = self.lock();
        let of = state.channel_handle(channel)?;
        let number = state
            .free_number()
            .ok_or_else(|| CmError::full("as many identifiers as there can be"))?;
        let mut made = None;
        // SAFETY: the channel is there, and the place is ours.
        let returned = unsafe {
            (self.library.rdma_create_id)(of, &raw mut made, as_context(number), space as c_int)
        };
        done(returned, "rdma_create_id")?;
        let handle = made.ok_or_else(|| CmError::full("rdma_create_id made nothing"))?;
        let id = Id { handle: Handle::new(handle), space, channel, phase: CmPhase::Idle, taken: 0 };
        // SAFETY: it was made a moment ago.
        unsafe { state.adopt(number, id) };
        Ok(number)
    }

    pub(super) fn end_id(&self, id: CmId) -> Cm<u32> {
        let mut state = self.lock();
        let known = state.ids.remove(&id).ok_or_else(no_such_id)?;
        if let Some(channel) = state.channels.get_mut(&known.channel) {
            channel.users = channel.users.saturating_sub(1);
            let _ = channel.extract(|event| event.id == id || event.listen_id == Some(id));
        }
        // SAFETY: it is there, all its events have been acknowledged, and nobody knows it any more.
        let returned = unsafe { (self.library.rdma_destroy_id)(known.ptr()) };
        done(returned, "rdma_destroy_id").map(|()| known.taken)
    }

    pub(super) fn move_id(&self, id: CmId, channel: EventChannelId) -> Cm<u32> {
        let mut state = self.lock();
        let to = state.channel_handle(channel)?;
        let known = state.id(id)?;
        let (from, taken) = (known.channel, known.taken);
        if from == channel {
            return Ok(taken);
        }
        // SAFETY: both are there.
        let returned = unsafe { (self.library.rdma_migrate_id)(known.ptr(), to) };
        done(returned, "rdma_migrate_id")?;
        state.id_mut(id)?.channel = channel;
        let mut moved = Vec::new();
        if let Some(from) = state.channels.get_mut(&from) {
            from.users = from.users.saturating_sub(1);
            moved = from.extract(|event| event.listen_id.unwrap_or(event.id) == id);
        }
        let to = state.channel_mut(channel)?;
        to.users += 1;
        moved.into_iter().for_each(|event| to.post(event));
        Ok(taken)
    }

    /// Does something with an identifier of the library that says 0 if it is done.
    pub(super) fn call(
        &self,
        id: CmId,
        function: &'static str,
        call: impl FnOnce(&super::Library, Ptr<rdma_cm_id>) -> c_int,
    ) -> Cm<()> {
        let state = self.lock();
        done(call(&self.library, state.id(id)?.ptr()), function)
    }

    pub(super) fn change_option(&self, id: CmId, option: CmOption) -> Cm<()> {
        /// `RDMA_OPTION_ID`, and its options `TOS`, `REUSEADDR`, `AFONLY`, `ACK_TIMEOUT`
        const LEVEL: c_int = 0;
        let (name, value): (c_int, Vec<u8>) = match option {
            CmOption::Tos(tos) => (0, vec![tos]),
            CmOption::ReuseAddress(reuse) => (1, c_int::from(reuse).to_ne_bytes().into()),
            CmOption::AfOnly(af_only) => (2, c_int::from(af_only).to_ne_bytes().into()),
            CmOption::AckTimeout(code) => (3, vec![code & 0x1f]),
        };
        self.call(id, "rdma_set_option", |library, id| {
            let (at, len) = (value.as_ptr().cast_mut().cast(), value.len());
            // SAFETY: the identifier is there, and the value as long as said; it is only read.
            unsafe { (library.rdma_set_option)(id, LEVEL, name, at, len) }
        })
    }

    pub(super) fn tell(&self, id: CmId) -> Cm<IdInfo> {
        let (seen, mut info) = {
            let state = self.lock();
            let known = state.id(id)?;
            // SAFETY: it is there, and under the lock nobody writes it.
            let seen = unsafe { self.see(known.ptr()) };
            let info = IdInfo {
                port_space: known.space,
                phase: known.phase,
                channel: known.channel,
                local: seen.local,
                peer: seen.peer,
                path: None,
                remote_ece: self.remote_ece(known),
            };
            (seen, info)
        };
        info.path = self.path_of(&seen);
        Ok(info)
    }

    /// # Safety
    /// The identifier is there, and nobody writes it.
    unsafe fn see(&self, id: Ptr<rdma_cm_id>) -> Seen {
        // SAFETY: the caller's promise. The record of the path stays with the identifier.
        let (known, record) = unsafe {
            let known = *id.as_ptr();
            let record = known.route.path_rec;
            (known, (known.route.num_paths > 0 && !record.is_null()).then(|| *record))
        };
        let addr = &known.route.addr;
        let device = known.verbs.map(|context| {
            // SAFETY: the library keeps its devices open.
            let name = unsafe {
                CStr::from_ptr((self.verbs.ibv_get_device_name)((*context.as_ptr()).device))
            };
            name.to_string_lossy().into_owned()
        });
        let mtu = |number| Mtu::ALL.into_iter().find(|mtu| *mtu as u8 == number);
        Seen {
            local: addr.src.parse(),
            // Until there is a peer there is only the family of its address.
            peer: addr.dst.parse().filter(|peer| !peer.ip().is_unspecified()),
            device,
            port: known.port_num,
            sgid: Gid(addr.addr.sgid.0),
            hop_limit: record.map_or(HOPS, |record| record.hop_limit),
            mtu: record.and_then(|record| mtu(record.mtu)),
        }
    }

    /// The way to the peer, by a device of this manager.
    fn path_of(&self, seen: &Seen) -> Option<Path> {
        let (name, source) = (seen.device.as_deref()?, seen.local?);
        let devices = self.lock().devices.clone();
        let device = devices.into_iter().find(|device| device.device().name == name)?;
        let gid_index = [seen.sgid, source.ip().into()]
            .into_iter()
            .find_map(|gid| gid_index(&*device, seen.port, gid))?;
        Some(Path {
            device,
            port: seen.port,
            gid_index,
            source,
            destination: seen.peer.unwrap_or(source),
            hop_limit: seen.hop_limit,
            mtu: seen.mtu,
        })
    }

    fn remote_ece(&self, id: &Id) -> Ece {
        const ASKED: [CmPhase; 4] =
            [CmPhase::Requested, CmPhase::Accepting, CmPhase::Responded, CmPhase::Established];
        let mut ece = ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 };
        match self.library.rdma_get_remote_ece {
            Some(get) if ASKED.contains(&id.phase) => {
                // SAFETY: the identifier is there, and the place is ours.
                let returned = unsafe { get(id.ptr(), &raw mut ece) };
                let Ok(()) = done(returned, "rdma_get_remote_ece") else { return Ece::default() };
                Ece { vendor_id: ece.vendor_id, options: ece.options }
            }
            Some(_) | None => Ece::default(),
        }
    }
}

/// What is taken where the route does not say.
const HOPS: u8 = 64;

/// The place of a GID in the table, with the type of RoCE v2 if it is there with several.
fn gid_index(device: &dyn Context, port: u8, gid: Gid) -> Option<u8> {
    let len = device.query_port(port).ok()?.gid_tbl_len.min(256);
    let entries = (0..=u8::MAX).take(len as usize).filter_map(|index| {
        let entry = device.query_gid(port, index.into()).ok()?;
        (entry.gid == gid).then_some((index, entry.gid_type))
    });
    let mut other = None;
    for (index, gid_type) in entries {
        if gid_type == GidType::RoceV2 {
            return Some(index);
        }
        other.get_or_insert(index);
    }
    other
}
