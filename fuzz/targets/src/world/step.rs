//! What happens to a world: calls of the program, packets, time.

use arbitrary::Arbitrary;
use softrnic_model::verbs::{
    Access, BindInfo, Key, Placement, QpAttributeMask as M, QpState, QpType, RecvWr, Selectivity,
    SendFlags, SendOp, SendWr, Sge, WindowType,
};

use super::near::Near;
use super::{BASE, Distance, KeyChoice, QKEY, Target, World, harmless};

#[derive(Arbitrary, Debug)]
pub(crate) enum Step {
    Near(Near),
    /// Any base transport header for the queue pair, and any bytes behind it.
    Loose {
        opcode: u8,
        flags: u8,
        psn: i8,
        body: Vec<u8>,
    },
    /// Any bytes.
    Raw(Vec<u8>),
    /// Frames of its own come back to it, or are lost.
    Deliver {
        lost: bool,
        twice: bool,
        frames: u8,
    },
    Send {
        op: u8,
        offset: u16,
        len: u16,
        at: Target,
        flags: u8,
        foreign: bool,
    },
    Inline {
        write: bool,
        at: Target,
        len: u8,
    },
    Bind {
        type_2: bool,
        offset: u16,
        len: u16,
        access: u8,
        variant: u8,
        foreign: bool,
    },
    Invalidate(Target),
    Recv {
        offset: u16,
        len: u16,
        foreign: bool,
    },
    Time(u32),
    Modify(u8),
    Change {
        access: u8,
        depth: u8,
        timeout: u8,
        retries: u8,
    },
    Reconnect,
    Deregister,
    Register,
    Unmap,
    DestroyQp,
    ResizeCq(u8),
    Arm(bool),
    Limit(u8),
    Poll,
}

