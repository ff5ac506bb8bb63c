//! Operations a second between two devices in one thread: RC WRITE of 8 bytes, signalled, 32 under
//! way.
use std::time::Instant;

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, Gid, Key, Mtu, Psn, QpAttributeMask as M, QpAttributes, QpCapabilities, QpInit, QpNum,
    QpState, QpType, SendFlags, SendOp, SendWr, Sge, Wc, WcFlags, WcOpcode, WcStatus,
};
use softrnic_model::{Device, DeviceConfig};
use softrnic_transport::sim::{Fabric, FabricConfig};

fn main() {
    for icrc in [false, true] {
        let mut best: f64 = 0.0;
        for _ in 0..if std::env::var("OPS").is_ok() { 1 } else { 5 } {
            best = best.max(run(icrc));
        }
        println!("icrc {icrc}: {:.2} M/s, {:.0} ns", best / 1e6, 1e9 / best);
    }
}

fn run(icrc: bool) -> f64 {
    let mut fabric = Fabric::new(FabricConfig { latency_ns: 0, icrc });
    let mut ends = Vec::new();
    for ip in [1, 2] {
        let gids = vec![Gid::from_v4([10, 0, 0, ip])];
        let host = fabric.add_host(Device::new(DeviceConfig { gids, ..DeviceConfig::default() }));
        let h = fabric.host_mut(host);
        let memory = h.memory.add(vec![0; 1 << 20]);
        let pd = h.device.alloc_pd().unwrap();
        let cq = h.device.create_cq(256).unwrap();
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let spec = RegionSpec { pd, memory, memory_offset: 0, addr: 0, length: 1 << 20, access };
        let key = h.device.register(spec).unwrap();
        let cap = QpCapabilities {
            max_send_wr: 64,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let init = QpInit {
            pd,
            qp_type: QpType::Rc,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            cap,
            signal_all: false,
        };
        let qp = h.device.create_qp(&init).unwrap();
        ends.push((host, cq, qp, key));
    }
    for (me, peer) in [(0, 1), (1, 0)] {
        let dgid = fabric.host(ends[peer].0).device.gids()[0];
        let dest_qp = ends[peer].2;
        let (host, _, qp, _) = ends[me];
        let device = &mut fabric.host_mut(host).device;
        let mut at = QpAttributes {
            state: QpState::Init,
            access: Access::REMOTE,
            path_mtu: Mtu::B1024,
            dest_qp,
            rq_psn: Psn::new(0),
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            ..QpAttributes::default()
        };
        at.path.dgid = dgid;
        let init = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        let rtr = M::STATE
            | M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER;
        let rts =
            M::STATE | M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
        for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            at.state = state;
            device.modify_qp(qp, &at, mask).unwrap();
        }
    }
    let (host, cq, qp, key) = ends[0];
    let rkey = ends[1].3;
    let mut wcs = [Wc {
        wr_id: 0,
        status: WcStatus::Success,
        opcode: WcOpcode::Send,
        flags: WcFlags::empty(),
        vendor_err: 0,
        byte_len: 0,
        imm_data: 0,
        invalidated_rkey: Key(0),
        qp_num: QpNum::new(0),
        src_qp: QpNum::new(0),
        pkey_index: 0,
    }; 32];
    let start = Instant::now();
    let (mut posted, mut done) = (0_u64, 0_u64);
    let total = std::env::var("OPS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    while done < total {
        while posted < total && posted - done < 32 {
            let sges = [Sge { addr: posted % 64 * 64, length: 8, lkey: key }];
            let op = SendOp::Write { remote_addr: posted % 64 * 64, rkey, imm: None };
            let flags = SendFlags::SIGNALED;
            let wr = SendWr { wr_id: posted, op, flags, sges: &sges, inline: &[] };
            fabric.host_mut(host).device.post_send(qp, &wr).unwrap();
            posted += 1;
        }
        fabric.run_until_idle(0);
        let n = fabric.host_mut(host).device.poll_cq(cq, &mut wcs).unwrap();
        assert!(wcs[..n].iter().all(|wc| wc.status == WcStatus::Success));
        done += n as u64;
    }
    total as f64 / start.elapsed().as_secs_f64()
}
