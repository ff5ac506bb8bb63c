//! Hosts, switches, cables, and the ways through them.

use std::collections::VecDeque;

use softrnic_model::Instant;

use super::Place;
use crate::tap::FaultRules;

/// A host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// A cable between two nodes; frames travel both ways at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u32);

impl NodeId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its number: nodes count from 0 in the order in which they were added.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl LinkId {
    /// Its number: cables count from 0 in the order in which they were added.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// What a cable is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Time from one end to the other, in nanoseconds.
    pub latency_ns: u64,
    /// Bits per second; `None` is without limit, and then nothing ever queues.
    pub rate_bps: Option<u64>,
    /// Bytes that may wait for the cable; more are lost.
    pub queue_bytes: u64,
    /// A frame that finds more bytes than this waiting before it gets a congestion mark, if its
    /// sender says that it understands such marks.
    pub mark_above_bytes: u64,
}

impl Default for Cable {
    /// 500 ns, without limit.
    fn default() -> Self {
        Self { latency_ns: 500, rate_bps: None, queue_bytes: 1 << 20, mark_above_bytes: u64::MAX }
    }
}

/// One direction of a cable.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) to: NodeId,
    pub(super) cable: Cable,
    pub(super) up: bool,
    pub(super) paused: bool,
    pub(super) rules: Option<FaultRules>,
    /// When what has been given to it will have left.
    pub(super) free_at: Instant,
    /// Frames that wait for the end of a pause.
    pub(super) held: VecDeque<Place>,
    pub(super) held_bytes: u64,
}

/// What became of a frame that was given to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boarding {
    /// It will be at the other end then; a queue has marked it.
    Leaves { at: Instant, marked: bool },
    /// The queue is full.
    NoRoom,
}

