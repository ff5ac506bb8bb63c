//! Mutated request packets for a responder that is in order: numbers are put right (queue pair,
//! sequence number, key, address, lengths) unless the input says otherwise, so that what was changed
//! reaches the checks behind. Bytes without a right never change and never leave, and what is
//! answered can be read.

use softrnic_model::counters::Counter;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, Gid, Key, Mtu, QpAttributeMask as M, QpAttributes, QpCapabilities,
    QpCreateFlags, QpInit, QpNum, QpState, QpType, RecvWr, Sge, Wc,
};
use softrnic_model::wire::{Opcode, Packet, Route};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant, MemoryId};
use softrnic_transport::sim::SimMemory;

use crate::{Bytes, Reached};

const BASE: u64 = 0x10_0000;
const LEN: usize = 8192;
/// What lies around the region, and no packet brings.
const GUARD: u8 = 0xa5;
const AROUND: usize = 4096;
const OURS: Gid = Gid::from_v4([10, 0, 0, 1]);
const THEIRS: Gid = Gid::from_v4([10, 0, 0, 2]);

struct World {
    device: Device,
    memory: SimMemory,
    id: MemoryId,
    qp: QpNum,
    key: Key,
    now: Instant,
}

impl World {
    fn new(qp_type: QpType, mtu: Mtu, receives: u8) -> Self {
        let memory = SimMemory::default();
        let mut bytes = vec![GUARD; LEN + 2 * AROUND];
        bytes[AROUND..AROUND + LEN].fill(0);
        let id = memory.add(bytes);
        let mut device = Device::new(DeviceConfig { gids: vec![OURS], ..DeviceConfig::default() });
        let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(4096).unwrap());
        let access = Access::LOCAL_WRITE | Access::REMOTE | Access::FLUSH_GLOBAL;
        let spec = RegionSpec {
            pd,
            memory: id,
            memory_offset: AROUND as u64,
            addr: BASE,
            length: LEN as u64,
            access,
        };
        let key = device.register(spec).unwrap();
        let cap = QpCapabilities {
            max_send_wr: 4,
            max_recv_wr: 64,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let init = QpInit {
            pd,
            qp_type,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap,
            signal_all: false,
            create_flags: QpCreateFlags::empty(),
        };
        let qp = device.create_qp(&init).unwrap();
        let attributes = QpAttributes {
            access: Access::REMOTE | Access::FLUSH_GLOBAL,
            path: AddressVector { dgid: THEIRS, ..AddressVector::default() },
            path_mtu: mtu,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 1,
            ..QpAttributes::default()
        };
        let connected = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let (own, ready) = match qp_type {
            QpType::Ud => (M::QKEY, M::empty()),
            QpType::Uc => (M::ACCESS_FLAGS, connected),
            _ => (M::ACCESS_FLAGS, connected | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER),
        };
        let to = |state| QpAttributes { state, ..attributes };
        let first = M::STATE | M::PKEY_INDEX | M::PORT | own;
        device.modify_qp(qp, &to(QpState::Init), first).unwrap();
        device.modify_qp(qp, &to(QpState::Rtr), M::STATE | ready).unwrap();
        for wr_id in 0..u64::from(receives % 64) {
            let sges = [Sge { addr: BASE, length: 4096 + 40, lkey: key }];
            device.post_recv(qp, &RecvWr { wr_id, sges: &sges }).unwrap();
        }
        Self { device, memory, id, qp, key, now: Instant::ZERO }
    }

