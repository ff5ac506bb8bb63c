//! A responder with valid state and frames that were changed: request packets, of which what the
//! input does not ask to be left is made right (service, queue pair, sequence number, key, address,
//! lengths), so that changes of the rest get far.
//!
//! What must hold is judged from outside: what is out of turn or from elsewhere changes nothing;
//! what changes lies where the request may write, and the request has the right.

use core::ops::Range;

use softrnic_model::planted::Fault;
use softrnic_model::verbs::{Access, Key, QpType, SrqNum};
use softrnic_model::wire::{OpcodeFacts, Operation, Packet, Place, Service};

use crate::Target;
use crate::input::Input;
use crate::packet::Draft;
use crate::reach::{Reach, hit};
use crate::world::{BASE, LEN, QKEY, Setup, Step, World, harmless};

pub(crate) const TARGET: Target = Target {
    name: "responder",
    run,
    reaches: &[
        Reach::Placed,
        Reach::Received,
        Reach::Datagram,
        Reach::ReadAnswered,
        Reach::AtomicAnswered,
        Reach::NotReady,
        Reach::Refused,
    ],
    fault: Fault::Again,
};

/// What of a packet is left as it is.
mod leave {
    pub(super) const SERVICE: u8 = 1 << 0;
    pub(super) const ADDRESSED: u8 = 1 << 1;
    pub(super) const PSN: u8 = 1 << 2;
    pub(super) const KEY: u8 = 1 << 3;
    pub(super) const VA: u8 = 1 << 4;
    pub(super) const LENGTH: u8 = 1 << 5;
    /// It comes from somebody else.
    pub(super) const SOURCE: u8 = 1 << 6;
    /// A receive is posted before.
    pub(super) const RECEIVE: u8 = 1 << 7;
}

/// Types that are served, the interesting ones more often.
const TYPES: [QpType; 6] =
    [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcRecv, QpType::Rc, QpType::Rc];
/// Receives lie in the first bytes of the region.
const RECEIVES: Range<usize> = 0..4096;
const RECEIVE_LEN: u16 = 1024;
/// Packets of one run.
const PACKETS_MAX: usize = 64;

/// The message that is being received, as far as an onlooker knows.
#[derive(Default)]
struct Sight {
    /// What the last WRITE that began has named.
    write: Option<(Key, Range<u64>)>,
    /// Bytes of it that are still to come.
    left: usize,
}

fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let qp_type = input.one_of(&TYPES);
    let at = QpType::ALL.iter().position(|known| *known == qp_type).unwrap_or(0);
    let setup = Setup {
        qp_type: at as u8,
        mtu: input.u8(),
        srq: input.u8() & 1 == 1,
        receives: input.u8() % 4,
        psn: input.u32(),
        signal_all: false,
        own_peer: false,
        small_queues: false,
        window: 0,
    };
    let withheld = Access::from_bits_truncate(input.u8().into());
    let rights = (crate::world::RIGHTS - withheld) | Access::LOCAL_WRITE;
    let mut world = World::with_rights(&setup, rights);
    let mut sight = Sight::default();
    for _ in 0..PACKETS_MAX {
        if input.is_empty() {
            break;
        }
        let left = input.u8();
        let delta = input.u8() as i8;
        let len = input.u16();
        let bytes = input.take(len.into());
        if left & leave::RECEIVE != 0 {
            let offset = RECEIVE_LEN * u16::from(delta as u8 & 3);
            world.step(&Step::Recv { offset, len: RECEIVE_LEN, foreign: false });
        }
        let fixed = fix(&world, &sight, bytes, left, delta);
        deliver(&mut world, &mut sight, &fixed, left & leave::SOURCE == 0);
    }
    world.check();
}

