//! Two emulated devices on loopback addresses.
use softrnic_verbs::emulated::*;
use softrnic_verbs::provider::*;
use softrnic_verbs::*;
use std::time::{Duration, Instant};

struct End {
    ctx: EmulatedContext,
    cq: softrnic_model::verbs::CqId,
    qp: QpNum,
    key: Key,
    buf: *mut u8,
    ch: ChannelId,
}
const LEN: usize = 1 << 20;
fn end(ip: &str, port: u16) -> End {
    let mut c = EmulatedConfig::new(ip.parse().unwrap());
    c.port = port;
    let ctx = EmulatedContext::open(c).unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let ch = ctx.create_comp_channel().unwrap();
    let (cq, _) = ctx.create_cq(1024, Some(ch)).unwrap();
    let buf = Box::leak(vec![0u8; LEN].into_boxed_slice()).as_mut_ptr();
    let key = unsafe {
        ctx.reg_mr(
            pd,
            MemoryRange { base: buf, len: LEN },
            buf as u64,
            Access::LOCAL_WRITE | Access::REMOTE,
        )
    }
    .unwrap()
    .rkey;
    let cap = QpCapabilities {
        max_send_wr: 128,
        max_recv_wr: 128,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let (qp, _) = ctx
        .create_qp(&QpInit {
            pd,
            qp_type: QpType::Rc,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            cap,
            signal_all: false,
        })
        .unwrap();
    End { ctx, cq, qp, key, buf, ch }
}
fn connect(a: &End, b: &End, mtu: Mtu) {
    use QpAttributeMask as M;
    let dgid = b.ctx.query_gid(1, 0).unwrap().gid;
    let mut at = QpAttributes {
        state: QpState::Init,
        access: Access::REMOTE | Access::LOCAL_WRITE,
        ..Default::default()
    };
    a.ctx.modify_qp(a.qp, &at, M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS).unwrap();
    at.state = QpState::Rtr;
    at.path.dgid = dgid;
    at.dest_qp = b.qp;
    at.path_mtu = mtu;
    at.max_dest_rd_atomic = 16;
    at.max_rd_atomic = 16;
    at.min_rnr_timer = 12;
    at.timeout = 14;
    at.retry_count = 7;
    at.rnr_retry = 7;
    a.ctx
        .modify_qp(
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
    a.ctx
        .modify_qp(
            a.qp,
            &at,
            M::STATE | M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY,
        )
        .unwrap();
}
fn wc() -> Wc {
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
        pkey_index: 0,
    }
}
fn post(e: &End, op: SendOp, len: u32) {
    let sge = [Sge { addr: e.buf as u64, length: len, lkey: e.key }];
    e.ctx
        .post_send(
            e.qp,
            &[SendWr { wr_id: 1, op, flags: SendFlags::SIGNALED, sges: &sge, inline: &[] }],
        )
        .unwrap();
}
fn poll(e: &End) -> Wc {
    let t = Instant::now();
    loop {
        let mut w = [wc()];
        if e.ctx.poll_cq(e.cq, &mut w).unwrap() == 1 {
            return w[0];
        }
        assert!(t.elapsed() < Duration::from_secs(10));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mtu = match args.get(1).map(String::as_str) { Some("1024") => Mtu::B1024, _ => Mtu::B4096 };
    let n: u64 = args.get(2).and_then(|x| x.parse().ok()).unwrap_or(20000);
    let depth: u64 = args.get(3).and_then(|x| x.parse().ok()).unwrap_or(64);
    let (a, b) = (end("127.0.0.2", 14791), end("127.0.0.3", 14791));
    connect(&a, &b, mtu); connect(&b, &a, mtu);
    unsafe { std::ptr::write_bytes(a.buf, 7, LEN) };
    for _ in 0..3 {
    let mut posted = 0; let mut done = 0;
    let t = Instant::now();
    while done < n {
        while posted < n && posted - done < depth { post(&a, SendOp::Write { remote_addr: b.buf as u64, rkey: b.key, imm: None }, 65536); posted += 1; }
        let mut w = [wc(); 32];
        done += a.ctx.poll_cq(a.cq, &mut w).unwrap() as u64;
    }
    let s = t.elapsed().as_secs_f64();
    println!("write 64K: {:.3} GB/s", n as f64 * 65536.0 / s / 1e9);
    }
    println!("a {:?}", a.ctx.counters().unwrap().iter().filter(|c| c.value > 0).map(|c| format!("{}={}", c.name, c.value)).collect::<Vec<_>>());
    println!("b {:?}", b.ctx.counters().unwrap().iter().filter(|c| c.value > 0).map(|c| format!("{}={}", c.name, c.value)).collect::<Vec<_>>());
    // ping-pong
    let stop = std::sync::atomic::AtomicBool::new(false);
    let recv = |e: &End| { let sge = [Sge { addr: e.buf as u64 + 4096, length: 64, lkey: e.key }]; e.ctx.post_recv(e.qp, &[RecvWr { wr_id: 2, sges: &sge }]).unwrap(); };
    let send = |e: &End| { let sge = [Sge { addr: e.buf as u64, length: 8, lkey: e.key }]; e.ctx.post_send(e.qp, &[SendWr { wr_id: 1, op: SendOp::Send { imm: None, invalidate: None }, flags: SendFlags::SIGNALED, sges: &sge, inline: &[] }]).unwrap(); };
    for _ in 0..64 { recv(&a); recv(&b); }
    struct P<'a>(&'a End); unsafe impl Sync for P<'_> {} unsafe impl Send for P<'_> {}
    let pb = P(&b);
    std::thread::scope(|s| {
        s.spawn(|| { let pb = &pb; let b = pb.0; while !stop.load(std::sync::atomic::Ordering::Relaxed) { let mut w = [wc(); 8]; let k = b.ctx.poll_cq(b.cq, &mut w).unwrap(); for c in &w[..k] { if c.opcode == WcOpcode::Recv { recv(b); send(b); } } } });
        for _ in 0..3 {
            let n = 20000; let t = Instant::now(); let mut lat = Vec::new();
            for _ in 0..n { let t = Instant::now(); send(&a); loop { let mut w = [wc(); 8]; let k = a.ctx.poll_cq(a.cq, &mut w).unwrap(); if w[..k].iter().any(|c| c.opcode == WcOpcode::Recv) { recv(&a); break; } } lat.push(t.elapsed().as_nanos() as u64); }
            lat.sort();
            println!("pingpong half rtt avg {:.2} us p50 {:.2} p99 {:.2}", t.elapsed().as_secs_f64() / n as f64 / 2.0 * 1e6, lat[lat.len()/2] as f64 / 2e3, lat[lat.len()*99/100] as f64 / 2e3);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
