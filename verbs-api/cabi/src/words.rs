//! Numbers in words, and rates in other numbers (`ibv_wc_status_str(3)`, `ibv_rate_to_mult(3)`, …).

use core::ffi::{CStr, c_char, c_int};

const UNKNOWN: &CStr = c"unknown";

fn word(words: &[&'static CStr], number: c_int) -> *const c_char {
    let word = usize::try_from(number).ok().and_then(|number| words.get(number));
    word.copied().unwrap_or(UNKNOWN).as_ptr()
}

pub(crate) extern "C" fn wc_status_str(status: c_int) -> *const c_char {
    word(
        &[
            c"success",
            c"local length error",
            c"local QP operation error",
            c"local EE context operation error",
            c"local protection error",
            c"Work Request Flushed Error",
            c"memory management operation error",
            c"bad response error",
            c"local access error",
            c"remote invalid request error",
            c"remote access error",
            c"remote operation error",
            c"transport retry counter exceeded",
            c"RNR retry counter exceeded",
            c"local RDD violation error",
            c"remote invalid RD request",
            c"aborted error",
            c"invalid EE context number",
            c"invalid EE context state",
            c"fatal error",
            c"response timeout error",
            c"general error",
            c"TM error",
            c"TM software rendezvous",
        ],
        status,
    )
}

pub(crate) extern "C" fn node_type_str(node: c_int) -> *const c_char {
    word(
        &[
            UNKNOWN,
            c"InfiniBand channel adapter",
            c"InfiniBand switch",
            c"InfiniBand router",
            c"iWARP NIC",
            c"usNIC",
            c"usNIC UDP",
            c"unspecified",
        ],
        node,
    )
}

pub(crate) extern "C" fn port_state_str(state: c_int) -> *const c_char {
    let states = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    let state = usize::try_from(state).ok().and_then(|state| states.get(state));
    state.copied().unwrap_or(c"invalid state").as_ptr()
}

pub(crate) extern "C" fn event_type_str(event: c_int) -> *const c_char {
    word(
        &[
            c"CQ error",
            c"local work queue catastrophic error",
            c"invalid request local work queue error",
            c"local access violation work queue error",
            c"communication established",
            c"send queue drained",
            c"path migrated",
            c"path migration request error",
            c"local catastrophic error",
            c"port active",
            c"port error",
            c"LID change",
            c"P_Key change",
            c"SM change",
            c"SRQ catastrophic error",
            c"SRQ limit reached",
            c"last WQE reached",
            c"client reregistration",
            c"GID table change",
            c"WQ fatal",
        ],
        event,
    )
}

pub(crate) extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    let events = [
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    ];
    let event = usize::try_from(event).ok().and_then(|event| events.get(event));
    event.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}

/// `ibv_rate`, the multiple of 2.5 Gbit/s where it is one, and Mbit/s.
const RATES: [(c_int, Option<c_int>, c_int); 23] = [
    (2, Some(1), 2_500),
    (5, Some(2), 5_000),
    (3, Some(4), 10_000),
    (6, Some(8), 20_000),
    (4, Some(12), 30_000),
    (7, Some(16), 40_000),
    (8, Some(24), 60_000),
    (9, Some(32), 80_000),
    (10, Some(48), 120_000),
    (11, Some(6), 14_062),
    (12, Some(23), 56_250),
    (13, Some(45), 112_500),
    (14, Some(68), 168_750),
    (15, Some(10), 25_781),
    (16, Some(41), 103_125),
    (17, Some(82), 206_250),
    (18, Some(124), 309_375),
    (19, Some(11), 28_125),
    (20, Some(20), 53_125),
    (21, Some(160), 425_000),
    (22, Some(240), 637_500),
    (23, Some(320), 850_000),
    (24, Some(480), 1_275_000),
];
/// `IBV_RATE_MAX`: as fast as can be.
const RATE_MAX: c_int = 0;

pub(crate) extern "C" fn rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|(number, ..)| *number == rate).and_then(|(_, mult, _)| *mult).unwrap_or(-1)
}

pub(crate) extern "C" fn mult_to_rate(mult: c_int) -> c_int {
    RATES.iter().find(|(_, known, _)| *known == Some(mult)).map_or(RATE_MAX, |(rate, ..)| *rate)
}

pub(crate) extern "C" fn rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|(number, ..)| *number == rate).map_or(-1, |(.., mbps)| *mbps)
}

pub(crate) extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    RATES.iter().find(|(.., known)| *known == mbps).map_or(RATE_MAX, |(rate, ..)| *rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_back_and_others_are_refused() {
        for (rate, mult, mbps) in RATES {
            assert_eq!(mbps_to_rate(rate_to_mbps(rate)), rate);
            assert_eq!(rate_to_mbps(rate), mbps);
            if mult.is_some() {
                assert_eq!(mult_to_rate(rate_to_mult(rate)), rate);
            }
        }
        assert_eq!((rate_to_mult(99), rate_to_mbps(-1), mult_to_rate(99)), (-1, -1, RATE_MAX));
    }
}
