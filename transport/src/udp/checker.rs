//! The ICRC of what arrives.
//!
//! Over IPv4 the ICRC covers the identification field, which a UDP socket does not show. What this
//! kind of sender puts there is known: 0, and counting up within one segmented send. Soft-RoCE in a
//! kernel and many NICs count from frame to frame. So some identifications are foreseen, and with
//! one of them all 32 bits of the ICRC check; with any other, 16 bits do and the pattern is noted.

use softrnic_model::verbs::Gid;
use softrnic_model::wire::{ICRC_LEN, IcrcRoute, IcrcSeed, IcrcVerdict, Route};

/// Flows that are remembered; more of them replace each other.
const FLOWS: usize = 256;
/// How far an identification may run ahead of the last one and still fit a counter: frames were
/// lost, or went to others that share the counter.
const AHEAD_MAX: u16 = 1024;

/// What the addresses and ports of some flows add to an ICRC, found by hash. Flows whose hashes
/// clash replace each other.
struct Flows<T>(Box<[Option<Flow<T>>; FLOWS]>);

struct Flow<T> {
    key: FlowKey,
    icrc: IcrcRoute,
    note: T,
}

type FlowKey = (Gid, Gid, u16);

impl<T: Default> Flows<T> {
    fn new() -> Self {
        Self(Box::new(std::array::from_fn(|_| None)))
    }

    fn of(&mut self, route: &Route) -> &mut Flow<T> {
        let key = (route.src, route.dst, route.src_port);
        let entry = &mut self.0[hash(&key) % FLOWS];
        if entry.as_ref().is_some_and(|known| known.key != key) {
            *entry = None;
        }
        entry.get_or_insert_with(|| Flow { key, icrc: IcrcRoute::new(route), note: T::default() })
    }
}

/// Spreads the parts of addresses that differ within a network.
fn hash((src, dst, port): &FlowKey) -> usize {
    let word = |gid: &Gid| {
        let [high, low] = *gid.0.as_chunks::<8>().0 else { return 0 };
        u64::from_le_bytes(high) ^ u64::from_le_bytes(low).rotate_left(7)
    };
    let mixed = (word(src) ^ word(dst).rotate_left(23) ^ u64::from(*port))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::from(u16::from_le_bytes([mixed.to_le_bytes()[6], mixed.to_le_bytes()[7]]))
}

/// Makes the ICRCs of frames that leave.
pub(crate) struct Maker(Flows<()>);

impl Maker {
    pub(crate) fn new() -> Self {
        Self(Flows::new())
    }

    /// The ICRC of `packet` on `route` with this IPv4 identification.
    // [icrc/retransmission]
    pub(crate) fn icrc(
        &mut self,
        route: &Route,
        identification: u16,
        packet: &[u8],
    ) -> [u8; ICRC_LEN] {
        let seed = self.route(route).seed(packet.len() + ICRC_LEN);
        seed.with_identification(identification).finish(packet)
    }

    /// What the ICRCs of all packets on `route` have in common.
    pub(crate) fn route(&mut self, route: &Route) -> IcrcRoute {
        self.0.of(route).icrc
    }
}

/// Judges the ICRCs of frames that arrive.
pub(super) struct Checker(Flows<Pattern>);

/// What the identifications of a peer were like.
#[derive(Default)]
struct Pattern {
    last: Option<u16>,
    /// The last one was the position in its burst: the peer counts anew in each.
    by_position: bool,
}

/// What the ICRC of a frame proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Right in all 32 bits.
    Full,
    /// Right in 16 bits; the identification fits what the peer did before.
    Solved,
    /// Right in 16 bits; the identification does not fit.
    Odd,
    /// Wrong.
    Bad,
}

impl Checker {
    pub(super) fn new() -> Self {
        Self(Flows::new())
    }

    /// Begins on frames that have arrived together on `route`.
    pub(super) fn arrival(&mut self, route: &Route) -> Arrived<'_> {
        Arrived { flow: self.0.of(route), seed: None }
    }
}

/// Judges frames that have arrived together.
pub(super) struct Arrived<'a> {
    flow: &'a mut Flow<Pattern>,
    /// Of the last frame, by its length.
    seed: Option<(usize, IcrcSeed)>,
}

impl Arrived<'_> {
    /// Judges the frame at `position` among those that the kernel merged.
    // [icrc/bad-dropped]
    pub(super) fn check(
        &mut self,
        position: usize,
        packet: &[u8],
        icrc: [u8; ICRC_LEN],
    ) -> Verdict {
        let (len, Flow { icrc: route, note, .. }) = (packet.len(), &mut *self.flow);
        let (_, seed) = match self.seed {
            Some(known) if known.0 == len => known,
            Some(_) | None => *self.seed.insert((len, route.seed(len + ICRC_LEN))),
        };
        let assumed = note.foresee(position);
        let (verdict, identification) = match seed.with_identification(assumed).verify(packet, icrc)
        {
            IcrcVerdict::Full => (Verdict::Full, assumed),
            IcrcVerdict::Solved(found) => (note.judge(found, position), found),
            IcrcVerdict::Bad => return Verdict::Bad,
        };
        note.keep(identification, position);
        verdict
    }
}

impl Pattern {
    /// The likeliest identification of a frame at `position`.
    fn foresee(&self, position: usize) -> u16 {
        match self.last {
            Some(last) if !self.by_position => last.wrapping_add(1),
            Some(_) | None => u16::try_from(position).unwrap_or(u16::MAX),
        }
    }

