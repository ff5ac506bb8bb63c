//! The device's own speed: two devices of one thread on the simulated fabric, which costs nothing
//! but the frames themselves.

use softrnic_model::protection::RegionSpec;
use softrnic_model::{Device, DeviceConfig};
use softrnic_transport::sim::{Fabric, FabricConfig, HostId};
use softrnic_verbs::{
    Access, Gid, Key, Mtu, Psn, QpAttributeMask, QpAttributes, QpCapabilities, QpInit, QpNum,
    QpState, QpType, SendFlags, SendOp, SendWr, Sge, VerbError, Wc, WcStatus,
};

use super::alone::timed;
use super::sample::{Sample, Setting};
use super::sys;
use crate::error::Failure;

/// Operations under way.
const DEPTH: usize = 32;
/// Bytes of the region at each end.
const REGION: usize = 1 << 20;
/// Work requests of each queue of a queue pair.
pub(super) const QUEUE: u32 = 64;

/// One sample: millions of WRITEs of 8 bytes a second over one queue pair, while `idle` others are
/// connected.
pub(super) fn writes(icrc: bool, idle: usize, setting: &Setting) -> Result<Sample, Failure> {
    let mut rig = Rig::new(icrc).map_err(refused)?;
    for _ in 0..=idle {
        rig.add_pair(QUEUE).map_err(refused)?;
    }
    let mut failure = None;
    let sample = timed(setting, |rounds| {
        if failure.is_none() {
            failure = rig.write(rounds).err();
        }
    });
    match failure {
        None => Ok(Sample { value: DEPTH as f64 / sample.value / 1e6, ..sample }),
        Some(failure) => Err(failure),
    }
}

/// One sample: bytes that a connected queue pair with [`IDLE_QUEUE`] entries in each queue takes, of
/// `pairs` at each end.
pub(super) fn bytes_of_idle(pairs: usize) -> Result<Sample, Failure> {
    let mut rig = Rig::new(false).map_err(refused)?;
    // What is made once for all is not a queue pair's.
    rig.add_pair(IDLE_QUEUE).map_err(refused)?;
    let before = sys::allocated_bytes();
    for _ in 0..pairs {
        rig.add_pair(IDLE_QUEUE).map_err(refused)?;
    }
    let bytes = sys::allocated_bytes().saturating_sub(before);
    // Each pair has two ends.
    let value = bytes as f64 / (2 * pairs) as f64;
    Ok(Sample { value, line_ns: None, waited: 0.0 })
}

/// Entries of the queues of an idle queue pair, as small services have them.
pub(super) const IDLE_QUEUE: u32 = 16;

fn refused(error: VerbError) -> Failure {
    Failure::failed(
        format!("bench limits: the in-process device refused a verb: {error}"),
        "this is a defect of softrnic; please report it",
    )
}

struct Rig {
    fabric: Fabric,
    ends: [End; 2],
    posted: u64,
}

#[derive(Clone, Copy)]
struct End {
    host: HostId,
    init: QpInit,
    key: Key,
    gid: Gid,
    /// The first queue pair, which is the busy one.
    qp: Option<QpNum>,
}

impl Rig {
    fn new(icrc: bool) -> Result<Self, VerbError> {
        let mut fabric = Fabric::new(FabricConfig { latency_ns: 0, icrc });
        let ends = [End::new(&mut fabric, 1)?, End::new(&mut fabric, 2)?];
        Ok(Self { fabric, ends, posted: 0 })
    }

    /// Adds a queue pair at each end and connects the two.
    fn add_pair(&mut self, queue: u32) -> Result<(), VerbError> {
        let [a, b] = self.ends;
        let a_qp = self.device(a.host).create_qp(&with_queues(a.init, queue))?;
        let b_qp = self.device(b.host).create_qp(&with_queues(b.init, queue))?;
        connect(self.device(a.host), a_qp, b_qp, b.gid)?;
        connect(self.device(b.host), b_qp, a_qp, a.gid)?;
        for (end, qp) in self.ends.iter_mut().zip([a_qp, b_qp]) {
            end.qp.get_or_insert(qp);
        }
        Ok(())
    }

    fn device(&mut self, host: HostId) -> &mut Device {
        &mut self.fabric.host_mut(host).device
    }

