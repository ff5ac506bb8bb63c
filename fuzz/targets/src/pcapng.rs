//! Any bytes as a capture file: its frames are read and taken apart.

use softrnic_model::planted::Fault;
use softrnic_model::wire::{Packet, RoceFrame};

use crate::Target;
use crate::captures::frames;
use crate::frame::check;
use crate::reach::{Reach, hit};

pub(crate) const TARGET: Target = Target {
    name: "pcapng",
    run,
    reaches: &[Reach::CaptureRead, Reach::PacketRead],
    fault: Fault::Fragment,
};

fn run(bytes: &[u8]) {
    for frame in frames(bytes) {
        let Ok(frame) = RoceFrame::parse(frame) else { continue };
        hit(Reach::CaptureRead);
        check(&frame);
        if Packet::parse(frame.packet).is_ok() {
            hit(Reach::PacketRead);
        }
    }
}
