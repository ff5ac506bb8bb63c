//! Connecting two queue pairs without a connection manager.

use softrnic_model::verbs::{Mtu, Psn, QpNum, QpState, WcStatus};

use super::book::book;
use crate::case::{Case, Outcome, verbs};
use crate::lab::Connection;
use crate::same;
use crate::stage::{End, Stage, send, wr};

use WcStatus::{RetryExceeded, Success};

pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend([
        verbs("connection-setup/exchange", "numbers-only", |s| talks(s, &Connection::RC)),
        verbs("connection-setup/psn-cross", "different", |s| talks(s, &psns(0x12_3456, 7))),
        verbs("connection-setup/psn-cross", "about-to-wrap", |s| {
            talks(s, &psns(0xff_ffff, 0xff_fffe))
        }),
        verbs("connection-setup/early-request-lost", "sent-again", early_request),
        verbs("connection-setup/wrong-dest-qp", "no-such-queue-pair", wrong_dest_qp),
        verbs("connection-setup/wrong-gid", "other-source-expected", wrong_gid),
        verbs("connection-setup/one-sided", "peer-is-elsewhere", one_sided),
        verbs("connection-setup/loopback-self", "two-on-one-device", two_on_one),
        verbs("connection-setup/loopback-self", "with-itself", with_itself),
        verbs("connection-setup/reconnect", "earlier-peer-dropped", reconnect),
        verbs("connection-setup/simultaneous", "both-directions", simultaneous),
        verbs("connection-setup/mtu-mismatch", "short-messages", short_messages),
    ]);
    all
}

const SCRIPTS: &str = r"
== connection-setup/psn-mismatch-ahead/told-what-is-expected
qp rc psn=0x100
< WRITE_ONLY psn=abs:0x180 va=buf rkey=buf data=8*0xaa ack
> NAK_PSN psn=abs:0x100
holds buf 64
in RTS

== connection-setup/psn-mismatch-ahead/not-carried-out-later
qp rc psn=0x100
< WRITE_ONLY psn=abs:0x101 va=buf rkey=buf data=8*0xaa ack
> NAK_PSN psn=abs:0x100
< WRITE_ONLY psn=abs:0x100 va=buf+8 rkey=buf data=8*0xbb ack
> ACK psn=abs:0x100
holds buf 8
holds buf+8 8*0xbb

== connection-setup/rtr-before-rts/served
qp rc to=RTR
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0
done RECV id=1
in RTR

== connection-setup/early-request-lost/silence
qp rc to=INIT
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=8*0xaa ack
quiet
idle

== connection-setup/mtu-mismatch/first-of-the-smaller
qp rc mtu=512
< WRITE_FIRST psn=0 va=buf rkey=buf len=300 data=256*0xaa
> NAK_INVALID psn=0
in ERR

== connection-setup/mtu-mismatch/only-of-the-larger
qp rc mtu=256
recv id=1 at=buf len=1024
< SEND_ONLY psn=0 data=512*0xaa ack
> NAK_INVALID psn=0
done id=1 status=WR_FLUSH_ERR
in ERR

== connection-setup/service-mismatch/uc-to-rc
qp rc
< WRITE_ONLY service=uc psn=0 va=buf rkey=buf data=8*0xaa ack
quiet
holds buf 64
in RTS

== connection-setup/service-mismatch/rc-to-uc
qp uc
< WRITE_ONLY service=rc psn=0 va=buf rkey=buf data=8*0xaa ack
quiet
holds buf 64
in RTS

== connection-setup/service-mismatch/ud-to-rc
qp rc
recv id=1 at=buf len=100
< SEND_ONLY service=ud data=8*0xaa
quiet
idle
in RTS

== connection-setup/service-mismatch/rc-to-ud
qp ud
recv id=1 at=buf len=100
< SEND_ONLY service=rc psn=0 data=8*0xaa ack
quiet
idle
in RTS
";

/// Gives up soon.
const IMPATIENT: Connection = Connection { timeout: 10, retry_count: 1, ..Connection::RC };

fn psns(first: u32, second: u32) -> Connection {
    Connection { psn: [Psn::new(first), Psn::new(second)], ..Connection::RC }
}

/// A message each way.
fn talks(stage: &Stage, connection: &Connection) -> Outcome {
    let [a, b] = stage.connect(connection)?;
    says(stage, &a, &b)?;
    says(stage, &b, &a)
}

fn says(stage: &Stage, from: &End, to: &End) -> Outcome {
    stage.recv(to, 7, 0, 4096)?;
    stage.post(from, &wr(1, send()).at(8192, 3000))?;
    stage.completes(from, 1, Success)?;
    same!(stage.receives(to, 7, Success)?.byte_len, 3000, "byte_len");
    same!(to.bytes(0, 3000)?, from.bytes(8192, 3000)?, "what was received");
    Ok(())
}

fn early_request(stage: &mut Stage) -> Outcome {
    let connection = Connection { timeout: 12, ..Connection::RC };
    let [mut a, mut b] = [stage.end(0, &connection)?, stage.end(1, &connection)?];
    let names = [(a.gid, a.qp), (b.gid, b.qp)];
    stage.bring_up(&mut a, names[1], &connection, QpState::Rts)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(100, 8))?;
    stage.settle();
    stage.bring_up(&mut b, names[0], &connection, QpState::Rtr)?;
    stage.completes(&a, 1, Success)?;
    same!(b.bytes(0, 8)?, a.bytes(100, 8)?, "what was written");
    Ok(())
}

