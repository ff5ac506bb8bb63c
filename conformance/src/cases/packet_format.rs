//! Packets that are not as they must be, and those that only look so.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (name, packet) in DROPPED {
        let name = format!("packet-format/{name}");
        let needs = if packet.starts_with("ATOMIC_WRITE") { "needs ATOMIC_WRITE" } else { "" };
        all.push(named(&name, dropped(needs, packet)));
    }
    for (variant, raw) in [("0x15", 0x15), ("0x18", 0x18), ("0x1f", 0x1f)] {
        all.push(named(
            &format!("packet-format/unknown-opcode-connected/{variant}-in-turn"),
            format!(
                "qp rc
                recv id=1 at=buf len=64
                < RAW opcode={raw} psn=0 data=16*0xaa ack
                > NAK_INVALID psn=0 msn=0
                in ERR
                done id=1 status=WR_FLUSH_ERR
                event QP_REQ_ERR
                holds buf 64"
            ),
        ));
    }
    for (qp, packets) in OTHER_SERVICES {
        for (variant, packet) in packets {
            all.push(named(
                &format!("packet-format/wrong-service/{variant}"),
                format!(
                    "qp {qp}
                    recv id=1 at=buf+64 len=128
                    < {packet}
                    quiet
                    idle
                    in RTS
                    holds buf 256"
                ),
            ));
        }
    }
    for (len, pad) in [(4, 0), (5, 3), (6, 2), (7, 1)] {
        all.push(named(
            &format!("packet-format/pad-count/sent-{pad}"),
            format!(
                "qp rc
                post SEND id=1 at=buf+1 len={len}
                > SEND_ONLY psn=0 pad={pad} data={len}:1
                < ACK psn=0 msn=1
                done SEND id=1"
            ),
        ));
        all.push(named(
            &format!("packet-format/pad-count/received-{pad}"),
            format!(
                "qp rc
                recv id=1 at=buf len=64
                < SEND_ONLY psn=0 data={len}*0xaa ack
                > ACK psn=0 msn=1
                done RECV id=1 len={len}
                holds buf {len}*0xaa
                holds buf+{len} 16:{len}"
            ),
        ));
    }
    all
}

/// A packet that is dropped in silence: the queue pair is as it was and goes on.
fn dropped(before: &str, packet: &str) -> String {
    format!(
        "qp rc
        {before}
        < {packet}
        quiet
        idle
        in RTS
        holds buf 256
        < WRITE_ONLY psn=0 data=4*0xaa ack
        > ACK psn=0 msn=1"
    )
}

