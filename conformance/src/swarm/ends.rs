//! Ends of connections.

use softrnic_model::verbs::QpCapabilities;
use softrnic_reference::{Channel, Receives, Unreliable};
use softrnic_verbs::{Access, Ah, ConnectOptions, Psn, Qp, QpType, Result, XrcTarget};

use super::chance::Chance;
use super::hosts::{Host, Piece, Pieces};
use super::plan::{Plan, Service};
use super::storm::TIMEOUT_CODE;

/// What an end has of a send request.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Memory of its own host, and of the peer's, that is given back.
    pub(super) local: Pieces,
    pub(super) remote: Pieces,
    pub(super) then: Then,
}

/// What is to be done when a request is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Nothing,
    /// The peer's memory has these bytes.
    Written(Piece, Vec<u8>),
    /// The end's own memory has these bytes.
    Brought(Pieces, Vec<u8>),
    /// An addition has found what is in this word.
    Added(Piece),
    /// The peer's word at this place has this value, and the own piece what was there before.
    Swapped {
        word: usize,
        now: u64,
        before: u64,
        found: Piece,
    },
    /// A window of the end's host is bound, or is bound no more.
    Bound(usize),
    Unbound(usize),
    /// A window of the peer's host is used by one fewer.
    Left(usize, Box<Self>),
    /// A region has been deregistered while this went there.
    Vanished,
}

impl Then {
    /// The window whose binding changes.
    pub(super) const fn binds(&self) -> Option<usize> {
        match self {
            Self::Bound(which) | Self::Unbound(which) => Some(*which),
            Self::Nothing
            | Self::Written(..)
            | Self::Brought(..)
            | Self::Added(_)
            | Self::Swapped { .. }
            | Self::Left(..)
            | Self::Vanished => None,
        }
    }
}

/// A message, as far as nobody but its recipient has to know.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// What a SEND carries.
    pub(super) bytes: Vec<u8>,
    /// Where a WRITE with immediate went.
    pub(super) written: Option<Piece>,
    /// The recipient's window that it invalidates.
    pub(super) invalidates: Option<usize>,
}

pub(super) struct End {
    pub(super) host: usize,
    pub(super) peer: usize,
    pub(super) service: Service,
    pub(super) qp: Qp,
    /// Of XRC, what serves the peer.
    pub(super) target: Option<XrcTarget>,
    /// Of datagrams, the way to the peer.
    pub(super) ah: Option<Ah>,
    pub(super) channel: Channel<Sent, Message>,
    /// What may arrive here, of a service that may lose it.
    pub(super) unreliable: Unreliable,
    pub(super) receives: Receives<Pieces>,
    /// The receive that must fail, if one waits.
    pub(super) bad_receive: Option<u64>,
    /// Memory that late packets may still reach.
    pub(super) quarantine: Vec<(usize, Piece)>,
    pub(super) next_id: u64,
    pub(super) failed: bool,
    /// Words that only this end changes at its peer: the last value.
    pub(super) own_word: u64,
}

/// GRH in front of each datagram.
pub(super) const GRH: usize = 40;
pub(super) const QKEY: u32 = 0x1111_1111;

/// Queue pairs of both ends of a connection, ready to send.
pub(super) struct Made {
    pub(super) qp: Qp,
    pub(super) target: Option<XrcTarget>,
    pub(super) ah: Option<Ah>,
}

pub(super) fn make(
    hosts: &[Host],
    of: [usize; 2],
    service: Service,
    plan: &Plan,
    chance: &mut Chance,
) -> Result<[Made; 2]> {
    let [near, far] = of.map(|host| &hosts[host]);
    let qps = [qp(near, service, plan, chance)?, qp(far, service, plan, chance)?];
    let options = ConnectOptions {
        mtu: Some(plan.mtu()),
        timeout: TIMEOUT_CODE,
        min_rnr_timer: 1 + u8::try_from(chance.below(12)).unwrap_or(0),
        max_rd_atomic: Some(plan.read_depth),
        ..ConnectOptions::default()
    };
    match service {
        Service::Ud => {
            let way = |from: &Host, qp: &Qp, to: &Host| {
                from.pd.create_ah(&qp.path_to(to.context.first_gid()?.1))
            };
            let ahs = [way(near, &qps[0], far)?, way(far, &qps[1], near)?];
            qps.iter().try_for_each(Qp::activate)?;
            let [a, b] = qps;
            let [to_b, to_a] = ahs.map(Some);
            let of = |qp, ah| Made { qp, target: None, ah };
            Ok([of(a, to_b), of(b, to_a)])
        }
        Service::Xrc => {
            let access = Access::REMOTE | Access::FLUSH_GLOBAL;
            let targets = [near.xrcd.create_target(access)?, far.xrcd.create_target(access)?];
            for (own, peer) in [(0, 1), (1, 0)] {
                qps[own].connect_with(&targets[peer].endpoint()?, &options)?;
                targets[peer].connect(&qps[own].endpoint()?, &options)?;
            }
            let [a, b] = qps;
            let [ta, tb] = targets.map(Some);
            let of = |qp, target| Made { qp, target, ah: None };
            Ok([of(a, ta), of(b, tb)])
        }
        Service::Rc | Service::RcShared | Service::Uc => {
            let ends = [qps[0].endpoint()?, qps[1].endpoint()?];
            qps[0].connect_with(&ends[1], &options)?;
            qps[1].connect_with(&ends[0], &options)?;
            Ok(qps.map(|qp| Made { qp, target: None, ah: None }))
        }
    }
}

fn qp(host: &Host, service: Service, plan: &Plan, chance: &mut Chance) -> Result<Qp> {
    let qp_type = match service {
        Service::Rc | Service::RcShared => QpType::Rc,
        Service::Xrc => QpType::XrcSend,
        Service::Uc => QpType::Uc,
        Service::Ud => QpType::Ud,
    };
    let [max_send_wr, max_recv_wr] = plan.depths;
    let psn = if plan.near_wrap { 0xff_ffff - chance.below(200) } else { chance.below(1 << 24) };
    let mut builder = host
        .pd
        .create_qp(qp_type, &host.send_cq)
        .recv_cq(&host.recv_cq)
        .capabilities(QpCapabilities {
            max_send_wr,
            max_recv_wr,
            max_send_sge: 3,
            max_recv_sge: 3,
            max_inline_data: 64,
        })
        .access(Access::REMOTE | Access::FLUSH_GLOBAL)
        .qkey(QKEY)
        .first_psn(Psn::new(psn));
    if service == Service::RcShared {
        builder = builder.srq(&host.srq);
    }
    builder.build()
}