    /// `rounds` times: posts [`DEPTH`] WRITEs, has them carried out, takes all completions.
    fn write(&mut self, rounds: u64) -> Result<(), Failure> {
        let [End { host, init, qp: Some(qp), key, .. }, End { key: rkey, .. }] = self.ends else {
            return Err(Failure::plain("bench limits: no queue pair"));
        };
        let mut completions = [Wc::default(); DEPTH];
        for _ in 0..rounds {
            for _ in 0..DEPTH {
                self.posted += 1;
                let addr = self.posted % 64 * 64;
                let sges = [Sge { addr, length: 8, lkey: key }];
                let op = SendOp::Write { remote_addr: addr, rkey, imm: None };
                let flags = SendFlags::SIGNALED;
                let wr = SendWr { wr_id: self.posted, op, flags, sges: &sges, ..SendWr::default() };
                self.device(host).post_send(qp, &wr).map_err(refused)?;
            }
            self.fabric.run_until_idle(0);
            let count = self.device(host).poll_cq(init.send_cq, &mut completions);
            let count = count.map_err(refused)?;
            let good = completions.iter().all(|wc| wc.status == WcStatus::Success);
            if count != DEPTH || !good {
                return Err(Failure::failed(
                    format!("bench limits: {count} of {DEPTH} in-process WRITEs came to their end"),
                    "this is a defect of softrnic; please report it",
                ));
            }
        }
        Ok(())
    }
}

impl End {
    fn new(fabric: &mut Fabric, number: u8) -> Result<Self, VerbError> {
        let gid = Gid::from_v4([10, 0, 0, number]);
        let config = DeviceConfig { gids: vec![gid], ..DeviceConfig::default() };
        let host = fabric.add_host(Device::new(config));
        let place = fabric.host_mut(host);
        let memory = place.memory.add(vec![number; REGION]);
        let pd = place.device.alloc_pd()?;
        let cq = place.device.create_cq(256)?;
        let key = place.device.register(RegionSpec {
            pd,
            memory,
            memory_offset: 0,
            addr: 0,
            length: REGION as u64,
            access: Access::LOCAL_WRITE.union(Access::REMOTE),
        })?;
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
        Ok(Self { host, init, key, gid, qp: None })
    }
}

const fn with_queues(init: QpInit, queue: u32) -> QpInit {
    let cap = QpCapabilities {
        max_send_wr: queue,
        max_recv_wr: queue,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    QpInit { cap, ..init }
}

/// Takes `qp` through its states to its peer.
fn connect(device: &mut Device, qp: QpNum, peer: QpNum, dgid: Gid) -> Result<(), VerbError> {
    use QpAttributeMask as M;
    let mut attributes = QpAttributes {
        access: Access::REMOTE,
        path_mtu: Mtu::B4096,
        dest_qp: peer,
        rq_psn: Psn::new(7),
        sq_psn: Psn::new(7),
        max_dest_rd_atomic: 16,
        max_rd_atomic: 16,
        min_rnr_timer: 12,
        timeout: 14,
        retry_count: 7,
        rnr_retry: 7,
        ..QpAttributes::default()
    };
    attributes.path.dgid = dgid;
    let init = M::STATE | M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
    let rtr = M::STATE
        | M::AV
        | M::PATH_MTU
        | M::DEST_QPN
        | M::RQ_PSN
        | M::MAX_DEST_RD_ATOMIC
        | M::MIN_RNR_TIMER;
    let rts = M::STATE | M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY;
    for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
        attributes.state = state;
        device.modify_qp(qp, &attributes, mask)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_really_writes() {
        for icrc in [false, true] {
            let mut rig = Rig::new(icrc).unwrap();
            rig.add_pair(QUEUE).unwrap();
            rig.write(3).unwrap();
            let memory = &rig.fabric.host(rig.ends[1].host).memory;
            let bytes = memory.bytes(softrnic_model::MemoryId(0));
            // 96 WRITEs of 8 bytes, one at every 64th byte of the first 4 KiB.
            assert_eq!(bytes.iter().filter(|&&byte| byte == 1).count(), 64 * 8);
            assert!(bytes[..4096].chunks(64).all(|line| line[..8] == [1; 8] && line[8] == 2));
        }
    }

    #[test]
    fn queue_pairs_take_memory() {
        // The allocator counts for the whole process, and other tests free memory meanwhile.
        let values = (0..100).map(|_| bytes_of_idle(64).unwrap().value);
        let mut odd = Vec::new();
        for value in values {
            if (200.0..1e6).contains(&value) {
                return;
            }
            odd.push(value);
        }
        panic!("{odd:?}");
    }
}
