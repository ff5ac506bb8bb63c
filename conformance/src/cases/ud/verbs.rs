//! Datagrams between two devices: headers in front of the data, address handles, groups.

use softrnic_model::verbs::{
    AddressVector, Gid, QpCreateFlags, QpNum, QpState, SendFlags, SendOp, Wc, WcFlags, WcStatus,
};
use softrnic_model::wire::Grh;

use crate::case::{Case, Outcome, Problem, verbs};
use crate::lab::Connection;
use crate::stage::{End, Stage, wr};
use crate::{ensure, same};

use WcStatus::Success;

pub(super) fn cases() -> Vec<Case> {
    vec![
        verbs("ud/grh-ipv4", "last-20-bytes", ip_header),
        verbs("ud/network-type", "told", network_type),
        verbs("ud/ah-by-handle", "two-handles", two_handles),
        verbs("ud/ah-by-handle", "destroyed", destroyed_handle),
        verbs("ud/ah-pd", "other-domain", handle_of_other_domain),
        verbs("ud/multicast-every-member", "members-of-both-devices", every_member),
        verbs("ud/multicast-not-member", "never-attached", not_attached),
        verbs("ud/multicast-not-member", "detached", detached),
        verbs("ud/multicast-attach-ud", "connected-queue-pair", attach_connected),
        verbs("ud/multicast-attach-ud", "no-group", attach_no_group),
        verbs("ud/multicast-attach-ud", "detach-what-is-not-attached", detach_stranger),
        verbs("ud/multicast-destroy-busy", "attached", destroy_attached),
        verbs("ud/multicast-block-loopback", "own-device", block_loopback),
    ]
}

const UD: Connection = Connection { buffer_len: 4096, ..Connection::UD };

fn is_v4(gid: Gid) -> bool {
    gid.as_v4().is_some()
}

/// A group of the IP version of an end.
fn group(end: &End, number: u8) -> Gid {
    if is_v4(end.gid) {
        Gid::from_v4([239, 77, 7, number])
    } else {
        Gid([0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77, 7, number])
    }
}

/// Sends 8 bytes and receives them at `b`.
fn pass(stage: &Stage, a: &End, b: &End) -> Outcome<Wc> {
    stage.recv(b, 7, 0, 100)?;
    stage.post(a, &wr(1, a.datagram(b, UD.qkey)).at(200, 8))?;
    stage.completes(a, 1, Success)?;
    let received = stage.receives(b, 7, Success)?;
    same!(b.bytes(40, 8)?, a.bytes(200, 8)?, "data");
    Ok(received)
}

fn ip_header(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&UD)?;
    if !is_v4(a.gid) {
        return Err(Problem::NotApplicable("the devices have IPv6 addresses".into()));
    }
    pass(stage, &a, &b)?;
    let header: [u8; Grh::LEN] = b.bytes(0, Grh::LEN)?.try_into().unwrap_or([0; Grh::LEN]);
    let route = Grh(header);
    let route = Grh::parse(&route.0).ok_or_else(|| "there is no IPv4 header".to_owned())?;
    same!((route.src, route.dst), (a.gid, b.gid), "addresses of the header");
    Ok(())
}

fn network_type(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&UD)?;
    let received = pass(stage, &a, &b)?;
    let expected = if is_v4(a.gid) { Wc::SL_IPV4 } else { Wc::SL_IPV6 };
    same!(received.sl, expected, "the network type");
    ensure!(received.flags.contains(WcFlags::GRH), "the GRH flag is missing");
    same!(received.src_qp, a.qp, "src_qp");
    Ok(())
}

fn two_handles(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&UD)?;
    // One more receiver, on the sender's own device.
    let mut near = stage.end(0, &UD)?;
    stage.bring_up(&mut near, (a.gid, a.qp), &UD, QpState::Rts)?;
    let path = AddressVector {
        dgid: near.gid,
        sgid_index: a.sgid_index,
        hop_limit: 64,
        ..AddressVector::default()
    };
    let ah = stage.verbs(0).create_ah(a.pd, &path)?;
    stage.recv(&b, 1, 0, 100)?;
    stage.recv(&near, 2, 0, 100)?;
    let op = SendOp::SendTo { ah, remote_qpn: near.qp, remote_qkey: UD.qkey, imm: None };
    stage.post(&a, &wr(3, a.datagram(&b, UD.qkey)).at(0, 4))?;
    stage.post(&a, &wr(4, op).at(0, 6))?;
    same!(stage.receives(&b, 1, Success)?.byte_len, 44, "byte_len at the other device");
    same!(stage.receives(&near, 2, Success)?.byte_len, 46, "byte_len at the same device");
    Ok(())
}

fn destroyed_handle(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&UD)?;
    let ah = a.ah.ok_or_else(|| "there is no address handle".to_owned())?;
    // It waits in SQD, and finds the handle gone.
    stage.move_to(&a, QpState::Sqd)?;
    stage.post(&a, &wr(1, a.datagram(&b, UD.qkey)).at(0, 8))?;
    stage.verbs(0).destroy_ah(ah)?;
    stage.move_to(&a, QpState::Rts)?;
    stage.completes(&a, 1, WcStatus::LocalQpOperationError)?;
    stage.gets_into(&a, QpState::Sqe)
}

