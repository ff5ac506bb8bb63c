//! The game: each end sends when it has received and its last send is done.

use std::time::{Duration, Instant};

use softrnic_model::wire::Grh;
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{
    Access, Ah, ConnectOptions, Context, Mr, Qp, QpCapabilities, QpType, RecvWr, SendFlags, SendOp,
    SendWr, Wc, WcOpcode,
};

use super::PingpongArgs;
use crate::error::Failure;
use crate::exchange::{ANSWER_WITHIN, Exchange, Hello, Purpose, QueuePairInfo};
use crate::pattern;
use crate::peer::Completions;

/// The Q_Key of `ibv_ud_pingpong`.
const QKEY: u32 = 0x1111_1111;
/// Bytes in front of a datagram.
#[expect(clippy::cast_possible_truncation, reason = "40")]
const GRH: u32 = Grh::LEN as u32;
/// Receives are posted again when so many are left.
const FEW: u32 = 1;
/// Sends under way: one, and the one before whose completion is not polled yet.
const SENDS: u32 = 2;

/// What came of a game.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) local: QueuePairInfo,
    pub(super) remote: QueuePairInfo,
    pub(super) elapsed: Duration,
}

/// One end of the game.
struct Player<'a> {
    args: &'a PingpongArgs,
    completions: Completions,
    qp: Qp,
    /// The message to send, then the place to receive.
    memory: Mr,
    size: u32,
    grh: u32,
    peer: QueuePairInfo,
    ah: Option<Ah>,
    /// Receives that are posted.
    posted: u32,
    sent: u64,
    received: u64,
    sending: bool,
}

/// Plays with the peer at the other end of `exchange`.
pub(super) fn play(
    args: &PingpongArgs,
    context: &Context,
    exchange: &mut Exchange,
) -> Result<Played, Failure> {
    let limits = context.attributes()?;
    at_most("--rx-depth", args.rx_depth, limits.max_qp_wr)?;
    let size = u32::try_from(args.message_size()).map_err(|_| Failure::plain("size"))?;
    if args.inline {
        at_most("--size with --inline", size, limits.max_inline_data)?;
    }
    at_most("--mtu", args.mtu.bytes(), context.port()?.active_mtu.bytes())?;
    let mut player = Player::prepare(args, context, exchange, size)?;
    let local = QueuePairInfo::of(&player.qp, player.qkey())?;
    exchange.meet("connected", ANSWER_WITHIN)?;
    let begun = Instant::now();
    player.run(exchange)?;
    let elapsed = begun.elapsed();
    // Neither goes before the other has all: its last acknowledgement may have to be repeated.
    exchange.meet("done", ANSWER_WITHIN)?;
    Ok(Played { local, remote: player.peer, elapsed })
}

fn at_most(option: &str, given: u32, limit: u32) -> Result<(), Failure> {
    if given <= limit {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{option} {given} is more than the device has: {limit}"),
        format!("give at most {limit}"),
    ))
}

impl<'a> Player<'a> {
    fn prepare(
        args: &'a PingpongArgs,
        context: &Context,
        exchange: &mut Exchange,
        size: u32,
    ) -> Result<Self, Failure> {
        let transport = args.transport();
        let grh = if transport == QpType::Ud { GRH } else { 0 };
        let pd = context.alloc_pd()?;
        let completions = Completions::new(context, args.rx_depth + SENDS, args.events)?;
        let memory = Buffer::new(2 * size as usize + grh as usize)?;
        let memory = pd.register(memory, Access::LOCAL_WRITE)?;
        memory.buffer().write(0, &pattern::message(0, size as usize))?;
        let cap = QpCapabilities {
            max_send_wr: SENDS,
            max_recv_wr: args.rx_depth,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: if args.inline { size } else { 0 },
        };
        let builder = pd.create_qp(transport, completions.cq()).capabilities(cap).qkey(QKEY);
        let qp = match args.gid_idx {
            Some(index) => builder.sgid_index(index).build()?,
            None => builder.build()?,
        };
        let qkey = (transport == QpType::Ud).then_some(QKEY);
        let ours = Hello {
            purpose: Purpose::Pingpong,
            settings: args.settings(),
            queue_pairs: vec![QueuePairInfo::of(&qp, qkey)?],
            regions: Vec::new(),
        };
        let theirs = exchange.introduce(&ours)?;
        let peer = theirs.queue_pairs.first().copied();
        let peer = peer.ok_or_else(|| Failure::plain("the peer has no queue pair"))?;
        let ah = match transport {
            QpType::Rc | QpType::Uc | QpType::XrcSend | QpType::XrcRecv => {
                let options = ConnectOptions {
                    mtu: Some(args.mtu),
                    service_level: args.sl,
                    ..ConnectOptions::default()
                };
                qp.connect_with(&peer.endpoint(args.mtu), &options)?;
                None
            }
            QpType::Ud => {
                qp.activate()?;
                let mut path = qp.path_to(peer.gid);
                path.service_level = args.sl;
                Some(pd.create_ah(&path)?)
            }
        };
        let mut player = Self {
            args,
            completions,
            qp,
            memory,
            size,
            grh,
            peer,
            ah,
            posted: 0,
            sent: 0,
            received: 0,
            sending: false,
        };
        player.refill()?;
        Ok(player)
    }