/// A packet, made right but for what is left.
fn fix(world: &World, sight: &Sight, bytes: &[u8], left: u8, delta: i8) -> Vec<u8> {
    let bytes: Vec<u8> = bytes.iter().map(|byte| harmless(*byte)).collect();
    let Ok(packet) = Packet::parse(&bytes) else { return bytes };
    let fixes = |bit| left & bit == 0;
    let mut draft = Draft::of(&packet);
    if fixes(leave::SERVICE) {
        draft.move_to(world.service());
    }
    if fixes(leave::ADDRESSED) {
        draft.bth = draft.bth.with_dest_qp(world.qp).with_pkey(0xffff).with_transport_version(0);
        draft.qkey = QKEY;
        draft.srq = world.srq_number().map_or(0, SrqNum::get);
    }
    if fixes(leave::PSN) {
        draft.bth = draft.bth.with_psn(world.due().0.plus(i32::from(delta).cast_unsigned()));
    }
    if fixes(leave::KEY) {
        draft.key = world.key;
    }
    if fixes(leave::VA) {
        let va = BASE + draft.va % LEN as u64;
        let whole = draft.bth.opcode().facts().is_none_or(|facts| facts.payload);
        draft.va = if whole { va } else { va & !7 };
    }
    if fixes(leave::LENGTH)
        && let Some(facts) = draft.bth.opcode().facts()
    {
        let mtu = world.attributes.path_mtu.bytes() as usize;
        match (facts.place, facts.operation) {
            (_, Operation::AtomicWrite) => draft.payload.resize(8, 1),
            (Place::First | Place::Middle, _) => draft.payload.resize(mtu, 2),
            (Place::Last, Operation::Write) => draft.payload.resize(sight.left.clamp(1, mtu), 3),
            (Place::Last | Place::Only, _) => draft.payload.truncate(mtu),
        }
        draft.len = match (facts.place, facts.payload) {
            (Place::First, _) => (mtu * (1 + draft.len as usize % 3) + 8) as u32,
            (_, true) => draft.payload.len() as u32,
            (_, false) => draft.len % 4096,
        };
    }
    draft.bytes()
}

/// Hands over a packet and judges what came of it.
fn deliver(world: &mut World, sight: &mut Sight, bytes: &[u8], from_peer: bool) {
    world.poll();
    let (expected, before) = (world.due().0, world.region());
    let mut route = world.route();
    if !from_peer {
        route.src.0[15] ^= 0x80;
    }
    let packet = Packet::parse(bytes).ok();
    let facts = packet.as_ref().and_then(|packet| packet.facts);
    let reliable = world.qp_type.is_reliable();
    let in_turn = packet.as_ref().is_some_and(|packet| packet.bth.psn() == expected);
    let is_heard = (from_peer || world.qp_type == QpType::Ud) && (in_turn || !reliable);
    if let (true, Some(facts), Some(packet)) = (is_heard, facts, &packet) {
        look(sight, facts, packet);
    }
    world.hand(&route, bytes);
    world.drain();
    let received = world.poll().len();
    let after = world.region();
    let changed = changed(&before, &after);
    let now = world.due().0;
    if !is_heard {
        assert!(changed.is_none(), "out of turn or from elsewhere, and it wrote: {packet:?}");
        assert_eq!(now, expected, "out of turn or from elsewhere: {packet:?}");
        assert_eq!(received, 0, "out of turn or from elsewhere: {packet:?}");
    }
    let taken = now.offset_from(expected);
    let (Some(packet), Some(facts)) = (&packet, facts) else {
        assert!(changed.is_none() && taken == 0, "{bytes:02x?}");
        return;
    };
    if reliable {
        assert!(taken <= psns(facts, packet, world), "{taken} sequence numbers for {packet:?}");
    }
    if let Some(range) = changed {
        hit(Reach::Placed);
        justify(world, sight, facts, packet, &range);
    }
}

