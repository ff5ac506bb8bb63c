//! Options (`rdma_set_option(3)`), and what vendors' libraries tell each other
//! (`rdma_set_local_ece(3)`, `rdma_get_remote_ece(3)`).

use core::ffi::{c_int, c_void};

use softrnic_verbs::cm::{CmOption, Ece};

use super::Id;
use super::layout::ibv_path_data;
use crate::convert::array;
use crate::errno::{Errno, Result, number};
use crate::layout::ibv_ece;
use crate::object::{Object, Ptr, live};

/// `RDMA_OPTION_ID` and its options.
const ID: c_int = 0;
const TOS: c_int = 0;
const REUSEADDR: c_int = 1;
const AFONLY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
/// `RDMA_OPTION_IB` and its option.
const IB: c_int = 1;
const PATH: c_int = 1;

/// An unknown option, as the kernel answers it.
const UNKNOWN: Errno = Errno(libc::ENOSYS);

/// The bytes of a value of exactly `N`.
fn value<const N: usize>(value: *const c_void, len: usize) -> Result<[u8; N]> {
    array(value.cast::<u8>(), len)?.try_into().map_err(|_| Errno::INVALID)
}

fn option(level: c_int, name: c_int, at: *const c_void, len: usize) -> Result<CmOption> {
    let byte = || value::<1>(at, len).map(u8::from_ne_bytes);
    let switch = || value::<4>(at, len).map(|bytes| c_int::from_ne_bytes(bytes) != 0);
    match (level, name) {
        (ID, TOS) => byte().map(CmOption::Tos),
        (ID, REUSEADDR) => switch().map(CmOption::ReuseAddress),
        (ID, AFONLY) => switch().map(CmOption::AfOnly),
        (ID, ACK_TIMEOUT) => byte().map(CmOption::AckTimeout),
        _ => Err(UNKNOWN),
    }
}

/// A route from elsewhere. On RoCE it can only be the one that addresses give, so it is resolved.
fn set_path(id: &Object<Id>, at: *const c_void, len: usize) -> Result<()> {
    if at.is_null() || len == 0 || !len.is_multiple_of(size_of::<ibv_path_data>()) {
        return Err(Errno::INVALID);
    }
    super::address::route(id, None)
}

pub(crate) extern "C" fn set_option(
    id: Option<Ptr<Id>>,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    number(|| {
        let id = live(&id)?;
        if (level, name) == (IB, PATH) {
            set_path(id, value, len)?;
        } else {
            id.cm()?.set_option(id.number, option(level, name, value, len)?)?;
        }
        Ok(0)
    })
}

pub(crate) extern "C" fn set_local_ece(id: Option<Ptr<Id>>, ece: Option<&ibv_ece>) -> c_int {
    number(|| {
        let (id, ece) = (live(&id)?, ece.ok_or(Errno::INVALID)?);
        // It is for queue pairs of the program's own. Vendor 0 has nothing to say.
        if id.see(|public| public.id.qp.is_some()) || ece.comp_mask != 0 {
            return Err(Errno::INVALID);
        }
        id.state().local_ece = Ece { vendor_id: ece.vendor_id, options: ece.options };
        Ok(0)
    })
}

pub(crate) extern "C" fn get_remote_ece(id: Option<Ptr<Id>>, ece: Option<&mut ibv_ece>) -> c_int {
    number(|| {
        let (id, ece) = (live(&id)?, ece.ok_or(Errno::INVALID)?);
        if id.see(|public| public.id.qp.is_some()) {
            return Err(Errno::INVALID);
        }
        let Ece { vendor_id, options } = id.cm()?.query_id(id.number)?.remote_ece;
        *ece = ibv_ece { vendor_id, options, comp_mask: 0 };
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(level: c_int, name: c_int, bytes: &[u8]) -> Result<CmOption> {
        option(level, name, bytes.as_ptr().cast(), bytes.len())
    }

    #[test]
    fn each_option_has_its_length() {
        assert_eq!(asked(ID, TOS, &[0x20]), Ok(CmOption::Tos(0x20)));
        assert_eq!(asked(ID, REUSEADDR, &2_i32.to_ne_bytes()), Ok(CmOption::ReuseAddress(true)));
        assert_eq!(asked(ID, AFONLY, &0_i32.to_ne_bytes()), Ok(CmOption::AfOnly(false)));
        assert_eq!(asked(ID, ACK_TIMEOUT, &[14]), Ok(CmOption::AckTimeout(14)));
        assert_eq!(asked(ID, TOS, &[0; 4]), Err(Errno::INVALID));
        assert_eq!(asked(ID, REUSEADDR, &[1]), Err(Errno::INVALID));
        assert_eq!(option(ID, TOS, core::ptr::null(), 1), Err(Errno::INVALID));
        assert_eq!(asked(ID, 9, &[0]), Err(UNKNOWN));
        assert_eq!(asked(IB, 9, &[0]), Err(UNKNOWN));
    }
}
