//! A packet arrives. The path: parse, judge what every packet must satisfy, find the queue pair,
//! hand it to the machine that it is for.

use super::{Device, Shared};
use crate::Instant;
use crate::counters::Counter;
use crate::memory::Memory;
use crate::planted;
use crate::qp::pair::Qp;
use crate::qp::{completer, datagram, responder};
use crate::verbs::{QpCreateFlags, QpNum, QpState, QpType};
use crate::wire::{Opcode, OpcodeFacts, Operation, Packet, Route, Service};

impl Device {
    /// A packet (BTH to the end of the pad, its ICRC good) came along `route`.
    pub fn on_frame<M: Memory + ?Sized>(
        &mut self,
        now: Instant,
        memory: &M,
        route: &Route,
        bytes: &[u8],
    ) {
        self.set_now(now);
        self.shared.count(Counter::ReceivedPackets);
        if let Err(reason) = self.accept(now, memory, route, bytes) {
            self.shared.count(reason);
        }
        self.fail_overrun();
    }

    fn accept<M: Memory + ?Sized>(
        &mut self,
        now: Instant,
        memory: &M,
        route: &Route,
        bytes: &[u8],
    ) -> Result<(), Counter> {
        let packet = Packet::parse(bytes).map_err(|_| Counter::DropMalformed)?;
        // [packet-format/transport-version]
        if packet.bth.transport_version() != 0 {
            return Err(Counter::DropBadTransportVersion);
        }
        let number = packet.bth.dest_qp();
        if number == QpNum::MULTICAST || route.dst.is_multicast() {
            return self.multicast(memory, route, &packet);
        }
        if number == QpNum::GSI {
            return self.gsi.arrives(route, &packet);
        }
        let shared = &mut self.shared;
        // [packet-format/dest-qp-unknown] [connection-setup/wrong-dest-qp]
        let qp = self.qps.get_mut(number).ok_or(Counter::DropUnknownQp)?;
        if route.congestion_experienced() {
            shared.count(Counter::EcnMarked);
        }
        let Some(facts) = packet.facts else {
            // Only a peer that is connected is told, and only in its turn.
            judge_connected(qp, route, &packet, is_request_of(qp, packet.opcode))?;
            responder::on_unknown_opcode(qp, shared, &packet)?;
            let index = qp.index;
            self.mark_ready(index);
            return Ok(());
        };
        match (qp.init.qp_type, facts.service) {
            // [ud/any-source] [ud/psn-ignored] [congestion/ud-mark-counted]
            (QpType::Ud, Service::Ud) => {
                judge_common(qp, &packet)?;
                datagram::on_datagram(qp, shared, memory, route, &packet);
                return Ok(());
            }
            // [congestion/cnp-source] [congestion/cnp-no-answer]
            (qp_type, Service::Cnp) if qp_type.is_connected() => {
                judge_connected(qp, route, &packet, true)?;
                shared.count(Counter::CnpReceived);
                if planted::has(planted::Fault::NotificationTwice) {
                    shared.count(Counter::CnpReceived);
                }
                // [congestion/reaction-off]
                if shared.reaction_point {
                    qp.requester.window.on_congestion(now);
                }
            }
            (qp_type, service)
                if qp_type.is_connected()
                    && service == qp.service()
                    && takes(qp_type, facts.operation) =>
            {
                judge_connected(qp, route, &packet, true)?;
                // [congestion/mark-makes-cnp] [congestion/mark-not-an-error]
                if route.congestion_experienced() {
                    responder::on_congestion(qp, now);
                }
                connected(qp, shared, now, memory, facts, &packet);
            }
            // [packet-format/wrong-service] [connection-setup/service-mismatch]
            _ => return Err(Counter::DropWrongService),
        }
        let index = qp.index;
        self.mark_ready(index);
        Ok(())
    }

    /// A datagram for a multicast group: every member gets it. Its queue pair number and its address
    /// both say so, or it is for nobody.
    fn multicast<M: Memory + ?Sized>(
        &mut self,
        memory: &M,
        route: &Route,
        packet: &Packet<'_>,
    ) -> Result<(), Counter> {
        let facts = packet.facts.ok_or(Counter::DropUnknownOpcode)?;
        // [ud/multicast-format]
        if packet.bth.dest_qp() != QpNum::MULTICAST || !route.dst.is_multicast() {
            return Err(Counter::DropUnknownQp);
        }
        if facts.service != Service::Ud {
            return Err(Counter::DropWrongService);
        }
        let group = self.shared.groups.iter().position(|group| group.gid == route.dst);
        let group = group.ok_or(Counter::DropUnknownQp)?;
        let sender = packet.deth().map(crate::wire::Deth::src_qp);
        let from_here = self.shared.port.gids.contains(&route.src)
            && sender.is_some_and(|sender| self.qps.get(sender).is_some());
        let mut at = 0;
        // [ud/multicast-every-member] [ud/multicast-not-member]
        while let Some(&member) = self.shared.groups.get(group).and_then(|g| g.members.get(at)) {
            at += 1;
            let Some(qp) = self.qps.get_mut(member) else { continue };
            // [ud/multicast-block-loopback]
            if from_here && qp.init.create_flags.contains(QpCreateFlags::BLOCK_SELF_MCAST_LB) {
                continue;
            }
            match judge_common(qp, packet) {
                Ok(()) => datagram::on_datagram(qp, &mut self.shared, memory, route, packet),
                Err(reason) => self.shared.count(reason),
            }
        }
        Ok(())
    }
}

