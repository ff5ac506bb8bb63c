//! A packet departs: which queue pair is next, what its next frame is, and how it is filled.

use super::{BURST_MAX, Device, Filled, FrameOut, Origin, Payload};
use crate::Instant;
use crate::counters::Counter;
use crate::memory::Memory;
use crate::qp::{local, requester, responder};
use crate::verbs::QpNum;

impl Device {
    /// Puts the next frame to send into `frame`; false if there is none. The device moves on when
    /// it is filled; a frame that is dropped instead is made again.
    pub fn next_frame(&mut self, frame: &mut FrameOut) -> bool {
        if self.gsi.next_frame(frame) {
            return true;
        }
        while let Some(&index) = self.ready.front() {
            if self.burst >= BURST_MAX {
                self.burst = 0;
                self.ready.rotate_left(1);
                if self.ready.len() > 1 {
                    continue;
                }
            }
            if let Some(qp) = self.qps.at_mut(index) {
                if responder::next_frame(qp, frame)
                    || requester::next_frame(qp, &mut self.shared, frame)
                {
                    return true;
                }
                qp.listed = false;
            }
            self.ready.pop_front();
            self.burst = 0;
        }
        self.fail_overrun();
        false
    }

    /// The same for the next request of one queue pair, if it may leave now. Right after a post
    /// this puts what the program waits for before answers that can wait; those stay for
    /// [`Device::next_frame`].
    pub fn next_request(&mut self, qp: QpNum, frame: &mut FrameOut) -> bool {
        self.burst = 0;
        self.qps.get_mut(qp).is_some_and(|qp| requester::next_frame(qp, &mut self.shared, frame))
    }

    /// Writes the packet (BTH to the end of the pad) into `out`, which has [`FrameOut::len`]
    /// bytes, and moves on. Returns false when the frame must not be sent: it is due no more, or
    /// its payload cannot be read any more, and the work request it belonged to fails.
    // [rc-requester/one-message-at-a-time]
    pub fn fill<M: Memory + ?Sized>(
        &mut self,
        now: Instant,
        memory: &M,
        frame: &FrameOut,
        out: &mut [u8],
    ) -> bool {
        self.set_now(now);
        if frame.origin == Origin::Gsi {
            let filled = self.gsi.fill(frame, out);
            if filled {
                self.shared.count(Counter::SentPackets);
            }
            return filled;
        }
        let Some(qp) = self.qps.at_mut(frame.owner) else { return false };
        let shared = &mut self.shared;
        let due = match frame.origin {
            Origin::Request { .. } => requester::is_due(qp, frame),
            Origin::Response | Origin::Cnp | Origin::Late => responder::is_due(qp, frame),
            Origin::Gsi => false,
        };
        let header = frame.header.as_slice();
        let payload_end = header.len() + frame.payload_len as usize;
        if !due || out.len() != frame.len() {
            return false;
        }
        if matches!(frame.origin, Origin::Response | Origin::Late) {
            // Whoever is told that a WRITE is done finds all of it.
            // [profiles/acknowledged-is-placed]
            responder::place_late(qp, shared, memory);
            if frame.origin == Origin::Late || !responder::is_due(qp, frame) {
                return false;
            }
        }
        let (head, rest) = out.split_at_mut(header.len());
        head.copy_from_slice(header);
        let (payload, pad) = rest.split_at_mut(payload_end - header.len());
        if !pad.is_empty() {
            pad.fill(0);
        }
        match frame.payload {
            Payload::None => {}
            Payload::Message { wqe, offset } => {
                if let Err(why) = local::gather(qp, shared, memory, wqe, offset, payload) {
                    requester::not_sent(qp, shared, why);
                    return false;
                }
            }
            Payload::Region { pd, key, addr } => {
                let place = (pd, key, addr);
                if let Err(fault) = responder::read_payload(qp, shared, memory, place, payload) {
                    responder::refused(qp, shared, fault);
                    return false;
                }
            }
        }
        shared.count(Counter::SentPackets);
        match frame.origin {
            Origin::Request { psns, ends_request } => {
                requester::sent(qp, shared, now, frame.len(), (psns, ends_request));
            }
            Origin::Response => responder::answered(qp),
            Origin::Cnp => responder::notified(qp, shared),
            Origin::Late | Origin::Gsi => {}
        }
        self.burst += 1;
        true
    }

    /// The same, and makes the next frame in the place of this one when it is like it. Most frames
    /// are followed by such ones, which leave by a shorter way.
    pub fn fill_run<M: Memory + ?Sized>(
        &mut self,
        now: Instant,
        memory: &M,
        frame: &mut FrameOut,
        out: &mut [u8],
    ) -> Filled {
        if !self.fill(now, memory, frame, out) {
            return Filled::Not;
        }
        let Some(qp) = self.qps.at_mut(frame.owner).filter(|_| self.burst < BURST_MAX) else {
            return Filled::Once;
        };
        let follows = match frame.origin {
            Origin::Request { ends_request: false, .. } => {
                requester::next_frame(qp, &mut self.shared, frame)
            }
            Origin::Response => responder::next_frame(qp, frame),
            Origin::Request { .. } | Origin::Cnp | Origin::Late | Origin::Gsi => false,
        };
        if follows && frame.len() == out.len() { Filled::AndMore } else { Filled::Once }
    }
}
