//! Structs of C with hostile contents: what the conversions accept means what the struct says, and the
//! device that gets it stands firm. A fuzz target calls this with any bytes, the test below with its own.
//!
//! Pointers are what C vouches for, so they lead to something here; everything else is any number.

use core::mem::MaybeUninit;

use softrnic_model::protection::RegionSpec;
use softrnic_model::verbs::{
    Access, CqId, Gid, Key, PdId, QpAttributeMask, QpAttributes, QpCreateFlags, QpInit, QpNum,
    QpType, Sge, Wc, WcStatus,
};
use softrnic_model::{Device, DeviceConfig, FrameOut, Instant, Memory, MemoryFault, MemoryId};

use crate::convert;
use crate::layout::{Zeroed, ibv_ah_attr, ibv_qp_attr, ibv_qp_cap, ibv_recv_wr, ibv_send_wr};

/// How often something has got through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Attributes that a queue pair has taken.
    pub attributes: u32,
    /// Work requests that were posted.
    pub posted: u32,
}

/// Elements of a list, and bytes that inline data may be of.
const ELEMENTS: usize = 4;
const BYTES: usize = 4096;
/// Address, key and length of the region that there is.
const REGION: (u64, u64) = (0x1000, 4096);
/// Calls of one run.
const CALLS_MAX: usize = 64;

/// A struct of integers, with these bytes at its beginning.
fn filled<T: Zeroed + Copy>(bytes: &[u8]) -> T {
    let mut value = MaybeUninit::new(T::zeroed());
    let len = bytes.len().min(size_of::<T>());
    // SAFETY: `len` bytes fit, and in the structs of this module any integers are a value; pointers
    // are replaced by the callers before they are looked at.
    unsafe {
        value.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), len);
        value.assume_init()
    }
}

struct World {
    device: Device,
    qp: QpNum,
    cq: CqId,
    qp_type: QpType,
    reached: Reached,
}

/// Takes `N` bytes off the front; zeros where there are none.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    let (front, rest) = bytes.split_at(N.min(bytes.len()));
    taken[..front.len()].copy_from_slice(front);
    *bytes = rest;
    taken
}

/// One run: a queue pair of hostile sizes, then attributes, sends and receives as `bytes` say.
#[must_use]
pub fn run(mut bytes: &[u8]) -> Reached {
    let input = &mut bytes;
    let [number, small] = take(input);
    let mut cap: ibv_qp_cap = filled(&take::<20>(input));
    if small % 2 == 0 {
        // Sizes that a device has.
        (cap.max_send_wr, cap.max_recv_wr, cap.max_send_sge) = (8, 8, 4);
        (cap.max_recv_sge, cap.max_inline_data) = (4, 64);
    }
    let Some(mut world) = World::new(u32::from(number), &cap) else { return Reached::default() };
    for _ in 0..CALLS_MAX {
        if input.is_empty() {
            break;
        }
        let [call, hint] = take(input);
        match call % 4 {
            0 | 3 => world.modify(input, hint),
            1 => world.send(input, hint),
            _ => world.receive(input, hint),
        }
        world.drain();
    }
    world.reached
}

impl World {
    fn new(number: u32, cap: &ibv_qp_cap) -> Option<Self> {
        let qp_type = convert::qp_type(number).ok()?;
        let mut device = Device::new(DeviceConfig {
            gids: vec![Gid::from_v4([10, 0, 0, 1])],
            ..DeviceConfig::default()
        });
        let (pd, cq) = (device.alloc_pd().ok()?, device.create_cq(64).ok()?);
        let access = Access::LOCAL_WRITE | Access::REMOTE;
        let (addr, length) = REGION;
        let spec = RegionSpec { pd, memory: MemoryId(0), memory_offset: 0, addr, length, access };
        device.register(spec).ok()?;
        let qp = device.create_qp(&init(qp_type, pd, cq, cap)).ok()?;
        Some(Self { device, qp, cq, qp_type, reached: Reached::default() })
    }