/// Packets that are dropped in silence by a reliable connection.
const DROPPED: [(&str, &str); 47] = [
    ("bth-length/nothing", "SEND_ONLY psn=0 cut=12"),
    ("bth-length/one-byte", "SEND_ONLY psn=0 cut=11"),
    ("bth-length/eleven-bytes", "SEND_ONLY psn=0 cut=1"),
    ("bth-length/eight-bytes", "SEND_ONLY psn=0 cut=4"),
    ("word-length/one-too-few", "WRITE_ONLY psn=0 data=8*0xaa cut=1"),
    ("word-length/two-too-few", "WRITE_ONLY psn=0 data=8*0xaa cut=2"),
    ("word-length/three-too-few", "WRITE_ONLY psn=0 data=8*0xaa cut=3"),
    ("word-length/one-too-many", "WRITE_ONLY psn=0 data=8*0xaa more=1*0"),
    ("word-length/header-of-thirteen", "SEND_ONLY psn=0 more=1*0"),
    ("extension-headers/write-short-of-a-word", "WRITE_ONLY psn=0 cut=4"),
    ("extension-headers/write-without", "WRITE_ONLY psn=0 cut=16"),
    ("extension-headers/write-first-without", "WRITE_FIRST psn=0 cut=16"),
    ("extension-headers/read-short-of-a-word", "READ_REQUEST psn=0 cut=4"),
    ("extension-headers/read-without", "READ_REQUEST psn=0 cut=16"),
    ("extension-headers/fetch-add-short-of-a-word", "FETCH_ADD psn=0 add=1 cut=4"),
    ("extension-headers/compare-swap-without", "COMPARE_SWAP psn=0 cut=28"),
    ("extension-headers/send-without-immediate", "SEND_ONLY_WITH_IMMEDIATE psn=0 cut=4"),
    ("extension-headers/send-without-key", "SEND_ONLY_WITH_INVALIDATE psn=0 cut=4"),
    ("extension-headers/write-with-immediate-short", "WRITE_ONLY_WITH_IMMEDIATE psn=0 cut=4"),
    ("extension-headers/atomic-write-without", "ATOMIC_WRITE psn=0 cut=16"),
    ("extension-headers/acknowledge-without", "ACK psn=0 cut=4"),
    ("extension-headers/read-response-without", "READ_RESPONSE_ONLY psn=0 cut=4"),
    ("extension-headers/atomic-acknowledge-short", "ATOMIC_ACKNOWLEDGE psn=0 cut=4"),
    ("pad-count/of-nothing-1", "SEND_ONLY psn=0 pad=1"),
    ("pad-count/of-nothing-2", "SEND_ONLY psn=0 pad=2"),
    ("pad-count/of-nothing-3", "SEND_ONLY psn=0 pad=3"),
    ("pad-count/of-a-read", "READ_REQUEST psn=0 len=4 pad=3"),
    ("transport-version/one", "WRITE_ONLY psn=0 data=4*0xaa tver=1 ack"),
    ("transport-version/fifteen", "WRITE_ONLY psn=0 data=4*0xaa tver=15 ack"),
    ("unknown-opcode-connected/too-early", "RAW opcode=0x15 psn=1 data=16*0xaa ack"),
    ("unknown-opcode-connected/behind", "RAW opcode=0x15 psn=-1 data=16*0xaa ack"),
    ("unknown-opcode-dropped/reliable-datagram", "RAW opcode=0x44 psn=0 data=32*0xaa ack"),
    ("unknown-opcode-dropped/all-ones", "RAW opcode=0xff psn=0 data=32*0xaa ack"),
    ("unknown-opcode-dropped/no-service", "RAW opcode=0xc4 psn=0 data=32*0xaa ack"),
    ("unknown-opcode-dropped/of-uc", "RAW opcode=0x2c psn=0 data=32*0xaa ack"),
    ("dest-qp-unknown/next-number", "WRITE_ONLY psn=0 dest=qp+1 data=4*0xaa ack"),
    ("dest-qp-unknown/zero", "WRITE_ONLY psn=0 dest=0 data=4*0xaa ack"),
    ("dest-qp-unknown/multicast-number", "WRITE_ONLY psn=0 dest=0xffffff data=4*0xaa ack"),
    ("dest-qp-unknown/far-away", "WRITE_ONLY psn=0 dest=qp+0x8000 data=4*0xaa ack"),
    ("pkey-match/other-partition", "WRITE_ONLY psn=0 pkey=0x8001 data=4*0xaa ack"),
    ("pkey-match/no-partition", "WRITE_ONLY psn=0 pkey=0 data=4*0xaa ack"),
    ("pkey-match/only-the-member-bit", "WRITE_ONLY psn=0 pkey=0x8000 data=4*0xaa ack"),
    ("gid-match/write", "WRITE_ONLY psn=0 data=4*0xaa ack from=stranger"),
    ("gid-match/send", "SEND_ONLY psn=0 data=4*0xaa ack from=stranger"),
    ("gid-match/read", "READ_REQUEST psn=0 len=4 from=stranger"),
    ("gid-match/fetch-add", "FETCH_ADD psn=0 add=1 from=stranger"),
    ("gid-match/gap", "WRITE_ONLY psn=5 data=4*0xaa ack from=stranger"),
];

/// Packets of another service than that of the queue pair.
const OTHER_SERVICES: [(&str, &[(&str, &str)]); 3] = [
    (
        "rc",
        &[
            ("uc-send-to-rc", "SEND_ONLY service=uc psn=0 data=4*0xaa"),
            ("uc-write-to-rc", "WRITE_ONLY service=uc psn=0 data=4*0xaa"),
            ("ud-send-to-rc", "SEND_ONLY service=ud psn=0 data=4*0xaa"),
            ("xrc-send-to-rc", "SEND_ONLY service=xrc psn=0 srq=0 data=4*0xaa ack"),
            ("xrc-write-to-rc", "WRITE_ONLY service=xrc psn=0 srq=0 data=4*0xaa ack"),
            ("xrc-ack-to-rc", "ACK service=xrc psn=0"),
        ],
    ),
    (
        "uc",
        &[
            ("rc-send-to-uc", "SEND_ONLY service=rc psn=0 data=4*0xaa ack"),
            ("rc-write-to-uc", "WRITE_ONLY service=rc psn=0 data=4*0xaa ack"),
            ("rc-read-to-uc", "READ_REQUEST service=rc psn=0 len=4"),
            ("ud-send-to-uc", "SEND_ONLY service=ud psn=0 data=4*0xaa"),
        ],
    ),
    (
        "ud",
        &[
            ("rc-send-to-ud", "SEND_ONLY service=rc psn=0 data=4*0xaa ack"),
            ("rc-write-to-ud", "WRITE_ONLY service=rc psn=0 data=4*0xaa ack"),
            ("uc-send-to-ud", "SEND_ONLY service=uc psn=0 data=4*0xaa"),
            ("cnp-to-ud", "CNP becn"),
        ],
    ),
];

const SCRIPTS: &str = r"
== packet-format/reserved-ignored/migration-request
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack mig
> ACK psn=0 msn=1
holds buf 4*0xaa

== packet-format/reserved-ignored/beside-the-congestion-bits
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack set=4:0x3f
> ACK psn=0 msn=1
holds buf 4*0xaa

== packet-format/reserved-ignored/beside-the-acknowledge-request
qp rc
< WRITE_ONLY psn=0 data=4*0xaa set=8:0xff
> ACK psn=0 msn=1
holds buf 4*0xaa

