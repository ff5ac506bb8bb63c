//! What Linux says when `rdma_cm` connects: read, made again, and said in the same words by the
//! machine.

use std::collections::BTreeMap;

use softrnic_model::Instant;
use softrnic_model::cm::mad::{MAD_LEN, Mad};
use softrnic_model::cm::message::cell::Bytes;
use softrnic_model::cm::message::{Rep, Req, SidrRep, SidrReq, Target, peek};
use softrnic_model::cm::{
    Accept, CommId, Connect, EventKind, Guid, Lifetimes, Listen, ListenAt, Machine, MachineConfig,
    Message, Parameters, PortSpace, Resolve, ServiceId, State, Transport,
};
use softrnic_model::device::mad_of;
use softrnic_model::wire::{Packet, RoceFrame, Route};

use crate::sources::frames_of;

/// Messages of the connection manager, with the way that each went.
fn captured() -> Vec<(Route, Mad)> {
    let mut all = Vec::new();
    for bytes in frames_of("rxe-tools.pcapng") {
        let Ok(frame) = RoceFrame::parse(&bytes) else { continue };
        let packet = Packet::parse(frame.packet).unwrap();
        if let Ok(mad) = mad_of(&packet)
            && peek(mad).is_ok()
        {
            all.push((frame.route, *mad));
        }
    }
    all
}

#[test]
fn every_message_is_made_again_byte_for_byte() {
    let all = captured();
    let names: Vec<&str> =
        all.iter().map(|(_, mad)| Message::parse(mad).unwrap().1.name()).collect();
    let count = |name| names.iter().filter(|one| **one == name).count();
    assert_eq!(names.len(), 35);
    let counts = ["Req", "Rej", "Rep", "Rtu", "Dreq", "Drep", "SidrReq", "SidrRep"].map(count);
    assert_eq!(counts, [8, 3, 5, 5, 6, 6, 1, 1]);
    for (_, mad) in &all {
        let (header, message) = Message::parse(mad).unwrap();
        assert_eq!(message.to_mad(header.transaction, header.modifier), *mad);
        let (target, destination) = peek(mad).unwrap();
        assert_eq!(target, message.target());
        assert_eq!(destination.is_some(), matches!(target, Target::Service(_)));
    }
}

/// Who says a starting PSN hears it: the other end begins with it.
#[test]
fn requests_begin_where_their_receiver_has_said() {
    let (mut said, mut checked) = (BTreeMap::new(), 0);
    for bytes in frames_of("rxe-tools.pcapng") {
        let Ok(frame) = RoceFrame::parse(&bytes) else { continue };
        let packet = Packet::parse(frame.packet).unwrap();
        let route = frame.route;
        if let Ok(mad) = mad_of(&packet) {
            let (qpn, psn) = match Message::parse(mad) {
                Ok((_, Message::Req(req))) => (req.local_qpn, req.starting_psn),
                Ok((_, Message::Rep(rep))) => (rep.local_qpn, rep.starting_psn),
                _ => continue,
            };
            said.insert((route.src, qpn), psn);
        } else if packet.bth.opcode().facts().is_some_and(|facts| facts.operation.is_request())
            && let Some(psn) = said.remove(&(route.dst, packet.bth.dest_qp()))
        {
            assert_eq!(packet.bth.psn(), psn);
            checked += 1;
        }
    }
    assert!(checked >= 5, "{checked}");
}

/// One end of a captured exchange.
struct End {
    machine: Machine,
}

const NOW: Instant = Instant::ZERO;

impl End {
    fn new(slot: u8, guid: Guid) -> Self {
        let config = MachineConfig {
            guid,
            slot,
            first_id: 0x1234,
            transaction_high: 2,
            connections_max: 16,
            lifetimes: Lifetimes::default(),
        };
        Self { machine: Machine::new(config) }
    }

    fn says(&mut self) -> Mad {
        let outgoing = self.machine.next_mad().expect("something is said");
        assert_eq!(self.machine.next_mad(), None, "and no more");
        *outgoing.mad
    }

    fn hears(&mut self, route: &Route, mad: &Mad) -> Vec<(CommId, EventKind)> {
        self.machine.on_mad(NOW, route, mad);
        std::iter::from_fn(|| self.machine.next_event())
            .map(|event| (event.id, event.kind))
            .collect()
    }

    fn listen(&mut self, service_id: ServiceId) {
        self.machine.listen(Listen { tag: 0, service_id, at: ListenAt::All, backlog: 4 });
    }
}