/// A WRITE fails for want of an answer, and nothing is written.
fn finds_nobody(stage: &Stage, a: &End, b: &End) -> Outcome {
    let before = b.bytes(0, 8)?;
    stage.post(a, &wr(1, a.write(b, 0)).at(100, 8))?;
    stage.completes(a, 1, RetryExceeded)?;
    stage.gets_into(a, QpState::Err)?;
    same!(b.bytes(0, 8)?, before, "memory of the peer");
    Ok(())
}

fn wrong_dest_qp(stage: &mut Stage) -> Outcome {
    let [mut a, mut b] = [stage.end(0, &IMPATIENT)?, stage.end(1, &IMPATIENT)?];
    let own = (a.gid, a.qp);
    let wrong = QpNum::new(b.qp.get() ^ 0x00_4000);
    stage.bring_up(&mut a, (b.gid, wrong), &IMPATIENT, QpState::Rts)?;
    stage.bring_up(&mut b, own, &IMPATIENT, QpState::Rts)?;
    finds_nobody(stage, &a, &b)
}

fn wrong_gid(stage: &mut Stage) -> Outcome {
    let [mut a, mut b] = [stage.end(0, &IMPATIENT)?, stage.end(1, &IMPATIENT)?];
    let (peer, own) = ((b.gid, b.qp), (b.gid, a.qp));
    stage.bring_up(&mut a, peer, &IMPATIENT, QpState::Rts)?;
    // It expects its peer at its own address.
    stage.bring_up(&mut b, own, &IMPATIENT, QpState::Rts)?;
    finds_nobody(stage, &a, &b)?;
    same!(stage.state(&b)?, QpState::Rts, "state of the peer");
    Ok(())
}

/// The responder is in INIT and stays there.
fn one_sided(stage: &mut Stage) -> Outcome {
    let [mut a, mut b] = [stage.end(0, &IMPATIENT)?, stage.end(1, &IMPATIENT)?];
    let names = [(a.gid, a.qp), (b.gid, b.qp)];
    stage.bring_up(&mut a, names[1], &IMPATIENT, QpState::Rts)?;
    stage.bring_up(&mut b, names[0], &IMPATIENT, QpState::Init)?;
    finds_nobody(stage, &a, &b)
}

fn two_on_one(stage: &mut Stage) -> Outcome {
    let connection = Connection { psn: [Psn::new(5); 2], ..Connection::RC };
    let ends = [stage.end(0, &connection)?, stage.end(0, &connection)?];
    let [a, b] = stage.join(&connection, ends)?;
    says(stage, &a, &b)?;
    says(stage, &b, &a)
}

fn with_itself(stage: &mut Stage) -> Outcome {
    let connection = Connection { psn: [Psn::new(5); 2], ..Connection::RC };
    let mut a = stage.end(0, &connection)?;
    let own = (a.gid, a.qp);
    stage.bring_up(&mut a, own, &connection, QpState::Rts)?;
    stage.post(&a, &wr(1, a.write(&a, 0)).at(8192, 3000))?;
    stage.completes(&a, 1, Success)?;
    same!(a.bytes(0, 3000)?, a.bytes(8192, 3000)?, "what was written");
    Ok(())
}

fn reconnect(stage: &mut Stage) -> Outcome {
    let [a, mut b] = stage.connect(&IMPATIENT)?;
    says(stage, &a, &b)?;
    let again = Connection { psn: [Psn::new(0x77); 2], ..IMPATIENT };
    let mut c = stage.end(0, &again)?;
    stage.move_to(&b, QpState::Reset)?;
    let names = [(c.gid, c.qp), (b.gid, b.qp)];
    stage.bring_up(&mut b, names[0], &again, QpState::Rts)?;
    stage.bring_up(&mut c, names[1], &again, QpState::Rts)?;
    says(stage, &c, &b)?;
    // The PSNs that the earlier peer uses are behind, so nothing of it is carried out; it may be
    // answered, for its address is that of the new peer's device.
    let before = b.bytes(0, 8)?;
    stage.post(&a, &wr(9, a.write(&b, 0)).at(100, 8))?;
    stage.settle();
    same!(b.bytes(0, 8)?, before, "memory");
    says(stage, &b, &c)
}

fn simultaneous(stage: &mut Stage) -> Outcome {
    let [a, b] = stage.connect(&psns(1000, 2000))?;
    for id in 1..=8 {
        stage.post(&a, &wr(id, a.write(&b, 0)).at(32_768, 8000))?;
        stage.post(&b, &wr(id, b.read(&a, 0)).at(32_768, 8000))?;
    }
    for id in 1..=8 {
        stage.completes(&a, id, Success)?;
        stage.completes(&b, id, Success)?;
    }
    same!(b.bytes(0, 8000)?, a.bytes(32_768, 8000)?, "what was written");
    same!(b.bytes(32_768, 8000)?, a.bytes(0, 8000)?, "what was read");
    Ok(())
}

fn short_messages(stage: &mut Stage) -> Outcome {
    let (small, large) = (
        Connection { path_mtu: Mtu::B256, ..IMPATIENT },
        Connection { path_mtu: Mtu::B512, ..IMPATIENT },
    );
    let [mut a, mut b] = [stage.end(0, &small)?, stage.end(1, &large)?];
    let names = [(a.gid, a.qp), (b.gid, b.qp)];
    stage.bring_up(&mut a, names[1], &small, QpState::Rts)?;
    stage.bring_up(&mut b, names[0], &large, QpState::Rts)?;
    stage.post(&a, &wr(1, a.write(&b, 0)).at(1024, 256))?;
    stage.completes(&a, 1, Success)?;
    stage.post(&b, &wr(2, b.write(&a, 0)).at(1024, 200))?;
    stage.completes(&b, 2, Success)?;
    Ok(())
}
