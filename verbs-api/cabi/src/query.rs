//! What device and port are (`ibv_query_device(3)`, `ibv_query_port(3)`, `ibv_query_gid_ex(3)`, …).

use core::ffi::{c_char, c_int, c_void};

use softrnic_model::verbs::Gid;
use softrnic_verbs::provider::{self, GidEntry, GidType};

use crate::convert::{extended_attr, put, put_if_wanted, put_sized};
use crate::errno::{Errno, Result, guarded, number, status};
use crate::layout::{
    ibv_device_attr, ibv_device_attr_ex, ibv_gid, ibv_gid_entry, ibv_port_attr, ibv_values_ex,
};
use crate::object::{Ptr, live};
use crate::objects::Context;

/// How many bytes of the port's attributes the exported function writes: what they were before more
/// were added.
const FIRST_PORT_ATTR: usize = 48;

pub(crate) extern "C" fn query_device(
    context: Option<Ptr<Context>>,
    attr: Option<&mut ibv_device_attr>,
) -> c_int {
    status(|| {
        let device = live(&context)?.shared.device()?.query_device()?;
        *attr.ok_or(Errno::INVALID)? = (&device).into();
        Ok(())
    })
}

pub(crate) extern "C" fn query_device_ex(
    context: Option<Ptr<Context>>,
    input: Option<&u32>,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    status(|| {
        if input.is_some_and(|comp_mask| *comp_mask != 0) || size < size_of::<ibv_device_attr>() {
            return Err(Errno::INVALID);
        }
        let device = live(&context)?.shared.device()?;
        put_sized(attr, size, &extended_attr(&device.query_device()?, &device.query_memory()?))
    })
}

/// The clock that stamps completions, in ticks.
pub(crate) extern "C" fn query_rt_values(
    context: Option<Ptr<Context>>,
    values: Option<&mut ibv_values_ex>,
) -> c_int {
    status(|| {
        /// `IBV_VALUES_MASK_RAW_CLOCK`
        const RAW_CLOCK: u32 = 1;
        let values = values.ok_or(Errno::INVALID)?;
        if values.comp_mask != RAW_CLOCK {
            return Err(Errno::INVALID);
        }
        let ticks = live(&context)?.shared.device()?.query_clock()?;
        values.raw_clock = [0, i64::try_from(ticks)?];
        Ok(())
    })
}

pub(crate) extern "C" fn query_port(
    context: Option<Ptr<Context>>,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    query_port_sized(context, port, attr, FIRST_PORT_ATTR)
}

pub(crate) extern "C" fn query_port_sized(
    context: Option<Ptr<Context>>,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    status(|| {
        let port = live(&context)?.shared.device()?.query_port(port)?;
        put_sized(attr, size, &ibv_port_attr::from(&port))
    })
}

/// Entries that the GID table has at least, used or not: addresses come while a device is open, and
/// programs ask for the length once.
pub(crate) const GIDS_MIN: u32 = 16;

/// An entry of the table by the numbers of C.
fn entry(device: &dyn provider::Context, port: u32, index: u32) -> Result<ibv_gid_entry> {
    const EMPTY: GidEntry =
        GidEntry { gid: Gid([0; 16]), gid_type: GidType::RoceV2, interface_index: 0 };
    let number = u8::try_from(port)?;
    let used = device.query_port(number)?.gid_tbl_len;
    let is_room = (used..GIDS_MIN).contains(&index);
    let entry = if is_room { EMPTY } else { device.query_gid(number, index)? };
    let GidEntry { gid, gid_type, interface_index } = entry;
    let gid_type = match gid_type {
        GidType::Ib => 0,
        GidType::RoceV1 => 1,
        GidType::RoceV2 => 2,
    };
    let gid = gid.into();
    Ok(ibv_gid_entry {
        gid,
        gid_index: index,
        port_num: port,
        gid_type,
        ndev_ifindex: interface_index,
    })
}

