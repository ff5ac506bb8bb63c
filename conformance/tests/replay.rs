//! Captures are explained frame by frame, also damaged ones.

#![expect(clippy::unwrap_used, clippy::panic, reason = "all of it is a test")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use softrnic_conformance::case::Body;
use softrnic_conformance::cases;
use softrnic_conformance::lab::Waits;
use softrnic_conformance::replay::{Explained, replay};
use softrnic_conformance::stage::{Stage, Time};
use softrnic_verbs::simulated::Fabric;

const CAPTURES: [&[u8]; 3] = [
    include_bytes!("../captures/rxe-scenarios.pcapng"),
    include_bytes!("../captures/rxe-v6-scenarios.pcapng"),
    include_bytes!("../captures/rxe-tools.pcapng"),
];

#[test]
fn every_frame_of_the_recorded_captures_has_a_meaning_and_requests_have_an_answer() {
    for capture in CAPTURES {
        let (replayed, end) = replay(capture);
        end.unwrap();
        assert!(replayed.frames.len() > 100 && !replayed.assumptions.is_empty());
        for (number, frame) in (1..).zip(&replayed.frames) {
            assert_eq!(frame.number, number);
            let roce = !frame.line.contains("not RoCEv2");
            assert_eq!(frame.meaning.is_empty(), !roce, "{frame}");
            assert!(!frame.to_string().contains("ICRC is wrong"), "{frame}");
        }
        let asked = |frame: &&Explained| {
            frame.line.contains(" RC ") && frame.meaning.iter().any(|text| text.contains("to hear"))
        };
        let asking: Vec<_> = replayed.frames.iter().filter(asked).collect();
        let answered = asking.iter().filter(|frame| !frame.answers.is_empty()).count();
        // Not those that came behind a refusal.
        assert!(answered * 10 > asking.len() * 7, "{answered} of {}", asking.len());
    }
}

#[test]
fn the_first_scenario_reads_like_a_story() {
    let (replayed, _) = replay(CAPTURES[0]);
    let write =
        replayed.frames.iter().find(|frame| frame.line.contains("RDMA_WRITE_ONLY")).unwrap();
    let text = write.to_string();
    assert!(text.contains("bytes to the peer's memory, a whole message"), "{text}");
    assert!(text.contains("by the key 0x") && text.contains("acknowledges everything"), "{text}");
}

#[test]
fn a_damaged_capture_is_explained_as_far_as_it_goes() {
    let whole = CAPTURES[0];
    let (all, _) = replay(whole);
    let (part, end) = replay(&whole[..whole.len() / 2 + 1]);
    let bad = end.unwrap_err();
    assert!(bad.to_string().starts_with("block at byte "), "{bad}");
    assert!(part.frames.len() > 10 && part.frames.len() < all.frames.len());
    let mut damaged = whole.to_vec();
    // The sequence number of a packet: behind the port come UDP's length and checksum and the BTH.
    let port = damaged.windows(2).position(|bytes| bytes == 4791_u16.to_be_bytes()).unwrap();
    damaged[port + 2 + 4 + 11] ^= 0x10;
    let (again, end) = replay(&damaged);
    end.unwrap();
    let wrong = again.frames.iter().filter(|frame| frame.to_string().contains("ICRC is wrong"));
    assert_eq!(wrong.count(), 1);
}

#[derive(Debug)]
struct Virtual(Fabric);

impl Time for Virtual {
    fn now(&self) -> Duration {
        self.0.now()
    }
    fn pass(&self, time: Duration) {
        self.0.run_for(time);
    }
    fn blink(&self) {
        self.0.run_for(Duration::from_nanos(100));
    }
    fn waits(&self) -> Waits {
        Waits { patience: Duration::from_secs(1), quiet: Duration::from_millis(1) }
    }
}

/// The frames of a case over the verbs, as they are captured.
fn captured(case: &str) -> Vec<u8> {
    let name = format!("softrnic-replay-{}-{}.pcapng", case.replace('/', "-"), std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let found = cases::all().into_iter().find(|known| known.name() == case);
    let Body::Verbs(act) = found.unwrap().body else { panic!("{case} is a script") };
    {
        let fabric = Fabric::star(2, 1);
        fabric.capture(&path).unwrap();
        let hosts = fabric.hosts();
        let open = |host: usize| Arc::clone(fabric.open(hosts[host]).unwrap().verbs());
        let mut stage = Stage::new([open(0), open(1)], Box::new(Virtual(fabric)), None);
        act(&mut stage).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    bytes
}

#[test]
fn requests_for_shared_queues_of_xrc_are_fed() {
    let (replayed, end) = replay(&captured("xrc/routed-by-number/two-queues-one-target"));
    end.unwrap();
    // Both hosts are in the capture: each frame left one and came to the other.
    let queues =
        |text: &str| text.contains("shared receive queue") && text.contains("has 2 receives");
    let assumed = replayed.assumptions.iter().filter(|assumed| queues(&assumed.to_string()));
    assert_eq!(assumed.count(), 2, "{:?}", replayed.assumptions);
    let is_send = |frame: &&Explained| frame.line.contains("XRC SEND_ONLY");
    let sends: Vec<_> = replayed.frames.iter().filter(is_send).collect();
    assert!(sends.len() >= 2, "{replayed:?}");
    for send in &sends[..2] {
        let text = send.to_string();
        assert!(text.contains("receive 1: Success, 8 bytes"), "{text}");
        assert!(text.contains("acknowledges everything"), "{text}");
    }
}

#[test]
fn messages_of_the_connection_manager_are_explained() {
    let (replayed, _) = replay(CAPTURES[2]);
    let told = |what: &str| {
        let has = |frame: &&Explained| frame.meaning.iter().any(|text| text.contains(what));
        replayed.frames.iter().filter(has).count()
    };
    for what in [
        "REQ: asks for a reliable connection to port",
        "REP: takes the connection",
        "RTU: the connection",
        "DREQ: asks to end the connection",
        "DREP: agrees to the end",
        "asked by 10.",
    ] {
        assert!(told(what) > 0, "nothing {what}");
    }
    assert_eq!(told("no message of the connection manager"), 0);
}
