//! A requester under forged responses: requests under way, and packets of a peer of which what the
//! input does not ask to be left is made right.
//!
//! What must hold is judged from outside: requests complete in order and once; with success only
//! if packets that acknowledge all of them were there; a READ is complete only if all its bytes are
//! the peer's; nothing is written but where a READ or atomic waits; and in the end all complete.

use core::ops::Range;

use softrnic_model::planted::Fault;
use softrnic_model::verbs::{
    Mtu, Psn, QpType, SendFlags, SendOp, SendWr, Sge, SrqNum, Wc, WcStatus,
};
use softrnic_model::wire::{NakCode, Opcode, Operation, Packet, Place, Syndrome};

use crate::Target;
use crate::input::Input;
use crate::packet::Draft;
use crate::reach::Reach;
use crate::world::{BASE, FILL, Setup, World};

pub(crate) const TARGET: Target = Target {
    name: "requester",
    run,
    reaches: &[
        Reach::Sent,
        Reach::ReadCompleted,
        Reach::AtomicCompleted,
        Reach::FailedByPeer,
        Reach::SentAgain,
    ],
    fault: Fault::Ahead,
};

/// What of a packet is left as it is.
mod leave {
    pub(super) const SERVICE: u8 = 1 << 0;
    pub(super) const ADDRESSED: u8 = 1 << 1;
    pub(super) const PSN: u8 = 1 << 2;
    pub(super) const SYNDROME: u8 = 1 << 3;
    pub(super) const LENGTH: u8 = 1 << 4;
    /// Otherwise it is what the oldest request waits for.
    pub(super) const OPERATION: u8 = 1 << 5;
    /// It comes from somebody else.
    pub(super) const SOURCE: u8 = 1 << 6;
    /// Time passes before.
    pub(super) const LATE: u8 = 1 << 7;
}

const TYPES: [QpType; 3] = [QpType::Rc, QpType::Rc, QpType::XrcSend];
const REQUESTS_MAX: usize = 6;
/// Bytes of each request's buffer.
const BUFFER: usize = 1024;
const PACKETS_MAX: usize = 64;
/// All bytes of the peer have it, none of the program.
const PEERS: u8 = 0x80;
/// As long as an acknowledgement takes at most, in nanoseconds.
const TIMEOUT_NS: u64 = 10_000;

/// A request under way.
struct Request {
    operation: Operation,
    /// Its sequence numbers, counted from the first of all.
    psns: Range<u32>,
    buffer: Range<usize>,
}

struct Run {
    world: World,
    first: Psn,
    requests: Vec<Request>,
    completed: usize,
    /// Everything before it was acknowledged by some packet.
    covered: u32,
    /// Everything before it has left.
    sent: u32,
    naks: Vec<NakCode>,
    region: Vec<u8>,
}

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut run = Run::new(&mut input);
    for _ in 0..PACKETS_MAX {
        if input.is_empty() {
            break;
        }
        let left = input.u8();
        let delta = input.u8() as i8;
        let len = input.u16();
        let bytes = input.take(len.into());
        if left & leave::LATE != 0 {
            run.pass(TIMEOUT_NS);
        }
        let packet = run.fix(bytes, left, delta);
        run.deliver(&packet, left & leave::SOURCE == 0);
    }
    run.finish();
}

impl Run {
    fn new(input: &mut Input<'_>) -> Self {
        let qp_type = input.one_of(&TYPES);
        let at = QpType::ALL.iter().position(|known| *known == qp_type).unwrap_or(0);
        let setup = Setup {
            qp_type: at as u8,
            mtu: input.u8() % 3,
            srq: false,
            receives: 0,
            psn: input.u32(),
            signal_all: true,
            own_peer: false,
            small_queues: false,
            window: 0,
        };
        let world = World::new(&setup);
        let region = world.region();
        let (first, requests) = (Psn::new(setup.psn), Vec::new());
        let mut run = Self {
            world,
            first,
            requests,
            completed: 0,
            covered: 0,
            sent: 0,
            naks: Vec::new(),
            region,
        };
        for _ in 0..1 + usize::from(input.u8()) % REQUESTS_MAX {
            let (kind, len) = (input.u8(), usize::from(input.u16()) % (BUFFER + 1));
            run.post(kind, len);
        }
        run.settle();
        run
    }

    fn mtu(&self) -> usize {
        self.world.attributes.path_mtu.bytes() as usize
    }