pub(crate) extern "C" fn query_gid(
    context: Option<Ptr<Context>>,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    number(|| {
        let device = live(&context)?.shared.device()?;
        let entry = entry(device, port.into(), u32::try_from(index)?)?;
        put_if_wanted(gid, entry.gid);
        Ok(0)
    })
}

/// As the private `ibv_query_gid_type`: 1 for IB and RoCE v1 alike, 2 for RoCE v2 … in the numbers of
/// the kernel, which count from 0 without telling the first two apart.
pub(crate) extern "C" fn query_gid_type(
    context: Option<Ptr<Context>>,
    port: u8,
    index: u32,
    gid_type: *mut u32,
) -> c_int {
    const IB_OR_V1: u32 = 0;
    const V2: u32 = 1;
    number(|| {
        let entry = entry(live(&context)?.shared.device()?, port.into(), index)?;
        put_if_wanted(gid_type, if entry.gid_type == 2 { V2 } else { IB_OR_V1 });
        Ok(0)
    })
}

pub(crate) extern "C" fn query_gid_ex(
    context: Option<Ptr<Context>>,
    port: u32,
    index: u32,
    into: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let entry = entry(live(&context)?.shared.device()?, port, index)?;
        if entry.gid == ibv_gid::default() {
            return Err(Errno(libc::ENODATA));
        }
        put_sized(into, size, &entry)
    })
}

/// The number of entries, or a negative errno.
pub(crate) extern "C" fn query_gid_table(
    context: Option<Ptr<Context>>,
    into: *mut ibv_gid_entry,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    let filled = guarded(|| {
        if flags != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if size < size_of::<ibv_gid>() {
            return Err(Errno::INVALID);
        }
        let device = live(&context)?.shared.device()?;
        let len = device.query_port(1)?.gid_tbl_len;
        let mut filled = 0;
        for index in 0..len {
            let entry = entry(device, 1, index)?;
            if entry.gid == ibv_gid::default() {
                continue;
            }
            if filled == room {
                return Err(Errno::INVALID);
            }
            let place = into.cast::<u8>().wrapping_add(filled * size).cast::<ibv_gid_entry>();
            put_sized(place, size, &entry)?;
            filled += 1;
        }
        Ok(isize::try_from(filled)?)
    });
    filled.unwrap_or_else(|Errno(errno)| -(errno as isize))
}

pub(crate) extern "C" fn query_pkey(
    context: Option<Ptr<Context>>,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    number(|| {
        let found = live(&context)?.shared.device()?.query_pkey(port, u16::try_from(index)?)?;
        put_if_wanted(pkey, found.to_be());
        Ok(0)
    })
}

/// The index of a P_Key in network order.
pub(crate) extern "C" fn get_pkey_index(
    context: Option<Ptr<Context>>,
    port: u8,
    pkey: u16,
) -> c_int {
    number(|| {
        let device = live(&context)?.shared.device()?;
        let wanted = u16::from_be(pkey);
        for index in 0..device.query_port(port)?.pkey_tbl_len {
            if device.query_pkey(port, index)? == wanted {
                return Ok(index.into());
            }
        }
        Err(Errno(libc::ENOENT))
    })
}

/// Reads `directory/file` into `into`, without the end of the line; the number of bytes, or −1.
pub(crate) extern "C" fn read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    into: *mut c_void,
    room: usize,
) -> c_int {
    number(|| {
        let path = format!("{}/{}", text(directory)?, text(file)?);
        let mut found = std::fs::read(path)?;
        if found.last() == Some(&b'\n') {
            found.pop();
        }
        found.truncate(room.saturating_sub(1));
        for (index, byte) in found.iter().copied().chain([0]).take(room).enumerate() {
            put(into.cast::<u8>(), index, byte);
        }
        Ok(c_int::try_from(found.len())?)
    })
}

#[expect(unsafe_code, reason = "C passes a string")]
fn text<'a>(at: *const c_char) -> Result<&'a str> {
    if at.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: C vouches for a string that ends.
    unsafe { core::ffi::CStr::from_ptr(at) }.to_str().map_err(|_| Errno::INVALID)
}