    /// Puts numbers right that the input does not want wrong.
    fn put_right(&self, packet: &mut [u8], wrong: u8) {
        let Some(opcode) = packet.first().copied() else { return };
        if packet.len() < 12 {
            return;
        }
        if wrong & 1 == 0 {
            packet[5..8].copy_from_slice(&self.qp.get().to_be_bytes()[1..]);
            packet[2..4].copy_from_slice(&[0xff, 0xff]);
            if Packet::parse(packet).is_ok_and(|parsed| parsed.deth().is_some()) {
                // The Q_Key.
                packet[12..16].fill(0);
            }
        }
        if wrong & 2 == 0
            && let Ok((at, _)) = self.device.query_qp(self.qp)
        {
            packet[9..12].copy_from_slice(&at.rq_psn.get().to_be_bytes()[1..]);
        }
        let Some(facts) = Opcode(opcode).facts() else { return };
        let header = facts.header_len();
        if wrong & 4 == 0 && packet.len() > header {
            // As much padding as the length says.
            let pad = packet[1] & 0xcf;
            packet[1] = pad;
        }
        let reth = 12 + usize::from(packet[0] & 0x1f == 0x1c) * 4;
        let names = Packet::parse(packet)
            .is_ok_and(|parsed| parsed.reth().is_some() || parsed.atomic_eth().is_some());
        if wrong & 8 == 0 && names && packet.len() >= reth + 12 {
            let va: [u8; 8] = packet[reth..reth + 8].try_into().unwrap_or_default();
            let offset = (u64::from_be_bytes(va) % (LEN as u64 - 4096)) & !7;
            packet[reth..reth + 8].copy_from_slice(&(BASE + offset).to_be_bytes());
            packet[reth + 8..reth + 12].copy_from_slice(&self.key.0.to_be_bytes());
        }
        let has_reth = Packet::parse(packet).is_ok_and(|parsed| parsed.reth().is_some());
        if wrong & 16 == 0 && has_reth && packet.len() >= reth + 16 {
            let said: [u8; 4] = packet[reth + 12..reth + 16].try_into().unwrap_or_default();
            let carried = (packet.len() - header) as u32;
            let long = u32::from_be_bytes(said) % 4096;
            let len = if facts.payload && facts.place.ends() { carried } else { long };
            packet[reth + 12..reth + 16].copy_from_slice(&len.to_be_bytes());
        }
    }

    fn drain(&mut self) {
        let mut frame = FrameOut::default();
        let mut frames = 0;
        while self.device.next_frame(&mut frame) {
            frames += 1;
            assert!(frames < 100_000, "endless sending");
            let mut bytes = vec![0; frame.len()];
            if !self.device.fill(self.now, &self.memory, &frame, &mut bytes) {
                continue;
            }
            let packet = Packet::parse(&bytes).expect("the device made what it cannot read");
            let mut runs = packet.payload.split(|byte| *byte != GUARD);
            assert!(runs.all(|run| run.len() < 64), "bytes without a right have left");
        }
        while self.device.next_event().is_some() {}
        let bytes = self.memory.bytes(self.id);
        let untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == GUARD);
        assert!(untouched(&bytes[..AROUND]) && untouched(&bytes[AROUND + LEN..]), "written beyond");
    }
}

/// Feeds what these bytes say.
pub fn run(bytes: &[u8]) -> Reached {
    let bytes = &mut Bytes(bytes);
    let qp_type = [QpType::Rc, QpType::Uc, QpType::Ud][usize::from(bytes.u8() % 3)];
    let mtu = Mtu::ALL[usize::from(bytes.u8() % 5)];
    let receives = bytes.u8();
    let mut world = World::new(qp_type, mtu, receives);
    let cq = world.device.query_qp(world.qp).unwrap().1.recv_cq;
    for _ in 0..64 {
        if bytes.is_empty() {
            break;
        }
        let (wrong, gap) = (bytes.u8(), bytes.u8());
        let len = usize::from(bytes.u16());
        let mut packet = bytes.take(len).to_vec();
        packet.iter_mut().filter(|byte| **byte == GUARD).for_each(|byte| *byte = 0);
        packet.resize(packet.len().next_multiple_of(4), 0);
        world.put_right(&mut packet, wrong);
        world.now = world.now.plus_ns(u64::from(gap) * 1000);
        let route =
            Route { src: THEIRS, dst: OURS, src_port: 0xc000, hop_limit: 63, ..Route::default() };
        world.device.on_frame(world.now, &world.memory, &route, &packet);
        world.device.on_time(world.now);
        world.drain();
        let mut some = [Wc::default(); 8];
        while matches!(world.device.poll_cq(cq, &mut some), Ok(1..)) {}
    }
    let of = |counter| world.device.counters().get(counter);
    let written = world.memory.bytes(world.id)[AROUND..AROUND + LEN].iter().any(|byte| *byte != 0);
    Reached {
        executed: of(Counter::RdmaReceives) + u64::from(written),
        datagrams: u64::from(qp_type == QpType::Ud) * of(Counter::RdmaReceives),
        not_ready: of(Counter::SentRnrNak),
    }
}
