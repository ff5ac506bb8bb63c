//! Multicast groups.

use alloc::vec::Vec;

use super::Device;
use super::shared::MulticastGroup;
use crate::verbs::{Gid, QpNum, QpType, VerbError};

impl Device {
    /// Attaches a queue pair to a group (`ibv_attach_mcast(3)`). Returns whether it is the first
    /// of the group here: the link has to join it then.
    ///
    /// # Errors
    /// EINVAL: no such queue pair, not UD, not a multicast GID. ENOMEM: too many groups or members.
    pub fn attach_mcast(&mut self, qp: QpNum, gid: Gid) -> Result<bool, VerbError> {
        self.judge_member(qp, &gid)?;
        let limits = &self.shared.attributes;
        if let Some(group) = self.shared.groups.iter_mut().find(|group| group.gid == gid) {
            if group.members.contains(&qp) {
                return Ok(false);
            }
            if group.members.len() >= limits.max_mcast_qp_attach as usize {
                return Err(VerbError::Full("max_mcast_qp_attach queue pairs are attached"));
            }
            group.members.push(qp);
            return Ok(false);
        }
        if self.shared.groups.len() >= limits.max_mcast_grp as usize {
            return Err(VerbError::Full("max_mcast_grp groups are in use"));
        }
        self.shared.groups.push(MulticastGroup { gid, members: Vec::from([qp]) });
        Ok(true)
    }

    /// Detaches a queue pair from a group. Returns whether it was the last of the group here: the
    /// link has to leave it then.
    ///
    /// # Errors
    /// EINVAL: no such queue pair, or not attached.
    pub fn detach_mcast(&mut self, qp: QpNum, gid: Gid) -> Result<bool, VerbError> {
        const NOT_ATTACHED: VerbError = VerbError::Invalid("gid: the queue pair is not attached");
        self.judge_member(qp, &gid)?;
        let groups = &mut self.shared.groups;
        let at = groups.iter().position(|group| group.gid == gid).ok_or(NOT_ATTACHED)?;
        let members = &mut groups[at].members;
        let member = members.iter().position(|&member| member == qp).ok_or(NOT_ATTACHED)?;
        members.remove(member);
        let last = members.is_empty();
        if last {
            groups.remove(at);
        }
        Ok(last)
    }

    // [ud/multicast-attach-ud]
    fn judge_member(&self, qp: QpNum, gid: &Gid) -> Result<(), VerbError> {
        let qp = self.qps.get(qp).ok_or(VerbError::NoSuchObject("qp: no such queue pair"))?;
        if !qp.is(QpType::Ud) {
            return Err(VerbError::Invalid("qp: only UD queue pairs join multicast groups"));
        }
        if !gid.is_multicast() {
            return Err(VerbError::Invalid("gid: not a multicast address"));
        }
        Ok(())
    }
}
