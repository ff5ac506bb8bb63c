//! One request a call: signalled, of one element. For lists, flags and more elements there is
//! [`Qp::post_send`].

use softrnic_model::verbs::{Placement, RecvWr, Selectivity, SendFlags, SendOp, SendWr, Sge};

use super::Qp;
use crate::error::{Error, Result};
use crate::region::RemoteAddress;

impl Qp {
    /// Posts a SEND.
    ///
    /// # Errors
    /// As [`crate::provider::Context::post_send`]; so for all that follow.
    pub fn send(&self, wr_id: u64, from: Sge) -> Result<()> {
        self.post_one(wr_id, SendOp::Send { imm: None, invalidate: None }, &[from])
    }

    /// Posts an RDMA WRITE.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn write(&self, wr_id: u64, from: Sge, to: RemoteAddress) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = to;
        self.post_one(wr_id, SendOp::Write { remote_addr, rkey, imm: None }, &[from])
    }

    /// Posts an RDMA WRITE with immediate: it completes a receive of the peer.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn write_with_imm(&self, wr_id: u64, from: Sge, to: RemoteAddress, imm: u32) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = to;
        self.post_one(wr_id, SendOp::Write { remote_addr, rkey, imm: Some(imm) }, &[from])
    }

    /// Posts an RDMA READ.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn read(&self, wr_id: u64, into: Sge, from: RemoteAddress) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = from;
        self.post_one(wr_id, SendOp::Read { remote_addr, rkey }, &[into])
    }

    /// Posts a compare and swap of 8 bytes; `found` gets what was there, in host order.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn compare_swap(
        &self,
        wr_id: u64,
        found: Sge,
        at: RemoteAddress,
        (compare, swap): (u64, u64),
    ) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = at;
        self.post_one(wr_id, SendOp::CompareSwap { remote_addr, rkey, compare, swap }, &[found])
    }

    /// Posts a fetch and add of 8 bytes; `found` gets what was there, in host order.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn fetch_add(&self, wr_id: u64, found: Sge, at: RemoteAddress, add: u64) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = at;
        self.post_one(wr_id, SendOp::FetchAdd { remote_addr, rkey, add }, &[found])
    }

    /// Posts an ATOMIC WRITE of 8 bytes: whoever reads them at `to` sees all or none.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn atomic_write(&self, wr_id: u64, from: Sge, to: RemoteAddress) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = to;
        self.post_one(wr_id, SendOp::AtomicWrite { remote_addr, rkey }, &[from])
    }

    /// Posts a FLUSH of `length` bytes, or with [`Selectivity::Region`] of the whole region: when it
    /// completes, what was written before is where `placement` says.
    ///
    /// # Errors
    /// As [`Qp::send`].
    pub fn flush(
        &self,
        wr_id: u64,
        at: RemoteAddress,
        length: u32,
        placement: Placement,
        selectivity: Selectivity,
    ) -> Result<()> {
        let RemoteAddress { addr: remote_addr, rkey } = at;
        let op = SendOp::Flush { remote_addr, rkey, length, placement, selectivity };
        self.post_one(wr_id, op, &[])
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// As [`crate::provider::Context::post_recv`].
    pub fn recv(&self, wr_id: u64, into: Sge) -> Result<()> {
        let posted = self.post_recv(&[RecvWr { wr_id, sges: &[into] }]);
        posted.map_err(|refused| Error { verb: "post_recv", source: refused.error })
    }

    fn post_one(&self, wr_id: u64, op: SendOp, sges: &[Sge]) -> Result<()> {
        let flags = SendFlags::SIGNALED;
        let posted = self.post_send(&[SendWr { wr_id, op, flags, sges, ..SendWr::default() }]);
        posted.map_err(|refused| Error { verb: "post_send", source: refused.error })
    }
}
