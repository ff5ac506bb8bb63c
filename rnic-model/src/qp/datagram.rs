//! Receiving datagrams (UD).

use crate::counters::Counter;
use crate::device::Shared;
use crate::memory::Memory;
use crate::profile::DatagramTooLong;
use crate::queue::{CqEntry, Slot};
use crate::verbs::{Key, Wc, WcFlags, WcOpcode, WcStatus};
use crate::wire::{Deth, Grh, ICRC_LEN, ImmDt, Packet, Route};

use super::failure::Failure;
use super::flush;
use super::local;
use super::pair::{Qp, Taken};

/// A datagram arrived. What does not fit is dropped; the queue pair stays as it is.
// [rnr/unreliable-drops]
pub(crate) fn on_datagram<M: Memory + ?Sized>(
    qp: &mut Qp,
    shared: &mut Shared,
    memory: &M,
    route: &Route,
    packet: &Packet<'_>,
) {
    let Some(deth) = packet.deth() else { return shared.count(Counter::DropMalformed) };
    // [ud/qkey-match] [attacks/qkey-guess]
    if deth.qkey() != qp.attr.qkey {
        return shared.count(Counter::DropBadQkey);
    }
    if packet.payload.len() > shared.port.mtu.bytes() as usize {
        return shared.count(Counter::DropTooLong);
    }
    // [ud/no-receive]
    let Some(wqe) = qp.peek_recv(shared, qp.init.srq) else {
        return shared.count(Counter::DropNoReceive);
    };
    let total = Grh::LEN + packet.payload.len();
    let fits = total as u64 <= wqe.length;
    // [ud/too-long]
    if !fits {
        shared.count(Counter::DropTooLong);
        if shared.profile.datagram_too_long == DatagramTooLong::Dropped {
            return;
        }
    }
    let Some(taken) = qp.take_recv(shared, qp.init.srq) else { return };
    if let (false, DatagramTooLong::FailsReceive(status)) = (fits, shared.profile.datagram_too_long)
    {
        return flush::fail_recv(qp, shared, taken, Failure::Status(status));
    }
    match place(qp, shared, memory, taken, route, packet) {
        Ok(()) => deliver(qp, shared, taken, deth, route, packet),
        Err(failure) => {
            flush::fail_recv(qp, shared, taken, failure);
            flush::to_error(qp, shared);
        }
    }
}

// [ud/grh-40-bytes]
fn place<M: Memory + ?Sized>(
    qp: &Qp,
    shared: &Shared,
    memory: &M,
    taken: Taken,
    route: &Route,
    packet: &Packet<'_>,
) -> Result<(), Failure> {
    let mut grh = Grh::new(route, packet.as_bytes().len() + ICRC_LEN);
    if shared.profile.poison && route.is_v4() {
        let mut junk = packet.bth.psn().get() | 1;
        for byte in grh.0.iter_mut().take(Grh::IPV4_OFFSET) {
            junk = junk.wrapping_mul(0x9e37_79b1).rotate_left(7);
            *byte = junk.to_le_bytes()[3];
        }
    }
    local::scatter_receive(qp, shared, memory, taken, 0, &grh.0)?;
    local::scatter_receive(qp, shared, memory, taken, Grh::LEN as u64, packet.payload)
}

fn deliver(
    qp: &mut Qp,
    shared: &mut Shared,
    taken: Taken,
    deth: &Deth,
    route: &Route,
    packet: &Packet<'_>,
) {
    // [ud/zero-length] [ud/grh-40-bytes]
    let total = Grh::LEN + packet.payload.len();
    let imm = packet.imm_dt().map(ImmDt::data);
    let wc = Wc {
        wr_id: qp.recv_wqe(shared, taken).wr_id,
        status: WcStatus::Success,
        opcode: WcOpcode::Recv,
        // [completions/grh-flag]
        flags: if imm.is_some() { WcFlags::GRH | WcFlags::WITH_IMM } else { WcFlags::GRH },
        vendor_err: 0,
        byte_len: u32::try_from(total).unwrap_or(u32::MAX),
        imm_data: imm.unwrap_or(0),
        invalidated_rkey: Key(0),
        qp_num: qp.num,
        // [ud/source-qp]
        src_qp: deth.src_qp(),
        pkey_index: qp.attr.pkey_index,
        timestamp: 0,
        // [ud/network-type]
        sl: if route.is_v4() { Wc::SL_IPV4 } else { Wc::SL_IPV6 },
    };
    qp.release_recv(shared, taken);
    shared.count(Counter::RdmaReceives);
    let entry = CqEntry { wc, slot: Slot::Receive };
    shared.complete(qp.init.recv_cq, entry, packet.bth.solicited());
}
