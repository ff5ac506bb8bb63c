//! The unions of a work request.

use super::ibv_send_wr;

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