fn handle_of_other_domain(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&UD)?;
    let other = stage.verbs(0).alloc_pd()?;
    let path = AddressVector {
        dgid: b.gid,
        sgid_index: a.sgid_index,
        hop_limit: 64,
        ..AddressVector::default()
    };
    let ah = stage.verbs(0).create_ah(other, &path)?;
    stage.recv(&b, 7, 0, 100)?;
    let op = SendOp::SendTo { ah, remote_qpn: b.qp, remote_qkey: UD.qkey, imm: None };
    stage.post(&a, &wr(1, op).at(0, 8))?;
    stage.completes(&a, 1, WcStatus::LocalQpOperationError)?;
    stage.stays_idle(&b)
}

/// Datagram queue pairs, and a handle of the first one to a group that the others are in.
fn members(stage: &Stage, devices: &[usize], number: u8) -> Outcome<(End, SendOp, Vec<End>)> {
    let mut sender = stage.end(0, &UD)?;
    let group = group(&sender, number);
    let own = (sender.gid, sender.qp);
    stage.bring_up(&mut sender, own, &UD, QpState::Rts)?;
    let mut members = Vec::new();
    for &device in devices {
        let mut member = stage.end(device, &UD)?;
        stage.bring_up(&mut member, own, &UD, QpState::Rts)?;
        stage.verbs(device).attach_mcast(member.qp, group)?;
        stage.recv(&member, 7, 0, 100)?;
        members.push(member);
    }
    let path = AddressVector {
        dgid: group,
        sgid_index: sender.sgid_index,
        hop_limit: 1,
        ..AddressVector::default()
    };
    let ah = stage.verbs(0).create_ah(sender.pd, &path)?;
    let remote_qpn = QpNum::new(0xff_ffff);
    let op = SendOp::SendTo { ah, remote_qpn, remote_qkey: UD.qkey, imm: None };
    Ok((sender, op, members))
}

fn every_member(stage: &mut Stage) -> Outcome {
    let (sender, op, members) = members(stage, &[0, 0, 1, 1], 1)?;
    stage.post(&sender, &wr(1, op).at(200, 8))?;
    stage.completes(&sender, 1, Success)?;
    for member in &members {
        same!(stage.receives(member, 7, Success)?.byte_len, 48, "byte_len");
        same!(member.bytes(40, 8)?, sender.bytes(200, 8)?, "data");
    }
    for member in &members {
        stage.stays_idle(member)?;
    }
    Ok(())
}

fn not_attached(stage: &mut Stage) -> Outcome {
    let (sender, op, members) = members(stage, &[1], 2)?;
    let mut outside = stage.end(1, &UD)?;
    stage.bring_up(&mut outside, (sender.gid, sender.qp), &UD, QpState::Rts)?;
    stage.recv(&outside, 8, 0, 100)?;
    stage.post(&sender, &wr(1, op).at(0, 8))?;
    stage.receives(&members[0], 7, Success)?;
    stage.stays_idle(&outside)
}

fn detached(stage: &mut Stage) -> Outcome {
    let (sender, op, members) = members(stage, &[1, 1], 3)?;
    stage.verbs(1).detach_mcast(members[0].qp, group(&sender, 3))?;
    stage.post(&sender, &wr(1, op).at(0, 8))?;
    stage.receives(&members[1], 7, Success)?;
    stage.stays_idle(&members[0])
}

fn attach_connected(stage: &mut Stage) -> Outcome {
    let end = stage.end(0, &Connection::RC)?;
    let refused = stage.verbs(0).attach_mcast(end.qp, group(&end, 4));
    ensure!(
        refused.is_err_and(|error| error.errno_name() == "EINVAL"),
        "an RC queue pair was taken"
    );
    Ok(())
}

fn attach_no_group(stage: &mut Stage) -> Outcome {
    let end = stage.end(0, &UD)?;
    let refused = stage.verbs(0).attach_mcast(end.qp, end.gid);
    ensure!(refused.is_err_and(|error| error.errno_name() == "EINVAL"), "an address was taken");
    Ok(())
}

fn detach_stranger(stage: &mut Stage) -> Outcome {
    let end = stage.end(0, &UD)?;
    let refused = stage.verbs(0).detach_mcast(end.qp, group(&end, 5));
    ensure!(refused.is_err_and(|error| error.errno_name() == "EINVAL"), "it was not attached");
    Ok(())
}

fn destroy_attached(stage: &mut Stage) -> Outcome {
    let (sender, _, members) = members(stage, &[0], 6)?;
    let verbs = stage.verbs(0);
    let refused = verbs.destroy_qp(members[0].qp);
    ensure!(refused.is_err_and(|error| error.errno_name() == "EBUSY"), "it was destroyed");
    verbs.detach_mcast(members[0].qp, group(&sender, 6))?;
    Ok(verbs.destroy_qp(members[0].qp)?)
}

fn block_loopback(stage: &mut Stage) -> Outcome {
    let (sender, op, members) = members(stage, &[1], 8)?;
    let mut deaf = stage.end_with(0, &UD, |init| {
        init.create_flags = QpCreateFlags::BLOCK_SELF_MCAST_LB;
    })?;
    stage.bring_up(&mut deaf, (sender.gid, sender.qp), &UD, QpState::Rts)?;
    stage.verbs(0).attach_mcast(deaf.qp, group(&sender, 8))?;
    stage.recv(&deaf, 9, 0, 100)?;
    stage.post(&sender, &wr(1, op).at(0, 8).with(SendFlags::empty()))?;
    stage.receives(&members[0], 7, Success)?;
    stage.stays_idle(&deaf)
}
