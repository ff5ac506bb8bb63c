//! Address handles (`ibv_create_ah(3)`, `ibv_create_ah_from_wc(3)`).

use core::ffi::c_int;
use std::sync::Arc;

use softrnic_model::verbs::{Gid, WcFlags};
use softrnic_verbs::provider;

use crate::convert::path;
use crate::errno::{Errno, Result, number, pointer, status};
use crate::layout::{Zeroed, ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route, ibv_grh, ibv_wc};
use crate::object::{Ptr, live};
use crate::objects::{Ah, Context, Pd};

fn create(pd: Option<Ptr<Pd>>, attr: &ibv_ah_attr) -> Result<Ptr<Ah>> {
    let domain = live(&pd)?;
    let id = domain.shared.device()?.create_ah(domain.id, &path(attr)?)?;
    let public = ibv_ah { context: domain.see(|pd| pd.context), pd, handle: id.0 };
    Ok(Ptr::new(public, Ah { shared: Arc::clone(&domain.shared), id }))
}

pub(crate) extern "C" fn create_ah(
    pd: Option<Ptr<Pd>>,
    attr: Option<&ibv_ah_attr>,
) -> Option<Ptr<Ah>> {
    pointer(|| create(pd, attr.ok_or(Errno::INVALID)?))
}

pub(crate) extern "C" fn destroy_ah(ah: Option<Ptr<Ah>>) -> c_int {
    status(|| {
        let handle = live(&ah)?;
        handle.shared.device()?.destroy_ah(handle.id)?;
        handle.ptr().retire();
        Ok(())
    })
}

/// The 40 bytes in front of a datagram: an IPv6 header, or 20 unused bytes and an IPv4 header. Returns
/// the address of the sender and the own one, the class of the traffic, and the flow label.
fn addresses(grh: &ibv_grh) -> (Gid, Gid, u8, u32) {
    let (sgid, dgid) = (grh.sgid.0, grh.dgid.0);
    // The IPv4 header lies where version and length of an IPv6 header cannot: byte 20, the fifth of
    // the destination, with the addresses at its end.
    let first = u32::from_be(grh.version_tclass_flow);
    if first >> 28 == 6 {
        let class = u8::try_from(first >> 20 & 0xff).unwrap_or(0);
        return (Gid(sgid), Gid(dgid), class, first & 0x000f_ffff);
    }
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = dgid;
    // Header bytes 0 to 3 are the last four of the source GID's place.
    let class = sgid[13];
    (Gid::from_v4([s0, s1, s2, s3]), Gid::from_v4([d0, d1, d2, d3]), class, 0)
}

/// Which own GID a datagram was sent to; of a group, the first of the same family.
fn own_index(device: &dyn provider::Context, port: u8, own: Gid) -> Result<u8> {
    let same_family = |gid: Gid| gid.as_v4().is_some() == own.as_v4().is_some();
    for index in 0..device.query_port(port)?.gid_tbl_len {
        let gid = device.query_gid(port, index)?.gid;
        if gid == own || own.is_multicast() && gid != Gid::default() && same_family(gid) {
            return Ok(u8::try_from(index)?);
        }
    }
    Err(Errno::INVALID)
}

fn answer_path(
    device: &dyn provider::Context,
    port: u8,
    wc: &ibv_wc,
    grh: Option<&ibv_grh>,
) -> Result<ibv_ah_attr> {
    /// What an answer may cross.
    const HOPS: u8 = 0xff;
    device.query_port(port)?;
    let mut attr = ibv_ah_attr { port_num: port, ..ibv_ah_attr::zeroed() };
    if wc.wc_flags & u32::from(WcFlags::GRH.bits()) != 0 {
        let (sender, own, traffic_class, flow_label) = addresses(grh.ok_or(Errno::INVALID)?);
        attr.is_global = 1;
        attr.grh = ibv_global_route {
            dgid: ibv_gid(sender.0),
            flow_label,
            sgid_index: own_index(device, port, own)?,
            hop_limit: HOPS,
            traffic_class,
        };
    }
    Ok(attr)
}

pub(crate) extern "C" fn init_ah_from_wc(
    context: Option<Ptr<Context>>,
    port: u8,
    wc: Option<&ibv_wc>,
    grh: Option<&ibv_grh>,
    attr: Option<&mut ibv_ah_attr>,
) -> c_int {
    number(|| {
        let device = live(&context)?.shared.device()?;
        *attr.ok_or(Errno::INVALID)? = answer_path(device, port, wc.ok_or(Errno::INVALID)?, grh)?;
        Ok(0)
    })
}

pub(crate) extern "C" fn create_ah_from_wc(
    pd: Option<Ptr<Pd>>,
    wc: Option<&ibv_wc>,
    grh: Option<&ibv_grh>,
    port: u8,
) -> Option<Ptr<Ah>> {
    pointer(|| {
        let device = live(&pd)?.shared.device()?;
        create(pd, &answer_path(device, port, wc.ok_or(Errno::INVALID)?, grh)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers_give_their_addresses() {
        let (s, d) = ([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], [0xfe; 16]);
        let v6 = ibv_grh {
            version_tclass_flow: 0x6210_0345_u32.to_be(),
            paylen: 0,
            next_hdr: 17,
            hop_limit: 64,
            sgid: ibv_gid(s),
            dgid: ibv_gid(d),
        };
        assert_eq!(addresses(&v6), (Gid(s), Gid(d), 0x21, 0x345));
        // 40 bytes whose last 20 are an IPv4 header; it begins four bytes before the destination GID.
        let mut v4 = ibv_grh { version_tclass_flow: 0, sgid: ibv_gid([0; 16]), ..v6 };
        v4.sgid.0[12..].copy_from_slice(&[0x45, 0x20, 0, 48]);
        v4.dgid.0 = [0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let (from, to) = (Gid::from_v4([10, 0, 0, 1]), Gid::from_v4([10, 0, 0, 2]));
        assert_eq!(addresses(&v4), (from, to, 0x20, 0));
    }
}
