//! What somebody does who means harm: by crafted packets here, by the verbs in [`verbs`].

mod verbs;

use super::book::{book, named};
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(verbs::cases());
    for (variant, packet) in WRONG_FIELDS {
        all.push(named(
            &format!("attacks/blind-wrong-field/{variant}"),
            format!(
                "qp rc\nqp uc name=uc\nregion mem len=64\n\
                 < {packet}\n\
                 quiet\n\
                 holds mem 64\n\
                 in RTS\n\
                 # Its peer goes on as if nothing had been.\n\
                 < WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xbb ack\n\
                 > ACK psn=0\n\
                 holds mem 8*0xbb"
            ),
        ));
    }
    for (variant, packet, nak) in KILLERS {
        all.push(named(
            &format!("attacks/one-packet-kill/{variant}"),
            format!(
                "qp rc\nregion mem len=64\nrecv id=1 at=buf len=4\n\
                 < {packet} psn=0\n> {nak} psn=0\nin ERR\ndone id=1 status={}",
                if variant == &"longer-than-the-receive" { "LOC_LEN_ERR" } else { "WR_FLUSH_ERR" }
            ),
        ));
        // The same one number ahead, as somebody sends it who does not know the number.
        all.push(named(
            &format!("attacks/one-packet-kill/{variant}-number-missed"),
            format!(
                "qp rc\nregion mem len=64\n< {packet} psn=1\n{}\nin RTS\nholds mem 64",
                if packet.starts_with("RAW") { "quiet" } else { "> NAK_PSN psn=0" }
            ),
        ));
    }
    for (variant, line) in MALFORMED {
        all.push(named(
            &format!("attacks/malformed-lengths/{variant}"),
            format!(
                "qp rc\nqp ud name=ud\nrecv id=1 at=buf len=64\nrecv qp=ud id=2 at=buf len=64\n\
                 < {line}\nquiet\nidle\nin RTS\nholds buf 64\n\
                 < WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xbb ack\n> ACK psn=0\nholds buf 8*0xbb"
            ),
        ));
    }
    all
}

