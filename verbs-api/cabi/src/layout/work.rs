//! Work requests and completions.

use core::ffi::{c_int, c_void};

use super::layout;
use crate::object::Ptr;
use crate::objects as of;

/// `ibv_sge` has the layout of the device's own element, so lists are passed on as they are.
pub(crate) type ibv_sge = softrnic_model::verbs::Sge;

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ibv_sge>() == 16 && align_of::<ibv_sge>() == 8);
    assert!(offset_of!(ibv_sge, addr) == 0);
    assert!(offset_of!(ibv_sge, length) == 8);
    assert!(offset_of!(ibv_sge, lkey) == 12);
};

layout! { WORK:
    struct ibv_data_buf: 16 {
        addr: *mut c_void = 0,
        length: usize = 8,
    }
    struct ibv_mw_bind_info: 32 {
        mr: Option<Ptr<of::Mr>> = 0,
        addr: u64 = 8,
        length: u64 = 16,
        mw_access_flags: u32 = 24,
    }
    struct ibv_mw_bind: 48 {
        wr_id: u64 = 0,
        send_flags: u32 = 8,
        bind_info: ibv_mw_bind_info = 16,
    }
    /// The unions `wr`, `qp_type` and `bind_mw`/`tso` as the bytes that they share: see
    /// [`rdma`](ibv_send_wr::rdma), [`atomic`](ibv_send_wr::atomic) and [`ud`](ibv_send_wr::ud).
    struct ibv_send_wr: 128 {
        wr_id: u64 = 0,
        next: *mut ibv_send_wr = 8,
        sg_list: *mut ibv_sge = 16,
        num_sge: c_int = 24,
        opcode: u32 = 28,
        send_flags: u32 = 32,
        imm_data: u32 = 36,
        wr: [u64; 4] = 40,
        remote_srqn: u32 = 72 / "qp_type.xrc.remote_srqn",
        mw: Option<Ptr<of::Mw>> = 80 / "bind_mw.mw",
        mw_rkey: u32 = 88 / "bind_mw.rkey",
        bind_info: ibv_mw_bind_info = 96 / "bind_mw.bind_info",
    }
    struct ibv_recv_wr: 32 {
        wr_id: u64 = 0,
        next: *mut ibv_recv_wr = 8,
        sg_list: *mut ibv_sge = 16,
        num_sge: c_int = 24,
    }
    struct ibv_wc: 48 {
        wr_id: u64 = 0,
        status: u32 = 8,
        opcode: u32 = 12,
        vendor_err: u32 = 16,
        byte_len: u32 = 20,
        imm_data: u32 = 24,
        qp_num: u32 = 28,
        src_qp: u32 = 32,
        wc_flags: u32 = 36,
        pkey_index: u16 = 40,
        slid: u16 = 42,
        sl: u8 = 44,
        dlid_path_bits: u8 = 45,
    }
    struct ibv_grh: 40 {
        version_tclass_flow: u32 = 0,
        paylen: u16 = 4,
        next_hdr: u8 = 6,
        hop_limit: u8 = 7,
        sgid: ibv_gid = 8,
        dgid: ibv_gid = 24,
    }
    struct ibv_global_route: 24 {
        dgid: ibv_gid = 0,
        flow_label: u32 = 16,
        sgid_index: u8 = 20,
        hop_limit: u8 = 21,
        traffic_class: u8 = 22,
    }
}

/// `union ibv_gid`: network byte order.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ibv_gid(pub(crate) [u8; 16]);

const _: () = assert!(size_of::<ibv_gid>() == 16);

/// The low half of a word that C sees as two 32-bit fields.
const fn first_half(word: u64) -> u32 {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

const fn second_half(word: u64) -> u32 {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])
}

impl ibv_send_wr {
    /// `wr.rdma`: remote address and key.
    pub(crate) const fn rdma(&self) -> (u64, u32) {
        (self.wr[0], first_half(self.wr[1]))
    }

    /// `wr.atomic`: remote address, compare or add, swap, key.
    pub(crate) const fn atomic(&self) -> (u64, u64, u64, u32) {
        (self.wr[0], self.wr[1], self.wr[2], first_half(self.wr[3]))
    }

    /// `wr.ud`: the address of the handle, queue pair and Q_Key.
    pub(crate) const fn ud(&self) -> (u64, u32, u32) {
        (self.wr[0], first_half(self.wr[1]), second_half(self.wr[1]))
    }
}
