//! Groups: on RoCE v2 there is nobody to ask, a group's GID is its address.

use std::net::SocketAddr;

use softrnic_model::verbs::{AddressVector, QpNum};

use super::State;
use super::requests::UDP_QKEY;
use crate::cm::resolve;
use crate::cm::{Cm, CmError, CmEvent, CmEventKind, CmId, EventParam, UdParam};

impl State {
    pub(super) fn join(&mut self, id: CmId, group: SocketAddr, context: u64) -> Cm<()> {
        let gid = resolve::group(group.ip());
        let gid = gid.ok_or_else(|| CmError::invalid("not the address of a group"))?;
        let known = self.id_mut(id)?;
        let path = known.path.as_ref();
        let path = path.ok_or_else(|| CmError::invalid("the identifier has no device yet"))?;
        let param = UdParam {
            private_data: Vec::new(),
            address: AddressVector {
                dgid: gid,
                sgid_index: path.gid_index,
                hop_limit: 1,
                traffic_class: known.tos,
                ..AddressVector::default()
            },
            qp_num: QpNum::MULTICAST,
            qkey: UDP_QKEY,
        };
        known.groups.push(group);
        self.push(CmEvent {
            id,
            listen_id: None,
            kind: CmEventKind::MulticastJoin,
            status: 0,
            param: EventParam::Multicast(Box::new(param), context),
        });
        Ok(())
    }

    pub(super) fn leave(&mut self, id: CmId, group: SocketAddr) -> Cm<()> {
        let known = self.id_mut(id)?;
        let joined = known.groups.iter().position(|one| one.ip() == group.ip());
        let joined =
            joined.ok_or_else(|| CmError::address_not_available("the group was not joined"))?;
        known.groups.swap_remove(joined);
        Ok(())
    }
}
