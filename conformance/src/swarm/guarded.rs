//! Regions without some rights.

use softrnic_reference::{Access as Does, Keys, Rights, Violation, Who};
use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::{Access, Error, Key, Mr, Pd, Sge};

/// Bytes of each.
pub(super) const LEN: usize = 256;

/// What each allows, to the device and to the reference model.
const RIGHTS: [(Access, Rights); 3] = [
    (Access::empty(), Rights { local_write: false, ..NONE }),
    (Access::REMOTE_READ, Rights { remote_read: true, ..NONE }),
    (
        Access::LOCAL_WRITE.union(Access::REMOTE_WRITE),
        Rights { local_write: true, remote_write: true, ..NONE },
    ),
];

const NONE: Rights =
    Rights { local_write: false, remote_read: false, remote_write: false, remote_atomic: false };

/// Regions of a host that nobody ever writes to: their owner has not allowed it, or nobody does.
pub(super) struct Guarded {
    regions: Vec<(Mr, Vec<u8>)>,
    keys: Keys,
}

impl Guarded {
    pub(super) fn new(pd: &Pd) -> Result<Self, Error> {
        let (mut regions, mut keys) = (Vec::new(), Keys::default());
        for (number, (access, rights)) in (0..).zip(RIGHTS) {
            let region = pd.register(Buffer::new(LEN)?, access)?;
            let bytes: Vec<u8> = (0..=u8::MAX).map(|byte| byte ^ number).collect();
            // As long as the buffer.
            let _ = region.buffer().write(0, &bytes);
            let place = (usize::from(number), region.remote(0).addr, LEN as u64);
            keys.register(region.rkey().0, 0, place, rights);
            regions.push((region, bytes));
        }
        Ok(Self { regions, keys })
    }

    /// Address and key of byte `offset` of one of them.
    pub(super) fn remote(&self, which: usize, offset: usize) -> (u64, Key) {
        let (region, _) = &self.regions[which % RIGHTS.len()];
        (region.remote(offset as u64).addr, region.rkey())
    }

    /// Whether the reference model refuses a peer.
    pub(super) fn refuses(&self, key: Key, address: u64, len: u64, does: Does) -> bool {
        let who = Who { domain: 0, qp: 0 };
        self.keys.judge(key.0, who, (address, len), does).is_err()
    }

    /// Eight bytes that the program's own device may not write.
    pub(super) fn read_only(&self) -> Sge {
        self.regions[0].0.sge(0, 8)
    }

    /// Nothing has been written.
    pub(super) fn compare(&self) -> Result<(), Violation> {
        let changed = |(region, bytes): &&(Mr, Vec<u8>)| {
            region.buffer().to_vec().ok().as_ref() != Some(bytes)
        };
        match self.regions.iter().find(changed) {
            Some((region, _)) => {
                Err(Violation(format!("region {:?} without rights was written to", region.rkey())))
            }
            None => Ok(()),
        }
    }
}
