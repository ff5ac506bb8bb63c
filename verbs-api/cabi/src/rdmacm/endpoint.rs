//! Identifier, queue pair and address in one call (`rdma_create_ep(3)`).

use core::ffi::c_int;
use core::ptr::null_mut;
use std::time::Duration;

use softrnic_model::verbs::QpType;

use super::id::{self, Wanted};
use super::layout::rdma_addrinfo;
use super::sockaddr::{Storage, read};
use super::space::port_space;
use super::{Id, address, queue_pair, shared_receive};
use crate::convert::{array, put_if_wanted};
use crate::errno::{Errno, Result, guarded, number};
use crate::layout::ibv_qp_init_attr;
use crate::object::{Object, Ptr, live};
use crate::objects::Pd;

/// How long an address or a route may take.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(2));
const RAI_PASSIVE: c_int = 1;

/// An address of an answer of `rdma_getaddrinfo`, if it has one.
fn part(address: *const Storage, len: u32) -> Result<Option<std::net::SocketAddr>> {
    if address.is_null() || len == 0 { Ok(None) } else { read(address).map(Some) }
}

fn passive(
    id: &Object<Id>,
    info: &rdma_addrinfo,
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<()> {
    let source = part(info.ai_src_addr, info.ai_src_len)?.ok_or(Errno::INVALID)?;
    address::bind(id, source)?;
    if let Some(attr) = attr {
        let qp_type = id.qp_type();
        id.change(|public| {
            public.template = Some(ibv_qp_init_attr { qp_type, ..*attr });
            public.id.pd = pd.or(public.id.pd);
        });
    }
    Ok(())
}

fn active(
    id: &Object<Id>,
    info: &rdma_addrinfo,
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<()> {
    let source = part(info.ai_src_addr, info.ai_src_len)?;
    let destination = part(info.ai_dst_addr, info.ai_dst_len)?.ok_or(Errno::INVALID)?;
    address::resolve(id, source, destination, PATIENCE)?;
    address::route(id, PATIENCE)?;
    id.state().connect_data = array(info.ai_connect.cast::<u8>(), info.ai_connect_len)?.to_vec();
    match attr {
        Some(attr) => {
            attr.qp_type = id.qp_type();
            queue_pair::create(id, pd, attr)
        }
        None => Ok(()),
    }
}

pub(crate) extern "C" fn create_ep(
    place: *mut Option<Ptr<Id>>,
    info: Option<&rdma_addrinfo>,
    pd: Option<Ptr<Pd>>,
    attr: Option<&mut ibv_qp_init_attr>,
) -> c_int {
    number(|| {
        let info = info.ok_or(Errno::INVALID)?;
        if place.is_null() {
            return Err(Errno::INVALID);
        }
        let space = port_space(info.ai_port_space.cast_unsigned())?;
        let qp_type = match info.ai_qp_type.cast_unsigned() {
            0 if space.is_datagram() => QpType::Ud as u32,
            0 => QpType::Rc as u32,
            said => said,
        };
        let made = id::create(None, &Wanted { context: null_mut(), space, qp_type })?;
        let id = made.get()?;
        let ready = if info.ai_flags & RAI_PASSIVE != 0 {
            passive(id, info, pd, attr)
        } else {
            active(id, info, pd, attr)
        };
        match ready {
            Ok(()) => put_if_wanted(place, Some(made)),
            Err(errno) => {
                id::destroy(id)?;
                return Err(errno);
            }
        }
        Ok(0)
    })
}

pub(crate) extern "C" fn destroy_ep(id: Option<Ptr<Id>>) {
    let _ = guarded(|| {
        let id = live(&id)?;
        if id.see(|public| public.id.qp.is_some()) {
            queue_pair::destroy(id);
        }
        if id.see(|public| public.id.srq.is_some()) {
            shared_receive::destroy(id);
        }
        id::destroy(id)
    });
}
