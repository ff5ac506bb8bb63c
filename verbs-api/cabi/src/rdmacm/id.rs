//! Identifiers (`rdma_create_id(3)`, `rdma_destroy_id(3)`, `rdma_migrate_id(3)`).

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softrnic_model::verbs::{Gid, QpType};
use softrnic_verbs::cm::resolve::canonical;
use softrnic_verbs::cm::{CmId, ConnectionManager, Ece, IdInfo, Path, PortSpace};

use super::devices::CmDevice;
use super::events;
use super::layout::{rdma_addr, rdma_cm_id, rdma_ib_addr, rdma_route};
use super::manager::{Manager, Tally};
use super::multicast::Group;
use super::sockaddr::Storage;
use super::space::{port_space, usual_type};
use super::{EventChannel, channel};
use crate::convert::put_if_wanted;
use crate::errno::{Errno, Result, number};
use crate::layout::{ibv_gid, ibv_qp_init_attr, ibv_sa_path_rec};
use crate::object::{Kind, Object, Ptr, live};

/// An identifier.
pub(crate) struct Id {
    pub(super) manager: Arc<Manager>,
    pub(super) number: CmId,
    pub(super) tally: Arc<Tally>,
    state: Mutex<State>,
}

/// What an identifier has besides what C sees.
pub(super) struct State {
    pub(super) channel: Ptr<EventChannel>,
    /// The channel is the library's own, and operations wait for their events.
    pub(super) synchronous: bool,
    /// Its channel was destroyed, and with it what the connection manager knows of it.
    cut_off: bool,
    pub(super) device: Option<Arc<CmDevice>>,
    /// READs and atomics outstanding, as agreed so far.
    pub(super) initiator_depth: u8,
    pub(super) responder_resources: u8,
    pub(super) local_ece: Ece,
    /// Its queue pair could not follow the connection: what the peer says of it is not news.
    pub(super) connect_failed: bool,
    /// What goes in front of private data (`rdma_addrinfo.ai_connect`).
    pub(super) connect_data: Vec<u8>,
    pub(super) groups: Vec<Arc<Group>>,
    /// What `route.path_rec` leads to.
    record: Vec<ibv_sa_path_rec>,
}

/// `rdma_cm_id`, and behind it what queue pairs of a listening endpoint are made with.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Public {
    pub(super) id: rdma_cm_id,
    pub(super) template: Option<ibv_qp_init_attr>,
}

impl Kind for Id {
    type Public = Public;
    type Seen = rdma_cm_id;
    const MARK: u64 = 0x5f3a_91c7_0000_0000 | 33;
}

/// How an identifier is made.
pub(super) struct Wanted {
    pub(super) context: *mut c_void,
    pub(super) space: PortSpace,
    pub(super) qp_type: u32,
}

fn public(channel: Ptr<EventChannel>, wanted: &Wanted) -> Public {
    const NO_GID: ibv_gid = ibv_gid([0; 16]);
    let addr = rdma_addr {
        src: Storage::EMPTY,
        dst: Storage::EMPTY,
        addr: rdma_ib_addr { sgid: NO_GID, dgid: NO_GID, pkey: 0 },
    };
    let id = rdma_cm_id {
        verbs: None,
        channel: Some(channel),
        context: wanted.context,
        qp: None,
        route: rdma_route { addr, path_rec: null_mut(), num_paths: 0 },
        ps: wanted.space as u32,
        port_num: 0,
        event: None,
        send_cq_channel: None,
        send_cq: None,
        recv_cq_channel: None,
        recv_cq: None,
        srq: None,
        pd: None,
        qp_type: wanted.qp_type,
    };
    Public { id, template: None }
}

/// Makes the record of an identifier that the connection manager knows.
pub(super) fn record(
    manager: &Arc<Manager>,
    number: CmId,
    channel: Ptr<EventChannel>,
    synchronous: bool,
    wanted: &Wanted,
) -> Ptr<Id> {
    let state = State {
        channel,
        synchronous,
        cut_off: false,
        device: None,
        initiator_depth: 0,
        responder_resources: 0,
        local_ece: Ece::default(),
        connect_failed: false,
        connect_data: Vec::new(),
        groups: Vec::new(),
        record: Vec::new(),
    };
    let private = Id {
        manager: Arc::clone(manager),
        number,
        tally: Arc::default(),
        state: Mutex::new(state),
    };
    let id = Ptr::new(public(channel, wanted), private);
    manager.know(number, id);
    id
}

