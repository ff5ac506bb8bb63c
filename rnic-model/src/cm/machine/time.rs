//! Time passes: what was not answered is sent again, or given up.

use super::Machine;
use super::connection::State;
use super::event::EventKind;
use crate::Instant;
use crate::cm::RejectReason;
use crate::cm::message::cell::CommId;

impl Machine {
    /// Time has passed.
    pub fn on_time(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.set_deadline(id, None);
            self.on_deadline(id, now);
        }
    }

    fn on_deadline(&mut self, id: CommId, now: Instant) {
        let longest = self.longest_wait_ns();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.state {
            State::Timewait => {
                self.tell(id, EventKind::TimewaitExit);
                self.remove(id);
            }
            State::ReqSent
            | State::MraReqRcvd
            | State::RepSent
            | State::MraRepRcvd
            | State::DreqSent
            | State::SidrReqSent => {
                if let Some(left) = connection.tries_left.checked_sub(1) {
                    connection.tries_left = left;
                    connection.wait_ns = connection.wait_ns.saturating_mul(2).min(longest);
                    let next = now.plus_ns(connection.wait_ns);
                    self.repeat(id);
                    self.set_deadline(id, Some(next));
                } else {
                    self.give_up(id, now);
                }
            }
            // They wait for the program, or for nothing.
            State::ReqRcvd
            | State::MraReqSent
            | State::RepRcvd
            | State::MraRepSent
            | State::Established
            | State::DreqRcvd
            | State::SidrReqRcvd => {}
        }
    }

    /// The peer has not answered. It is told, in case that it has and its answers were lost.
    fn give_up(&mut self, id: CommId, now: Instant) {
        let state = self.state(id);
        if state == Some(State::DreqSent) {
            self.tell(id, EventKind::Disconnected { timed_out: true });
            return self.enter_timewait(id, now);
        }
        if state != Some(State::SidrReqSent) {
            let rej = self.rej_of(id, RejectReason::TIMEOUT).named_by(self.config.guid);
            self.say(id, rej);
        }
        self.tell(id, EventKind::Unreachable);
        self.remove(id);
    }
}
