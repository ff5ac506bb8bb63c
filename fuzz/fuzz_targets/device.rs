//! A whole device under a sequence of verbs and frames. Bytes outside the registered region never
//! change, nothing panics, and every frame that the device makes parses.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, AddressVector, Gid, Key, Mtu, Psn, QpAttributeMask as M, QpAttributes, QpCapabilities,
    QpInit, QpNum, QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, Wc,
};
use softrnic_model::wire::{Packet, Route};
use softrnic_model::{Device, DeviceConfig, Instant};
use softrnic_transport::sim::SimMemory;

#[derive(Arbitrary, Debug)]
enum Step {
    /// A packet whose header fields are near what the queue pair expects.
    Near { opcode: u8, flags: u8, psn: i8, ack: bool, body: Vec<u8>, key: KeyChoice, va: i16, len: u32 },
    /// Any bytes.
    Raw(Vec<u8>),
    Send { op: u8, offset: u16, len: u16, remote: i16, key: KeyChoice, fence: bool },
    Recv { offset: u16, len: u16 },
    Time(u32),
    Modify(u8),
    Deregister,
    Unmap,
    Poll,
}

#[derive(Arbitrary, Debug, Clone, Copy)]
enum KeyChoice {
    Right,
    Stale,
    Any(u32),
}

#[derive(Arbitrary, Debug)]
struct Run {
    qp_type: u8,
    psn: u32,
    mtu: u8,
    steps: Vec<Step>,
}

const BASE: u64 = 0x1_0000;
const LEN: usize = 8192;
/// The region lies in the middle of the memory; what is around it must stay.
const BEFORE: usize = 4096;
const GUARD: u8 = 0xa5;

