//! Everything at once, for as long as `SOFTRNIC_STRESS_SECONDS` says (1 if it says nothing).
//!
//! No queue pair retries by time here, so a wake-up that is missed anywhere is a hang and not a
//! delay: whoever waits longer than [`PATIENCE`] has found one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use softrnic_verbs::{
    Access, ConnectOptions, Context, Cq, QpType, SendOp, WcOpcode, WcStatus, emulated,
};

use crate::world::{End, connect, pattern};

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
/// Messages before the queue pairs are replaced.
const MESSAGES: u64 = 20;

/// How the two ends learn of completions.
#[derive(Clone, Copy)]
enum Manner {
    /// Both sleep until an event.
    Sleep,
    /// Both poll until it is there, and not once more.
    Poll,
    /// One polls; the other does nothing at all, ever.
    Passive,
}

struct Worker<'a> {
    contexts: [&'a Context; 2],
    manner: Manner,
    seed: u64,
    end: Instant,
    rounds: &'a AtomicU64,
}

impl Worker<'_> {
    fn random(&mut self, below: u64) -> u64 {
        self.seed =
            self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.seed >> 33) % below
    }

    /// The next completion. An event may be about one that was polled already.
    fn completion(&self, end: &End) -> WcOpcode {
        let started = Instant::now();
        loop {
            if let Some(found) = end.cq.poll_one().unwrap() {
                assert_eq!(found.status, WcStatus::Success, "{found:?}");
                return found.opcode;
            }
            match (self.manner, end.cq.channel()) {
                (Manner::Sleep, Some(channel)) => {
                    end.cq.arm(false).unwrap();
                    // What came before it was armed.
                    if let Some(found) = end.cq.poll_one().unwrap() {
                        assert_eq!(found.status, WcStatus::Success, "{found:?}");
                        return found.opcode;
                    }
                    assert!(channel.wait(PATIENCE).unwrap().is_some(), "nobody woke the sleeper");
                }
                _ => assert!(Some(started.elapsed()) < PATIENCE, "no completion came"),
            }
        }
    }

    fn queue(&self, context: &Context) -> Cq {
        match self.manner {
            Manner::Sleep => context.create_comp_channel().unwrap().create_cq(64).unwrap(),
            Manner::Poll | Manner::Passive => context.create_cq(64).unwrap(),
        }
    }

    fn run(mut self) {
        let options = ConnectOptions { timeout: 0, ..ConnectOptions::default() };
        while Instant::now() < self.end {
            let [near, far] = self
                .contexts
                .map(|context| End::on(context.clone(), QpType::Rc, 3, self.queue(context)));
            connect(&near.qp, &far.qp, &options);
            for n in 0..MESSAGES {
                let len = 1 + u32::try_from(self.random(6000)).unwrap();
                match (self.manner, self.random(3)) {
                    (Manner::Passive, 0) => near.qp.write(n, near.sge(0, len), far.mr.remote(n)),
                    (Manner::Passive, 1) => {
                        near.qp.fetch_add(n, near.sge(0, 8), far.mr.remote(0), 1)
                    }
                    (Manner::Passive, _) => near.qp.read(n, near.sge(0, len), far.mr.remote(n)),
                    (Manner::Sleep | Manner::Poll, _) => {
                        far.qp.recv(n, far.sge(0, 8000)).unwrap();
                        near.qp.send(n, near.sge(n, len))
                    }
                }
                .unwrap();
                if !matches!(self.manner, Manner::Passive) {
                    assert_eq!(self.completion(&far), WcOpcode::Recv);
                }
                self.completion(&near);
                self.rounds.fetch_add(1, Ordering::Relaxed);
            }
            // Half of them go with a message under way.
            if self.random(2) == 0 {
                let send = SendOp::Send { imm: None, invalidate: None };
                far.qp.recv(0, far.sge(0, 8000)).unwrap();
                near.post(0, send, near.sge(0, 8000));
            }
        }
    }
}

/// Registers memory and takes it back, and asks for what is counted.
fn churn(context: &Context, end: Instant) {
    let pd = context.alloc_pd().unwrap();
    while Instant::now() < end {
        let region = pd.register(pattern(8192, 1), Access::LOCAL_WRITE).unwrap();
        assert!(!context.counters().unwrap().is_empty());
        let buffer = region.into_buffer().try_into_buffer();
        assert!(buffer.is_ok(), "the device has let go");
        let _ = context.next_async_event(Some(Duration::ZERO)).unwrap();
    }
}

#[test]
fn threads_that_sleep_poll_come_and_go_on_two_devices() {
    let seconds = std::env::var("SOFTRNIC_STRESS_SECONDS").ok().and_then(|n| n.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(1));
    let (near, far) = emulated::open_pair().unwrap();
    let manners = [Manner::Sleep, Manner::Poll, Manner::Passive, Manner::Sleep, Manner::Poll];
    let rounds = [const { AtomicU64::new(0) }; 5];
    std::thread::scope(|scope| {
        for (seed, (manner, rounds)) in (1..).zip(manners.into_iter().zip(&rounds)) {
            // Both directions.
            let contexts = if seed % 2 == 0 { [&near, &far] } else { [&far, &near] };
            let worker = Worker { contexts, manner, seed, end, rounds };
            scope.spawn(|| worker.run());
        }
        scope.spawn(|| churn(&near, end));
        scope.spawn(|| churn(&far, end));
    });
    let rounds = rounds.map(AtomicU64::into_inner);
    assert!(rounds.iter().all(|n| *n >= MESSAGES), "{rounds:?}");
    if seconds.is_some() {
        println!("messages of each thread: {rounds:?}");
    }
}