/// The same but for transaction and communication IDs: those of requests are the first alone.
fn assert_same(ours: &Mad, captured: &Mad, name: &str) {
    let blind = |mad: &Mad| {
        let mut mad = *mad;
        mad[8..16].fill(0);
        let request = matches!(mad[17], 0x10 | 0x17 | 0x18);
        mad[24..if request { 28 } else { 32 }].fill(0);
        mad
    };
    let (ours, captured) = (blind(ours), blind(captured));
    let differ: Vec<usize> = (0..MAD_LEN).filter(|at| ours[*at] != captured[*at]).collect();
    assert!(differ.is_empty(), "{name}: bytes {differ:?} differ");
}

fn as_connect(route: &Route, req: &Req) -> Connect {
    Connect {
        tag: 0,
        route: Route {
            src: route.src,
            dst: route.dst,
            flow_label: req.primary_flow_label,
            traffic_class: req.primary_traffic_class,
            hop_limit: req.primary_hop_limit,
            src_port: 0,
        },
        service_id: req.service_id,
        private_data: req.private_data,
        transport: Transport::Rc,
        local_qpn: req.local_qpn,
        starting_psn: req.starting_psn,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        flow_control: req.flow_control,
        srq: req.srq,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        mtu: req.mtu,
        ack_timeout: req.primary_local_ack_timeout,
        vendor_id: 0,
        options: 0,
    }
}

fn as_accept(rep: &Rep) -> Accept {
    Accept {
        private_data: rep.private_data,
        local_qpn: rep.local_qpn,
        starting_psn: rep.starting_psn,
        responder_resources: rep.responder_resources,
        initiator_depth: rep.initiator_depth,
        flow_control: rep.flow_control,
        srq: rep.srq,
        rnr_retry_count: rep.rnr_retry_count,
        ack_delay: rep.target_ack_delay,
        vendor_id: 0,
        options: 0,
    }
}

/// What is said in the connection of a request, or a datagram service's exchange, in the order of the
/// capture.
fn exchange_of(all: &[(Route, Mad)], id: CommId) -> Vec<&(Route, Mad)> {
    let names = |mad: &Mad| {
        let (_, message) = Message::parse(mad).unwrap();
        match message {
            Message::Req(req) => req.local_comm_id == id,
            Message::SidrReq(req) => req.request_id == id,
            Message::SidrRep(rep) => rep.request_id == id,
            Message::Mra(_)
            | Message::Rej(_)
            | Message::Rep(_)
            | Message::Rtu(_)
            | Message::Dreq(_)
            | Message::Drep(_)
            | Message::Lap(_)
            | Message::Apr(_) => {
                let of = |at: usize| u32::from_be_bytes(*mad[at..].first_chunk().unwrap()) == id.0;
                of(24) || of(28)
            }
        }
    };
    all.iter().filter(|(_, mad)| names(mad)).collect()
}

