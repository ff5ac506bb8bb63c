//! Sequence numbers: what is expected, what comes too early, what comes again.

use super::super::book::{book, named};
use crate::case::Case;

pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (variant, needs, packet) in REQUESTS {
        all.push(named(
            &format!("rc-responder/gap-nak/{variant}"),
            format!(
                "qp rc
                {needs}
                recv id=1 at=buf len=64
                < {packet} psn=1 ack
                > NAK_PSN psn=0 msn=0
                quiet
                idle
                in RTS
                holds buf 512
                # The queue pair works as before.
                < WRITE_ONLY psn=0 data=4*0xaa ack
                > ACK psn=0 msn=1
                < SEND_ONLY psn=1 data=4*0xbb ack
                > ACK psn=1 msn=2
                done RECV id=1 len=4"
            ),
        ));
    }
    all
}

/// Requests of every kind: called what, with which capability, spelled how.
const REQUESTS: [(&str, &str, &str); 12] = [
    ("send", "", "SEND_ONLY data=4*0xaa"),
    ("send-first", "", "SEND_FIRST data=256*0xaa"),
    ("send-middle", "", "SEND_MIDDLE data=256*0xaa"),
    ("send-with-invalidate", "", "SEND_ONLY_WITH_INVALIDATE inv=buf data=4*0xaa"),
    ("write", "", "WRITE_ONLY data=4*0xaa"),
    ("write-last", "", "WRITE_LAST data=4*0xaa"),
    ("write-with-immediate", "", "WRITE_ONLY_WITH_IMMEDIATE imm=1 data=4*0xaa"),
    ("read", "", "READ_REQUEST len=4"),
    ("compare-swap", "", "COMPARE_SWAP"),
    ("fetch-add", "", "FETCH_ADD add=1"),
    ("atomic-write", "needs ATOMIC_WRITE", "ATOMIC_WRITE data=8*0xaa"),
    ("flush", "needs FLUSH_GLOBAL", "FLUSH len=8"),
];

const SCRIPTS: &str = r"
== rc-responder/psn-expected/one-after-the-other
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=1 va=buf+4 data=4*0xbb ack
> ACK psn=1 msn=2
holds buf xaaaaaaaabbbbbbbb

== rc-responder/psn-expected/message-takes-its-packets
qp rc
< WRITE_FIRST psn=0 len=520 data=256*0xaa
< WRITE_MIDDLE psn=1 data=256*0xbb
< WRITE_LAST psn=2 data=8*0xcc ack
> ACK psn=2 msn=1
< WRITE_ONLY psn=3 va=buf+1024 data=4*0xdd ack
> ACK psn=3 msn=2

== rc-responder/psn-expected/read-takes-its-responses
qp rc
< READ_REQUEST psn=0 len=600
> READ_RESPONSE_FIRST psn=0 size=256
> READ_RESPONSE_MIDDLE psn=1 size=256
> READ_RESPONSE_LAST psn=2 size=88
< WRITE_ONLY psn=3 data=4*0xaa ack
> ACK psn=3 msn=2

== rc-responder/psn-expected/atomic-takes-one
qp rc
< FETCH_ADD psn=0 add=1
> ATOMIC_ACKNOWLEDGE psn=0
< WRITE_ONLY psn=1 data=4*0xaa ack
> ACK psn=1 msn=2

== rc-responder/psn-window/farthest-ahead-is-a-gap
qp rc
< WRITE_ONLY psn=8388607 data=4*0xaa ack
> NAK_PSN psn=0
quiet
holds buf 4

== rc-responder/psn-window/farthest-behind-is-a-duplicate
qp rc
< WRITE_ONLY psn=0 va=buf+8 data=4*0xaa ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=-8388607 data=4*0xbb ack
> ACK psn=0 msn=1
quiet
holds buf 8

== rc-responder/psn-window/one-behind-is-a-duplicate
qp rc
< WRITE_ONLY psn=-1 data=4*0xbb ack
> ACK psn=-1
quiet
holds buf 8

== rc-responder/psn-wraps/between-messages
qp rc psn=0xffffff
< WRITE_ONLY psn=abs:0xffffff data=4*0xaa ack
> ACK psn=abs:0xffffff msn=1
< WRITE_ONLY psn=abs:0 va=buf+4 data=4*0xbb ack
> ACK psn=abs:0 msn=2
holds buf xaaaaaaaabbbbbbbb

== rc-responder/psn-wraps/within-a-write
qp rc psn=0xfffffe
< WRITE_FIRST psn=abs:0xfffffe len=516 data=256*0xaa
< WRITE_MIDDLE psn=abs:0xffffff data=256*0xbb
< WRITE_LAST psn=abs:0 data=4*0xcc ack
> ACK psn=abs:0 msn=1
holds buf 256*0xaa
holds buf+256 256*0xbb
holds buf+512 4*0xcc

== rc-responder/psn-wraps/within-a-send
qp rc psn=0xffffff
recv id=1 at=buf len=1024
< SEND_FIRST psn=abs:0xffffff data=256*0xaa
< SEND_LAST psn=abs:0 data=4*0xbb ack
> ACK psn=abs:0 msn=1
done RECV id=1 len=260

== rc-responder/psn-wraps/within-read-responses
qp rc psn=0xffffff
< READ_REQUEST psn=abs:0xffffff len=512
> READ_RESPONSE_FIRST psn=abs:0xffffff data=256
> READ_RESPONSE_LAST psn=abs:0 data=256
< WRITE_ONLY psn=abs:1 data=4*0xaa ack
> ACK psn=abs:1