impl Lane {
    pub(super) fn new(to: NodeId, cable: Cable) -> Self {
        Self {
            to,
            cable,
            up: true,
            paused: false,
            rules: None,
            free_at: Instant::ZERO,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// Puts `bytes` behind what is there already.
    pub(super) fn board(&mut self, now: Instant, bytes: u64) -> Boarding {
        let Cable { latency_ns, rate_bps, queue_bytes, mark_above_bytes } = self.cable;
        let Some(rate) = rate_bps else {
            return Boarding::Leaves { at: now.plus_ns(latency_ns), marked: false };
        };
        let waiting = bytes_in(self.free_at.ns_since(now), rate);
        if waiting.saturating_add(bytes) > queue_bytes {
            return Boarding::NoRoom;
        }
        self.free_at = self.free_at.max(now).plus_ns(ns_of(bytes, rate));
        let at = self.free_at.plus_ns(latency_ns);
        Boarding::Leaves { at, marked: waiting > mark_above_bytes }
    }

    /// Whether `bytes` more may wait for the end of a pause.
    pub(super) const fn holds(&self, bytes: u64) -> bool {
        self.held_bytes.saturating_add(bytes) <= self.cable.queue_bytes
    }
}

/// Nanoseconds that `bytes` take at `rate` bits per second, rounded up.
fn ns_of(bytes: u64, rate: u64) -> u64 {
    let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(rate.max(1)));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Bytes that leave within `ns`, rounded up.
fn bytes_in(ns: u64, rate: u64) -> u64 {
    let bytes = (u128::from(ns) * u128::from(rate)).div_ceil(8_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The nodes, the lanes between them, and which lane leads where.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// The lanes that leave each node.
    from: Vec<Vec<u32>>,
    pub(super) lanes: Vec<Lane>,
    /// For each destination that was asked for, the lane to take at each node.
    ways: Vec<Option<Box<[u32]>>>,
}

const NO_WAY: u32 = u32::MAX;

impl Topology {
    pub(super) fn add_node(&mut self) -> NodeId {
        self.from.push(Vec::new());
        self.ways.push(None);
        self.forget_ways();
        NodeId(u32::try_from(self.from.len() - 1).unwrap_or(u32::MAX))
    }

    pub(super) fn nodes(&self) -> usize {
        self.from.len()
    }

    pub(super) fn links(&self) -> usize {
        self.lanes.len() / 2
    }

    pub(super) fn connect(&mut self, a: NodeId, b: NodeId, cable: Cable) -> LinkId {
        let first = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        self.lanes.push(Lane::new(b, cable));
        self.lanes.push(Lane::new(a, cable));
        self.from[a.index()].push(first);
        self.from[b.index()].push(first + 1);
        self.forget_ways();
        LinkId(first / 2)
    }

    /// The two lanes of a cable.
    pub(super) fn of_link(&mut self, link: LinkId) -> &mut [Lane] {
        let first = link.0 as usize * 2;
        self.lanes.get_mut(first..first + 2).unwrap_or_default()
    }

    /// The lanes that lead to and from a node.
    pub(super) fn around(&self, node: NodeId) -> Vec<usize> {
        let out = self.from[node.index()].iter().map(|lane| *lane as usize);
        out.flat_map(|lane| [lane, lane ^ 1]).collect()
    }

    /// Which cables are in use has changed.
    pub(super) fn forget_ways(&mut self) {
        self.ways.fill_with(|| None);
    }

    /// The lane to take from `at` on the shortest way to `to`; of several, the one that was laid
    /// first.
    pub(super) fn next_lane(&mut self, at: NodeId, to: NodeId) -> Option<usize> {
        if self.ways[to.index()].is_none() {
            self.ways[to.index()] = Some(self.ways_to(to));
        }
        let lane = self.ways[to.index()].as_ref().map_or(NO_WAY, |ways| ways[at.index()]);
        (lane != NO_WAY).then_some(lane as usize)
    }

    fn ways_to(&self, to: NodeId) -> Box<[u32]> {
        let mut ways = vec![NO_WAY; self.nodes()].into_boxed_slice();
        let mut reached = VecDeque::from([to]);
        while let Some(node) = reached.pop_front() {
            for out in &self.from[node.index()] {
                // Its other lane leads here.
                let into = out ^ 1;
                let neighbour = self.lanes[*out as usize].to;
                if self.lanes[into as usize].up
                    && neighbour != to
                    && ways[neighbour.index()] == NO_WAY
                {
                    ways[neighbour.index()] = into;
                    reached.push_back(neighbour);
                }
            }
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_way_that_is_up_is_taken() {
        let mut topology = Topology::default();
        let [a, b, c, d] = [(); 4].map(|()| topology.add_node());
        let cable = Cable::default();
        let direct = topology.connect(a, d, cable);
        topology.connect(a, b, cable);
        topology.connect(b, d, cable);
        assert_eq!(topology.next_lane(a, d), Some(0));
        for lane in topology.of_link(direct) {
            lane.up = false;
        }
        topology.forget_ways();
        assert_eq!((topology.next_lane(a, d), topology.next_lane(b, d)), (Some(2), Some(4)));
        assert_eq!((topology.next_lane(d, a), topology.next_lane(a, c)), (Some(5), None));
    }

    #[test]
    fn a_lane_serves_one_after_the_other_and_its_queue_ends() {
        let cable = Cable {
            latency_ns: 100,
            rate_bps: Some(8_000_000_000), // a byte a nanosecond
            queue_bytes: 3000,
            mark_above_bytes: 1500,
        };
        let mut lane = Lane::new(NodeId(0), cable);
        let now = Instant::from_ns(1000);
        let leaves =
            |ns: u64, marked| Boarding::Leaves { at: Instant::from_ns(1000 + ns + 100), marked };
        assert_eq!(lane.board(now, 1000), leaves(1000, false));
        assert_eq!(lane.board(now, 1000), leaves(2000, false));
        assert_eq!(lane.board(now, 1000), leaves(3000, true));
        assert_eq!(lane.board(now, 1), Boarding::NoRoom);
        assert_eq!(lane.board(Instant::from_ns(3500), 2000), leaves(5000, false));
    }
}
