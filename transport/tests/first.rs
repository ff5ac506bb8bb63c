//! Two devices on the simulated fabric.
use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::*;
use softrnic_model::{Device, DeviceConfig, MemoryId};
use softrnic_transport::sim::*;

pub struct End {
    pub host: HostId,
    pub pd: PdId,
    pub cq: CqId,
    pub qp: QpNum,
    pub mem: MemoryId,
    pub key: Key,
}
const ACC: Access = Access::all();
pub fn end(f: &mut Fabric, ip: [u8; 4], t: QpType) -> End {
    let host = f
        .add_host(Device::new(DeviceConfig { gids: vec![Gid::from_v4(ip)], ..Default::default() }));
    let h = f.host_mut(host);
    let mem = h.memory.add((0..65536u32).map(|i| (i * 7 + u32::from(ip[3])) as u8).collect());
    let pd = h.device.alloc_pd().unwrap();
    let cq = h.device.create_cq(256).unwrap();
    let key = h
        .device
        .register(RegionSpec {
            pd,
            memory: mem,
            memory_offset: 0,
            addr: 0x10000,
            length: 65536,
            access: Access::LOCAL_WRITE | Access::REMOTE | Access::MW_BIND,
        })
        .unwrap();
    let cap = QpCapabilities {
        max_send_wr: 64,
        max_recv_wr: 64,
        max_send_sge: 4,
        max_recv_sge: 4,
        max_inline_data: 64,
    };
    let qp = h
        .device
        .create_qp(&QpInit {
            pd,
            qp_type: t,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            cap,
            signal_all: true,
        })
        .unwrap();
    let _ = ACC;
    End { host, pd, cq, qp, mem, key }
}
pub fn connect(f: &mut Fabric, a: &End, b: &End, psn: u32) {
    use QpAttributeMask as M;
    let dgid = f.host(b.host).device.gids()[0];
    let d = &mut f.host_mut(a.host).device;
    let mut at = QpAttributes {
        state: QpState::Init,
        access: Access::REMOTE | Access::LOCAL_WRITE,
        ..Default::default()
    };
    d.modify_qp(a.qp, &at, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS).unwrap();
    at.state = QpState::Rtr;
    at.path.dgid = dgid;
    at.dest_qp = b.qp;
    at.rq_psn = Psn::new(psn);
    at.sq_psn = Psn::new(psn);
    at.max_dest_rd_atomic = 16;
    at.max_rd_atomic = 16;
    at.min_rnr_timer = 12;
    at.timeout = 14;
    at.retry_count = 7;
    at.rnr_retry = 7;
    d.modify_qp(
        a.qp,
        &at,
        M::STATE
            | M::AV
            | M::PATH_MTU
            | M::DEST_QPN
            | M::RQ_PSN
            | M::MAX_DEST_RD_ATOMIC
            | M::MIN_RNR_TIMER,
    )
    .unwrap();
    at.state = QpState::Rts;
    d.modify_qp(
        a.qp,
        &at,
        M::STATE | M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY,
    )
    .unwrap();
}
fn post(f: &mut Fabric, e: &End, op: SendOp, off: u64, len: u32) {
    let sge = [Sge { addr: 0x10000 + off, length: len, lkey: e.key }];
    f.host_mut(e.host)
        .device
        .post_send(
            e.qp,
            &SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, sges: &sge, inline: &[] },
        )
        .unwrap();
}
fn poll(f: &mut Fabric, e: &End) -> Vec<Wc> {
    let mut out = vec![
        Wc {
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
            pkey_index: 0
        };
        32
    ];
    let n = f.host_mut(e.host).device.poll_cq(e.cq, &mut out).unwrap();
    out.truncate(n);
    out
}
#[test]
fn write_read_send_atomic() {
    for psn in [0x1000, 0xff_fffe] {
        let mut f = Fabric::new(FabricConfig::default());
        let a = end(&mut f, [10, 0, 0, 1], QpType::Rc);
        let b = end(&mut f, [10, 0, 0, 2], QpType::Rc);
        connect(&mut f, &a, &b, psn);
        connect(&mut f, &b, &a, psn);
        post(
            &mut f,
            &a,
            SendOp::Write { remote_addr: 0x10000 + 100, rkey: b.key, imm: None },
            0,
            10000,
        );
        assert!(f.run_until_idle(1_000_000_000));
        let wcs = poll(&mut f, &a);
        assert_eq!(wcs.len(), 1);
        assert_eq!(wcs[0].status, WcStatus::Success);
        assert_eq!(
            f.host(b.host).memory.bytes(b.mem)[100..10100],
            f.host(a.host).memory.bytes(a.mem)[..10000]
        );
        post(&mut f, &a, SendOp::Read { remote_addr: 0x10000 + 20000, rkey: b.key }, 30000, 5000);
        post(
            &mut f,
            &a,
            SendOp::FetchAdd { remote_addr: 0x10000 + 40000, rkey: b.key, add: 5 },
            40000,
            8,
        );
        let sge = [Sge { addr: 0x10000 + 50000, length: 4000, lkey: b.key }];
        f.host_mut(b.host).device.post_recv(b.qp, &RecvWr { wr_id: 100, sges: &sge }).unwrap();
        post(&mut f, &a, SendOp::Send { imm: Some(0x1122), invalidate: None }, 0, 3000);
        assert!(f.run_until_idle(1_000_000_000));
        let wcs = poll(&mut f, &a);
        assert_eq!(
            wcs.iter().map(|w| (w.status, w.opcode)).collect::<Vec<_>>(),
            [
                (WcStatus::Success, WcOpcode::RdmaRead),
                (WcStatus::Success, WcOpcode::FetchAdd),
                (WcStatus::Success, WcOpcode::Send)
            ]
        );
        let r = poll(&mut f, &b);
        assert_eq!((r[0].status, r[0].byte_len, r[0].imm_data), (WcStatus::Success, 3000, 0x1122));
        assert_eq!(
            f.host(a.host).memory.bytes(a.mem)[30000..35000],
            f.host(b.host).memory.bytes(b.mem)[20000..25000]
        );
    }
}
#[test]
fn under_loss_everything_arrives() {
    for seed in std::env::var("FROM").ok().and_then(|x| x.parse().ok()).unwrap_or(0)
        ..std::env::var("SEEDS").ok().and_then(|x| x.parse().ok()).unwrap_or(200u64)
    {
        let mut f = Fabric::new(FabricConfig::default());
        let a = end(&mut f, [10, 0, 0, 1], QpType::Rc);
        let b = end(&mut f, [10, 0, 0, 2], QpType::Rc);
        connect(&mut f, &a, &b, 0xff_fff0);
        connect(&mut f, &b, &a, 0xff_fff0);
        let mut s = seed.wrapping_mul(0x9e3779b97f4a7c15) | 1;
        f.set_weather(Some(Box::new(
            move |t: softrnic_model::Instant, from: HostId, _: &_, p: &[u8]| {
                s ^= s << 13;
                s ^= s >> 7;
                s ^= s << 17;
                let fate = match s % 100 {
                    0..5 => Fate::Drop,
                    5..8 => Fate::Delay(s >> 20 & 0xffff),
                    8..10 => Fate::Duplicate(s >> 20 & 0xffff),
                    10 => Fate::Corrupt((s >> 32) as u32),
                    11 => Fate::Mark,
                    _ => Fate::Pass,
                };
                if std::env::var("TRACE").is_ok() {
                    let k = softrnic_model::wire::Packet::parse(p).unwrap();
                    println!(
                        "{} {from} {:?} {:?} ack={} {:?} {:?} {} {fate:?}",
                        t.as_ns(),
                        k.opcode,
                        k.bth.psn(),
                        k.bth.ack_req(),
                        k.aeth().map(|a| (a.syndrome(), a.msn())),
                        k.reth().map(|r| (r.va(), r.len())),
                        k.payload.len()
                    );
                }
                fate
            },
        )));
        for i in 0..16u64 {
            let sge = [Sge { addr: 0x10000 + 50000, length: 4000, lkey: b.key }];
            f.host_mut(b.host)
                .device
                .post_recv(b.qp, &RecvWr { wr_id: 100 + i, sges: &sge })
                .unwrap();
            match i % 4 {
                0 => post(
                    &mut f,
                    &a,
                    SendOp::Write { remote_addr: 0x10000 + 100, rkey: b.key, imm: None },
                    0,
                    10000,
                ),
                1 => post(
                    &mut f,
                    &a,
                    SendOp::Read { remote_addr: 0x10000 + 20000, rkey: b.key },
                    30000,
                    5000,
                ),
                2 => post(
                    &mut f,
                    &a,
                    SendOp::FetchAdd { remote_addr: 0x10000 + 40000, rkey: b.key, add: 5 },
                    40000,
                    8,
                ),
                _ => {
                    post(&mut f, &a, SendOp::Send { imm: Some(0x1122), invalidate: None }, 0, 3000)
                }
            }
        }
        let before = u64::from_ne_bytes(
            f.host(b.host).memory.bytes(b.mem)[40000..40008].try_into().unwrap(),
        );
        assert!(f.run_until_idle(100_000_000_000));
        let wcs = poll(&mut f, &a);
        assert_eq!(wcs.len(), 16, "seed {seed}");
        assert!(wcs.iter().all(|w| w.status == WcStatus::Success), "seed {seed}: {wcs:?}");
        let after = u64::from_ne_bytes(
            f.host(b.host).memory.bytes(b.mem)[40000..40008].try_into().unwrap(),
        );
        assert_eq!(after, before.wrapping_add(20));
        assert_eq!(
            f.host(b.host).memory.bytes(b.mem)[100..10100],
            f.host(a.host).memory.bytes(a.mem)[..10000]
        );
        assert_eq!(
            f.host(a.host).memory.bytes(a.mem)[30000..35000],
            f.host(b.host).memory.bytes(b.mem)[20000..25000]
        );
    }
}