    /// Judges an identification that solves the ICRC and is not the likeliest one. A sender of this
    /// kind begins each send with 0 and counts, others count on; to know the number beforehand is
    /// to check all bits.
    fn judge(&self, found: u16, position: usize) -> Verdict {
        if found == 0 || usize::from(found) == position {
            return Verdict::Full;
        }
        match self.last {
            Some(last) if found.wrapping_sub(last) == 1 => Verdict::Full,
            Some(last) if found.wrapping_sub(last) > AHEAD_MAX => Verdict::Odd,
            Some(_) | None => Verdict::Solved,
        }
    }

    fn keep(&mut self, identification: u16, position: usize) {
        self.last = Some(identification);
        self.by_position = usize::from(identification) == position;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use softrnic_model::wire::IcrcSeed;

    use super::*;

    fn route(v4: bool, port: u16) -> Route {
        let (src, dst) = if v4 {
            (Gid::from_v4([10, 77, 0, 1]), Gid::from_v4([10, 77, 0, 2]))
        } else {
            (Gid([0xfd; 16]), Gid([0xfe; 16]))
        };
        Route { src, dst, src_port: port, hop_limit: 64, ..Route::default() }
    }

    fn icrc(route: &Route, identification: u16, packet: &[u8]) -> [u8; ICRC_LEN] {
        IcrcSeed::new(route, packet.len() + ICRC_LEN)
            .with_identification(identification)
            .finish(packet)
    }

    /// What a checker says of frames with these identifications, each received alone.
    fn verdicts(identifications: &[u16]) -> Vec<Verdict> {
        let (route, packet) = (route(true, 49152), [3; 28]);
        let mut checker = Checker::new();
        let judge = |&n: &u16| checker.arrival(&route).check(0, &packet, icrc(&route, n, &packet));
        identifications.iter().map(judge).collect()
    }

    #[test]
    fn own_kind_is_checked_in_full() {
        use Verdict::Full;
        assert_eq!(verdicts(&[0, 0, 0, 1, 2, 3, 0, 1, 0]), [Full; 9]);
    }

    #[test]
    fn a_burst_that_lost_its_middle_is_checked_in_full_by_position() {
        let (route, packet) = (route(true, 49152), [3; 28]);
        let mut checker = Checker::new();
        let mut check =
            |n: u16| checker.arrival(&route).check(n.into(), &packet, icrc(&route, n, &packet));
        assert_eq!([0, 1, 5, 6].map(&mut check), [Verdict::Full; 4]);
    }

    #[test]
    fn a_counter_is_solved_once_and_then_foreseen() {
        use Verdict::{Full, Solved};
        let expected = [Solved, Full, Full, Full, Solved, Full];
        assert_eq!(verdicts(&[0xfffe, 0xffff, 0, 1, 700, 701]), expected);
    }

    #[test]
    fn numbers_without_a_pattern_are_odd() {
        use Verdict::{Odd, Solved};
        assert_eq!(verdicts(&[4000, 3999, 20000, 7]), [Solved, Odd, Odd, Odd]);
    }

    #[test]
    fn v6_knows_only_right_and_wrong() {
        let (route, packet) = (route(false, 49152), [3; 28]);
        let mut checker = Checker::new();
        let good = icrc(&route, 0, &packet);
        assert_eq!(checker.arrival(&route).check(0, &packet, good), Verdict::Full);
        for bit in 0..32 {
            let bad = (u32::from_le_bytes(good) ^ 1 << bit).to_le_bytes();
            assert_eq!(checker.arrival(&route).check(0, &packet, bad), Verdict::Bad);
        }
    }

    #[test]
    fn one_flipped_bit_is_never_right() {
        let (route, packet) = (route(true, 50000), [0x5a; 64]);
        let good = icrc(&route, 0, &packet);
        let mut checker = Checker::new();
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet;
            damaged[bit / 8] ^= 1 << (bit % 8);
            // the fifth byte is not covered: a switch may mark congestion there
            let expected = if bit / 8 == 4 { Verdict::Full } else { Verdict::Bad };
            assert_eq!(checker.arrival(&route).check(0, &damaged, good), expected, "bit {bit}");
        }
    }

    #[test]
    fn peers_do_not_disturb_each_other_until_they_clash() {
        let packet = [1; 16];
        let mut checker = Checker::new();
        let mut full = 0;
        for n in 0..4u16 {
            for port in 0..64 {
                let route = route(true, 0xc000 + port);
                let verdict = checker.arrival(&route).check(
                    0,
                    &packet,
                    icrc(&route, 100 * port + n, &packet),
                );
                assert_ne!(verdict, Verdict::Bad);
                full += u32::from(verdict == Verdict::Full);
            }
        }
        assert!(full > 2 * 64, "most of the numbers after the first were foreseen: {full}");
    }

    proptest! {
        #[test]
        fn what_the_maker_makes_the_checker_takes(
            v4: bool,
            port: u16,
            identification: u16,
            packet in proptest::collection::vec(any::<u8>(), 12..200),
        ) {
            let route = route(v4, port);
            let made = Maker::new().icrc(&route, identification, &packet);
            prop_assert_eq!(made, icrc(&route, identification, &packet));
            let verdict = Checker::new().arrival(&route).check(0, &packet, made);
            let full = !v4 || identification == 0;
            prop_assert_eq!(verdict, if full { Verdict::Full } else { Verdict::Solved });
        }
    }
}
