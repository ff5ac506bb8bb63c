//! The 57 scenarios in the order in which they were recorded.

use std::time::Duration;

use softrnic_model::verbs::{Access, Psn};

use super::{Effect, Scenario, Session, Work};
use crate::lab::Connection;

/// A receive that any message of these scenarios fits into, but where one shall not.
const ROOMY: u32 = 4096;

/// Immediates as numbers. The recording's program posted 0x11223344 and so on in the byte order of
/// its host, where the verbs want network order, so they are swapped.
const IMM: u32 = 0x4433_2211;
const IMM_MULTI: u32 = 0x8877_6655;
const IMM_WRITE: u32 = 0x0d0c_0b0a;
const IMM_WRITE_0: u32 = 0x0e0c_0b0a;
const IMM_WRITE_MULTI: u32 = 0x0f0c_0b0a;
const IMM_UD: u32 = 0x7700_0000;
const IMM_UC: u32 = 0x0900_0000;

/// All sessions.
#[must_use]
pub fn sessions() -> Vec<Session> {
    let mut all = vec![
        session(Connection::RC, everyday()),
        // The sequence numbers wrap within the first message.
        session(
            Connection::RC,
            vec![
                Scenario::new("wrap_write", Work::write(6000).at(8192)),
                received("wrap_send", Work::send(3000)),
            ],
        )
        .starting_at(Psn::new(0xff_fffe)),
    ];
    all.extend(errors().into_iter().map(|(connection, s)| session(connection, vec![s])));
    all.push(session(
        Connection::UD,
        vec![
            received("ud_send", Work::send(200)),
            received("ud_send_imm", Work::send_imm(13, IMM_UD)),
            Scenario::new("ud_small_recv", Work::send(200))
                .into_receive(100)
                .having(Effect::Nothing),
        ],
    ));
    all.push(session(
        Connection::UC,
        vec![
            received("uc_send", Work::send(2100)),
            Scenario::new("uc_write", Work::write(2100).at(4096)),
            received("uc_write_imm", Work::write_imm(2100, IMM_UC).at(4096)),
            Scenario::new("uc_bad_rkey", Work::write(64).with_rkey(0xde_ad00))
                .having(Effect::Nothing),
        ],
    ));
    // Every connection of the recording starts 0x1000 further on; the responder 0x500000 ahead.
    for (first, session) in (0x2000..).step_by(0x1000).zip(&mut all) {
        if session.connection.psn[0] == Psn::new(0) {
            session.connection.psn = [Psn::new(first), Psn::new(first + 0x50_0000)];
        }
    }
    all
}

fn session(connection: Connection, scenarios: Vec<Scenario>) -> Session {
    Session { connection, scenarios }
}

fn received(name: &'static str, work: Work) -> Scenario {
    Scenario::new(name, work).into_receive(ROOMY)
}

/// What goes well, on one connection. READs find what the WRITEs before them have left.
fn everyday() -> Vec<Scenario> {
    let write = |name, length| Scenario::new(name, Work::write(length).at(8192));
    let read = |name, length| Scenario::new(name, Work::read(length).from(16_384).at(8192));
    let atomic = |name, work: Work| Scenario::new(name, work.from(32_768).at(32_768));
    vec![
        received("send0", Work::send(0)),
        received("send1", Work::send(1)),
        received("send2", Work::send(2)),
        received("send3", Work::send(3)),
        received("send4", Work::send(4)),
        received("send1023", Work::send(1023)),
        received("send1024", Work::send(1024)),
        received("send1025", Work::send(1025)),
        received("send2048", Work::send(2048)),
        received("send3000", Work::send(3000)),
        received("send_imm", Work::send_imm(100, IMM)),
        received("send_imm_multi", Work::send_imm(2500, IMM_MULTI)),
        received("send_solicited", Work::send(16).solicited()),
        write("write0", 0),
        write("write1", 1),
        write("write64", 64),
        write("write1024", 1024),
        write("write1027", 1027),
        write("write4096", 4096),
        write("write10000", 10_000),
        received("write_imm", Work::write_imm(48, IMM_WRITE).at(8192)),
        received("write_imm0", Work::write_imm(0, IMM_WRITE_0)),
        received("write_imm_multi", Work::write_imm(3333, IMM_WRITE_MULTI).at(8192)),
        read("read0", 0),
        read("read1", 1),
        read("read5", 5),
        read("read1024", 1024),
        read("read1025", 1025),
        read("read5000", 5000),
        // In spite of its name it misses: memory holds something else.
        atomic("cas_hit", Work::compare_swap(0x0102_0304_0506_0708, 0xcafe_babe_dead_beef)),
        atomic("faa", Work::fetch_add(0x1111)),
        Scenario::new("rnr_then_ok", Work::send(32))
            .into_late_receive(ROOMY, Duration::from_millis(400)),
    ]
}

/// What goes wrong, each on a connection of its own.
fn errors() -> Vec<(Connection, Scenario)> {
    let rc = Connection::RC;
    let closed = Connection { access: Access::LOCAL_WRITE, ..rc };
    let wrong = |name, work| Scenario::new(name, work).having(Effect::Nothing);
    vec![
        (rc, wrong("E_bad_rkey_write", Work::write(64).with_rkey(0xde_ad00))),
        (rc, wrong("E_bad_rkey_read", Work::read(64).with_rkey(0xde_ad00))),
        (rc, wrong("E_oob_write", Work::write(64).at(65_536 - 32))),
        (rc, wrong("E_oob_read", Work::read(64).at(65_536 - 32))),
        (rc, wrong("E_oob_write_multi", Work::write(4096).at(65_536 - 2048))),
        (rc, wrong("E_unaligned_atomic", Work::fetch_add(1).at(4))),
        (rc, wrong("E_atomic_bad_rkey", Work::fetch_add(1).with_rkey(0xb_ad00))),
        (rc, Scenario::new("E_write_zero_bad_rkey", Work::write(0).with_rkey(0xde_ad00))),
        (closed, wrong("E_write_no_qp_perm", Work::write(64))),
        (closed, wrong("E_read_no_qp_perm", Work::read(64))),
        (closed, wrong("E_atomic_no_qp_perm", Work::fetch_add(1))),
        (rc, wrong("E_recv_too_small", Work::send(256)).into_receive(100).having(Effect::Partial)),
        (
            rc,
            wrong("E_recv_too_small_multi", Work::send(4000))
                .into_receive(1500)
                .having(Effect::Partial),
        ),
        (rc, wrong("E_local_bad_lkey", Work::send(64).with_lkey(0xbe_ef00)).into_receive(ROOMY)),
        (Connection { rnr_retry: 1, ..rc }, wrong("E_rnr_exceeded", Work::send(64))),
        (Connection { read_depth: 0, ..rc }, wrong("E_read_rd_zero", Work::read(64))),
    ]
}