/// Makes an identifier. Without a channel it waits for what it does.
pub(super) fn create(channel: Option<Ptr<EventChannel>>, wanted: &Wanted) -> Result<Ptr<Id>> {
    let (of, synchronous) = match channel {
        Some(channel) => (channel, false),
        None => (channel::create()?, true),
    };
    let made = of.get().and_then(|channel| {
        let manager = &channel.manager;
        let number = manager.cm()?.create_id(channel.number, wanted.space)?;
        Ok(record(manager, number, of, synchronous, wanted))
    });
    if made.is_err() && synchronous {
        channel::destroy(of)?;
    }
    made
}

impl Id {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What does the work.
    ///
    /// # Errors
    /// `EINVAL`: its channel is gone; `EIO`: it is of another process.
    pub(super) fn cm(&self) -> Result<&dyn ConnectionManager> {
        if self.state().cut_off {
            return Err(Errno::INVALID);
        }
        self.manager.cm()
    }

    /// Ends what the connection manager knows of it.
    pub(super) fn cut_off(&self) {
        self.manager.forget(self.number);
        let was = core::mem::replace(&mut self.state().cut_off, true);
        if !was && let Ok(cm) = self.manager.cm() {
            // It may be gone already.
            let _ = cm.destroy_id(self.number);
        }
    }

    /// # Errors
    /// `EINVAL`: it has no device yet.
    pub(super) fn device(&self) -> Result<Arc<CmDevice>> {
        self.state().device.clone().ok_or(Errno::INVALID)
    }
}

impl Object<Id> {
    /// Its queue pairs' type.
    pub(super) fn qp_type(&self) -> u32 {
        self.see(|public| public.id.qp_type)
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.qp_type() == QpType::Ud as u32
    }

    /// Shows C what the connection manager knows.
    pub(super) fn refresh(&self) -> Result<IdInfo> {
        let info = self.cm()?.query_id(self.number)?;
        if let Some(path) = &info.path {
            self.attach(path)?;
        }
        self.change(|Public { id, .. }| {
            let addr = &mut id.route.addr;
            if let Some(local) = info.local {
                addr.src = local.into();
            }
            if let Some(peer) = info.peer {
                addr.dst = peer.into();
                addr.addr.dgid = Gid::from(canonical(peer).ip()).into();
            }
        });
        Ok(info)
    }

    /// Gives it the device of a path.
    fn attach(&self, path: &Path) -> Result<()> {
        let sgid = path.device.query_gid(path.port, path.gid_index.into())?.gid;
        let mut state = self.state();
        if state.device.is_none() {
            let device = self.manager.devices.of(&path.device).ok_or(Errno(libc::ENODEV))?;
            let pd = device.enter()?;
            self.change(|Public { id, .. }| {
                id.verbs = Some(device.context);
                id.pd = id.pd.or(Some(pd));
            });
            state.device = Some(device);
        }
        self.change(|Public { id, .. }| {
            id.port_num = path.port;
            id.route.addr.addr.sgid = sgid.into();
            id.route.addr.addr.pkey = DEFAULT_PKEY.to_be();
        });
        Ok(())
    }

    /// Shows C the route.
    pub(super) fn show_route(&self, path: &Path) -> Result<()> {
        let record = path_record(path)?;
        let mut state = self.state();
        // The old one may be in C's hands: it is written over, not moved.
        match state.record.first_mut() {
            Some(place) => *place = record,
            None => state.record.push(record),
        }
        let place = state.record.as_mut_ptr();
        self.change(|Public { id, .. }| {
            id.route.path_rec = place;
            id.route.num_paths = 1;
        });
        Ok(())
    }

    /// Gives back the event that the last synchronous operation left.
    pub(super) fn release_event(&self) {
        let event = self.change(|public| public.id.event.take());
        if let Some(event) = event {
            // A program may have acknowledged it itself.
            let _ = events::acknowledge(event);
        }
    }

    /// Waits for the event of an operation, if it is to be waited for.
    ///
    /// # Errors
    /// How the operation ended.
    pub(super) fn complete(&self) -> Result<()> {
        let (synchronous, channel) = {
            let state = self.state();
            (state.synchronous, state.channel)
        };
        if !synchronous {
            return Ok(());
        }
        self.release_event();
        let event = events::next(channel.get()?)?;
        self.change(|public| public.id.event = Some(event));
        events::outcome(event.get()?)
    }
}

const DEFAULT_PKEY: u16 = 0xffff;