== rc-responder/psn-wraps/duplicate-behind-it
qp rc psn=0xffffff
< WRITE_ONLY psn=abs:0xffffff data=4*0xaa ack
> ACK psn=abs:0xffffff
< WRITE_ONLY psn=abs:0 va=buf+4 data=4*0xbb ack
> ACK psn=abs:0
< WRITE_ONLY psn=abs:0xffffff data=4*0xcc ack
> ACK psn=abs:0 msn=2
quiet
holds buf xaaaaaaaabbbbbbbb

== rc-responder/psn-wraps/gap-across-it
qp rc psn=0xffffff
< WRITE_ONLY psn=abs:1 data=4*0xaa ack
> NAK_PSN psn=abs:0xffffff
quiet
holds buf 4

== rc-responder/gap-nak/within-a-message
qp rc
< WRITE_FIRST psn=0 len=516 data=256*0xaa
# Packet 1 is lost.
< WRITE_LAST psn=2 data=4*0xcc ack
> NAK_PSN psn=1 msn=0
quiet
holds buf+512 4
# It is sent again from there.
< WRITE_MIDDLE psn=1 data=256*0xbb
< WRITE_LAST psn=2 data=4*0xcc ack
> ACK psn=2 msn=1
holds buf+512 4*0xcc

== rc-responder/gap-nak/says-what-was-done
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=1 data=4*0xaa ack
> ACK psn=1 msn=2
< WRITE_ONLY psn=4 data=4*0xbb ack
> NAK_PSN psn=2 msn=2

== rc-responder/gap-one-nak/later-packets-silent
qp rc
< WRITE_ONLY psn=1 data=4*0xaa ack
> NAK_PSN psn=0
< WRITE_ONLY psn=2 data=4*0xaa ack
< WRITE_ONLY psn=3 data=4*0xaa ack
< READ_REQUEST psn=4 len=4
quiet
holds buf 4

== rc-responder/gap-one-nak/anew-after-the-expected
qp rc
< WRITE_ONLY psn=1 data=4*0xaa ack
> NAK_PSN psn=0
< WRITE_ONLY psn=0 data=4*0xbb ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=2 data=4*0xcc ack
> NAK_PSN psn=1
quiet
holds buf 4*0xbb

== rc-responder/gap-one-nak/duplicate-does-not-end-it
qp rc
< WRITE_ONLY psn=0 data=4*0xbb ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=2 data=4*0xaa ack
> NAK_PSN psn=1
< WRITE_ONLY psn=0 data=4*0xbb ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=3 data=4*0xaa ack
quiet
holds buf 4*0xbb

== rc-responder/duplicate-send-write/write
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
store buf 4*0x55
# The acknowledgement was lost.
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
quiet
holds buf 4*0x55

== rc-responder/duplicate-send-write/send-takes-no-receive
qp rc
recv id=1 at=buf len=64
recv id=2 at=buf+64 len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1 len=4
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
quiet
idle
holds buf+64 64:64
< SEND_ONLY psn=1 data=4*0xbb ack
> ACK psn=1 msn=2
done RECV id=2 len=4

== rc-responder/duplicate-send-write/write-with-immediate-takes-no-receive
qp rc
recv id=1
recv id=2
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV_RDMA_WITH_IMM id=1
< WRITE_ONLY_WITH_IMMEDIATE psn=0 imm=1 data=4*0xaa ack
> ACK psn=0 msn=1
quiet
idle

== rc-responder/duplicate-send-write/no-receive-needed
qp rc
recv id=1 at=buf len=64
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
done RECV id=1 len=4
# There is no receive any more, and none is needed.
< SEND_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1

== rc-responder/duplicate-send-write/whole-message
qp rc
< WRITE_FIRST psn=0 len=260 data=256*0xaa
< WRITE_LAST psn=1 data=4*0xbb ack
> ACK psn=1 msn=1
store buf 260*0x55
< WRITE_FIRST psn=0 len=260 data=256*0xaa
>? ACK psn=1 msn=1
< WRITE_LAST psn=1 data=4*0xbb ack
> ACK psn=1 msn=1
quiet
holds buf 260*0x55

== rc-responder/duplicate-send-write/latest-psn
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=1 data=4*0xaa ack
> ACK psn=1 msn=2
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=1 msn=2

== rc-responder/duplicate-send-write/key-not-judged
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
dereg buf
# What the key was for is done; that it is gone means nothing now.
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
in RTS

== rc-responder/duplicate-send-write/within-a-message
qp rc
< WRITE_FIRST psn=0 len=516 data=256*0xaa ack
> ACK psn=0 msn=0
< WRITE_FIRST psn=0 len=516 data=256*0x11 ack
> ACK psn=0 msn=0
< WRITE_MIDDLE psn=1 data=256*0xbb
< WRITE_LAST psn=2 data=4*0xcc ack
> ACK psn=2 msn=1
holds buf 256*0xaa
holds buf+512 4*0xcc

== rc-responder/msn/counts-messages
qp rc
recv id=1 at=buf len=1024
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
< SEND_FIRST psn=1 data=256*0xbb ack
> ACK psn=1 msn=1
< SEND_LAST psn=2 data=4*0xbb ack
> ACK psn=2 msn=2
done RECV id=1 len=260

== rc-responder/msn/read-and-atomic-count
qp rc
< READ_REQUEST psn=0 len=4
> READ_RESPONSE_ONLY psn=0 msn=1
< FETCH_ADD psn=1 add=1
> ATOMIC_ACKNOWLEDGE psn=1 msn=2
< WRITE_ONLY psn=2 data=4*0xaa ack
> ACK psn=2 msn=3

== rc-responder/msn/refused-message-does-not-count
qp rc
< WRITE_ONLY psn=0 data=4*0xaa ack
> ACK psn=0 msn=1
< WRITE_ONLY psn=1 rkey=0xdead00 data=4*0xaa ack
> NAK_ACCESS psn=1 msn=1
in ERR
";