    fn post(&mut self, kind: u8, len: usize) {
        let index = self.requests.len();
        let at = BASE + (BUFFER * index) as u64;
        let (remote_addr, rkey) = (0x7000, self.world.key);
        let (op, operation, len) = match kind % 5 {
            0 => (SendOp::Send { imm: None, invalidate: None }, Operation::Send, len),
            1 => (SendOp::Write { remote_addr, rkey, imm: None }, Operation::Write, len),
            2 => (SendOp::FetchAdd { remote_addr, rkey, add: 1 }, Operation::FetchAdd, 8),
            _ => (SendOp::Read { remote_addr, rkey }, Operation::ReadRequest, len),
        };
        let sges = [Sge { addr: at, length: len as u32, lkey: self.world.key }];
        let wr = SendWr {
            wr_id: index as u64,
            op,
            flags: SendFlags::empty(),
            sges: &sges,
            remote_srq: SrqNum::new(9),
            ..SendWr::default()
        };
        if self.world.device.post_send(self.world.qp, &wr).is_ok() {
            let start = self.requests.last().map_or(0, |request| request.psns.end);
            let packets =
                if operation == Operation::FetchAdd { 1 } else { len.div_ceil(self.mtu()).max(1) };
            let psns = start..start + packets as u32;
            let buffer = BUFFER * index..BUFFER * index + len;
            self.requests.push(Request { operation, psns, buffer });
        }
    }

    /// The request that the next response should be for.
    fn waiting(&self) -> Option<&Request> {
        self.requests.iter().find(|request| request.psns.contains(&self.covered))
    }

    /// A packet, made right but for what is left.
    fn fix(&self, bytes: &[u8], left: u8, delta: i8) -> Vec<u8> {
        let Ok(packet) = Packet::parse(bytes) else { return bytes.to_vec() };
        let fixes = |bit| left & bit == 0;
        let mut draft = Draft::of(&packet);
        if fixes(leave::OPERATION)
            && let Some(request) = self.waiting()
        {
            let (operation, place) = answer(request, self.covered);
            let service = self.world.service();
            let opcode = Opcode::compose(service, operation, place, false, false);
            draft.set_opcode(opcode.unwrap());
            if fixes(leave::LENGTH) {
                let done = (self.covered - request.psns.start) as usize * self.mtu();
                let rest = request.buffer.len().saturating_sub(done);
                draft.payload.resize(rest.min(self.mtu()), 0);
            }
        }
        if fixes(leave::SERVICE) {
            draft.move_to(self.world.service());
        }
        if fixes(leave::ADDRESSED) {
            let bth = draft.bth.with_dest_qp(self.world.qp).with_pkey(0xffff);
            draft.bth = bth.with_transport_version(0);
        }
        if fixes(leave::PSN) {
            let due = self.first.plus(self.covered);
            draft.bth = draft.bth.with_psn(due.plus(i32::from(delta).cast_unsigned()));
        }
        if fixes(leave::SYNDROME) {
            draft.syndrome = Syndrome::ACK;
        }
        draft.original = u64::from_ne_bytes([PEERS | 1; 8]);
        // A guard's byte is not the peer's.
        draft.payload.iter_mut().for_each(|byte| *byte = (*byte | PEERS) & !0x20);
        draft.bytes()
    }

    fn deliver(&mut self, bytes: &[u8], from_peer: bool) {
        let mut route = self.world.route();
        if !from_peer {
            route.src.0[15] ^= 0x80;
        }
        if from_peer && let Ok(packet) = Packet::parse(bytes) {
            self.look(&packet);
        }
        self.world.hand(&route, bytes);
        self.settle();
    }

    /// Notes what a packet acknowledges, at most.
    fn look(&mut self, packet: &Packet<'_>) {
        let Some(facts) = packet.facts else { return };
        let offset = packet.bth.psn().offset_from(self.first);
        if !facts.operation.is_response() || offset >= self.sent {
            return;
        }
        let covered = match packet.aeth().map(|aeth| aeth.syndrome()) {
            Some(Syndrome::Reserved(_)) => return,
            Some(Syndrome::Nak(code)) => {
                self.naks.push(code);
                offset
            }
            Some(Syndrome::RnrNak { .. }) => offset,
            Some(Syndrome::Ack { .. }) | None => offset + 1,
        };
        self.covered = self.covered.max(covered);
    }

    fn pass(&mut self, ns: u64) {
        self.world.now = self.world.now.plus_ns(ns);
        self.world.device.on_time(self.world.now);
        self.settle();
    }

