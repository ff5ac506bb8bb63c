//! Attributes of queue pairs: what each step requires and takes, and which values.

mod create;
mod steps;
mod values;

use softrnic_model::verbs::{
    AddressVector, Gid, Psn, QpAttributeMask, QpAttributes, QpNum, QpState, QpType, WcStatus,
};

use crate::case::{Case, Outcome, Problem};
use crate::lab::Connection;
use crate::stage::{End, Stage, send, wr};

pub(super) fn cases() -> Vec<Case> {
    let mut all = steps::cases();
    all.extend(values::cases());
    all.extend(create::cases());
    all
}

/// What a type is called in names of cases.
pub(super) const fn type_name(qp_type: QpType) -> &'static str {
    match qp_type {
        QpType::Rc => "rc",
        QpType::Uc => "uc",
        QpType::Ud => "ud",
        QpType::XrcSend => "xrc-initiator",
        QpType::XrcRecv => "xrc-target",
    }
}

/// The same of a state.
pub(super) const fn state_name(state: QpState) -> &'static str {
    match state {
        QpState::Reset => "reset",
        QpState::Init => "init",
        QpState::Rtr => "rtr",
        QpState::Rts => "rts",
        QpState::Sqd => "sqd",
        QpState::Sqe => "sqe",
        QpState::Err => "err",
    }
}

/// A connection of this type.
pub(super) const fn connection(qp_type: QpType) -> Connection {
    Connection { qp_type, buffer_len: 4096, ..Connection::RC }
}

/// A queue pair that nobody has, for queue pairs that need none to talk to.
const NOBODY: QpNum = QpNum::new(0x00_4321);

/// A queue pair of this type in this state, on device 0, towards a queue pair of device 1 that does
/// not exist.
pub(super) fn reach(stage: &Stage, qp_type: QpType, state: QpState) -> Outcome<End> {
    let connection = connection(qp_type);
    let mut end = end(stage, 0, qp_type)?;
    let (_, peer) = stage.address(1)?;
    let through = match state {
        QpState::Sqd | QpState::Sqe => QpState::Rts,
        QpState::Err => QpState::Init,
        QpState::Reset | QpState::Init | QpState::Rtr | QpState::Rts => state,
    };
    stage.bring_up(&mut end, (peer, NOBODY), &connection, through)?;
    match state {
        QpState::Sqe => {
            fail_a_send(stage, &end, 1)?;
        }
        QpState::Sqd | QpState::Err => stage.move_to(&end, state)?,
        QpState::Reset | QpState::Init | QpState::Rtr | QpState::Rts => {}
    }
    stage.gets_into(&end, state)?;
    Ok(end)
}

/// Posts a send that fails at once on every service, for its local key is wrong; with which status is
/// another rule.
pub(super) fn fail_a_send(stage: &Stage, end: &End, id: u64) -> Outcome {
    let op = if end.ah.is_some() { end.datagram(end, 1) } else { send() };
    stage.post(end, &wr(id, op).at(0, 8).lkey(softrnic_model::verbs::Key(0xdead_0000)))?;
    let wc = stage.take(end, end.send_cq, 1)?[0];
    crate::ensure!(
        wc.wr_id == id && wc.status != WcStatus::Success,
        "request {} completed with {:?}, expected {id} to fail",
        wc.wr_id,
        wc.status
    );
    Ok(())
}

/// A queue pair in RESET.
pub(super) fn end(stage: &Stage, device: usize, qp_type: QpType) -> Outcome<End> {
    let xrcd = match qp_type {
        QpType::XrcRecv => Some(stage.verbs(device).open_xrcd()?),
        QpType::Rc | QpType::Uc | QpType::Ud | QpType::XrcSend => None,
    };
    stage.end_with(device, &connection(qp_type), |init| init.xrcd = xrcd)
}

/// A right value for every attribute.
fn attributes(stage: &Stage, end: &End, from: QpState, to: QpState) -> Outcome<QpAttributes> {
    let (_, dgid) = stage.address(1)?;
    Ok(filled(end.sgid_index, dgid, from, to))
}

fn filled(sgid_index: u8, dgid: Gid, from: QpState, to: QpState) -> QpAttributes {
    QpAttributes {
        state: to,
        current_state: from,
        sq_drained_event: true,
        qkey: 0x2222,
        access: crate::lab::ALL_RIGHTS,
        path: AddressVector { dgid, sgid_index, hop_limit: 64, ..AddressVector::default() },
        path_mtu: softrnic_model::verbs::Mtu::B256,
        dest_qp: NOBODY,
        rq_psn: Psn::new(0x11),
        sq_psn: Psn::new(0x22),
        max_dest_rd_atomic: 1,
        max_rd_atomic: 1,
        min_rnr_timer: 5,
        timeout: 14,
        retry_count: 3,
        rnr_retry: 3,
        ..QpAttributes::default()
    }
}

/// Asks for a change that must be refused with EINVAL, and nothing may have changed then.
fn is_refused(
    stage: &Stage,
    end: &End,
    attributes: &QpAttributes,
    mask: QpAttributeMask,
) -> Outcome {
    refused_with(stage, end, attributes, mask, "EINVAL")
}

fn refused_with(
    stage: &Stage,
    end: &End,
    attributes: &QpAttributes,
    mask: QpAttributeMask,
    errno: &str,
) -> Outcome {
    let verbs = stage.verbs(end.device);
    let before = verbs.query_qp(end.qp)?.0;
    match verbs.modify_qp(end.qp, attributes, mask) {
        Ok(()) => return Err(Problem::Failed(format!("{mask:?} was taken"))),
        Err(error) if error.errno_name() == errno => {}
        Err(error) => return Err(Problem::Failed(format!("{mask:?} was refused with {error}"))),
    }
    let after = verbs.query_qp(end.qp)?.0;
    crate::same!(after, before, "attributes after the change was refused");
    Ok(())
}