/// Notes what a WRITE names, and how much of it is to come.
fn look(sight: &mut Sight, facts: &OpcodeFacts, packet: &Packet<'_>) {
    if let (Operation::Write | Operation::AtomicWrite, Some(reth)) =
        (facts.operation, packet.reth())
    {
        let end = reth.va().saturating_add(reth.len().into());
        sight.write = Some((reth.rkey(), reth.va()..end));
        sight.left = reth.len() as usize;
    }
    if facts.operation == Operation::Write {
        sight.left = sight.left.saturating_sub(packet.payload.len());
    }
}

/// How many sequence numbers a request may take.
fn psns(facts: &OpcodeFacts, packet: &Packet<'_>, world: &World) -> u32 {
    match (facts.operation, packet.reth()) {
        (Operation::ReadRequest, Some(reth)) => {
            reth.len().div_ceil(world.attributes.path_mtu.bytes()).max(1)
        }
        _ => 1,
    }
}

fn changed(before: &[u8], after: &[u8]) -> Option<Range<usize>> {
    let differs = |at: &usize| before[*at] != after[*at];
    let first = (0..before.len()).find(differs)?;
    let last = (0..before.len()).rev().find(differs)?;
    Some(first..last + 1)
}

/// Whether the request may have written there.
fn justify(
    world: &World,
    sight: &Sight,
    facts: &OpcodeFacts,
    packet: &Packet<'_>,
    range: &Range<usize>,
) {
    let inside = |whole: &Range<u64>| {
        whole.start <= BASE + range.start as u64 && BASE + range.end as u64 <= whole.end
    };
    let right = match facts.operation {
        Operation::Send => {
            assert!(range.end <= RECEIVES.end, "{range:?} is no receive: {packet:?}");
            return;
        }
        Operation::Write | Operation::AtomicWrite => {
            let Some((key, named)) = &sight.write else { panic!("nothing was named: {packet:?}") };
            assert!(*key == world.key && inside(named), "{range:?} of {named:x?}: {packet:?}");
            Access::REMOTE_WRITE
        }
        Operation::CompareSwap | Operation::FetchAdd => {
            let Some(eth) = packet.atomic_eth() else { panic!("{packet:?}") };
            assert!(eth.rkey() == world.key && inside(&(eth.va()..eth.va() + 8)), "{packet:?}");
            Access::REMOTE_ATOMIC
        }
        Operation::ReadRequest
        | Operation::ReadResponse
        | Operation::Acknowledge
        | Operation::AtomicAcknowledge
        | Operation::Flush
        | Operation::CongestionNotification => panic!("it writes nothing: {packet:?}"),
    };
    assert!(world.rights.contains(right), "without the right: {packet:?}");
}

/// Packets of a requester, to be made right: datagrams for UD, others for one of the other types;
/// every third seed brings no receives.
pub(crate) fn seed(n: usize, packets: &[Vec<u8>]) -> Vec<u8> {
    let facts = packets.first().and_then(|bytes| Packet::parse(bytes).ok()?.facts);
    let is_datagram = facts.is_some_and(|facts| facts.service == Service::Ud);
    let qp_type =
        if is_datagram { QpType::Ud } else { [QpType::Rc, QpType::Uc, QpType::XrcRecv][n % 3] };
    let at = TYPES.iter().position(|known| *known == qp_type).unwrap_or(0);
    let (receives, left) = if n % 3 == n / 3 % 3 { (0, 0) } else { (3, leave::RECEIVE) };
    let mut seed = vec![at as u8, (n / 3) as u8, 0, receives];
    seed.extend(0x00ff_fffe_u32.to_le_bytes());
    seed.push(0);
    // In turn, and the last one again with the number of the one before it.
    let in_turn = packets.iter().map(|packet| (packet, 0_i8));
    for (packet, delta) in in_turn.chain(packets.last().map(|packet| (packet, -2))) {
        seed.extend([left, delta as u8]);
        seed.extend((packet.len() as u16).to_le_bytes());
        seed.extend(packet);
    }
    seed
}