    /// Lets out what is due, and judges what has completed and what has changed.
    fn settle(&mut self) {
        for bytes in self.world.drain() {
            let Ok(packet) = Packet::parse(&bytes) else { continue };
            // To a request of the peer it answers, too.
            if packet.facts.is_none_or(|facts| facts.operation.is_response()) {
                continue;
            }
            let offset = packet.bth.psn().offset_from(self.first);
            let of = self.requests.iter().find(|request| request.psns.contains(&offset));
            let Some(request) = of else { panic!("no request has its number: {packet:?}") };
            let is_read = request.operation == Operation::ReadRequest;
            self.sent = self.sent.max(if is_read { request.psns.end } else { offset + 1 });
        }
        self.judge_memory();
        for wc in self.world.poll() {
            self.judge(&wc);
        }
    }

    fn judge_memory(&mut self) {
        let now = self.world.region();
        let open = &self.requests[self.completed..];
        for (at, (new, old)) in now.iter().zip(&self.region).enumerate() {
            if new != old {
                let waits = open.iter().any(|request| {
                    let reads =
                        matches!(request.operation, Operation::ReadRequest | Operation::FetchAdd);
                    reads && request.buffer.contains(&at)
                });
                assert!(waits, "byte {at} of nothing that is waited for was written");
                assert!(new & PEERS != 0, "byte {at} is not the peer's: {new:#x}");
            }
        }
        self.region = now;
    }

    fn judge(&mut self, wc: &Wc) {
        assert_eq!(wc.wr_id, self.completed as u64, "in order and once: {wc:?}");
        let request = &self.requests[self.completed];
        self.completed += 1;
        match wc.status {
            WcStatus::Success => {
                assert!(
                    request.psns.end <= self.covered,
                    "{wc:?}, {} of {:?}",
                    self.covered,
                    request.psns
                );
                if matches!(request.operation, Operation::ReadRequest | Operation::FetchAdd) {
                    let bytes = &self.region[request.buffer.clone()];
                    assert!(bytes.iter().all(|byte| *byte != FILL), "{wc:?}: not all has come");
                }
            }
            WcStatus::RemoteAccessError => assert!(self.naks.contains(&NakCode::RemoteAccess)),
            WcStatus::RemoteOperationError => {
                assert!(self.naks.contains(&NakCode::RemoteOperational));
            }
            WcStatus::RemoteInvalidRequest => assert!(!self.naks.is_empty(), "{wc:?}"),
            _ => {}
        }
    }

    /// With nobody to answer any more, everything comes to an end.
    fn finish(&mut self) {
        for _ in 0..200 {
            let Some(at) = self.world.device.next_deadline() else { break };
            let ns = at.ns_since(self.world.now);
            self.pass(ns);
        }
        assert_eq!(self.completed, self.requests.len(), "it never ends");
        self.world.check();
    }
}

/// What answers the packet at `psn` of a request.
fn answer(request: &Request, psn: u32) -> (Operation, Place) {
    match request.operation {
        Operation::ReadRequest => {
            let place = match (psn == request.psns.start, psn + 1 == request.psns.end) {
                (true, true) => Place::Only,
                (true, false) => Place::First,
                (false, true) => Place::Last,
                (false, false) => Place::Middle,
            };
            (Operation::ReadResponse, place)
        }
        Operation::FetchAdd => (Operation::AtomicAcknowledge, Place::Only),
        _ => (Operation::Acknowledge, Place::Only),
    }
}

/// Packets of a responder, to be made right; `left` as they are in some respects.
pub(crate) fn seed(requests: &[(u8, u16)], left: u8, packets: &[Vec<u8>]) -> Vec<u8> {
    let mtu = Mtu::ALL.iter().position(|mtu| *mtu == Mtu::B256).unwrap_or(0);
    let mut seed = vec![0, mtu as u8];
    seed.extend(0x00ff_fffe_u32.to_le_bytes());
    seed.push(requests.len() as u8 - 1);
    for (kind, len) in requests {
        seed.push(*kind);
        seed.extend(len.to_le_bytes());
    }
    for packet in packets {
        seed.extend([left, 0]);
        seed.extend((packet.len() as u16).to_le_bytes());
        seed.extend(packet);
    }
    seed
}

/// What seeds leave as it is: the syndrome; or the operation, too.
pub(crate) const LEFT: [u8; 3] = [0, leave::SYNDROME, leave::SYNDROME | leave::OPERATION];