    fn modify(&mut self, input: &mut &[u8], hint: u8) {
        let mut attr: ibv_qp_attr = filled(&take::<{ size_of::<ibv_qp_attr>() }>(input));
        let mut mask = i32::from_ne_bytes(take(input));
        if hint & 1 == 0 {
            // A step that may be taken, with what it asks for.
            let state = self.device.query_qp(self.qp).map_or(0, |(at, _)| at.state as u32);
            attr.qp_state = (state + 1).min(3);
            mask |= 1;
        }
        if hint & 2 == 0 {
            attr.ah_attr.is_global = 1;
            (attr.ah_attr.port_num, attr.port_num) = (1, 1);
            attr.ah_attr.grh.sgid_index = 0;
            (attr.pkey_index, attr.path_mtu) = (0, 1 + attr.path_mtu % 5);
            (attr.max_rd_atomic, attr.max_dest_rd_atomic) = (1, 1);
            attr.qp_access_flags &= 0xf;
            mask &= required(self.qp_type, attr.qp_state);
            mask |= required(self.qp_type, attr.qp_state);
        }
        let Ok((to, changed)) = convert::qp_changes(&attr, mask) else { return };
        assert_eq!(changed.bits().cast_signed(), mask, "a bit was dropped or made up");
        if self.device.modify_qp(self.qp, &to, changed).is_ok() {
            self.reached.attributes += 1;
            same(&attr, &to, changed);
        }
        // What is asked for is what C is told, whatever it is.
        if let Ok((now, _)) = self.device.query_qp(self.qp) {
            let told = ibv_qp_attr::from(&now);
            assert_eq!((told.rq_psn >> 24, told.sq_psn >> 24, told.dest_qp_num >> 24), (0, 0, 0));
        }
    }

    fn send(&mut self, input: &mut &[u8], hint: u8) {
        let mut wr: ibv_send_wr = filled(&take::<{ size_of::<ibv_send_wr>() }>(input));
        let mut bytes = [0; BYTES];
        let mut elements = elements(input, hint, bytes.as_mut_ptr().expose_provenance() as u64);
        wr.next = core::ptr::null_mut();
        wr.sg_list = elements.as_mut_ptr();
        wr.num_sge = count(wr.num_sge);
        (wr.mw, wr.bind_info.mr) = (None, None);
        if self.qp_type == QpType::Ud {
            wr.wr[0] = 0;
        }
        if hint & 4 == 0 {
            (wr.opcode, wr.send_flags) = (wr.opcode % 7, wr.send_flags & 0xf);
        }
        let (device, qp) = (&mut self.device, self.qp);
        let posted = convert::one_send(&wr, self.qp_type, |request| {
            assert_eq!(request.wr_id, wr.wr_id);
            assert!(request.sges.len() <= ELEMENTS && request.inline.len() <= BYTES);
            device.post_send(qp, request).is_ok()
        });
        self.reached.posted += u32::from(posted);
    }

    fn receive(&mut self, input: &mut &[u8], hint: u8) {
        let mut wr = ibv_recv_wr {
            wr_id: u64::from_ne_bytes(take(input)),
            next: core::ptr::null_mut(),
            sg_list: core::ptr::null_mut(),
            num_sge: count(i32::from_ne_bytes(take(input))),
        };
        let mut elements = elements(input, hint, 0);
        if hint & 8 == 0 {
            wr.sg_list = elements.as_mut_ptr();
        }
        let (device, qp) = (&mut self.device, self.qp);
        let posted = convert::one_receive(&wr, |request| device.post_recv(qp, request).is_ok());
        self.reached.posted += u32::from(posted);
    }

    fn drain(&mut self) {
        let mut frame = FrameOut::default();
        let mut left = 0;
        while self.device.next_frame(&mut frame) {
            left += 1;
            assert!(left < 100_000, "endless sending");
            let mut bytes = vec![0; frame.len()];
            self.device.fill(Instant::ZERO, &Nothing, &frame, &mut bytes);
        }
        let mut some = [Wc::default(); 16];
        while let Ok(count @ 1..) = self.device.poll_cq(self.cq, &mut some) {
            for wc in &some[..count] {
                let told = crate::layout::ibv_wc::from(wc);
                assert!(told.status <= WcStatus::GeneralError as u32, "{wc:?}");
            }
        }
    }
}

/// Memory that cannot be reached.
struct Nothing;

impl Memory for Nothing {
    fn read(&self, _: MemoryId, _: u64, _: &mut [u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }

    fn write(&self, _: MemoryId, _: u64, _: &[u8]) -> Result<(), MemoryFault> {
        Err(MemoryFault)
    }

    fn compare_swap(&self, _: MemoryId, _: u64, _: u64, _: u64) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }

    fn fetch_add(&self, _: MemoryId, _: u64, _: u64) -> Result<u64, MemoryFault> {
        Err(MemoryFault)
    }
}