fn path_record(path: &Path) -> Result<ibv_sa_path_rec> {
    /// Selectors: exactly.
    const EXACTLY: u8 = 2;
    /// 4.096 µs · 2^16, what Linux takes for RoCE.
    const LIFE_TIME: u8 = 16;
    /// `IBV_RATE_100_GBPS`
    const RATE: u8 = 16;
    let port = path.device.query_port(path.port)?;
    let sgid = path.device.query_gid(path.port, path.gid_index.into())?.gid;
    Ok(ibv_sa_path_rec {
        dgid: Gid::from(canonical(path.destination).ip()).into(),
        sgid: sgid.into(),
        dlid: 0,
        slid: 0,
        raw_traffic: 0,
        flow_label: 0,
        hop_limit: path.hop_limit,
        traffic_class: 0,
        reversible: 1,
        numb_path: 1,
        pkey: DEFAULT_PKEY.to_be(),
        sl: 0,
        mtu_selector: EXACTLY,
        mtu: path.mtu.unwrap_or(port.active_mtu) as u8,
        rate_selector: EXACTLY,
        rate: RATE,
        packet_life_time_selector: EXACTLY,
        packet_life_time: LIFE_TIME,
        preference: 0,
    })
}

pub(crate) extern "C" fn create_id(
    channel: Option<Ptr<EventChannel>>,
    place: *mut Option<Ptr<Id>>,
    context: *mut c_void,
    space: u32,
) -> c_int {
    number(|| {
        if place.is_null() {
            return Err(Errno::INVALID);
        }
        let space = port_space(space)?;
        let id = create(channel, &Wanted { context, space, qp_type: usual_type(space) as u32 })?;
        put_if_wanted(place, Some(id));
        Ok(0)
    })
}

/// Ends an identifier, and waits until no event of it is in the program's hands.
pub(super) fn destroy(id: &Object<Id>) -> Result<()> {
    id.manager.cm()?;
    id.release_event();
    super::multicast::leave_all(id);
    id.cut_off();
    id.manager.settle(&id.tally);
    let (channel, synchronous, device) = {
        let mut state = id.state();
        (state.channel, state.synchronous, state.device.take())
    };
    if let Some(device) = device {
        device.leave();
    }
    if !id.ptr().retire() {
        // Another thread has destroyed it meanwhile.
        return Err(Errno::INVALID);
    }
    if synchronous {
        // Nobody else knows it.
        let _ = channel::destroy(channel);
    }
    Ok(())
}

pub(crate) extern "C" fn destroy_id(id: Option<Ptr<Id>>) -> c_int {
    number(|| destroy(live(&id)?).map(|()| 0))
}

pub(crate) extern "C" fn migrate_id(
    id: Option<Ptr<Id>>,
    channel: Option<Ptr<EventChannel>>,
) -> c_int {
    number(|| {
        let id = live(&id)?;
        let (to, synchronous) = match channel {
            Some(channel) => (channel, false),
            None => (channel::create()?, true),
        };
        let moved = move_to(id, to.get()?, synchronous);
        if moved.is_err() && synchronous {
            channel::destroy(to)?;
        }
        moved.map(|()| 0)
    })
}

/// Lets an identifier report to another channel.
pub(super) fn move_to(
    id: &Object<Id>,
    channel: &Object<EventChannel>,
    synchronous: bool,
) -> Result<()> {
    let cm = id.cm()?;
    let (before, was_synchronous) = {
        let state = id.state();
        (state.channel, state.synchronous)
    };
    if was_synchronous {
        id.release_event();
    }
    cm.migrate_id(id.number, channel.number)?;
    {
        let mut state = id.state();
        (state.channel, state.synchronous) = (channel.ptr(), synchronous);
    }
    id.change(|public| public.id.channel = Some(channel.ptr()));
    id.manager.settle(&id.tally);
    if was_synchronous {
        channel::destroy(before)?;
    }
    Ok(())
}

pub(crate) extern "C" fn get_src_port(id: Option<Ptr<Id>>) -> u16 {
    port(&id, |addr| addr.src.port())
}

pub(crate) extern "C" fn get_dst_port(id: Option<Ptr<Id>>) -> u16 {
    port(&id, |addr| addr.dst.port())
}

/// A port, network byte order; 0 where there is none.
fn port(id: &Option<Ptr<Id>>, of: impl Fn(&rdma_addr) -> u16) -> u16 {
    crate::errno::guarded(|| Ok(live(id)?.see(|public| of(&public.id.route.addr)))).unwrap_or(0)
}
