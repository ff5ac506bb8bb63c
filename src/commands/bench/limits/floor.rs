//! How cheap an RDMA operation within one process can be: the least device that still posts,
//! checks both keys, ranges and rights, copies, completes and is polled. No transport, no other
//! queue pair, no lock.

use std::hint::black_box;

/// Entries of the send queue and of the completion queue.
const RING: usize = 256;
/// Bytes of each of the two regions.
const REGION: usize = 1 << 20;
/// Where the two regions begin, as a program sees it.
const LOCAL_BASE: u64 = 0x10_0000;
const REMOTE_BASE: u64 = 0x80_0000;
/// Table entry and variant of their keys.
const LKEY: u32 = 5 << 8 | 1;
const RKEY: u32 = 9 << 8 | 1;
const READ: u8 = 1;
const WRITE: u8 = 2;

const SUCCESS: u8 = 0;
const LOCAL_PROTECTION_ERROR: u8 = 4;
const REMOTE_ACCESS_ERROR: u8 = 10;

/// A request to write `len` bytes from local to remote memory. As large as a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Request {
    id: u64,
    local: u64,
    remote: u64,
    lkey: u32,
    rkey: u32,
    len: u32,
    immediate: u32,
    opcode: u8,
    signaled: bool,
}

/// A completion. Half as large.
#[derive(Clone, Copy, Default)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what a program would read is written all the same")
)]
#[repr(align(32))]
struct Completion {
    id: u64,
    len: u32,
    immediate: u32,
    qpn: u32,
    status: u8,
    opcode: u8,
}

/// An entry of the key table.
#[derive(Clone, Copy)]
struct Region {
    base: u64,
    len: u64,
    key: u32,
    access: u8,
}

struct Device {
    regions: Vec<Option<Region>>,
    local: Vec<u8>,
    remote: Vec<u8>,
}

impl Device {
    fn new() -> Self {
        let mut regions = vec![None; 64];
        for (key, base) in [(LKEY, LOCAL_BASE), (RKEY, REMOTE_BASE)] {
            let region = Region { base, len: REGION as u64, key, access: READ | WRITE };
            if let Some(entry) = regions.get_mut((key >> 8) as usize) {
                *entry = Some(region);
            }
        }
        Self { regions, local: vec![1; REGION], remote: vec![0; REGION] }
    }

    /// The offset in the region of `key` where `len` bytes at `addr` begin, if all is in order.
    #[inline]
    fn check(&self, key: u32, addr: u64, len: u32, access: u8) -> Option<usize> {
        let region = self.regions.get((key >> 8) as usize)?.as_ref()?;
        let end = addr.checked_add(u64::from(len))?;
        let allowed = region.key == key
            && region.access & access == access
            && addr >= region.base
            && end <= region.base + region.len;
        if allowed { usize::try_from(addr - region.base).ok() } else { None }
    }

    #[inline]
    fn execute(&mut self, request: &Request) -> u8 {
        let &Request { len, .. } = request;
        let Some(from) = self.check(request.lkey, request.local, len, READ) else {
            return LOCAL_PROTECTION_ERROR;
        };
        let Some(to) = self.check(request.rkey, request.remote, len, WRITE) else {
            return REMOTE_ACCESS_ERROR;
        };
        let len = len as usize;
        let (Some(source), Some(target)) =
            (self.local.get(from..from + len), self.remote.get_mut(to..to + len))
        else {
            return REMOTE_ACCESS_ERROR;
        };
        target.copy_from_slice(source);
        SUCCESS
    }
}

/// A ring of [`RING`] entries; both ends count up and wrap by remainder.
struct Ring<T> {
    entries: [T; RING],
    produced: usize,
    consumed: usize,
}

impl<T: Copy + Default> Ring<T> {
    fn new() -> Self {
        Self { entries: [T::default(); RING], produced: 0, consumed: 0 }
    }

    #[inline]
    fn push(&mut self, entry: T) -> bool {
        if self.produced - self.consumed == RING {
            return false;
        }
        self.entries[self.produced % RING] = entry;
        self.produced += 1;
        true
    }

    #[inline]
    fn pop(&mut self) -> Option<T> {
        if self.consumed == self.produced {
            return None;
        }
        let entry = self.entries[self.consumed % RING];
        self.consumed += 1;
        Some(entry)
    }
}

