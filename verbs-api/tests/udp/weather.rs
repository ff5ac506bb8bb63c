//! Loss, disorder and silence.

use std::time::{Duration, Instant};

use softrnic_verbs::{
    ConnectOptions, Endpoint, Gid, QpState, QpType, RecvWr, SendOp, WcOpcode, WcStatus, emulated,
};

use crate::world::{End, World, connect, patient};

#[test]
fn foul_weather_changes_no_byte_and_no_count() {
    for seed in [1, 7] {
        let rules =
            format!("drop=3%,reorder=3%,duplicate=2%,delay=1%:500us,corrupt=1%,ecn=3%,seed={seed}");
        let World { near, far } = World::with(QpType::Rc, |config| {
            config.faults = Some(rules.clone());
        });
        let before = far.word(800_000);
        for round in 0..10 {
            let salt: Vec<u8> = (0..200_u8).map(|n| n.wrapping_mul(7) ^ round).collect();
            near.mr.buffer().write(0, &salt).unwrap();
            let number = u64::from(round);
            far.qp.post_recv(&[RecvWr { wr_id: number, sges: &[far.sge(700_000, 9000)] }]).unwrap();
            near.qp.write(4 * number, near.sge(0, 150_001), far.mr.remote(3)).unwrap();
            near.qp.read(4 * number + 1, near.sge(300_000, 99_999), far.mr.remote(3)).unwrap();
            let counter = far.mr.remote(800_000);
            near.qp.fetch_add(4 * number + 2, near.sge(900_000, 8), counter, 1).unwrap();
            let op = SendOp::Send { imm: Some(number.try_into().unwrap()), invalidate: None };
            near.post(4 * number + 3, op, near.sge(1, 8001));
            for expected in 4 * number..4 * number + 4 {
                assert_eq!(near.success().wr_id, expected);
            }
            assert!(far.bytes(3, 150_001) == near.bytes(0, 150_001), "seed {seed}: WRITE");
            assert!(near.bytes(300_000, 99_999) == far.bytes(3, 99_999), "seed {seed}: READ");
            let received = far.success();
            assert_eq!((received.wr_id, received.byte_len), (number, 8001));
            assert!(far.bytes(700_000, 8001) == near.bytes(1, 8001), "seed {seed}: SEND");
        }
        assert_eq!(far.word(800_000), before.wrapping_add(10), "each atomic ran once");
        assert!(near.counter("faults_dropped") > 0, "the weather was foul");
        assert!(near.is_idle() && far.is_idle());
    }
}

#[test]
fn an_unreliable_connection_loses_whole_messages_and_stays_up() {
    let World { near, far } = World::with(QpType::Uc, |config| {
        config.faults = Some("drop=10%,seed=3".into());
    });
    for wr_id in 0..100 {
        far.qp.recv(wr_id, far.sge(9000 * wr_id, 9000)).unwrap();
    }
    for n in 0..100 {
        let op = SendOp::Send { imm: Some(n), invalidate: None };
        near.post(n.into(), op, near.sge((100 * n).into(), 9000));
        near.success();
    }
    // The far end has what has not been lost when nothing has come for a while.
    let mut got = Vec::new();
    while let Some(received) = far.cq.wait_one(Some(Duration::from_millis(500))).unwrap() {
        assert_eq!((received.status, received.byte_len), (WcStatus::Success, 9000));
        let (place, n) = (usize::try_from(received.wr_id).unwrap(), received.imm_data as usize);
        assert!(far.bytes(9000 * place, 9000) == near.bytes(100 * n, 9000), "message {n}");
        got.push(received.imm_data);
    }
    assert!(got.is_sorted() && got.len() > 20 && got.len() < 100, "{got:?}");
    assert_eq!(far.qp.query().unwrap().0.state, QpState::Rts);
}

/// 4.096 µs · 2^code.
fn timeout_of(code: u8) -> Duration {
    Duration::from_nanos(4096 << code)
}

#[test]
fn a_dead_peer_is_given_up_after_all_retries_and_not_before() {
    for (code, retries) in [(10, 0), (11, 3), (12, 7)] {
        let World { near, far } = World::impatient(code, retries);
        drop(far);
        let started = Instant::now();
        near.qp.write(2, near.sge(0, 8), near.mr.remote(0)).unwrap();
        near.qp.write(3, near.sge(0, 8), near.mr.remote(0)).unwrap();
        let failed = near.failure(WcStatus::RetryExceeded);
        let took = started.elapsed();
        assert_eq!((failed.wr_id, failed.qp_num), (2, near.qp.num()));
        assert_eq!(near.failure(WcStatus::WorkRequestFlushed).wr_id, 3);
        // IBA allows up to four times as long each; the rest is for a busy machine.
        let least = timeout_of(code) * (u32::from(retries) + 1);
        assert!(took >= least, "{took:?} is less than {least:?}");
        assert!(took < 4 * least + Duration::from_secs(10), "{took:?}");
        assert_eq!(near.qp.query().unwrap().0.state, QpState::Err);
    }
}

#[test]
fn a_peer_that_never_was_is_noticed_without_polling() {
    let (near, _far) = emulated::open_pair().unwrap();
    let channel = near.create_comp_channel().unwrap();
    let cq = channel.create_cq(16).unwrap();
    let near = End::on(near, QpType::Rc, 3, cq);
    let nobody = Endpoint { gid: Gid::from_v4([127, 0, 0, 77]), ..near.qp.endpoint().unwrap() };
    let options = ConnectOptions { timeout: 10, retry_count: 1, ..patient() };
    near.qp.connect_with(&nobody, &options).unwrap();
    near.cq.arm(false).unwrap();
    near.qp.send(1, near.sge(0, 8)).unwrap();
    assert_eq!(channel.wait(crate::world::PATIENCE).unwrap(), Some(near.cq.id()));
    near.failure(WcStatus::RetryExceeded);
}

#[test]
fn a_receiver_that_is_never_ready_is_given_up_and_one_that_becomes_ready_is_not() {
    let world = || {
        let (near, far) = emulated::open_pair().unwrap();
        World { near: End::new(near, QpType::Rc, 3), far: End::new(far, QpType::Rc, 5) }
    };
    let World { near, far } = world();
    // Code 10 of the RNR timer is 0.32 ms.
    let options = ConnectOptions { rnr_retry: 3, min_rnr_timer: 10, ..patient() };
    connect(&near.qp, &far.qp, &options);
    let started = Instant::now();
    near.qp.send(1, near.sge(0, 8)).unwrap();
    near.failure(WcStatus::RnrRetryExceeded);
    assert!(started.elapsed() >= 3 * Duration::from_micros(320), "{:?}", started.elapsed());
    assert_eq!(near.counter("retry_rnr_exceeded_err"), 1);

    let World { near, far } = world();
    connect(&near.qp, &far.qp, &ConnectOptions { rnr_retry: 7, ..options });
    near.qp.send(1, near.sge(0, 8)).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert!(near.is_idle());
    far.qp.recv(2, far.sge(0, 8)).unwrap();
    near.success();
    assert_eq!(far.success().opcode, WcOpcode::Recv);
}