/// Whether an opcode that nobody knows may be a request to this queue pair: it belongs to the
/// service, which the high three bits say.
// [packet-format/unknown-opcode-dropped]
fn is_request_of(qp: &Qp, opcode: Opcode) -> bool {
    qp.init.qp_type.is_reliable()
        && qp.init.qp_type != QpType::XrcSend
        && opcode.0 >> 5 == qp.service() as u8
}

/// Of XRC, requests are for the target and responses for the initiator (annex A14).
// [xrc/initiator-sends-only]
const fn takes(qp_type: QpType, operation: Operation) -> bool {
    match qp_type {
        QpType::XrcSend => operation.is_response(),
        QpType::XrcRecv => operation.is_request(),
        QpType::Rc | QpType::Uc | QpType::Ud => true,
    }
}

/// What every packet must satisfy (IBA 9.6.1.1 to 9.6.1.3): state and P_Key.
// [packet-format/state-match] [qp-states/init-drops] [qp-states/rtr-receives]
// [qp-states/sqe-receives] [qp-states/err-drops] [connection-setup/early-request-lost]
// [connection-setup/rtr-before-rts] [rc-responder/after-error-silent]
fn judge_common(qp: &Qp, packet: &Packet<'_>) -> Result<(), Counter> {
    match qp.state() {
        QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => {}
        QpState::Reset | QpState::Init | QpState::Err => return Err(Counter::DropQpState),
    }
    if pkeys_match(qp.pkey, packet.bth.pkey()) { Ok(()) } else { Err(Counter::DropBadPkey) }
}

/// The low 15 bits are the partition, 0 is none; two limited members do not talk (IBA 10.9.3).
// [packet-format/pkey-match]
const fn pkeys_match(own: u16, got: u16) -> bool {
    own & 0x7fff == got & 0x7fff && own & 0x7fff != 0 && (own | got) & 0x8000 != 0
}

/// What a packet of a connected service must satisfy besides: it comes from the peer.
// [packet-format/gid-match] [connection-setup/wrong-gid] [connection-setup/one-sided]
// [connection-setup/loopback-self] [attacks/blind-wrong-field] [attacks/blind-all-right]
fn judge_connected(
    qp: &Qp,
    route: &Route,
    packet: &Packet<'_>,
    right_service: bool,
) -> Result<(), Counter> {
    if !right_service {
        return Err(Counter::DropUnknownOpcode);
    }
    if qp.is(QpType::Ud) {
        return Err(Counter::DropWrongService);
    }
    judge_common(qp, packet)?;
    if route.src == qp.route.dst && route.dst == qp.route.src {
        Ok(())
    } else {
        Err(Counter::DropBadSource)
    }
}

fn connected<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    now: Instant,
    memory: &M,
    facts: &'static OpcodeFacts,
    packet: &Packet<'_>,
) {
    match facts.operation {
        Operation::Acknowledge | Operation::ReadResponse | Operation::AtomicAcknowledge => {
            completer::on_response(qp, shared, memory, now, facts, packet);
        }
        Operation::Send
        | Operation::Write
        | Operation::ReadRequest
        | Operation::CompareSwap
        | Operation::FetchAdd
        | Operation::Flush
        | Operation::AtomicWrite
        | Operation::CongestionNotification => {
            responder::on_request(qp, shared, memory, facts, packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pkeys_match;

    #[test]
    fn pkeys_match_by_partition_and_need_one_full_member() {
        for (own, got, expected) in [
            (0xffff, 0xffff, true),
            (0xffff, 0x7fff, true),
            (0x7fff, 0xffff, true),
            (0x7fff, 0x7fff, false),
            (0xffff, 0x8001, false),
            (0x8000, 0x8000, false),
            (0xffff, 0, false),
        ] {
            assert_eq!(pkeys_match(own, got), expected, "{own:#x} {got:#x}");
        }
    }
}
