//! From what the kernel hands over to single packets.

use softrnic_model::verbs::Gid;
use softrnic_model::wire::{ICRC_LEN, Route, split_icrc};

use super::PACKET_LEN_MIN;
use super::checker::{Checker, Verdict};
use super::queue::FRAME_MAX;
use super::system::Arrival;
use crate::link::LinkCounters;

/// Cuts merged datagrams apart, checks each frame and delivers it. Returns how many were good.
pub(super) fn take_apart(
    arrival: &Arrival,
    dst: Gid,
    bytes: &[u8],
    checker: &mut Checker,
    counters: &mut LinkCounters,
    deliver: &mut dyn FnMut(&Route, &[u8]),
) -> usize {
    let route = Route {
        src: arrival.from.ip().into(),
        dst,
        src_port: arrival.from.port(),
        traffic_class: arrival.traffic_class,
        hop_limit: arrival.hop_limit,
        flow_label: arrival.flow_label,
    };
    counters.rx_bytes += bytes.len() as u64;
    if bytes.is_empty() {
        counters.rx_packets += 1;
        counters.rx_bad_length += 1;
    }
    let mut good = 0;
    let mut arrived = checker.arrival(&route);
    for (position, datagram) in bytes.chunks(arrival.segment.max(1)).enumerate() {
        counters.rx_packets += 1;
        let fits = (PACKET_LEN_MIN + ICRC_LEN..=FRAME_MAX).contains(&datagram.len());
        let Some((packet, icrc)) = split_icrc(datagram).filter(|_| fits) else {
            counters.rx_bad_length += 1;
            continue;
        };
        match arrived.check(position, packet, icrc) {
            Verdict::Full => counters.rx_icrc_full += 1,
            Verdict::Solved => counters.rx_icrc_solved += 1,
            Verdict::Odd => {
                counters.rx_icrc_solved += 1;
                counters.rx_icrc_odd_identification += 1;
            }
            Verdict::Bad => {
                counters.rx_bad_icrc += 1;
                continue;
            }
        }
        good += 1;
        deliver(&route, packet);
    }
    good
}