impl World {
    #[expect(clippy::too_many_lines, reason = "a table of what can happen")]
    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Near(near) => self.near(near),
            Step::Loose { opcode, flags, psn, body } => {
                let psn = self.psn(None, Distance::Near(*psn));
                let mut bytes = vec![*opcode, *flags, 0xff, 0xff];
                bytes.extend(self.qp.get().to_be_bytes());
                bytes.extend((psn.get() | 1 << 31).to_be_bytes());
                bytes.extend(body.iter().map(|byte| harmless(*byte)));
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                self.hand(&self.route(), &bytes);
            }
            Step::Raw(bytes) => {
                let bytes: Vec<u8> = bytes.iter().map(|byte| harmless(*byte)).collect();
                self.hand(&self.route(), &bytes);
            }
            Step::Deliver { lost, twice, frames } => self.deliver(*lost, *twice, *frames),
            Step::Send { op, offset, len, at, flags, foreign } => {
                let op = self.operation(*op, *at, (*len).into());
                let words = op.has_own_answer() && !matches!(op, SendOp::Read { .. });
                let len = if words { 8 } else { *len };
                let sges = [self.local(*offset, len, *foreign)];
                let sges = if matches!(op, SendOp::Flush { .. }) { &sges[..0] } else { &sges };
                self.send(op, sges, SendFlags::from_bits_truncate(flags & 7), &[]);
            }
            Step::Inline { write, at, len } => {
                let (remote_addr, rkey) = self.place(*at);
                let op = if *write {
                    SendOp::Write { remote_addr, rkey, imm: None }
                } else {
                    SendOp::Send { imm: None, invalidate: None }
                };
                self.send(op, &[], SendFlags::INLINE, &vec![3; usize::from(*len)]);
            }
            Step::Bind { type_2, offset, len, access, variant, foreign } => {
                let (window_type, choice) = match type_2 {
                    true => (WindowType::Type2B, KeyChoice::Window2),
                    false => (WindowType::Type1, KeyChoice::Window1),
                };
                let window = self.key(choice);
                let bind = BindInfo {
                    mr_lkey: if *foreign { self.foreign } else { self.key },
                    addr: BASE + u64::from(*offset),
                    length: u64::from(*len),
                    access: Access::from_bits_truncate(u32::from(*access)),
                };
                let new_rkey = Key::from_parts(window.index(), *variant);
                let op = SendOp::BindMw { window, new_rkey, window_type, bind };
                self.send(op, &[], SendFlags::SIGNALED, &[]);
            }
            Step::Invalidate(at) => {
                let key = self.key(at.key);
                self.send(SendOp::LocalInvalidate { key }, &[], SendFlags::empty(), &[]);
            }
            Step::Recv { offset, len, foreign } => {
                let sges = [self.local(*offset, *len, *foreign)];
                let wr = RecvWr { wr_id: 2, sges: &sges };
                let _ = match self.srq {
                    Some(srq) => self.device.post_srq_recv(srq, &wr),
                    None => self.device.post_recv(self.qp, &wr),
                };
            }
            Step::Time(ns) => {
                self.now = self.now.plus_ns(u64::from(*ns));
                self.device.on_time(self.now);
            }
            Step::Modify(state) => self.to(QpState::ALL[usize::from(state % 7)]),
            Step::Change { access, depth, timeout, retries } => {
                self.change(*access, *depth, *timeout, *retries);
            }
            Step::Reconnect => self.connect(),
            Step::Deregister => {
                if self.device.deregister(self.key).is_ok() {
                    self.frozen = Some(self.memory.bytes(self.id));
                }
            }
            Step::Register => {
                self.check();
                self.register();
            }
            Step::Unmap => {
                self.check();
                self.memory.unmap(self.id);
                self.frozen = None;
            }
            Step::DestroyQp => {
                if self.device.destroy_qp(self.qp).is_ok()
                    && let Some(srq) = self.srq
                {
                    assert!(self.device.destroy_srq(srq).is_ok(), "nobody uses it any more");
                }
            }
            Step::ResizeCq(entries) => {
                let _ = self.device.resize_cq(self.cq, u32::from(*entries));
            }
            Step::Arm(solicited) => {
                let _ = self.device.req_notify_cq(self.cq, *solicited);
            }
            Step::Limit(limit) => {
                if let Some(srq) = self.srq {
                    let _ = self.device.set_srq_limit(srq, u32::from(*limit));
                }
            }
            Step::Poll => {
                self.poll();
            }
        }
    }

    fn deliver(&mut self, lost: bool, twice: bool, frames: u8) {
        for _ in 0..=frames % 8 {
            let Some((route, bytes)) = self.flying.pop_front() else { return };
            for _ in 0..if lost { 0 } else { 1 + u8::from(twice) } {
                self.hand(&route, &bytes);
            }
            self.drain();
        }
    }

    fn operation(&self, op: u8, at: Target, length: u32) -> SendOp {
        let (remote_addr, rkey) = self.place(at);
        match (self.qp_type, op % 9) {
            (QpType::Ud, _) => SendOp::SendTo {
                ah: self.ah,
                remote_qpn: self.attributes.dest_qp,
                remote_qkey: QKEY,
                imm: None,
            },
            (_, 0) => SendOp::Send { imm: None, invalidate: None },
            (_, 1) => SendOp::Write { remote_addr, rkey, imm: None },
            (_, 2) => SendOp::Read { remote_addr, rkey },
            (_, 3) => SendOp::FetchAdd { remote_addr, rkey, add: 1 },
            (_, 4) => SendOp::CompareSwap { remote_addr, rkey, compare: 0, swap: 1 },
            (_, 5) => SendOp::Write { remote_addr, rkey, imm: Some(7) },
            (_, 6) => SendOp::AtomicWrite { remote_addr, rkey },
            (_, 7) => SendOp::Flush {
                remote_addr,
                rkey,
                length,
                placement: Placement::GLOBAL,
                selectivity: match length % 2 {
                    0 => Selectivity::Range,
                    _ => Selectivity::Region,
                },
            },
            (_, _) => SendOp::Send { imm: None, invalidate: Some(rkey) },
        }
    }

    fn change(&mut self, access: u8, depth: u8, timeout: u8, retries: u8) {
        self.attributes.access = Access::from_bits_truncate(u32::from(access));
        self.attributes.max_rd_atomic = depth & 3;
        self.attributes.max_dest_rd_atomic = depth >> 2 & 3;
        self.attributes.timeout = timeout & 31;
        self.attributes.retry_count = retries & 7;
        self.attributes.rnr_retry = retries >> 3 & 7;
        let mask = M::ACCESS_FLAGS
            | M::MAX_QP_RD_ATOMIC
            | M::MAX_DEST_RD_ATOMIC
            | M::TIMEOUT
            | M::RETRY_CNT
            | M::RNR_RETRY;
        let _ = self.device.modify_qp(self.qp, &self.attributes, mask);
    }

    fn local(&self, offset: u16, len: u16, foreign: bool) -> Sge {
        let lkey = if foreign { self.foreign } else { self.key };
        // Mostly inside.
        let (offset, len) = (u64::from(offset & 0x1fff), u32::from(len % 2048));
        Sge { addr: BASE + offset, length: len, lkey }
    }

    pub(crate) fn send(&mut self, op: SendOp, sges: &[Sge], flags: SendFlags, inline: &[u8]) {
        let wr = SendWr { wr_id: 1, op, flags, sges, inline, ..SendWr::default() };
        let _ = self.device.post_send(self.qp, &wr);
    }
}
