//! Answering, and what follows until the end.

use softrnic_model::Instant;
use softrnic_model::cm::message::SidrRep;
use softrnic_model::cm::message::SidrStatus;
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::{Accept, CommId, CommandError, Machine, RejectReason, ServiceId};
use softrnic_model::verbs::QpType;

use super::attempt::too_long;
use super::{Device, EmulatedManager, State};
use crate::cm::{Cm, CmError, CmEvent, CmEventKind, CmId, CmPhase, ConnParam, EventParam};

/// The Q_Key of datagram services whose program says none (`RDMA_UDP_QKEY`).
pub(super) const UDP_QKEY: u32 = 0x0123_4567;

/// How long an emulated device takes to acknowledge, as a code of 4.096 µs · 2^t: none worth mention.
const ACK_DELAY: u8 = 0;

impl From<CommandError> for CmError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NoSuchConnection | CommandError::WrongState(_) => {
                Self::invalid(error.to_string())
            }
            CommandError::Full => Self::full(error.to_string()),
        }
    }
}

impl EmulatedManager {
    fn device_of(&self, id: CmId) -> Cm<Device> {
        let state = self.lock();
        let place = state.id(id)?.device;
        let device = place.and_then(|place| state.devices.get(place)).cloned();
        device.ok_or_else(|| CmError::invalid("the identifier has no device yet"))
    }

    /// Tells the machine something about the connection of an identifier.
    pub(super) fn tell<T>(
        &self,
        id: CmId,
        mut act: impl FnMut(&mut State, &mut Machine, CommId, Instant) -> Cm<T>,
    ) -> Cm<T> {
        let device = self.device_of(id)?;
        let mut outcome = Err(super::no_such_id());
        device.cm.with_machine(&mut |machine, now| {
            let mut state = self.lock();
            outcome = state
                .id(id)
                .and_then(|known| known.comm.ok_or_else(|| CmError::invalid("no connection")))
                .and_then(|comm| act(&mut state, machine, comm, now));
        })?;
        outcome
    }

    pub(super) fn say_yes(&self, id: CmId, param: &ConnParam) -> Cm<()> {
        self.tell(id, |state, machine, comm, now| {
            let known = state.id_mut(id)?;
            if known.qp_type == QpType::Ud {
                known.require(&[CmPhase::Requested])?;
                let private_data = Bytes::of(&param.private_data).ok_or_else(|| too_long(136))?;
                let mut rep = SidrRep {
                    status: SidrStatus::Valid as u8,
                    qpn: param.qp_num,
                    service_id: ServiceId::of_port(
                        known.space,
                        known.local.map_or(0, |local| local.port()),
                    ),
                    qkey: if param.qkey == 0 { UDP_QKEY } else { param.qkey },
                    private_data,
                    ..SidrRep::default()
                };
                rep.set_vendor_id(param.ece.vendor_id);
                machine.answer(now, comm, &rep, param.ece.options)?;
                known.comm = None;
                known.phase = CmPhase::Established;
                return Ok(());
            }
            let private_data = Bytes::of(&param.private_data).ok_or_else(|| too_long(196))?;
            let accept = Accept {
                private_data,
                local_qpn: param.qp_num,
                starting_psn: known.psn,
                responder_resources: param.responder_resources,
                initiator_depth: param.initiator_depth,
                flow_control: param.flow_control,
                srq: param.srq,
                rnr_retry_count: param.rnr_retry_count.min(7),
                ack_delay: ACK_DELAY,
                vendor_id: param.ece.vendor_id,
                options: param.ece.options,
            };
            machine.accept(now, comm, &accept)?;
            known.phase = CmPhase::Accepting;
            Ok(())
        })
    }

    pub(super) fn say_ready(&self, id: CmId) -> Cm<()> {
        self.tell(id, |state, machine, comm, _| {
            machine.ready(comm)?;
            state.id_mut(id)?.phase = CmPhase::Established;
            Ok(())
        })
    }

    pub(super) fn say_no(&self, id: CmId, reason: RejectReason, private_data: &[u8]) -> Cm<()> {
        self.tell(id, |state, machine, comm, now| {
            let known = state.id_mut(id)?;
            if known.qp_type == QpType::Ud {
                let rep = SidrRep {
                    status: SidrStatus::Rejected as u8,
                    private_data: Bytes::of(private_data).ok_or_else(|| too_long(136))?,
                    ..SidrRep::default()
                };
                machine.answer(now, comm, &rep, 0)?;
            } else {
                let said = Bytes::of(private_data).ok_or_else(|| too_long(148))?;
                machine.reject(now, comm, reason, &[], said)?;
            }
            known.comm = None;
            known.phase = CmPhase::Disconnected;
            Ok(())
        })
    }

    pub(super) fn say_bye(&self, id: CmId) -> Cm<()> {
        self.tell(id, |state, machine, comm, now| {
            machine.disconnect(now, comm)?;
            state.id_mut(id)?.phase = CmPhase::Disconnected;
            Ok(())
        })
    }

    pub(super) fn heard_from_peer(&self, id: CmId) -> Cm<()> {
        self.tell(id, |state, machine, comm, _| {
            let known = state.id_mut(id)?;
            if known.phase == CmPhase::Established {
                return Err(CmError::connected("there is a connection already"));
            }
            machine.heard_from_peer(comm)?;
            known.phase = CmPhase::Established;
            state.push(CmEvent {
                id,
                listen_id: None,
                kind: CmEventKind::Established,
                status: 0,
                param: EventParam::None,
            });
            Ok(())
        })
    }
}
