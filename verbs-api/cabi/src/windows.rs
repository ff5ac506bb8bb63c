//! Memory windows (`ibv_alloc_mw(3)`, `ibv_bind_mw(3)`).

use core::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use softrnic_model::verbs::{Key, WindowType};
use softrnic_verbs::provider::MwBind;

use crate::convert::{bind_info, send_flags};
use crate::errno::{Errno, pointer, status};
use crate::layout::{ibv_mw, ibv_mw_bind};
use crate::object::{Ptr, live};
use crate::objects::{Mw, Pd, Qp};

/// `ibv_mw_type`. Of the two kinds of type 2 the device says in its capabilities which it has.
const TYPE_1: u32 = 1;
const TYPE_2: u32 = 2;

pub(crate) extern "C" fn alloc_mw(pd: Option<Ptr<Pd>>, number: u32) -> Option<Ptr<Mw>> {
    pointer(|| {
        let domain = live(&pd)?;
        let kind = match number {
            TYPE_1 => WindowType::Type1,
            TYPE_2 => WindowType::Type2B,
            _ => return Err(Errno::INVALID),
        };
        let key = domain.shared.device()?.alloc_mw(domain.id, kind)?;
        let public = ibv_mw {
            context: domain.see(|pd| pd.context),
            pd,
            rkey: key.0,
            handle: key.index(),
            r#type: number,
        };
        Ok(Ptr::new(
            public,
            Mw { shared: Arc::clone(&domain.shared), kind, present: AtomicU32::new(key.0) },
        ))
    })
}

pub(crate) extern "C" fn dealloc_mw(mw: Option<Ptr<Mw>>) -> c_int {
    status(|| {
        let window = live(&mw)?;
        window.shared.device()?.dealloc_mw(Key(window.present.load(Ordering::Relaxed)))?;
        window.ptr().retire();
        Ok(())
    })
}

pub(crate) extern "C" fn bind_mw(
    qp: Option<Ptr<Qp>>,
    mw: Option<Ptr<Mw>>,
    bind: Option<&ibv_mw_bind>,
) -> c_int {
    status(|| {
        let (pair, window, bind) = (live(&qp)?, live(&mw)?, bind.ok_or(Errno::INVALID)?);
        let bind = MwBind {
            wr_id: bind.wr_id,
            flags: send_flags(bind.send_flags)?,
            info: bind_info(&bind.bind_info)?,
        };
        let present = Key(window.present.load(Ordering::Relaxed));
        let key = pair.shared.device()?.bind_mw(pair.number, present, &bind)?;
        window.present.store(key.0, Ordering::Relaxed);
        window.change(|mw| mw.rkey = key.0);
        Ok(())
    })
}