/// A WRITE that would be carried out, but for one field.
const WRONG_FIELDS: &[(&str, &str)] = &[
    ("source-address", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack from=stranger"),
    ("destination-queue-pair", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack dest=0xabcdef"),
    (
        "queue-pair-of-another-service",
        "WRITE_ONLY service=rc qp=uc psn=0 va=mem rkey=mem data=8*0xaa",
    ),
    ("partition-key", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack pkey=0x8001"),
    ("partition-key-zero", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack pkey=0"),
    ("transport-version", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack tver=1"),
    ("service", "WRITE_ONLY service=uc psn=0 va=mem rkey=mem data=8*0xaa ack"),
    ("icrc", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack icrc=bad"),
    ("unknown-opcode-of-no-service", "RAW opcode=0xff psn=0 data=8*0xaa"),
    ("one-word-missing", "WRITE_ONLY psn=0 va=mem rkey=mem data=8*0xaa ack cut=30"),
];

/// Requests that end a connection, without their number.
const KILLERS: &[(&str, &str, &str)] = &[
    ("unknown-opcode", "RAW opcode=0x1f", "NAK_INVALID"),
    ("reserved-opcode", "RAW opcode=0x15 data=8", "NAK_INVALID"),
    ("middle-without-first", "SEND_MIDDLE data=256", "NAK_INVALID"),
    ("wrong-key", "WRITE_ONLY va=mem rkey=mem+1 data=8*0xaa", "NAK_ACCESS"),
    ("wrong-length", "WRITE_ONLY va=mem rkey=mem len=4 data=8*0xaa", "NAK_INVALID"),
    ("unaligned-atomic", "FETCH_ADD va=mem+1 rkey=mem", "NAK_INVALID"),
    ("longer-than-the-receive", "SEND_ONLY data=8*0xaa", "NAK_INVALID"),
];

/// Packets that are shorter or longer than they say.
const MALFORMED: &[(&str, &str)] = &[
    ("half-a-base-header", "SEND_ONLY psn=0 cut=6"),
    ("base-header-short-by-one", "SEND_ONLY psn=0 cut=1"),
    ("nothing-but-the-icrc", "SEND_ONLY psn=0 cut=12"),
    ("not-whole-words", "SEND_ONLY psn=0 data=8 cut=1"),
    ("extension-header-cut", "WRITE_ONLY psn=0 va=buf rkey=buf cut=4"),
    ("extension-header-missing", "WRITE_ONLY psn=0 va=buf rkey=buf cut=16"),
    ("atomic-header-cut", "COMPARE_SWAP psn=0 va=buf rkey=buf cut=8"),
    ("immediate-missing", "SEND_ONLY_WITH_IMMEDIATE psn=0 imm=1 cut=4"),
    ("datagram-header-cut", "SEND_ONLY qp=ud cut=4"),
    ("pad-without-payload", "SEND_ONLY psn=0 pad=3"),
    ("pad-longer-than-payload", "SEND_ONLY qp=ud pad=3"),
];

const SCRIPTS: &str = r"
== attacks/key-wrong-guess-costs/reliable
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf+1 data=8*0xaa ack
> NAK_ACCESS psn=0
in ERR
# There is no second try.
< WRITE_ONLY psn=1 va=buf rkey=buf data=8*0xaa ack
quiet
holds buf 64

== attacks/key-wrong-guess-costs/unreliable
qp uc
< WRITE_ONLY psn=0 va=buf rkey=buf+1 data=8*0xaa
< WRITE_ONLY psn=1 va=buf rkey=buf+2 data=8*0xaa
< WRITE_ONLY psn=2 va=buf rkey=buf+3 data=8*0xaa
quiet
in RTS
# Every try is free, and the right one is carried out.
< WRITE_ONLY psn=3 va=buf rkey=buf data=8*0xaa
holds buf 8*0xaa

== attacks/qpn-prediction/number-alone
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack from=stranger
< SEND_ONLY psn=0 data=8 ack from=stranger
< ACK psn=0 from=stranger
quiet
holds buf 64
in RTS

== attacks/psn-prediction/as-the-program-says
qp rc sqpsn=0x5a5a5a
post SEND id=1 at=buf len=8
> SEND_ONLY psn=abs:0x5a5a5a
< ACK psn=0
done SEND id=1

== attacks/blind-all-right/carried-out
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
> ACK psn=0
holds buf 8*0xaa

== attacks/blind-wrong-field/number-behind
qp rc
< WRITE_ONLY psn=-1 va=buf rkey=buf data=8*0xaa ack
>? ACK
quiet
holds buf 64
in RTS

== attacks/blind-wrong-field/number-far-behind
qp rc psn=0x900000
< WRITE_ONLY psn=abs:0x100001 va=buf rkey=buf data=8*0xaa ack
>? ACK
quiet
holds buf 64
in RTS

== attacks/blind-wrong-field/number-ahead
qp rc
< WRITE_ONLY psn=1 va=buf rkey=buf data=8*0xaa ack
> NAK_PSN psn=0
< WRITE_ONLY psn=2 va=buf rkey=buf data=8*0xaa ack
< WRITE_ONLY psn=0x7fffff va=buf rkey=buf data=8*0xaa ack
quiet
holds buf 64
in RTS

== attacks/forged-ack/outside-the-window
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< ACK psn=1
< ACK psn=0x7ffffe
< ACK psn=-1
quiet
idle
< ACK psn=0
done SEND id=1

== attacks/forged-ack/inside-the-window
qp rc
post SEND id=1 at=buf len=8
post SEND id=2 at=buf len=8
> SEND_ONLY psn=0
> SEND_ONLY psn=1
# Neither was received; both complete: inherent.
< ACK psn=1
done SEND id=1
done SEND id=2

== attacks/forged-ack/nothing-under-way
qp rc
< ACK psn=0
< ACK psn=-1
quiet
idle
in RTS

== attacks/forged-nak/outside-the-window
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< NAK_ACCESS psn=1
< NAK_INVALID psn=-1
< NAK_OPERATION psn=5
< NAK_PSN psn=9
quiet
idle
in RTS
< ACK psn=0
done SEND id=1

== attacks/forged-nak/inside-the-window
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< NAK_ACCESS psn=0
done id=1 status=REM_ACCESS_ERR
in ERR

== attacks/forged-rnr/outside-the-window
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< RNR_NAK psn=1 timer=0
< RNR_NAK psn=-1 timer=0
quiet
< ACK psn=0
done SEND id=1

== attacks/forged-rnr/inside-the-window-is-bounded
qp rc rnr=1
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
> SEND_ONLY psn=0
< RNR_NAK psn=0 timer=1
done id=1 status=RNR_RETRY_EXC_ERR
in ERR

== attacks/forged-read-response/outside-the-window
qp rc
post RDMA_READ id=1 at=buf len=8 to=0 rkey=7
> READ_REQUEST psn=0
< READ_RESPONSE_ONLY psn=1 data=8*0xaa
< READ_RESPONSE_ONLY psn=-1 data=8*0xaa
quiet
idle
holds buf 64
< READ_RESPONSE_ONLY psn=0 data=8*0xbb
done RDMA_READ id=1
holds buf 8*0xbb

== attacks/forged-read-response/longer-than-asked
qp rc
post RDMA_READ id=1 at=buf len=8 to=0 rkey=7
> READ_REQUEST psn=0
< READ_RESPONSE_ONLY psn=0 data=12*0xaa
done id=1 status=BAD_RESP_ERR
holds buf+8 56:8
in ERR

== attacks/forged-read-response/shorter-than-asked
qp rc
post RDMA_READ id=1 at=buf len=8 to=0 rkey=7
> READ_REQUEST psn=0
< READ_RESPONSE_ONLY psn=0 data=4*0xaa
done id=1 status=BAD_RESP_ERR
in ERR

== attacks/forged-read-response/nothing-asked
qp rc
post SEND id=1 at=buf len=8
> SEND_ONLY psn=0
< READ_RESPONSE_ONLY psn=0 data=8*0xaa
quiet
idle
holds buf 64
in RTS
< ACK psn=0
done SEND id=1

== attacks/forged-read-response/of-an-atomic
qp rc
post FETCH_ADD id=1 at=buf len=8 to=0 rkey=7 swap=1
> FETCH_ADD psn=0
< READ_RESPONSE_ONLY psn=0 data=8*0xaa
quiet
idle
holds buf 64
< ATOMIC_ACKNOWLEDGE psn=0 orig=5
done FETCH_ADD id=1

== attacks/replay/write
qp rc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
> ACK psn=0
store buf 8*0x55
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa ack
> ACK psn=0
holds buf 8*0x55

== attacks/replay/send
qp rc
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0
done RECV id=1
< SEND_ONLY psn=0 data=8*0xaa ack
> ACK psn=0
idle

== attacks/replay/atomic
qp rc
store buf 8*0
< FETCH_ADD psn=0 va=buf rkey=buf add=0x0101010101010101
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
< FETCH_ADD psn=0 va=buf rkey=buf add=0x0101010101010101
> ATOMIC_ACKNOWLEDGE psn=0 orig=0
holds buf 8*1

== attacks/replay/of-a-datagram
qp ud
recv id=1 at=buf len=100
recv id=2 at=buf+100 len=100
< SEND_ONLY data=8*0xaa
done RECV id=1
# Nothing tells it from a new one.
< SEND_ONLY data=8*0xaa
done RECV id=2

== attacks/replay/of-uc
qp uc
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa
holds buf 8*0xaa
store buf 8*0x55
< WRITE_ONLY psn=0 va=buf rkey=buf data=8*0xaa
holds buf 8*0xaa

== attacks/cnp-spoof/nothing-happens
qp rc
post SEND id=1 at=buf len=2048
< CNP psn=abs:0
< CNP psn=abs:0
< CNP psn=abs:0
> SEND_FIRST psn=0
> SEND_MIDDLE psn=1
> SEND_MIDDLE psn=2
> SEND_MIDDLE psn=3
> SEND_MIDDLE psn=4
> SEND_MIDDLE psn=5
> SEND_MIDDLE psn=6
> SEND_LAST psn=7
< ACK psn=7
done SEND id=1

== attacks/qkey-guess/dropped-and-free
qp ud qkey=0x12345678
recv id=1 at=buf len=100
< SEND_ONLY qkey=0 data=8*0xaa
< SEND_ONLY qkey=0x12345677 data=8*0xaa
< SEND_ONLY qkey=0x92345678 data=8*0xaa
< SEND_ONLY qkey=0xffffffff data=8*0xaa
quiet
idle
holds buf 100
in RTS
< SEND_ONLY qkey=0x12345678 data=8*0xbb
done RECV id=1 len=48

== attacks/qkey-privileged/work-request
qp ud qkey=0x00001234
post SEND id=1 at=buf len=8 qkey=0x80010000
> SEND_ONLY qkey=0x00001234
done SEND id=1

== attacks/partial-placement/second-packet-refused
qp rc
region mem len=1024
< WRITE_FIRST psn=0 va=mem rkey=mem len=512 data=256*0xaa
< WRITE_LAST psn=1 data=4*0xbb ack
> NAK_INVALID psn=1
in ERR
holds mem+260 252:4

== attacks/partial-placement/first-packet-refused
qp rc
region mem len=511
< WRITE_FIRST psn=0 va=mem rkey=mem len=512 data=256*0xaa
> NAK_ACCESS psn=0
in ERR
holds mem 511

== attacks/read-flood/beyond-the-depth-of-none
qp rc depth=0
qp rc name=two
< READ_REQUEST psn=0 va=buf rkey=buf len=64
> NAK_INVALID psn=0
in ERR
< READ_REQUEST qp=two psn=0 va=buf rkey=buf len=8
> READ_RESPONSE_ONLY qp=two psn=0 data=8
";
