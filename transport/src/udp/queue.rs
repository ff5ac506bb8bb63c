//! Frames that wait to be sent, one after the other in memory, so that neighbours of one length
//! and one destination leave in one call.

use std::collections::VecDeque;
use std::net::SocketAddr;

use softrnic_model::wire::ICRC_LEN;

use super::system::{Burst, DATAGRAM_MAX, SEGMENTS_MAX};
use crate::link::PACKET_LEN_MAX;

/// The longest frame, ICRC included.
pub(super) const FRAME_MAX: usize = PACKET_LEN_MAX + ICRC_LEN;
/// Frames that may wait.
const FRAMES_MAX: usize = 4 * SEGMENTS_MAX;
/// Bytes that may wait: two of the longest bursts.
const BYTES_MAX: usize = 2 << 16;
const _: () = assert!(BYTES_MAX >= DATAGRAM_MAX + FRAME_MAX);

/// Where a frame goes: all that must be equal for two frames to share a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) to: SocketAddr,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    pub(super) socket: usize,
    pub(super) slot: u8,
}

/// The waiting frames.
pub(super) struct Queue {
    /// Behind [`BYTES_MAX`] there is room for one more frame, so that a frame can be made before
    /// it is known whether it may wait.
    bytes: Box<[u8]>,
    /// Frames lie from here ..
    head: usize,
    /// .. to here.
    tail: usize,
    bursts: VecDeque<Burst>,
    frames: usize,
    segments_max: usize,
}

impl Queue {
    pub(super) fn new(segments_max: usize) -> Self {
        Self {
            bytes: vec![0; BYTES_MAX + FRAME_MAX].into_boxed_slice(),
            head: 0,
            tail: 0,
            bursts: VecDeque::with_capacity(FRAMES_MAX),
            frames: 0,
            segments_max,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bursts.is_empty()
    }

    /// Whether one more frame of any length may be appended.
    pub(super) const fn has_room(&self) -> bool {
        self.frames < FRAMES_MAX && self.tail - self.head + FRAME_MAX <= BYTES_MAX
    }

    /// Whether waiting longer would make no longer burst.
    pub(super) fn is_worth_sending(&self) -> bool {
        let full = self.bursts.back().is_some_and(|last| {
            last.frames >= SEGMENTS_MAX || last.len + last.segment > DATAGRAM_MAX
        });
        full || !self.has_room()
    }

    /// Room behind the waiting frames for one of `len` bytes, at most [`FRAME_MAX`].
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.tail + FRAME_MAX > self.bytes.len() {
            self.bytes.copy_within(self.head..self.tail, 0);
            for burst in &mut self.bursts {
                burst.start -= self.head;
            }
            self.tail -= self.head;
            self.head = 0;
        }
        &mut self.bytes[self.tail..self.tail + len]
    }

    /// Appends the `len` bytes that were written to [`Queue::room`], if [`Queue::has_room`].
    /// Returns the position of the frame in its burst, which will be its IPv4 identification.
    pub(super) fn append(&mut self, len: usize, destination: &Destination) -> u16 {
        let start = self.tail;
        self.tail += len;
        self.frames += 1;
        if let Some(last) = self.bursts.back_mut()
            && last.takes(len, destination, self.segments_max)
        {
            let position = last.frames;
            last.len += len;
            last.frames += 1;
            return u16::try_from(position).unwrap_or(u16::MAX);
        }
        let Destination { to, traffic_class, hop_limit, socket, slot } = *destination;
        self.bursts.push_back(Burst {
            to,
            traffic_class,
            hop_limit,
            socket,
            slot,
            start,
            len,
            segment: len,
            frames: 1,
        });
        0
    }

    /// The bytes of the frame that was appended last.
    pub(super) fn last_frame(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.tail - len..self.tail]
    }

    /// The first bursts that leave from the same socket, and the bytes that they refer to.
    pub(super) fn front_run(&mut self) -> (&[u8], &[Burst]) {
        let bursts = &*self.bursts.make_contiguous();
        let same = bursts.first().map_or(0, |first| {
            bursts.iter().take_while(|burst| burst.socket == first.socket).count()
        });
        (&self.bytes, &bursts[..same])
    }

    /// The burst that leaves next.
    pub(super) fn front(&self) -> Option<&Burst> {
        self.bursts.front()
    }

    /// Forgets the burst that leaves next, because it has left or cannot leave.
    pub(super) fn pop(&mut self) -> Option<Burst> {
        let burst = self.bursts.pop_front()?;
        self.frames -= burst.frames;
        self.head = burst.start + burst.len;
        if self.bursts.is_empty() {
            self.head = 0;
            self.tail = 0;
        }
        Some(burst)
    }

    /// Makes a burst of its own of every waiting frame of the first `bursts` bursts, and calls
    /// `renumber` with each frame whose position was not 0.
    pub(super) fn split(
        &mut self,
        bursts: usize,
        renumber: &mut dyn FnMut(&Burst, u16, &mut [u8]),
    ) {
        let rest = self.bursts.split_off(bursts.min(self.bursts.len()));
        let whole = std::mem::replace(&mut self.bursts, VecDeque::with_capacity(FRAMES_MAX));
        for burst in whole {
            for position in 0..burst.frames {
                let offset = position * burst.segment;
                let len = burst.segment.min(burst.len - offset);
                let start = burst.start + offset;
                let single = Burst { start, len, segment: len, frames: 1, ..burst };
                if position > 0 {
                    let frame = &mut self.bytes[start..start + len];
                    renumber(&single, u16::try_from(position).unwrap_or(u16::MAX), frame);
                }
                self.bursts.push_back(single);
            }
        }
        self.bursts.extend(rest);
    }

    /// From now on every frame is a burst of its own.
    pub(super) const fn never_join(&mut self) {
        self.segments_max = 1;
    }

    /// Whether frames may share a burst.
    pub(super) const fn joins(&self) -> bool {
        self.segments_max > 1
    }

    /// Removes the IPv6 flow labels of the waiting bursts; returns whether there was one.
    pub(super) fn clear_flow_labels(&mut self) -> bool {
        let mut any = false;
        for burst in &mut self.bursts {
            if let SocketAddr::V6(to) = &mut burst.to {
                any |= to.flowinfo() != 0;
                to.set_flowinfo(0);
            }
        }
        any
    }
}

impl Burst {
    /// Whether a frame of `len` bytes may follow in this burst.
    fn takes(&self, len: usize, destination: &Destination, segments_max: usize) -> bool {
        // a shorter frame ends a burst
        self.len == self.frames * self.segment
            && len <= self.segment
            && self.frames < segments_max
            && self.len + len <= DATAGRAM_MAX
            && self.to == destination.to
            && self.traffic_class == destination.traffic_class
            && self.hop_limit == destination.hop_limit
            && self.socket == destination.socket
            && self.slot == destination.slot
    }
}
