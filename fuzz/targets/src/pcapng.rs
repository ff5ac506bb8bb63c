//! Any bytes as a capture file: its packets are numbered, lie one behind the other within blocks of
//! the file, are as long as these say, and are taken apart.

use softrnic_model::planted::Fault;
use softrnic_model::wire::{Packet, RoceFrame};

use crate::Target;
use crate::frame::check;
use crate::reach::{Reach, hit};
use crate::reader::{Frame, Reader};

pub(crate) const TARGET: Target = Target {
    name: "pcapng",
    run,
    reaches: &[Reach::CaptureRead, Reach::PacketRead],
    fault: Fault::PastTheBlock,
};

fn run(bytes: &[u8]) {
    let (mut end, mut count, mut ended) = (0, 0, false);
    for frame in Reader::new(bytes) {
        assert!(!ended, "after an error there is no more");
        let Ok(frame) = frame else {
            ended = true;
            continue;
        };
        count += 1;
        assert_eq!(frame.number, count);
        let at = frame.bytes.as_ptr().addr() - bytes.as_ptr().addr();
        assert!(at >= end, "packets overlap");
        // Behind the packet the block has its length once more.
        end = at + frame.bytes.len() + 4;
        assert!(end <= bytes.len());
        assert!(is_as_the_block_says(bytes, at, &frame), "{} bytes at {at}", frame.bytes.len());
        take_apart(frame.bytes);
    }
}

/// The header in front of the packet, read by hand: of an enhanced packet block (type 6), where the
/// captured length is the last word but one, or of a simple one (type 3), where it is the last.
fn is_as_the_block_says(file: &[u8], at: usize, frame: &Frame<'_>) -> bool {
    let says = |before: usize, value: usize| {
        let word = at.checked_sub(before).and_then(|from| file[from..].first_chunk());
        let value = u32::try_from(value).unwrap();
        word.is_some_and(|word| [value.to_le_bytes(), value.to_be_bytes()].contains(word))
    };
    let len = frame.bytes.len();
    (says(28, 6) && says(8, len)) || (says(12, 3) && says(4, len))
}

fn take_apart(frame: &[u8]) {
    let Ok(frame) = RoceFrame::parse(frame) else { return };
    hit(Reach::CaptureRead);
    check(&frame);
    if Packet::parse(frame.packet).is_ok() {
        hit(Reach::PacketRead);
    }
}
