//! XRC domains and what belongs to them (`ibv_open_xrcd(3)`, `ibv_open_qp(3)`).

use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::fstat;
use softrnic_model::verbs::{QpNum, XrcdId};

use crate::errno::{Errno, Result, pointer, status};
use crate::layout::{Zeroed, ibv_qp, ibv_qp_ex, ibv_qp_open_attr, ibv_xrcd, ibv_xrcd_init_attr};
use crate::object::{Ptr, live};
use crate::objects::{Context, Qp, Xrcd};
use crate::queue_pair::{self, Parts};
use crate::shared::Shared;

/// A file that stands for a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct File(u64, u64);

impl File {
    #[expect(unsafe_code, reason = "C passes a descriptor by number")]
    fn of(descriptor: c_int) -> Result<Self> {
        if descriptor < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: it is looked at by a system call only, which refuses what is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let stat = fstat(borrowed).map_err(std::io::Error::from)?;
        Ok(Self(stat.st_dev, stat.st_ino))
    }
}

/// Opens the domain that stands behind a file: the one that somebody of this process has made for it, or
/// a new one, as `oflags` ask.
fn of_file(shared: &Shared, file: File, oflags: c_int) -> Result<XrcdId> {
    let mut named = shared.named();
    match named.xrcds.get_mut(&file) {
        Some(_) if oflags & libc::O_EXCL != 0 => Err(Errno::INVALID),
        Some((id, opened)) => {
            shared.device()?.share_xrcd(*id)?;
            *opened += 1;
            Ok(*id)
        }
        None if oflags & libc::O_CREAT == 0 => Err(Errno(libc::EAGAIN)),
        None => {
            let id = shared.device()?.open_xrcd()?;
            named.xrcds.insert(file, (id, 1));
            Ok(id)
        }
    }
}

pub(crate) extern "C" fn open_xrcd(
    context: Option<Ptr<Context>>,
    attr: Option<&ibv_xrcd_init_attr>,
) -> Option<Ptr<Xrcd>> {
    pointer(|| {
        /// `IBV_XRCD_INIT_ATTR_FD`, `_OFLAGS`: both are needed. Without a file it is −1.
        const FD_AND_OFLAGS: u32 = 0b11;
        const NO_FILE: c_int = -1;
        let shared = Arc::clone(&live(&context)?.shared);
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.comp_mask & !FD_AND_OFLAGS != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if attr.comp_mask != FD_AND_OFLAGS {
            return Err(Errno::INVALID);
        }
        let file = if attr.fd == NO_FILE { None } else { Some(File::of(attr.fd)?) };
        let id = match file {
            Some(file) => of_file(&shared, file, attr.oflags)?,
            None if attr.oflags & libc::O_CREAT == 0 => return Err(Errno::INVALID),
            None => shared.device()?.open_xrcd()?,
        };
        Ok(Ptr::new(ibv_xrcd { context }, Xrcd { shared, id, file }))
    })
}

pub(crate) extern "C" fn close_xrcd(xrcd: Option<Ptr<Xrcd>>) -> c_int {
    status(|| {
        let domain = live(&xrcd)?;
        let mut named = domain.shared.named();
        domain.shared.device()?.close_xrcd(domain.id)?;
        if let Some(file) = domain.file
            && let Some((_, opened)) = named.xrcds.get_mut(&file)
        {
            *opened -= 1;
            if *opened == 0 {
                named.xrcds.remove(&file);
            }
        }
        drop(named);
        domain.ptr().retire();
        Ok(())
    })
}

/// Opens an XRC target that exists once more.
pub(crate) extern "C" fn open_qp(
    context: Option<Ptr<Context>>,
    attr: Option<&ibv_qp_open_attr>,
) -> Option<Ptr<Qp>> {
    pointer(|| {
        /// `ibv_qp_open_attr_mask`
        const NUM: u32 = 1;
        const XRCD: u32 = 1 << 1;
        const CONTEXT: u32 = 1 << 2;
        const TYPE: u32 = 1 << 3;
        const NEEDED: u32 = NUM | XRCD | TYPE;
        let shared = Arc::clone(&live(&context)?.shared);
        let attr = attr.ok_or(Errno::INVALID)?;
        if attr.comp_mask & !(NEEDED | CONTEXT) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        if attr.comp_mask & NEEDED != NEEDED {
            return Err(Errno::INVALID);
        }
        let qp_type = crate::convert::qp_type(attr.qp_type)?;
        let number = QpNum::new(attr.qp_num);
        shared.device()?.open_qp(live(&attr.xrcd)?.id, number)?;
        let state = shared.device()?.query_qp(number)?.0.state as u32;
        let qp_context =
            if attr.comp_mask & CONTEXT != 0 { attr.qp_context } else { core::ptr::null_mut() };
        let qp_base = ibv_qp {
            context,
            qp_context,
            handle: number.get(),
            qp_num: number.get(),
            state,
            qp_type: attr.qp_type,
            ..ibv_qp_ex::zeroed().qp_base
        };
        Ok(queue_pair::record(qp_base, Parts { shared, number, qp_type, extended: None }))
    })
}
