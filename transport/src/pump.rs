//! Moves frames between a device and its link. Drivers differ in who calls this, and in what
//! "now" and "wait" mean.

use std::io;

use softrnic_model::verbs::QpNum;
use softrnic_model::{Device, Filled, FrameOut, Instant, Memory};

use crate::{Link, Outgoing};

/// Takes in what has arrived, lets time pass, sends what is due. Returns how many packets came in
/// and went out: 0 means that there was nothing to do.
///
/// # Errors
/// The link failed for good.
pub fn pump<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
) -> io::Result<usize> {
    let received = receive(device, link, memory, now)?;
    Ok(received + send(device, link, memory, now)?)
}

/// How many batches are taken in before something that is due counts as late.
const BATCHES_MAX: usize = 64;

/// Takes in what has arrived, one batch, and lets time pass. Returns how many packets came in.
///
/// When something is due, all that has arrived is taken in first: a thread that did not get to run
/// for a while finds answers and time-outs at once, and an answer that waits is no silence.
///
/// # Errors
/// The link failed for good.
pub fn receive<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
) -> io::Result<usize> {
    let mut batch = |device: &mut Device| {
        link.receive(now, &mut |route, packet| device.on_frame(now, memory, route, packet))
    };
    let mut received = batch(device)?;
    if device.next_deadline().is_some_and(|deadline| deadline <= now) {
        for _ in 1..BATCHES_MAX {
            match batch(device)? {
                0 => break,
                more => received += more,
            }
        }
        device.on_time(now);
    }
    Ok(received)
}

/// Packets that one call sends at most. A peer may have asked for gigabytes: whoever drives the
/// device takes in what has arrived, and lets others have the device, between two such portions.
const PORTION: usize = 1024;

/// Sends what is due, one portion of it. Returns how many packets went out; if there is more,
/// [`Device::has_work`] says so.
///
/// # Errors
/// The link failed for good.
pub fn send<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
) -> io::Result<usize> {
    let sent = transmit(device, link, memory, now, Device::next_frame)?;
    link.flush(now)?;
    Ok(sent)
}

/// Gives the link the requests of one queue pair that may leave now. Right after a post they are what
/// the peer waits for, and [`send`] comes behind them with the answers that are owed: in the same
/// burst, or in another one if the link was flushed in between.
///
/// # Errors
/// The link failed for good.
pub fn send_requests<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
    qp: QpNum,
) -> io::Result<usize> {
    transmit(device, link, memory, now, |device, frame| device.next_request(qp, frame))
}

fn transmit<M: Memory + ?Sized>(
    device: &mut Device,
    link: &mut (dyn Link + '_),
    memory: &M,
    now: Instant,
    mut next: impl FnMut(&mut Device, &mut FrameOut) -> bool,
) -> io::Result<usize> {
    let mut sent = 0;
    device.set_now(now);
    let mut frame = FrameOut::default();
    while sent < PORTION && link.ready() && next(device, &mut frame) {
        let outgoing = Outgoing { route: frame.route, len: frame.len(), damage: None };
        let before = sent;
        link.transmit_run(now, outgoing, &mut |out| {
            sent += 1;
            match device.fill_run(now, memory, &mut frame, out) {
                Filled::AndMore if sent == PORTION => Filled::Once,
                filled @ (Filled::Not | Filled::Once | Filled::AndMore) => filled,
            }
        })?;
        if sent == before {
            // A link that has not asked for the frame will not do so next time either.
            break;
        }
    }
    Ok(sent)
}

/// When the device or its link next has something to do by itself.
#[must_use]
pub fn next_deadline(device: &Device, link: &(dyn Link + '_)) -> Option<Instant> {
    match (device.next_deadline(), link.next_deadline()) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use softrnic_model::DeviceConfig;
    use softrnic_model::protection::RegionSpec;
    use softrnic_model::verbs::{
        Access, AddressVector, Gid, Mtu, Psn, QpAttributeMask as M, QpAttributes, QpCapabilities,
        QpInit, QpState, QpType,
    };
    use softrnic_model::wire::{Bth, HeaderBuf, Opcode, Reth, Route};

    use super::*;
    use crate::LinkCounters;
    use crate::sim::SimMemory;

    /// Takes everything.
    struct Sink;

    impl Link for Sink {
        fn receive(
            &mut self,
            _now: Instant,
            _deliver: &mut dyn FnMut(&Route, &[u8]),
        ) -> io::Result<usize> {
            Ok(0)
        }
        fn ready(&self) -> bool {
            true
        }
        fn transmit(
            &mut self,
            _now: Instant,
            frame: Outgoing,
            fill: &mut dyn FnMut(&mut [u8]) -> bool,
        ) -> io::Result<()> {
            assert!(fill(&mut vec![0; frame.len]));
            Ok(())
        }
        fn flush(&mut self, _now: Instant) -> io::Result<()> {
            Ok(())
        }
        fn join(&mut self, _group: Gid) -> io::Result<()> {
            Ok(())
        }
        fn leave(&mut self, _group: Gid) {}
        fn sockets(&self, _each: &mut dyn FnMut(&std::net::UdpSocket)) {}
        fn counters(&self) -> LinkCounters {
            LinkCounters::default()
        }
    }

    /// A device that owes the answer to a READ of `packets` packets.
    fn owing(packets: u32) -> (Device, SimMemory) {
        let (ours, theirs) = (Gid::from_v4([10, 0, 0, 1]), Gid::from_v4([10, 0, 0, 2]));
        let memory = SimMemory::default();
        let length = packets * 256;
        let id = memory.add(vec![0; length as usize]);
        let mut device = Device::new(DeviceConfig { gids: vec![ours], ..DeviceConfig::default() });
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(1).unwrap();
        let spec = RegionSpec {
            pd,
            memory: id,
            memory_offset: 0,
            addr: 0,
            length: length.into(),
            access: Access::REMOTE_READ,
        };
        let key = device.register(spec).unwrap();
        let init = QpInit {
            pd,
            qp_type: QpType::Rc,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            xrcd: None,
            cap: QpCapabilities::default(),
            signal_all: false,
            create_flags: softrnic_model::verbs::QpCreateFlags::empty(),
        };
        let qp = device.create_qp(&init).unwrap();
        let attributes = QpAttributes {
            access: Access::REMOTE_READ,
            path: AddressVector { dgid: theirs, ..AddressVector::default() },
            path_mtu: Mtu::B256,
            max_dest_rd_atomic: 1,
            ..QpAttributes::default()
        };
        let ready = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        for (state, mask) in [
            (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
            (QpState::Rtr, ready | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER),
        ] {
            let attributes = QpAttributes { state, ..attributes };
            device.modify_qp(qp, &attributes, M::STATE | mask).unwrap();
        }
        let mut request = HeaderBuf::new();
        request.push(&Bth::new(Opcode(0x0c), qp, Psn::new(0)));
        request.push(&Reth::new(0, key, length));
        let route = Route { src: theirs, dst: ours, ..Route::default() };
        device.on_frame(Instant::ZERO, &memory, &route, request.as_slice());
        (device, memory)
    }

    #[test]
    fn a_long_answer_leaves_in_portions() {
        let (mut device, memory) = owing(3000);
        let mut portions = Vec::new();
        while device.has_work() {
            portions.push(send(&mut device, &mut Sink, &memory, Instant::ZERO).unwrap());
        }
        assert_eq!(portions, [1024, 1024, 952]);
    }
}
