//! Unreliable services in bad weather: a message comes whole or not at all, and what is lost costs
//! nothing but itself.

use softrnic_model::verbs::{Mtu, QpState, QpType, SendOp, WcOpcode, WcStatus};

use crate::bench::{A, B, Bench, QKEY, Rng, Setup, Weather, send_imm, wr};

use super::each_seed;

const MESSAGES: u32 = 200;
const LENGTH_MAX: u64 = 1000;
/// Where messages are made at A, and where WRITEs go at B: a place for each.
const fn place(number: u32) -> u64 {
    number as u64 * LENGTH_MAX
}

/// Receives of B lie behind that, one after the other.
const RECEIVES: u64 = place(MESSAGES);
const RECEIVE_LEN: u64 = LENGTH_MAX + 40;
const RECEIVE_COUNT: u64 = 32;

struct Run {
    bench: Bench,
    qp_type: QpType,
    lengths: Vec<u64>,
    /// Numbers of receives that are posted, in order.
    posted: std::collections::VecDeque<u64>,
    next_receive: u64,
    received: Vec<u32>,
}

impl Run {
    fn new(rng: &mut Rng, qp_type: QpType) -> Self {
        let mtu = *rng.pick(&Mtu::ALL);
        let mut setup = Setup { mtu, memory: 1 << 18, ..Setup::of(qp_type) };
        setup.first_psn[0] = (1 << 24) - rng.below(300) as u32;
        let bench = setup.pair();
        bench.tap.silence();
        let lengths = (0..MESSAGES).map(|_| rng.below(LENGTH_MAX)).collect();
        let posted = std::collections::VecDeque::new();
        Self { bench, qp_type, lengths, posted, next_receive: 0, received: Vec::new() }
    }

    fn post_receives(&mut self) {
        while (self.posted.len() as u64) < RECEIVE_COUNT {
            let id = self.next_receive;
            self.next_receive += 1;
            let at = RECEIVES + id % RECEIVE_COUNT * RECEIVE_LEN;
            self.bench.recv(B, id, at..at + RECEIVE_LEN);
            self.posted.push_back(id);
        }
    }

    fn post(&mut self, rng: &mut Rng, number: u32, datagram: Option<SendOp>) {
        let len = self.lengths[number as usize];
        let b = self.bench.remote(B);
        let op = match datagram {
            Some(SendOp::SendTo { ah, remote_qpn, .. }) => {
                SendOp::SendTo { ah, remote_qpn, remote_qkey: QKEY, imm: Some(number) }
            }
            _ if rng.chance(50) => send_imm(number),
            _ => b.write_imm(place(number), number),
        };
        self.bench.post(A, wr(u64::from(number), op).at(place(number)..place(number) + len));
    }

    /// Judges what B has received: whole, and what A sent under that number.
    fn poll(&mut self) {
        for wc in self.bench.received(B) {
            assert_eq!(wc.status, WcStatus::Success);
            assert_eq!(Some(wc.wr_id), self.posted.pop_front(), "receives complete in order");
            let number = wc.imm_data;
            let len = self.lengths[number as usize];
            let sent = self.bench.bytes(A, place(number)..place(number) + len);
            let grh = if self.qp_type == QpType::Ud { 40 } else { 0 };
            let at = if wc.opcode == WcOpcode::RecvRdmaWithImm {
                place(number)
            } else {
                RECEIVES + wc.wr_id % RECEIVE_COUNT * RECEIVE_LEN + grh
            };
            assert_eq!(u64::from(wc.byte_len), len + grh);
            assert!(self.bench.bytes(B, at..at + len) == sent, "message {number} is broken");
            self.received.push(number);
        }
        for wc in self.bench.sent(A) {
            assert_eq!(wc.status, WcStatus::Success);
        }
    }
}

fn run(seed: u64, qp_type: QpType) {
    let mut rng = Rng::new(seed);
    let weather = Weather::drawn(&mut rng.fork());
    let (confuses, loses) = (weather.confuses(), weather.loses());
    let mut run = Run::new(&mut rng, qp_type);
    run.bench.tap.rule(weather.rule());
    let datagram = (qp_type == QpType::Ud).then(|| run.bench.datagram(A, B));
    for number in 0..MESSAGES {
        run.post_receives();
        run.post(&mut rng, number, datagram);
        if rng.chance(50) {
            run.bench.run_for(rng.below(400_000));
        }
        run.poll();
    }
    run.bench.tap.calm();
    run.bench.run();
    run.poll();
    assert_eq!(run.bench.states(), (QpState::Rts, QpState::Rts));
    let received = &run.received;
    if !confuses {
        assert!(received.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
        assert!(loses || received.len() == MESSAGES as usize, "nothing was lost on the way");
    }
    // The weather is bad for a third of the time at most: most messages come.
    assert!(received.len() * 4 > MESSAGES as usize, "{}", received.len());
}

#[test]
fn a_connection_delivers_whole_messages() {
    each_seed(60, |seed| run(seed, QpType::Uc));
}

#[test]
fn datagrams_come_whole() {
    each_seed(60, |seed| run(seed, QpType::Ud));
}
