//! Requests that must fail.

use softrnic_reference::{Access as Does, Keys, Kind, Outcome, Rights, Status, Violation, Who};
use softrnic_verbs::{Key, SendOp, Sge};

use super::act::{Posting, sge};
use super::chance::Chance;
use super::ends::Then;
use super::guarded::LEN;
use super::run::Swarm;
use super::watch::status;

impl Swarm<'_> {
    /// What the peer must refuse: a key that is none, bytes outside, a right that is missing. The
    /// reference model says so.
    pub(super) fn offend(
        &mut self,
        end: usize,
        chance: &mut Chance,
    ) -> Option<Result<(), Violation>> {
        let does = match chance.below(3) {
            0 => Does::RemoteWrite,
            1 => Does::RemoteRead,
            _ => Does::RemoteAtomic,
        };
        let atomic = does == Does::RemoteAtomic;
        let len = if atomic { 8 } else { self.length(end, chance).max(1) };
        let (rkey, remote_addr) = self.forbidden(end, does, len, chance)?;
        let pieces = if atomic {
            vec![self.host(end).take_word()?]
        } else {
            self.host(end).take_pieces(len, chance)?
        };
        let (kind, op) = if atomic {
            (Kind::FetchAdd, SendOp::FetchAdd { remote_addr, rkey, add: 1 })
        } else if does == Does::RemoteWrite {
            (Kind::Write, SendOp::Write { remote_addr, rkey, imm: None })
        } else {
            (Kind::Read, SendOp::Read { remote_addr, rkey })
        };
        let mut posting = Posting::new(kind, op);
        let host = self.host(end);
        host.refresh(&pieces);
        posting.sges = pieces.iter().map(|piece| sge(host, piece)).collect();
        if kind == Kind::Read {
            // One that is asked for in parts may have brought some before the one that is refused.
            posting.sent.then = Then::Brought(pieces.clone(), Vec::new());
        }
        posting.sent.local = pieces;
        posting.outcome = Outcome::Fails(Status::RemoteAccess);
        Some(self.post(end, posting, chance))
    }

    /// Key and address of what such an access may not touch.
    fn forbidden(
        &mut self,
        end: usize,
        does: Does,
        len: usize,
        chance: &mut Chance,
    ) -> Option<(Key, u64)> {
        let len = len as u64;
        let host = self.peer_host(end);
        if chance.percent(40) {
            // An atomic must be aligned, or it is refused for that.
            let offset = chance.index(LEN) & !7;
            let (address, key) = host.guarded.remote(chance.index(3), offset);
            return host.guarded.refuses(key, address, len, does).then_some((key, address));
        }
        let (base, size) = (host.region.remote(0).addr, host.memory.len() as u64);
        let key = host.key();
        let mut keys = Keys::default();
        keys.register(key.0, 0, (0, base, size), Rights::ALL);
        let (rkey, address) = match chance.below(5) {
            0 => (Key(key.0 ^ (1 + chance.below(255))), base),
            1 => (Key(key.0 ^ 0x0040_0000), base),
            2 => (key, base + size - len + 1),
            3 => (key, base - 1),
            _ => (key, u64::MAX - u64::from(chance.below(8))),
        };
        let address = if does == Does::RemoteAtomic { address & !7 } else { address };
        let who = Who { domain: 0, qp: 0 };
        keys.judge(rkey.0, who, (address, len), does).is_err().then_some((rkey, address))
    }

    /// A local key that is none, or a READ into memory that the device may not write.
    pub(super) fn blunder(
        &mut self,
        end: usize,
        chance: &mut Chance,
    ) -> Option<Result<(), Violation>> {
        let piece = self.host(end).take_word()?;
        let mut posting = if chance.percent(50) {
            let mut posting =
                Posting::new(Kind::Send, SendOp::Send { imm: None, invalidate: None });
            let good = sge(self.host(end), &piece);
            posting.sges = if chance.percent(50) {
                vec![Sge { lkey: Key(good.lkey.0 ^ 1), ..good }]
            } else {
                vec![self.host(end).stranger.sge(8)]
            };
            posting
        } else {
            let host = self.peer_host(end);
            let (remote_addr, rkey) = (host.region.remote(0).addr, host.key());
            let mut posting = Posting::new(Kind::Read, SendOp::Read { remote_addr, rkey });
            posting.sges = vec![self.host(end).guarded.read_only()];
            posting
        };
        posting.sent.local = vec![piece];
        posting.outcome = Outcome::Fails(status(self.plan.profile().bad_lkey));
        Some(self.post(end, posting, chance))
    }
}