    fn qkey(&self) -> Option<u32> {
        self.ah.as_ref().map(|_| QKEY)
    }

    /// Posts receives until all are. They share one place, for one message is under way at a time.
    fn refill(&mut self) -> Result<(), Failure> {
        let sges = [self.memory.sge(self.size.into(), self.grh + self.size)];
        let missing = (self.args.rx_depth - self.posted) as usize;
        self.qp.post_recv(&vec![RecvWr { wr_id: 0, sges: &sges }; missing])?;
        self.posted = self.args.rx_depth;
        Ok(())
    }

    fn run(&mut self, exchange: &mut Exchange) -> Result<(), Failure> {
        let rounds = u64::from(self.args.iters);
        let mut completions = [Wc::default(); 8];
        if self.args.host.is_some() {
            self.send()?;
        }
        while self.received < rounds || self.sent < rounds || self.sending {
            let count = self.completions.wait(exchange, &mut completions)?;
            for wc in completions.iter().take(count) {
                if wc.opcode == WcOpcode::Recv {
                    self.receive(wc)?;
                } else {
                    self.sending = false;
                }
            }
            // The client is one ahead: it has served.
            let due = self.received + u64::from(self.args.host.is_some());
            if !self.sending && self.sent < rounds.min(due) {
                self.send()?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, wc: &Wc) -> Result<(), Failure> {
        let expected = self.grh + self.size;
        if wc.byte_len != expected {
            let received = wc.byte_len;
            return Err(Failure::plain(format!("received {received} bytes, not {expected}")));
        }
        if self.args.chk {
            self.check()?;
        }
        self.received += 1;
        self.posted -= 1;
        if self.posted <= FEW { self.refill() } else { Ok(()) }
    }

    /// Compares the message that has arrived with the one that the peer has sent.
    fn check(&self) -> Result<(), Failure> {
        let len = self.size as usize;
        let mut seen = vec![0; len];
        self.memory.buffer().read(len + self.grh as usize, &mut seen)?;
        let expected = pattern::message(self.received, len);
        match seen.iter().zip(&expected).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(at) => Err(Failure::plain(format!(
                "message {} is damaged: byte {at} is {:#04x}, not {:#04x}",
                self.received + 1,
                seen.get(at).copied().unwrap_or_default(),
                expected.get(at).copied().unwrap_or_default(),
            ))),
        }
    }

    fn send(&mut self) -> Result<(), Failure> {
        let len = self.size as usize;
        let mut inline = Vec::new();
        if self.args.chk {
            self.memory.buffer().write(0, &pattern::message(self.sent, len))?;
        }
        let mut flags = SendFlags::SIGNALED;
        if self.args.inline {
            flags |= SendFlags::INLINE;
            inline = pattern::message(if self.args.chk { self.sent } else { 0 }, len);
        }
        let op = match &self.ah {
            None => SendOp::Send { imm: None, invalidate: None },
            Some(ah) => SendOp::SendTo {
                ah: ah.id(),
                remote_qpn: self.peer.qpn,
                remote_qkey: self.peer.qkey.unwrap_or(QKEY),
                imm: None,
            },
        };
        let sges = [self.memory.sge(0, self.size)];
        self.qp.post_send(&[SendWr {
            wr_id: 1,
            op,
            flags,
            sges: &sges,
            inline: &inline,
            ..SendWr::default()
        }])?;
        self.sending = true;
        self.sent += 1;
        Ok(())
    }
}