fuzz_target!(|run: Run| {
    let ours = Gid::from_v4([10, 0, 0, 1]);
    let theirs = Gid::from_v4([10, 0, 0, 2]);
    let memory = SimMemory::default();
    let id = memory.add(vec![GUARD; BEFORE + LEN + 4096]);
    let mut device = Device::new(DeviceConfig { gids: vec![ours], ..DeviceConfig::default() });
    let pd = device.alloc_pd().unwrap();
    let cq = device.create_cq(512).unwrap();
    let access = Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND;
    let spec = RegionSpec {
        pd,
        memory: id,
        memory_offset: BEFORE as u64,
        addr: BASE,
        length: LEN as u64,
        access,
    };
    let key = device.register(spec).unwrap();
    let qp_type = [QpType::Rc, QpType::Uc, QpType::Ud][usize::from(run.qp_type % 3)];
    let cap = QpCapabilities {
        max_send_wr: 8,
        max_recv_wr: 8,
        max_send_sge: 2,
        max_recv_sge: 2,
        max_inline_data: 16,
    };
    let init =
        QpInit { pd, qp_type, send_cq: cq, recv_cq: cq, srq: None, cap, signal_all: true };
    let qp = device.create_qp(&init).unwrap();
    let attributes = QpAttributes {
        access: Access::REMOTE,
        qkey: 1,
        path: AddressVector { dgid: theirs, ..AddressVector::default() },
        path_mtu: Mtu::ALL[usize::from(run.mtu % 5)],
        dest_qp: QpNum::new(0x77),
        rq_psn: Psn::new(run.psn),
        sq_psn: Psn::new(run.psn),
        max_dest_rd_atomic: 2,
        max_rd_atomic: 2,
        min_rnr_timer: 1,
        timeout: 1,
        retry_count: 2,
        rnr_retry: 2,
        ..QpAttributes::default()
    };
    let to = |device: &mut Device, state: QpState| {
        let own = match (state, qp_type) {
            (QpState::Init, QpType::Ud) => M::PKEY_INDEX | M::PORT | M::QKEY,
            (QpState::Init, _) => M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS,
            (QpState::Rtr, QpType::Rc) => {
                M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER
            }
            (QpState::Rtr, QpType::Uc) => M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN,
            (QpState::Rts, QpType::Rc) => {
                M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY
            }
            (QpState::Rts, _) => M::SQ_PSN,
            _ => M::empty(),
        };
        let _ = device.modify_qp(qp, &QpAttributes { state, ..attributes }, M::STATE | own);
    };
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        to(&mut device, state);
    }
    let route = Route { src: theirs, dst: ours, src_port: 0xc000, hop_limit: 60, ..Route::default() };
    let mut now = Instant::ZERO;
    let mut wcs = [Wc::default(); 16];
    let pick = |choice: KeyChoice| match choice {
        KeyChoice::Right => key,
        KeyChoice::Stale => Key(key.0 ^ 1),
        KeyChoice::Any(raw) => Key(raw),
    };
    let near = |delta: i16| BASE.wrapping_add(i64::from(delta) as u64);
    for step in run.steps.iter().take(64) {
        match step {
            Step::Near { opcode, flags, psn, ack, body, key, va, len } => {
                let expected = device.query_qp(qp).map_or(0, |(at, _)| at.rq_psn.get());
                let psn = Psn::new(expected.wrapping_add(i32::from(*psn) as u32));
                let mut bytes = vec![*opcode, *flags, 0xff, 0xff];
                bytes.extend(qp.get().to_be_bytes());
                bytes.extend((psn.get() | u32::from(*ack) << 31).to_be_bytes());
                bytes.extend(near(*va).to_be_bytes());
                bytes.extend(pick(*key).0.to_be_bytes());
                bytes.extend(len.to_be_bytes());
                bytes.extend(body);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                device.on_frame(now, &memory, &route, &bytes);
            }
            Step::Raw(bytes) => device.on_frame(now, &memory, &route, bytes),
            Step::Send { op, offset, len, remote, key: choice, fence } => {
                let (remote_addr, rkey) = (near(*remote), pick(*choice));
                let op = match op % 5 {
                    0 => SendOp::Send { imm: None, invalidate: None },
                    1 => SendOp::Write { remote_addr, rkey, imm: None },
                    2 => SendOp::Read { remote_addr, rkey },
                    3 => SendOp::FetchAdd { remote_addr, rkey, add: 1 },
                    _ => SendOp::LocalInvalidate { key: rkey },
                };
                let length = if op.is_answered_with_data() && !matches!(op, SendOp::Read { .. }) {
                    8
                } else {
                    u32::from(*len)
                };
                let sges = [Sge { addr: BASE + u64::from(*offset), length, lkey: key }];
                let sges = if matches!(op, SendOp::LocalInvalidate { .. }) { &[][..] } else { &sges };
                let fence = if *fence { SendFlags::FENCE } else { SendFlags::empty() };
                let wr = SendWr { wr_id: 1, op, flags: fence, sges, inline: &[] };
                let _ = device.post_send(qp, &wr);
            }
            Step::Recv { offset, len } => {
                let addr = BASE + u64::from(*offset);
                let sges = [Sge { addr, length: u32::from(*len), lkey: key }];
                let _ = device.post_recv(qp, &RecvWr { wr_id: 2, sges: &sges });
            }
            Step::Time(ns) => {
                now = now.plus_ns(u64::from(*ns));
                device.on_time(now);
            }
            Step::Modify(state) => to(&mut device, QpState::ALL[usize::from(state % 7)]),
            Step::Deregister => {
                let _ = device.deregister(key);
            }
            Step::Unmap => memory.unmap(id),
            Step::Poll => {
                let _ = device.poll_cq(cq, &mut wcs);
            }
        }
        let mut frames = 0;
        while let Some(frame) = device.next_frame() {
            let mut bytes = vec![0; frame.len()];
            if device.fill(now, &memory, &frame, &mut bytes) {
                assert!(Packet::parse(&bytes).is_ok(), "the device made what it cannot read");
            }
            frames += 1;
            assert!(frames < 100_000, "endless sending");
        }
        while device.next_event().is_some() {}
        let bytes = memory.bytes(id);
        if !bytes.is_empty() {
            assert!(bytes[..BEFORE].iter().all(|byte| *byte == GUARD), "written before the region");
            assert!(bytes[BEFORE + LEN..].iter().all(|b| *b == GUARD), "written after the region");
        }
    }
});