fn init(qp_type: QpType, pd: PdId, cq: CqId, cap: &ibv_qp_cap) -> QpInit {
    QpInit {
        pd,
        qp_type,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        xrcd: None,
        cap: cap.into(),
        signal_all: true,
        create_flags: QpCreateFlags::empty(),
    }
}

/// What a step to `state` needs, as `ibv_modify_qp(3)` has it.
fn required(qp_type: QpType, state: u32) -> i32 {
    use QpAttributeMask as M;
    let reliable = qp_type.is_reliable();
    let mask = match (state, qp_type) {
        (1, QpType::Ud) => M::PKEY_INDEX | M::PORT | M::QKEY,
        (1, _) => M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS,
        (2, QpType::Rc) => {
            M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER
        }
        (2, QpType::Ud) => M::empty(),
        (2, _) => M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN,
        (_, QpType::Ud | QpType::Uc) => M::SQ_PSN,
        (_, _) if reliable => {
            M::SQ_PSN | M::MAX_QP_RD_ATOMIC | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY
        }
        _ => M::empty(),
    };
    (mask | M::STATE).bits().cast_signed()
}

/// Fields that the mask names are as C has them.
fn same(attr: &ibv_qp_attr, to: &QpAttributes, mask: QpAttributeMask) {
    use QpAttributeMask as M;
    let fields = [
        (M::STATE, attr.qp_state, to.state as u32),
        (M::CUR_STATE, attr.cur_qp_state, to.current_state as u32),
        (M::PATH_MTU, attr.path_mtu, to.path_mtu as u32),
        (M::QKEY, attr.qkey, to.qkey),
        (M::RATE_LIMIT, attr.rate_limit, to.rate_limit),
        (M::PKEY_INDEX, attr.pkey_index.into(), to.pkey_index.into()),
        (M::PORT, attr.port_num.into(), to.port.into()),
        (M::TIMEOUT, attr.timeout.into(), to.timeout.into()),
        (M::RETRY_CNT, attr.retry_cnt.into(), to.retry_count.into()),
        (M::RNR_RETRY, attr.rnr_retry.into(), to.rnr_retry.into()),
        (M::MIN_RNR_TIMER, attr.min_rnr_timer.into(), to.min_rnr_timer.into()),
        (M::DEST_QPN, attr.dest_qp_num & 0xff_ffff, to.dest_qp.get()),
        (M::RQ_PSN, attr.rq_psn & 0xff_ffff, to.rq_psn.get()),
        (M::SQ_PSN, attr.sq_psn & 0xff_ffff, to.sq_psn.get()),
    ];
    for (bit, asked, got) in fields {
        assert!(!mask.contains(bit) || asked == got, "{bit:?}: {asked:#x} became {got:#x}");
    }
    if mask.contains(M::AV) {
        let back: ibv_ah_attr = convert::path_attr(&to.path);
        assert!(back.grh.dgid == attr.ah_attr.grh.dgid, "the address has changed");
    }
}

/// C vouches for so many elements.
fn count(hostile: i32) -> i32 {
    if hostile > 0 { hostile % (ELEMENTS as i32 + 1) } else { hostile }
}

/// Elements of any address and length; in the region, or where there are bytes, for one hint each.
fn elements(input: &mut &[u8], hint: u8, bytes: u64) -> [Sge; ELEMENTS] {
    core::array::from_fn(|_| {
        let mut sge = Sge {
            addr: u64::from_ne_bytes(take(input)),
            length: u32::from_ne_bytes(take(input)),
            lkey: Key(u32::from_ne_bytes(take(input))),
        };
        if bytes != 0 {
            // Inline data is copied from there.
            sge.addr = bytes;
        }
        if hint & 16 == 0 {
            sge.length %= 16;
        }
        sge
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_structs_do_no_harm_and_some_get_through() {
        let mut reached = Reached::default();
        let mut state = 1_u64;
        for _ in 0..3000 {
            let mut bytes = vec![0; 2000];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Zeros, small numbers, and any.
                *byte = match state >> 60 {
                    0..8 => 0,
                    8..12 => (state >> 50) as u8 & 7,
                    _ => (state >> 40) as u8,
                };
            }
            let one = run(&bytes);
            reached.attributes += one.attributes;
            reached.posted += one.posted;
        }
        assert!(reached.attributes > 100 && reached.posted > 100, "{reached:?}");
    }
}
