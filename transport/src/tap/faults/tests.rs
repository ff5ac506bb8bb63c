//! Rules, the text form, and the tap around a link of the test's own.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;

use proptest::prelude::*;
use softrnic_model::verbs::{Gid, Psn};

use super::*;
use crate::link::{Link, LinkCounters, Outgoing};

fn packet(number: u32, opcode: u8) -> Vec<u8> {
    let bth = Bth::new(Opcode(opcode), QpNum::new(0x12), Psn::new(number));
    let mut packet = zerocopy::IntoBytes::as_bytes(&bth).to_vec();
    packet.resize(12 + 4 + 4 * (number % 50) as usize, 0x5a);
    packet
}

fn number(packet: &[u8]) -> u32 {
    Bth::ref_from_prefix(packet).unwrap().0.psn().get()
}

fn route() -> Route {
    Route { src: Gid::from_v4([10, 0, 0, 1]), dst: Gid::from_v4([10, 0, 0, 2]), ..Route::default() }
}

/// The fates of the first `count` frames.
fn fates(rules: &mut FaultRules, count: u32, direction: Direction) -> Vec<Fate> {
    (0..count).map(|n| rules.judge(Instant::ZERO, direction, &route(), &packet(n, 0x0a))).collect()
}

fn parse(text: &str) -> FaultRules {
    FaultRules::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

const ALL: &str = "drop=1%,reorder=2%,duplicate=0.5%,delay=1%:500us,corrupt=0.1%,ecn=5%,seed=7";

#[test]
fn the_same_seed_gives_the_same_fates_and_another_seed_others() {
    let run = |text: &str| fates(&mut parse(text), 5000, Direction::Sent);
    assert_eq!(run(ALL), run(ALL));
    assert_ne!(run(ALL), run(&ALL.replace("seed=7", "seed=8")));
    assert_eq!(run("drop=1%,ecn=3%"), run("drop=1%,ecn=3%,seed=0"));
}

#[test]
fn a_rule_at_the_end_does_not_change_the_choices_of_those_before() {
    let few = fates(&mut parse("drop=3%,reorder=3%,seed=1"), 5000, Direction::Sent);
    let more = fates(&mut parse("drop=3%,reorder=3%,ecn=50%,seed=1"), 5000, Direction::Sent);
    for (few, more) in few.iter().zip(&more) {
        assert!(few == more || (*few == Fate::Pass && *more == Fate::MarkCe));
    }
}

#[test]
fn shares_are_kept() {
    let count = 200_000;
    let fates = fates(&mut parse(ALL), count, Direction::Sent);
    let share =
        |is: fn(&Fate) -> bool| fates.iter().filter(|f| is(f)).count() as f64 / f64::from(count);
    let expected = [
        (share(|f| *f == Fate::Drop), 0.01),
        (share(|f| *f == Fate::Reorder), 0.02 * 0.99),
        (share(|f| *f == Fate::Duplicate), 0.005 * 0.97),
        (share(|f| *f == Fate::Delay(500_000)), 0.01 * 0.965),
        (share(|f| matches!(f, Fate::Corrupt(_))), 0.001 * 0.955),
        (share(|f| *f == Fate::MarkCe), 0.05 * 0.954),
    ];
    for (got, wanted) in expected {
        // five standard deviations
        let bound = 5.0 * (wanted * (1.0 - wanted) / f64::from(count)).sqrt();
        assert!((got - wanted).abs() < bound, "{got} for {wanted}");
    }
}

#[test]
fn a_flipped_bit_is_one_that_the_icrc_covers() {
    let mut seen = [false; (16 + 4) * 8];
    let mut rules = parse("corrupt=100%");
    for _ in 0..20_000 {
        let fate = rules.judge(Instant::ZERO, Direction::Sent, &route(), &packet(0, 4));
        let Fate::Corrupt(bit) = fate else { panic!("{fate:?}") };
        seen[bit as usize] = true;
    }
    for (bit, seen) in seen.iter().enumerate() {
        assert_eq!(*seen, bit / 8 != 4, "bit {bit}");
    }
}

#[test]
fn rules_look_at_side_opcode_and_queue_pair() {
    use Direction::{Received, Sent};
    let judge = |text: &str, direction, opcode| {
        parse(text).judge(Instant::ZERO, direction, &route(), &packet(1, opcode))
    };
    for (text, direction, opcode, fate) in [
        ("drop=100%", Sent, 0x0a, Fate::Drop),
        ("drop=100%,side=both", Received, 0x0a, Fate::Drop),
        ("drop=100%,side=tx", Sent, 0x0a, Fate::Drop),
        ("drop=100%,side=tx", Received, 0x0a, Fate::Pass),
        ("side=rx,drop=100%", Received, 0x0a, Fate::Drop),
        ("side=rx,drop=100%", Sent, 0x0a, Fate::Pass),
        ("opcode=RDMA_WRITE_ONLY,drop=100%", Sent, 0x0a, Fate::Drop),
        ("opcode=RDMA_WRITE_ONLY,drop=100%", Sent, 0x2a, Fate::Drop),
        ("opcode=RC RDMA_WRITE_ONLY,drop=100%", Sent, 0x2a, Fate::Pass),
        ("opcode=ACKNOWLEDGE,drop=100%", Sent, 0x0a, Fate::Pass),
        ("qp=0x12,drop=100%", Sent, 0x0a, Fate::Drop),
        ("qp=18,ecn=100%", Sent, 0x0a, Fate::MarkCe),
        ("qp=0x13,drop=100%", Sent, 0x0a, Fate::Pass),
    ] {
        assert_eq!(judge(text, direction, opcode), fate, "{text} {direction:?} {opcode:#x}");
    }
    // too short for a header: only rules without a condition apply
    let stub = |text| parse(text).judge(Instant::ZERO, Sent, &route(), &[1, 2, 3]);
    assert_eq!(stub("drop=100%,qp=0x12"), Fate::Pass);
    assert_eq!(stub("drop=100%"), Fate::Drop);
}

#[test]
fn the_third_of_them() {
    let mut rules = parse("drop=#3,duplicate=#1,delay=#5:1.5ms,drop=#4,seed=0x10");
    use Fate::{Delay, Drop, Duplicate, Pass};
    let expected = [Duplicate, Pass, Drop, Drop, Delay(1_500_000), Pass];
    assert_eq!(fates(&mut rules, 6, Direction::Sent), expected);
}

#[test]
fn own_rules_are_functions() {
    let mut rules = FaultRules::new()
        .with(
            |seen: &Seen<'_>| if seen.now >= Instant::from_ns(5) { Fate::Drop } else { Fate::Pass },
        )
        .with(|seen: &Seen<'_>| if seen.bits() > 200 { Fate::Reorder } else { Fate::Pass });
    let mut judge =
        |ns, n| rules.judge(Instant::from_ns(ns), Direction::Sent, &route(), &packet(n, 4));
    assert_eq!((judge(0, 0), judge(0, 40), judge(5, 40)), (Fate::Pass, Fate::Reorder, Fate::Drop));
}

#[test]
fn errors_name_the_item_and_what_is_allowed() {
    for (text, item, problem) in [
        ("drop=1%,drap=2%", "drap=2%", "no such rule"),
        ("drop", "drop", "a value is missing"),
        ("drop=", "drop=", "a value is missing"),
        ("drop=1", "drop=1", "not a share"),
        ("drop=101%", "drop=101%", "not a share"),
        ("drop=-1%", "drop=-1%", "not a share"),
        ("drop=0.00001%", "drop=0.00001%", "not a share"),
        ("drop=#0", "drop=#0", "not a share"),
        ("drop=.5%", "drop=.5%", "not a share"),
        ("drop=1%:5us", "drop=1%:5us", "takes no time"),
        ("delay=1%", "delay=1%", "a time is missing"),
        ("delay=1%:", "delay=1%:", "not a time"),
        ("delay=1%:5", "delay=1%:5", "not a time"),
        ("delay=1%:0.5ns", "delay=1%:0.5ns", "not a time"),
        ("delay=1%:99999999999999s", "delay=1%:99999999999999s", "not a time"),
        ("drop=1%,drop=2%", "drop=2%", "said before"),
        ("seed=1,seed=1", "seed=1", "said before"),
        ("seed=x", "seed=x", "not a number"),
        ("side=left", "side=left", "neither tx nor rx nor both"),
        ("opcode=WRITE", "opcode=WRITE", "no such opcode"),
        ("qp=0x1000000", "qp=0x1000000", "not a queue pair number"),
    ] {
        let message = FaultRules::parse(text).unwrap_err().to_string();
        assert!(message.starts_with(&format!("fault rule {item:?}: {problem}")), "{message}");
        assert!(message.contains("allowed are drop=1%, reorder=1%"), "{message}");
    }
}

#[test]
fn nothing_and_spaces_are_no_rules() {
    assert!(parse("").is_empty());
    assert!(parse(" , ,").is_empty());
    assert!(parse("seed=3").is_empty());
    assert!(!parse(" drop = 1 % , seed = 3 ").is_empty());
}

#[test]
fn a_fabric_takes_the_rules_as_weather() {
    let mut rules = parse("drop=#1,duplicate=#2,reorder=#3,delay=#4:9ns,ecn=#5,corrupt=#6");
    let mut fate = || rules.judge_in_fabric();
    assert_eq!(fate(), sim::Fate::Drop);
    assert_eq!(fate(), sim::Fate::Duplicate(0));
    assert_eq!(fate(), sim::Fate::Delay(REORDER_WAIT_NS));
    assert_eq!(fate(), sim::Fate::Delay(9));
    assert_eq!(fate(), sim::Fate::Mark);
    assert!(matches!(fate(), sim::Fate::Corrupt(_)));
    assert_eq!(fate(), sim::Fate::Pass);
}

impl FaultRules {
    fn judge_in_fabric(&mut self) -> sim::Fate {
        let weather: &mut dyn sim::Weather = self;
        weather.judge(Instant::ZERO, 0, &route(), &packet(1, 4))
    }
}

/// A link that keeps what it is given, and yields what the test puts there.
#[derive(Debug, Default)]
struct Plain {
    sent: Vec<(Outgoing, Vec<u8>)>,
    arriving: VecDeque<Vec<u8>>,
    /// How many more frames it takes; unlimited if `None`.
    room: Option<usize>,
}

impl Link for Plain {
    fn receive(&mut self, _: Instant, deliver: &mut dyn FnMut(&Route, &[u8])) -> io::Result<usize> {
        let count = self.arriving.len();
        for packet in self.arriving.drain(..) {
            deliver(&route(), &packet);
        }
        Ok(count)
    }

    fn ready(&self) -> bool {
        self.room != Some(0)
    }

    fn transmit(
        &mut self,
        _: Instant,
        frame: Outgoing,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        assert!(self.ready(), "the tap must ask before it gives");
        let mut packet = vec![0; frame.len];
        if fill(&mut packet) {
            self.sent.push((frame, packet));
            self.room = self.room.map(|room| room - 1);
        }
        Ok(())
    }

    fn flush(&mut self, _: Instant) -> io::Result<()> {
        Ok(())
    }

    fn join(&mut self, _group: Gid) -> io::Result<()> {
        Ok(())
    }

    fn leave(&mut self, _group: Gid) {}

    fn sockets(&self, _each: &mut dyn FnMut(&UdpSocket)) {}

    fn counters(&self) -> LinkCounters {
        LinkCounters { tx_packets: self.sent.len() as u64, ..LinkCounters::default() }
    }
}

fn send(link: &mut impl Link, now: u64, n: u32) {
    let packet = packet(n, 4);
    let frame = Outgoing { route: route(), len: packet.len(), damage: None };
    let fill = &mut |out: &mut [u8]| {
        out.copy_from_slice(&packet);
        true
    };
    link.transmit(Instant::from_ns(now), frame, fill).unwrap();
}

/// The numbers of what has left.
fn sent(link: &Faults<Plain>) -> Vec<u32> {
    link.inner().sent.iter().map(|(_, packet)| number(packet)).collect()
}

/// Lets frames with these numbers arrive; the numbers of what is handed over.
fn receive(link: &mut Faults<Plain>, now: u64, numbers: &[u32]) -> Vec<u32> {
    link.inner_mut().arriving.extend(numbers.iter().map(|&n| packet(n, 4)));
    let mut got = Vec::new();
    let count = link
        .receive(Instant::from_ns(now), &mut |_, bytes| {
            assert_eq!(bytes, packet(number(bytes), 4));
            got.push(number(bytes));
        })
        .unwrap();
    assert_eq!(count, got.len());
    got
}

#[test]
fn fates_of_frames_that_leave() {
    let rules = parse("drop=#1,duplicate=#2,reorder=#3,delay=#5:500ns,ecn=#6,corrupt=#7,side=tx");
    let mut link = Faults::new(Plain::default(), rules);
    for n in 1..=8 {
        send(&mut link, 1000, n);
    }
    // the third was overtaken by the fourth; the fifth is held
    assert_eq!(sent(&link), [2, 2, 4, 3, 6, 7, 8]);
    assert_eq!(link.next_deadline(), Some(Instant::from_ns(1500)));
    link.flush(Instant::from_ns(1499)).unwrap();
    assert_eq!(sent(&link).len(), 7);
    link.flush(Instant::from_ns(1500)).unwrap();
    assert_eq!(sent(&link)[7], 5);
    assert_eq!(link.next_deadline(), None);
    for (frame, packet) in &link.inner().sent {
        assert_eq!(frame.damage.is_some(), number(packet) == 7);
        assert_eq!(frame.route.congestion_experienced(), number(packet) == 6);
        assert_eq!(*packet, self::packet(number(packet), 4));
    }
    let counters = link.counters();
    assert_eq!((counters.faults_dropped, counters.faults_applied, counters.tx_packets), (1, 5, 8));
}

#[test]
fn fates_of_frames_that_arrive() {
    let rules = parse("drop=#1,duplicate=#2,reorder=#3,delay=#5:500ns,ecn=#6,corrupt=#7,side=rx");
    let mut link = Faults::new(Plain::default(), rules);
    send(&mut link, 0, 1);
    assert_eq!(sent(&link), [1]);
    let got = receive(&mut link, 1000, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(got, [2, 2, 4, 3, 6, 8]);
    assert_eq!(link.next_deadline(), Some(Instant::from_ns(1500)));
    assert_eq!(receive(&mut link, 1600, &[9]), [5, 9]);
    let counters = link.counters();
    assert_eq!((counters.faults_dropped, counters.faults_applied), (1, 5));
    assert_eq!(counters.rx_bad_icrc, 1);
}

#[test]
fn a_reordered_frame_that_nothing_follows_goes_on_alone() {
    let mut link = Faults::new(Plain::default(), parse("reorder=100%,side=tx"));
    send(&mut link, 0, 1);
    assert_eq!(link.next_deadline(), Some(Instant::from_ns(REORDER_WAIT_NS)));
    link.flush(Instant::from_ns(REORDER_WAIT_NS)).unwrap();
    assert_eq!(sent(&link), [1]);
}

#[test]
fn an_uncovered_bit_is_handed_over_flipped() {
    let rules = FaultRules::new().with(|_: &Seen<'_>| Fate::Corrupt(33));
    let mut link = Faults::new(Plain::default(), rules);
    link.inner_mut().arriving.push_back(packet(1, 4));
    let mut got = Vec::new();
    link.receive(Instant::ZERO, &mut |_, bytes| got.push(bytes.to_vec())).unwrap();
    let mut expected = packet(1, 4);
    expected[4] ^= 2;
    assert_eq!(got, [expected]);
    assert_eq!(link.counters().rx_bad_icrc, 0);
}

#[test]
fn a_full_store_lets_frames_pass() {
    let mut link = Faults::new(Plain::default(), parse("delay=100%:1ms"));
    let held = u32::try_from(store::HELD_MAX).unwrap();
    for n in 0..held + 10 {
        send(&mut link, 0, n);
    }
    assert_eq!(sent(&link), (held..held + 10).collect::<Vec<_>>());
    link.flush(Instant::from_ns(1_000_000)).unwrap();
    assert_eq!(sent(&link)[10..], (0..held).collect::<Vec<_>>()[..], "in the order of coming");
}

#[test]
fn what_the_link_inside_cannot_take_waits_for_it() {
    let mut link = Faults::new(Plain::default(), parse("delay=#1:10ns,delay=#2:10ns,duplicate=#3"));
    send(&mut link, 0, 1);
    send(&mut link, 0, 2);
    link.inner_mut().room = Some(1);
    send(&mut link, 20, 3);
    assert_eq!(sent(&link), [3], "no room for the copy nor for what is due");
    assert_eq!(link.next_deadline(), None, "the link inside wakes when it has room");
    link.inner_mut().room = Some(1);
    link.flush(Instant::from_ns(30)).unwrap();
    assert_eq!(sent(&link), [3, 1]);
    link.inner_mut().room = None;
    link.receive(Instant::from_ns(40), &mut |_, _| ()).unwrap();
    assert_eq!(sent(&link), [3, 1, 2]);
}

#[test]
fn what_fill_rejects_meets_no_fate() {
    let mut link = Faults::new(Plain::default(), parse("drop=#1"));
    let frame = Outgoing { route: route(), len: 16, damage: None };
    link.transmit(Instant::ZERO, frame, &mut |_| false).unwrap();
    send(&mut link, 0, 1);
    send(&mut link, 0, 2);
    assert_eq!(sent(&link), [2], "the first that was filled is the first");
}

#[test]
fn taps_go_around_any_link() {
    let boxed: Box<dyn Link> = Box::new(Plain::default());
    let mut link = Faults::new(boxed, FaultRules::new());
    send(&mut link, 0, 1);
    assert_eq!(link.counters().tx_packets, 1);
    link.set_rules(parse("drop=100%"));
    send(&mut link, 0, 2);
    assert_eq!(link.counters().tx_packets, 1);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,60}") {
        let _either = FaultRules::parse(&text);
    }

    #[test]
    fn any_likely_text_is_read_or_refused(
        items in proptest::collection::vec(
            ("(drop|delay|seed|side|qp|opcode|ecn|x)", "[=:%#]?", "[0-9a-fx.:%#us]{0,12}"), 0..5
        ),
    ) {
        let text: Vec<_> = items.iter().map(|(a, b, c)| format!("{a}{b}{c}")).collect();
        let _either = FaultRules::parse(&text.join(","));
    }

    #[test]
    fn no_frame_is_lost_or_made_unless_a_rule_says_so(seed: u64, count in 1u32..600) {
        let text = format!("drop=5%,reorder=10%,duplicate=5%,delay=10%:3us,corrupt=5%,seed={seed}");
        let mut link = Faults::new(Plain::default(), parse(&text));
        let mut got = Vec::new();
        for n in 0..count {
            send(&mut link, u64::from(n) * 100, n);
            got.extend(receive(&mut link, u64::from(n) * 100, &[n]));
        }
        let end = Instant::from_ns(u64::from(u32::MAX));
        link.flush(end).unwrap();
        got.extend(receive(&mut link, end.as_ns(), &[]));
        let counters = link.counters();
        let passed = (got.len() + sent(&link).len()) as u64;
        let lost = counters.rx_bad_icrc + counters.faults_dropped;
        // duplicates come on top, and are all that does
        let duplicates = passed + lost - 2 * u64::from(count);
        let twice = |numbers: &[u32]| {
            let mut numbers = numbers.to_vec();
            numbers.sort_unstable();
            numbers.windows(2).filter(|pair| pair[0] == pair[1]).count()
        };
        prop_assert_eq!(duplicates, (twice(&got) + twice(&sent(&link))) as u64);
        prop_assert_eq!(link.next_deadline(), None);
    }
}