/// What a program holds. Its three calls are never inlined: a library's are not.
pub(super) struct Floor {
    device: Device,
    requests: Ring<Request>,
    completions: Ring<Completion>,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self { device: Device::new(), requests: Ring::new(), completions: Ring::new() }
    }

    #[inline(never)]
    fn post(&mut self, request: &Request) -> bool {
        self.requests.push(*request)
    }

    #[inline(never)]
    fn progress(&mut self) {
        while let Some(request) = self.requests.pop() {
            let status = self.device.execute(&request);
            if request.signaled || status != SUCCESS {
                let Request { id, len, immediate, opcode, .. } = request;
                let completion = Completion { id, len, immediate, qpn: 7, status, opcode };
                // The program polls before it posts more than fits.
                self.completions.push(completion);
            }
        }
    }

    #[inline(never)]
    fn poll(&mut self, completions: &mut [Completion]) -> usize {
        let mut count = 0;
        for slot in completions {
            let Some(completion) = self.completions.pop() else { break };
            *slot = completion;
            count += 1;
        }
        count
    }

    /// `rounds` times: posts `DEPTH` writes of `len` bytes, has them executed, polls all
    /// completions. Says whether all succeeded.
    pub(super) fn run<const DEPTH: usize>(&mut self, rounds: u64, len: u32) -> bool {
        const { assert!(DEPTH <= RING) };
        let mut completions = [Completion::default(); DEPTH];
        let mut good = true;
        for round in 0..rounds {
            for n in 0..DEPTH as u64 {
                let id = round * DEPTH as u64 + n;
                let offset = (id & 63) * 64;
                self.post(&black_box(Request {
                    id,
                    local: LOCAL_BASE + offset,
                    remote: REMOTE_BASE + offset,
                    lkey: LKEY,
                    rkey: RKEY,
                    len,
                    immediate: 0,
                    opcode: 1,
                    signaled: true,
                }));
            }
            self.progress();
            let polled = self.poll(&mut completions);
            good &= polled == DEPTH && completions.iter().all(|done| done.status == SUCCESS);
        }
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let (local, remote) = (LOCAL_BASE, REMOTE_BASE);
        Request {
            local,
            remote,
            lkey: LKEY,
            rkey: RKEY,
            len: 8,
            signaled: true,
            ..Request::default()
        }
    }

    fn status_of(request: &Request) -> u8 {
        let mut floor = Floor::new();
        let mut completion = [Completion { status: 0xff, ..Completion::default() }];
        assert!(floor.post(request));
        floor.progress();
        assert_eq!(floor.poll(&mut completion), 1);
        completion[0].status
    }

    #[test]
    fn it_really_writes() {
        let mut floor = Floor::new();
        assert!(floor.run::<1>(1, 8));
        assert_eq!(floor.device.remote[..9], [1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert!(floor.run::<32>(20, 4096));
    }

    #[test]
    fn a_completion_tells_which_request_it_ends() {
        let mut floor = Floor::new();
        let mut completion = [Completion::default(); 2];
        let told = Request { id: 77, immediate: 5, opcode: 3, ..request() };
        assert!(floor.post(&told) && floor.post(&Request { signaled: false, ..told }));
        floor.progress();
        assert_eq!(floor.poll(&mut completion), 1);
        let Completion { id, len, immediate, qpn, status, opcode } = completion[0];
        assert_eq!((id, len, immediate, qpn, status, opcode), (77, 8, 5, 7, SUCCESS, 3));
    }

    #[test]
    fn it_really_checks() {
        let end = REGION as u64;
        assert_eq!(status_of(&request()), SUCCESS);
        let last = Request { remote: REMOTE_BASE + end - 8, ..request() };
        assert_eq!(status_of(&last), SUCCESS);
        for bad in [
            Request { lkey: LKEY + 1, ..request() },
            Request { lkey: RKEY, ..request() },
            Request { lkey: 63 << 8, ..request() },
            Request { lkey: u32::MAX, ..request() },
            Request { local: LOCAL_BASE - 1, ..request() },
            Request { local: u64::MAX - 3, ..request() },
        ] {
            assert_eq!(status_of(&bad), LOCAL_PROTECTION_ERROR);
        }
        for bad in [
            Request { rkey: RKEY ^ 0x80, ..request() },
            Request { rkey: LKEY, ..request() },
            Request { remote: REMOTE_BASE + end - 7, ..request() },
            Request { remote: REMOTE_BASE - 1, ..request() },
            Request { remote: u64::MAX, ..request() },
        ] {
            assert_eq!(status_of(&bad), REMOTE_ACCESS_ERROR);
        }
    }

    #[test]
    fn rights_are_checked() {
        let mut floor = Floor::new();
        let entry = floor.device.regions[(RKEY >> 8) as usize].as_mut().unwrap();
        entry.access = READ;
        assert!(!floor.run::<1>(1, 8));
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let mut floor = Floor::new();
        for _ in 0..RING {
            assert!(floor.post(&request()));
        }
        assert!(!floor.post(&request()));
    }
}