== packet-format/reserved-ignored/none-is-sent
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0 no-fecn no-becn no-se
< ACK psn=0
done SEND id=1
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 no-fecn no-becn no-se no-ack

== packet-format/fecn-becn-ignored/forward
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack fecn
> ACK psn=0 msn=1
quiet

== packet-format/fecn-becn-ignored/backward
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack becn
> ACK psn=0 msn=1
quiet

== packet-format/pkey-match/limited-member
qp rc
< WRITE_ONLY psn=0 pkey=0x7fff data=4*0xaa ack
> ACK psn=0 msn=1

== packet-format/pkey-match/sent-by-the-requester
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0 pkey=0xffff
< ACK psn=0
done SEND id=1

== packet-format/gid-match/acknowledgement
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0 msn=1 from=stranger
quiet
idle
< ACK psn=0 msn=1
done SEND id=1

== packet-format/gid-match/negative-acknowledgement
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< NAK_ACCESS psn=0 msn=0 from=stranger
quiet
idle
in RTS
< ACK psn=0 msn=1
done SEND id=1

== packet-format/gid-match/unreliable-connection
qp uc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa from=stranger
quiet
idle
holds buf 4

== packet-format/gid-match/two-queue-pairs-one-peer
qp rc
qp rc name=other
# Queue pair numbers of the peer are not looked at; its address is.
< WRITE_ONLY psn=0 qp=other data=4*0xaa ack
> ACK psn=0 qp=other
< WRITE_ONLY psn=0 data=4*0xbb ack
> ACK psn=0

== packet-format/state-match/reset
qp rc to=RESET
< WRITE_ONLY psn=0 data=4*0xaa ack
quiet
in RESET
holds buf 4

== packet-format/state-match/init
qp rc to=INIT
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
quiet
in INIT
idle
holds buf 4

== packet-format/state-match/rtr
qp rc to=RTR
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
holds buf 4*0xaa

== packet-format/state-match/error
qp rc
move ERR
< WRITE_ONLY psn=0 data=4*0xaa ack
quiet
in ERR
holds buf 4

== packet-format/state-match/acknowledgement-in-error
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
move ERR
done id=1 status=WR_FLUSH_ERR
< ACK psn=0 msn=1
quiet
idle

== packet-format/unknown-opcode-dropped/uc
qp uc
recv id=1 at=buf len=64
< RAW opcode=0x2c psn=0 data=32*0xaa
quiet
idle
in RTS
< SEND_ONLY psn=1 data=4*0xaa
done RECV id=1 len=4

== packet-format/unknown-opcode-dropped/ud
qp ud
recv id=1 at=buf len=128
< RAW opcode=0x66 psn=0 data=32*0xaa
quiet
idle
in RTS

== packet-format/unknown-opcode-dropped/from-a-stranger
qp rc
< RAW opcode=0x15 psn=0 data=32*0xaa ack from=stranger
quiet
in RTS

== packet-format/ack-req-reliable-only/ud
qp ud
post SEND id=1 at=buf len=4
> SEND_ONLY no-ack
done SEND id=1

== packet-format/ack-req-reliable-only/rc-asks
qp rc
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0 ack
< ACK psn=0
done SEND id=1

== packet-format/udp-ports/one-for-all-packets
qp rc
post RDMA_WRITE id=1 at=buf len=600 to=0x1000 rkey=7
> WRITE_FIRST psn=0
> WRITE_MIDDLE psn=1 same-port
> WRITE_LAST psn=2 same-port
< ACK psn=2 msn=1
done RDMA_WRITE id=1
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 same-port

== packet-format/addresses/both-ways
qp rc
# The judge looks at the addresses of every packet.
post SEND id=1 at=buf len=4
> SEND_ONLY psn=0
< ACK psn=0
done SEND id=1
< READ_REQUEST psn=0 len=4
> READ_RESPONSE_ONLY psn=0 data=4

== packet-format/word-length/sent-lengths
qp rc
post SEND id=1 at=buf len=1
> SEND_ONLY psn=0 pad=3 size=1
< ACK psn=0
done SEND id=1
post SEND id=2 at=buf len=259
> SEND_FIRST psn=1 pad=0 size=256
> SEND_LAST psn=2 pad=1 size=3
< ACK psn=2
done SEND id=2

== packet-format/extension-headers/sent-with-immediate
qp rc
post SEND id=1 at=buf len=8 imm=0x01020304
> SEND_ONLY_WITH_IMMEDIATE psn=0 imm=0x01020304 data=8
< ACK psn=0
done SEND id=1

== packet-format/extension-headers/sent-fetch-add
qp rc
post FETCH_ADD id=1 at=buf len=8 to=0x1000 rkey=0x77 swap=5
> FETCH_ADD psn=0 va=0x1000 rkey=0x77 add=5 compare=0
< ATOMIC_ACKNOWLEDGE psn=0 orig=1 msn=1
done FETCH_ADD id=1
";
