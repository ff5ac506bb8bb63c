//! Regions and windows with extreme addresses and lengths: what the device grants is what the
//! reference model grants, byte for byte.

use softrnic_model::MemoryId;
use softrnic_model::protection::{
    AccessRequest, BindRequest, KeyLimits, KeyPolicy, Protection, RegionSpec, Side,
};
use softrnic_model::verbs::{Access, BindInfo, Key, PdId, QpNum, WindowType};
use softrnic_reference::{Access as Does, Keys, Rights, Who};

use crate::{Bytes, Reached};

/// Numbers at the corners, or any.
fn number(bytes: &mut Bytes<'_>) -> u64 {
    let near = u64::from(bytes.u8());
    match bytes.u8() % 8 {
        0 => near,
        1 => u64::MAX - near,
        2 => (1 << 63) + near,
        3 => (1 << 63) - near,
        4 => (1 << 32) + near,
        5 => (1 << 32) - near,
        6 => 0x1000 + near,
        _ => bytes.u64(),
    }
}

fn rights(bits: u8) -> (Access, Rights) {
    let has = |bit: u8| bits & 1 << bit != 0;
    let mut access = Access::MW_BIND;
    access.set(Access::LOCAL_WRITE, has(0));
    access.set(Access::REMOTE_READ, has(1));
    // By rule neither goes without local write.
    access.set(Access::REMOTE_WRITE, has(2) && has(0));
    access.set(Access::REMOTE_ATOMIC, has(3) && has(0));
    let rights = Rights {
        local_write: has(0),
        remote_read: has(1),
        remote_write: has(2) && has(0),
        remote_atomic: has(3) && has(0),
    };
    (access, rights)
}

/// Does what these bytes say.
pub fn run(bytes: &[u8]) -> Reached {
    let bytes = &mut Bytes(bytes);
    let mut device = Protection::new(KeyLimits { max_mr: 8, max_mw: 8 }, KeyPolicy::Sequential);
    let mut reference = Keys::default();
    let mut keys: Vec<Key> = Vec::new();
    let mut windows: Vec<Key> = Vec::new();
    let mut reached = Reached::default();
    for _ in 0..64 {
        if bytes.is_empty() {
            break;
        }
        match bytes.u8() % 6 {
            0 => {
                let (access, rights) = rights(bytes.u8());
                let domain = u32::from(bytes.u8() % 2);
                let (addr, length) = (number(bytes), number(bytes));
                let memory = MemoryId(keys.len() as u32);
                let spec =
                    RegionSpec { pd: PdId(domain), memory, memory_offset: 0, addr, length, access };
                if let Ok(key) = device.register(spec) {
                    reference.register(key.0, domain, (memory.0 as usize, addr, length), rights);
                    keys.push(key);
                }
            }
            1 => {
                let domain = u32::from(bytes.u8() % 2);
                if let Ok(key) = device.alloc_window(PdId(domain), WindowType::Type2B) {
                    reference.allocate_window(key.0, domain);
                    windows.push(key);
                }
            }
            2 => bind(bytes, &mut device, &mut reference, &keys, &mut windows),
            3 => {
                let at = usize::from(bytes.u8());
                if let Some(key) = keys.get(at % keys.len().max(1)).copied()
                    && device.deregister(key).is_ok()
                {
                    reference.remove(key.0);
                }
            }
            _ => reached.executed += u64::from(ask(bytes, &device, &reference, &keys, &windows)),
        }
    }
    reached
}

fn bind(
    bytes: &mut Bytes<'_>,
    device: &mut Protection,
    reference: &mut Keys,
    keys: &[Key],
    windows: &mut [Key],
) {
    let (window, region) = (usize::from(bytes.u8()), usize::from(bytes.u8()));
    let (variant, qp) = (bytes.u8(), QpNum::new(u32::from(bytes.u8() % 2) + 5));
    let qp_pd = PdId(u32::from(bytes.u8() % 2));
    let (addr, length, wanted) = (number(bytes), number(bytes), bytes.u8());
    let count = windows.len().max(1);
    let (Some(window), Some(mr_lkey)) =
        (windows.get_mut(window % count), keys.get(region % keys.len().max(1)).copied())
    else {
        return;
    };
    let (access, rights) = rights(wanted & 0x0e | 1);
    let access = access.difference(Access::LOCAL_WRITE | Access::MW_BIND);
    let new_rkey = Key::from_parts(window.index(), variant);
    let request = BindRequest {
        window: *window,
        new_rkey,
        window_type: WindowType::Type2B,
        bind: BindInfo { mr_lkey, addr, length, access },
        qp,
        qp_pd,
    };
    if let Ok(new) = device.bind(request) {
        let rights = Rights { local_write: false, ..rights };
        reference.bind((window.0, new.0), Some(qp.get()), mr_lkey.0, (addr, length), rights);
        *window = new;
    }
}

/// Asks both, and says whether access was granted.
fn ask(
    bytes: &mut Bytes<'_>,
    device: &Protection,
    reference: &Keys,
    keys: &[Key],
    windows: &[Key],
) -> bool {
    let at = usize::from(bytes.u8());
    let all: Vec<Key> = keys.iter().chain(windows).copied().collect();
    let known = all.get(at % all.len().max(1)).copied().unwrap_or_default();
    let key = if bytes.u8() % 8 == 7 { Key(known.0 ^ 1 << (bytes.u8() % 32)) } else { known };
    let (does, needs, local) = match bytes.u8() % 5 {
        0 => (Does::LocalRead, Access::empty(), true),
        1 => (Does::LocalWrite, Access::LOCAL_WRITE, true),
        2 => (Does::RemoteRead, Access::REMOTE_READ, false),
        3 => (Does::RemoteWrite, Access::REMOTE_WRITE, false),
        _ => (Does::RemoteAtomic, Access::REMOTE_ATOMIC, false),
    };
    let (domain, qp) = (u32::from(bytes.u8() % 2), u32::from(bytes.u8() % 2) + 5);
    let (addr, length) = (number(bytes), number(bytes));
    let side = if local { Side::Local } else { Side::Remote { qp: QpNum::new(qp) } };
    let request = AccessRequest { key, side, pd: PdId(domain), addr, length, needs };
    let granted = device.check(&request);
    let right = reference.judge(key.0, Who { domain, qp }, (addr, length), does);
    match (granted, right) {
        (Ok(grant), Ok((memory, offset))) => {
            assert_eq!((grant.memory.0 as usize, grant.offset), (memory, offset), "{request:?}");
        }
        (Err(_), Err(_)) => {}
        (granted, right) => panic!("{request:?}: granted {granted:?}, right is {right:?}"),
    }
    granted.is_ok()
}
