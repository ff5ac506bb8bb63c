//! The names of the scenarios, for tests by name.

/// Calls another macro with the names of all scenarios, in the order of the recording.
macro_rules! for_every_scenario {
    ($then:ident) => {
        $then! { [
            send0 send1 send2 send3 send4 send1023 send1024 send1025 send2048 send3000
            send_imm send_imm_multi send_solicited
            write0 write1 write64 write1024 write1027 write4096 write10000
            write_imm write_imm0 write_imm_multi
            read0 read1 read5 read1024 read1025 read5000
            cas_hit faa rnr_then_ok
            wrap_write wrap_send
            E_bad_rkey_write E_bad_rkey_read E_oob_write E_oob_read E_oob_write_multi
            E_unaligned_atomic E_atomic_bad_rkey E_write_zero_bad_rkey
            E_write_no_qp_perm E_read_no_qp_perm E_atomic_no_qp_perm
            E_recv_too_small E_recv_too_small_multi E_local_bad_lkey E_rnr_exceeded E_read_rd_zero
            ud_send ud_send_imm ud_small_recv
            uc_send uc_write uc_write_imm uc_bad_rkey
        ] }
    };
}