#[test]
fn the_machine_says_the_same_in_every_captured_connection() {
    let all = captured();
    let mut made = (0, 0, 0);
    for (route, mad) in &all {
        let (_, Message::Req(req)) = Message::parse(mad).unwrap() else { continue };
        let exchange = exchange_of(&all, req.local_comm_id);
        let back = exchange[1].0;
        let mut near = End::new(1, req.local_ca_guid);
        let id = near.machine.connect(NOW, &as_connect(route, &req)).unwrap();
        let ours = near.says();
        assert_same(&ours, mad, "REQ");
        let (_, answer) = Message::parse(&exchange[1].1).unwrap();
        let Message::Rep(rep) = answer else {
            // Nobody listens.
            let mut far = End::new(2, Guid(7));
            assert!(far.hears(route, &ours).is_empty());
            let rej = far.says();
            assert_same(&rej, &exchange[1].1, "REJ");
            let events = near.hears(&back, &rej);
            assert!(matches!(&events[..], [(_, EventKind::Rejected(rej))] if rej.reason.0 == 8));
            made.0 += 1;
            continue;
        };
        let mut far = End::new(2, rep.local_ca_guid);
        far.listen(req.service_id);
        let [(asked, EventKind::Request { .. })] = far.hears(route, &ours)[..] else {
            panic!("it is asked")
        };
        far.machine.accept(NOW, asked, &as_accept(&rep)).unwrap();
        let ours = far.says();
        assert_same(&ours, &exchange[1].1, "REP");
        assert!(matches!(near.hears(&back, &ours)[..], [(_, EventKind::Reply(_))]));
        near.machine.ready(id).unwrap();
        let ours = near.says();
        assert_same(&ours, &exchange[2].1, "RTU");
        assert!(matches!(far.hears(route, &ours)[..], [(_, EventKind::Established)]));
        let [own, others] =
            [near.machine.parameters(id).unwrap(), far.machine.parameters(asked).unwrap()];
        agreed(own, others);
        let begins = (own.sq_psn, others.sq_psn);
        assert_eq!(begins, (Some(rep.starting_psn), Some(req.starting_psn)));
        made.1 += 1;
        // The rest: who ends it, or both.
        let rest = &exchange[3..];
        let from_near = |at: usize| rest[at].0.src == route.src;
        match rest.len() {
            0 => {}
            2 => {
                let (ends, agrees) =
                    if from_near(0) { (&mut near, &mut far) } else { (&mut far, &mut near) };
                let (own, others) = if from_near(0) { (id, asked) } else { (asked, id) };
                ends.machine.disconnect(NOW, own).unwrap();
                let dreq = ends.says();
                assert_same(&dreq, &rest[0].1, "DREQ");
                assert!(matches!(
                    agrees.hears(&rest[0].0, &dreq)[..],
                    [(_, EventKind::DisconnectRequest)]
                ));
                agrees.machine.disconnect(NOW, others).unwrap();
                let drep = agrees.says();
                assert_same(&drep, &rest[1].1, "DREP");
                ends.hears(&rest[1].0, &drep);
                made.2 += 1;
            }
            4 => {
                near.machine.disconnect(NOW, id).unwrap();
                far.machine.disconnect(NOW, asked).unwrap();
                let (a, b) = (near.says(), far.says());
                let (own, others) = if from_near(0) { (0, 1) } else { (1, 0) };
                assert_same(&a, &rest[own].1, "DREQ");
                assert_same(&b, &rest[others].1, "DREQ");
                near.hears(&back, &b);
                far.hears(route, &a);
                let said = [near.says(), far.says()];
                let is_from_near = |at: &usize| from_near(*at);
                let (own, others) = if is_from_near(&2) { (2, 3) } else { (3, 2) };
                assert_same(&said[0], &rest[own].1, "DREP");
                assert_same(&said[1], &rest[others].1, "DREP");
                made.2 += 1;
            }
            other => panic!("{other} more messages"),
        }
        if !rest.is_empty() {
            assert_eq!(near.machine.state(id), Some(State::Timewait));
            assert_eq!(far.machine.state(asked), Some(State::Timewait));
        }
    }
    assert_eq!(made, (3, 5, 5));
}

/// Both ends have the same in mind.
fn agreed(near: &Parameters, far: &Parameters) {
    assert_eq!((near.sq_psn, near.rq_psn), (far.rq_psn, far.sq_psn));
    assert_eq!(near.mtu, far.mtu);
    assert_eq!(
        (near.responder_resources, near.initiator_depth),
        (far.initiator_depth, far.responder_resources)
    );
}

#[test]
fn the_machine_resolves_a_datagram_service_in_the_same_words() {
    let all = captured();
    let is_request =
        |(_, mad): &&(Route, Mad)| matches!(Message::parse(mad).unwrap().1, Message::SidrReq(_));
    let (route, mad) = all.iter().find(is_request).unwrap();
    let (_, Message::SidrReq(req)) = Message::parse(mad).unwrap() else { unreachable!() };
    let SidrReq { service_id, private_data, request_id, .. } = req;
    assert_eq!(service_id.port(), Some((PortSpace::Udp, 7174)));
    let mut near = End::new(1, Guid(1));
    let ask = Resolve { tag: 0, route: *route, service_id, private_data };
    near.machine.resolve(NOW, &ask).unwrap();
    let ours = near.says();
    assert_same(&ours, mad, "SIDR_REQ");
    let mut far = End::new(2, Guid(2));
    far.listen(service_id);
    let [(asked, EventKind::ResolveRequest { .. })] = far.hears(route, &ours)[..] else {
        panic!("it is asked")
    };
    let (back, answer) = exchange_of(&all, request_id)[1];
    let (_, Message::SidrRep(rep)) = Message::parse(answer).unwrap() else { panic!("an answer") };
    far.machine.answer(NOW, asked, &SidrRep { private_data: Bytes::default(), ..rep }, 0).unwrap();
    let ours = far.says();
    assert_same(&ours, answer, "SIDR_REP");
    assert!(matches!(near.hears(back, &ours)[..], [(_, EventKind::Resolved(_))]));
    assert!(near.machine.is_empty() && far.machine.is_empty());
}
