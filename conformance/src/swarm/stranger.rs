//! A protection domain of a host that no connection is in: what is in it serves nobody.

use std::time::Duration;

use softrnic_verbs::buffer::Buffer;
use softrnic_verbs::simulated::Fabric;
use softrnic_verbs::{
    Access, ConnectOptions, Context, Cq, Key, Mr, Mw, Pd, Qp, QpType, SendFlags, Sge, Wc, WcStatus,
    WindowRange, WindowType,
};

use softrnic_reference::Violation;

use super::hosts::ALL_RIGHTS;

/// Bytes of its region.
const LEN: usize = 256;

/// A region with every right, a window over it, and a window that is bound to nothing.
pub(super) struct Stranger {
    region: Mr,
    bytes: Vec<u8>,
    window: Key,
    unbound: Mw,
    /// Of the bound window, and of who has bound it.
    _alive: (Mw, Qp, Cq, Pd),
}

impl Stranger {
    pub(super) fn new(
        fabric: &Fabric,
        context: &Context,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let pd = context.alloc_pd()?;
        let region = pd.register(Buffer::new(LEN)?, ALL_RIGHTS)?;
        let bytes: Vec<u8> = (0..=u8::MAX).map(|byte| byte ^ 0x5a).collect();
        // As long as the buffer.
        let _ = region.buffer().write(0, &bytes);
        // Of type 1, which serves all of its domain: the domain alone keeps others away.
        let window = pd.alloc_mw(WindowType::Type1)?;
        let unbound = pd.alloc_mw(WindowType::Type2A)?;
        let cq = context.create_cq(4)?;
        let qp = pd.create_qp(QpType::Rc, &cq).build()?;
        qp.connect_with(&qp.endpoint()?, &ConnectOptions::default())?;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let range = WindowRange { region: &region, offset: 0, length: LEN as u64, access };
        let key = window.bind(&qp, 1, SendFlags::SIGNALED, range)?.rkey;
        fabric.run_for(Duration::from_micros(1));
        let mut told = [Wc::default(); 1];
        let bound = cq.poll(&mut told)? == 1 && told[0].status == WcStatus::Success;
        if !bound {
            return Err(format!("the window of a stranger is not bound: {told:?}").into());
        }
        Ok(Self { region, bytes, window: key, unbound, _alive: (window, qp, cq, pd) })
    }

    /// Address of byte `offset`, with the key of the region or of the window.
    pub(super) fn remote(&self, offset: usize, by_window: bool) -> (u64, Key) {
        let key = if by_window { self.window } else { self.region.rkey() };
        (self.region.remote(offset as u64).addr, key)
    }

    /// Bytes that work requests of the connections cannot name.
    pub(super) fn sge(&self, length: u32) -> Sge {
        self.region.sge(0, length)
    }

    /// The window that is bound to nothing.
    pub(super) fn unbound(&self) -> Key {
        self.unbound.rkey()
    }

    /// Nothing has been written.
    pub(super) fn compare(&self) -> Result<(), Violation> {
        if self.region.buffer().to_vec().ok().as_ref() == Some(&self.bytes) {
            return Ok(());
        }
        Err(Violation(
            "the region of a protection domain without connections was written to".into(),
        ))
    }
}
