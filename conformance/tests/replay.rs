//! Captures are explained frame by frame, also damaged ones.

use softrnic_conformance::replay::replay;

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
        let asked = |frame: &&softrnic_conformance::replay::Explained| {
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
