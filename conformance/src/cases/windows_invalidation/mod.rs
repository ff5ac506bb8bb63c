//! Memory windows, and keys that are withdrawn.

mod verbs;

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    all.extend(verbs::cases());
    for (rule, variant, lines) in FAILS {
        all.push(named(
            &format!("windows-invalidation/{rule}/{variant}"),
            format!(
                "needs MEM_WINDOW_TYPE_2B\nqp rc\n{lines}\n\
                 done id=1 status=MW_BIND_ERR\nin ERR\nquiet"
            ),
        ));
    }
    for (kind, needs) in TYPES {
        for (operation, packet, rights, others, answer) in ACCESSES {
            let bound = format!(
                "needs {needs}\nqp rc\nregion mem len=256 rights=lb\nwindow mw type={kind}\n"
            );
            // The region itself grants nothing to peers: the window alone decides.
            all.push(named(
                &format!("windows-invalidation/bind-rights-alone/type-{kind}-{operation}"),
                format!(
                    "{bound}post BIND_MW id=1 window=mw to=mem+64 len=64 rights={rights}\n\
                     done BIND_MW id=1\n< {packet} psn=0 va=mem+64 rkey=mw\n> {answer} psn=0"
                ),
            ));
            all.push(named(
                &format!("windows-invalidation/access-right/type-{kind}-{operation}-without"),
                format!(
                    "{bound}post BIND_MW id=1 window=mw to=mem+64 len=64 rights={others}\n\
                     done BIND_MW id=1\n< {packet} psn=0 va=mem+64 rkey=mw\n\
                     > NAK_ACCESS psn=0\nin ERR\nholds mem+64 64:64"
                ),
            ));
            all.push(named(
                &format!("windows-invalidation/access-range/type-{kind}-{operation}-past-the-end"),
                format!(
                    "{bound}post BIND_MW id=1 window=mw to=mem+64 len=64 rights=wra\n\
                     done BIND_MW id=1\n< {packet} psn=0 va=mem+128 rkey=mw\n\
                     > NAK_ACCESS psn=0\nin ERR\nholds mem+128 64:128"
                ),
            ));
            all.push(named(
                &format!("windows-invalidation/access-range/type-{kind}-{operation}-before"),
                format!(
                    "{bound}post BIND_MW id=1 window=mw to=mem+64 len=64 rights=wra\n\
                     done BIND_MW id=1\n< {packet} psn=0 va=mem+56 rkey=mw\n\
                     > NAK_ACCESS psn=0\nin ERR\nholds mem 64"
                ),
            ));
        }
    }
    all
}

const TYPES: [(&str, &str); 2] = [("1", "MEM_WINDOW"), ("2", "MEM_WINDOW_TYPE_2B")];

/// Requests of 8 bytes: called what, the packet, the right, the others, the answer.
const ACCESSES: [(&str, &str, &str, &str, &str); 3] = [
    ("write", "WRITE_ONLY data=8*0xaa ack", "w", "ra", "ACK"),
    ("read", "READ_REQUEST len=8", "r", "wa", "READ_RESPONSE_ONLY size=8"),
    ("atomic", "FETCH_ADD add=1", "a", "wr", "ATOMIC_ACKNOWLEDGE"),
];

/// Binds of type 2 that fail when they are carried out: of which rule, called what, the lines.
const FAILS: [(&str, &str, &str); 7] = [
    (
        "bind-needs-right",
        "no-right",
        "region mem len=256 rights=lwra\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem len=64 rights=r",
    ),
    (
        "bind-write-needs-local",
        "write",
        "region mem len=256 rights=b\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem len=64 rights=w",
    ),
    (
        "bind-write-needs-local",
        "atomic",
        "region mem len=256 rights=b\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem len=64 rights=a",
    ),
    (
        "bind-range",
        "past-the-end",
        "region mem len=256\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem+193 len=64 rights=r",
    ),
    (
        "bind-range",
        "before-the-start",
        "region mem len=256\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem-1 len=64 rights=r",
    ),
    (
        "bind-range",
        "wraps",
        "region mem len=256\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem len=0xffffffffffffffff rights=r",
    ),
    (
        "bind-pd",
        "region-of-another",
        "region mem len=256 pd=other\nwindow mw type=2\n\
         post BIND_MW id=1 window=mw to=mem len=64 rights=r",
    ),
];

const SCRIPTS: &str = r"
== windows-invalidation/alloc-unbound/write
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
< WRITE_ONLY psn=0 va=buf rkey=mw data=8*0xaa ack
> NAK_ACCESS psn=0
holds buf 64
in ERR

== windows-invalidation/alloc-unbound/read-of-type-1
needs MEM_WINDOW
qp rc
window mw type=1
< READ_REQUEST psn=0 va=buf rkey=mw len=8
> NAK_ACCESS psn=0
in ERR

== windows-invalidation/bind-order/send-behind
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf+64 len=64 rights=w
post SEND id=2 at=buf len=4
> SEND_ONLY psn=0
# The peer has the key now and uses it at once.
< WRITE_ONLY psn=0 va=buf+64 rkey=mw data=8*0xaa ack
> ACK psn=0
< ACK psn=0
done BIND_MW id=1
done SEND id=2
holds buf+64 8*0xaa

== windows-invalidation/bind-completion/type-2
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=r
done BIND_MW id=1
quiet

== windows-invalidation/bind-completion/failed-flushes-the-rest
needs MEM_WINDOW_TYPE_2B
qp rc
region mem len=64 rights=lwra
window mw type=2
post BIND_MW id=1 window=mw to=mem len=64 rights=r
post SEND id=2 at=buf len=4
done id=1 status=MW_BIND_ERR
done id=2 status=WR_FLUSH_ERR
in ERR
quiet

== windows-invalidation/bind-pd/window-of-another
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2 pd=other
post BIND_MW id=1 window=mw to=buf len=64 rights=r
done id=1 status=MW_BIND_ERR
in ERR

== windows-invalidation/type1-new-key/earlier-key-stale
needs MEM_WINDOW
qp rc
window mw type=1
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
# A window's variant is in the low 8 bits of its key.
< WRITE_ONLY psn=0 va=buf rkey=mw-1 data=8*0xaa ack
> NAK_ACCESS psn=0
holds buf 64
in ERR

== windows-invalidation/type1-rebind/elsewhere
needs MEM_WINDOW
qp rc
window mw type=1
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
post BIND_MW id=2 window=mw to=buf+64 len=64 rights=w
done BIND_MW id=2
< WRITE_ONLY psn=0 va=buf+64 rkey=mw data=8*0xaa ack
> ACK psn=0
holds buf+64 8*0xaa
< WRITE_ONLY psn=1 va=buf rkey=mw data=8*0xbb ack
> NAK_ACCESS psn=1
holds buf 64

== windows-invalidation/type1-unbind/length-0
needs MEM_WINDOW
qp rc
window mw type=1
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
post BIND_MW id=2 window=mw to=buf len=0
done BIND_MW id=2
< WRITE_ONLY psn=0 va=buf rkey=mw data=8*0xaa ack
> NAK_ACCESS psn=0
holds buf 64

== windows-invalidation/type1-not-invalidated/local
needs MEM_WINDOW
qp rc
window mw type=1
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
post LOCAL_INV id=2 inv=mw
done id=2 status=MW_BIND_ERR
in ERR

== windows-invalidation/type1-not-invalidated/remote
needs MEM_WINDOW
qp rc
window mw type=1
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
recv id=7 at=buf+64 len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=mw data=4 ack
> NAK_ACCESS psn=0
done id=7 status=WR_FLUSH_ERR
in ERR

== windows-invalidation/type1-whole-pd/other-queue-pair
needs MEM_WINDOW
qp rc
qp rc name=two
window mw type=1
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
< WRITE_ONLY psn=0 qp=two va=buf rkey=mw data=8*0xaa ack
> ACK psn=0 qp=two
holds buf 8*0xaa

== windows-invalidation/type2-only-qp/other-queue-pair
needs MEM_WINDOW_TYPE_2B
qp rc
qp rc name=two
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
< WRITE_ONLY psn=0 qp=two va=buf rkey=mw data=8*0xaa ack
> NAK_ACCESS psn=0 qp=two
holds buf 64
in ERR qp=two
in RTS

== windows-invalidation/type2-qp-destroyed/region-is-free
needs MEM_WINDOW_TYPE_2B
qp rc
qp rc name=two
region mem len=64
window mw type=2
post BIND_MW id=1 qp=two window=mw to=mem len=64 rights=w
done BIND_MW id=1
refused EBUSY dereg mem
destroy qp=two
dereg mem

== windows-invalidation/type2-key-chosen/variant
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w variant=0x5a
done BIND_MW id=1
< WRITE_ONLY psn=0 va=buf rkey=mw data=8*0xaa ack
> ACK psn=0
< WRITE_ONLY psn=1 va=buf+8 rkey=mw+1 data=8*0xaa ack
> NAK_ACCESS psn=1
holds buf+8 8:8

== windows-invalidation/type2-bound-refused/twice
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w variant=1
done BIND_MW id=1
post BIND_MW id=2 window=mw to=buf len=64 rights=w variant=2
done id=2 status=MW_BIND_ERR
in ERR

== windows-invalidation/type2-zero-length/refused
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=0 rights=w
done id=1 status=MW_BIND_ERR
in ERR

== windows-invalidation/access-zero-based/from-0
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf+64 len=64 rights=wz
done BIND_MW id=1
< WRITE_ONLY psn=0 va=8 rkey=mw data=8*0xaa ack
> ACK psn=0
holds buf+72 8*0xaa
< WRITE_ONLY psn=1 va=buf+64 rkey=mw data=8*0xbb ack
> NAK_ACCESS psn=1
holds buf+64 8:64

== windows-invalidation/not-local/send
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
post SEND id=2 at=buf len=8 lkey=mw
done id=2 status=LOC_PROT_ERR
in ERR
quiet

== windows-invalidation/local-invalidate/key-dead
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
post LOCAL_INV id=2 inv=mw
done LOCAL_INV id=2
< WRITE_ONLY psn=0 va=buf rkey=mw data=8*0xaa ack
> NAK_ACCESS psn=0
holds buf 64

== windows-invalidation/local-invalidate/bound-again
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w variant=1
post LOCAL_INV id=2 inv=mw
done BIND_MW id=1
done LOCAL_INV id=2
post BIND_MW id=3 window=mw to=buf+64 len=64 rights=w variant=2
done BIND_MW id=3
< WRITE_ONLY psn=0 va=buf+64 rkey=mw data=8*0xaa ack
> ACK psn=0
holds buf+64 8*0xaa

== windows-invalidation/local-invalidate/unknown-key
needs MEM_WINDOW_TYPE_2B
qp rc
post LOCAL_INV id=1 inv=0xdead0000
done id=1 status=MW_BIND_ERR
in ERR

== windows-invalidation/region-not-invalidated/local
needs MEM_WINDOW_TYPE_2B
qp rc
post LOCAL_INV id=1 inv=buf
done id=1 status=MW_BIND_ERR
in ERR

== windows-invalidation/region-not-invalidated/remote
needs MEM_WINDOW_TYPE_2B
qp rc
recv id=7 at=buf+64 len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=buf data=4 ack
> NAK_ACCESS psn=0
done id=7 status=WR_FLUSH_ERR
in ERR

== windows-invalidation/invalidate-waits-reads/fence
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
post RDMA_READ id=2 at=buf+128 len=8 to=7 rkey=9
post LOCAL_INV id=3 inv=mw fence
> READ_REQUEST psn=0
quiet
idle
# It is still bound.
< WRITE_ONLY psn=0 va=buf rkey=mw data=8*0xaa ack
> ACK psn=0
< READ_RESPONSE_ONLY psn=0 data=8*0x11
done RDMA_READ id=2
done LOCAL_INV id=3
< WRITE_ONLY psn=1 va=buf rkey=mw data=8*0xbb ack
> NAK_ACCESS psn=1
holds buf 8*0xaa

== windows-invalidation/remote-invalidate/key-dead-when-received
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
recv id=7 at=buf+64 len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=mw data=4*0xcc ack
> ACK psn=0
done RECV id=7 len=4 inv=mw
< WRITE_ONLY psn=1 va=buf rkey=mw data=8*0xaa ack
> NAK_ACCESS psn=1
holds buf 64

== windows-invalidation/remote-invalidate/last-packet
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
recv id=7 at=buf+1024 len=1024
< SEND_FIRST psn=0 data=256*0xcc
< SEND_LAST_WITH_INVALIDATE psn=1 inv=mw data=4*0xdd ack
> ACK psn=1
done RECV id=7 len=260 inv=mw
< READ_REQUEST psn=2 va=buf rkey=mw len=8
> NAK_ACCESS psn=2

== windows-invalidation/remote-invalidate-wrong/unknown-key
needs MEM_WINDOW_TYPE_2B
qp rc
recv id=7 at=buf len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=0xdead0000 data=4 ack
> NAK_ACCESS psn=0
done id=7 status=WR_FLUSH_ERR
in ERR

== windows-invalidation/remote-invalidate-wrong/not-bound
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
recv id=7 at=buf len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=mw data=4 ack
> NAK_ACCESS psn=0
done id=7 status=WR_FLUSH_ERR
in ERR

== windows-invalidation/remote-invalidate-wrong/bound-by-another
needs MEM_WINDOW_TYPE_2B
qp rc
qp rc name=two
window mw type=2
post BIND_MW id=1 qp=two window=mw to=buf len=64 rights=w
done BIND_MW id=1
recv id=7 at=buf+64 len=64
< SEND_ONLY_WITH_INVALIDATE psn=0 inv=mw data=4 ack
> NAK_ACCESS psn=0
done id=7 status=WR_FLUSH_ERR
in ERR

== windows-invalidation/invalidated-key-dead/middle-of-a-write
needs MEM_WINDOW_TYPE_2B
qp rc
region mem len=1024 rights=lb
window mw type=2
post BIND_MW id=1 window=mw to=mem len=1024 rights=w
done BIND_MW id=1
< WRITE_FIRST psn=0 va=mem rkey=mw len=264 data=256*0xaa
holds mem 256*0xaa
post LOCAL_INV id=2 inv=mw
done LOCAL_INV id=2
< WRITE_LAST psn=1 data=8*0xbb ack
> NAK_ACCESS psn=1
holds mem+256 8

== windows-invalidation/region-busy/until-unbound
needs MEM_WINDOW_TYPE_2B
qp rc
region mem len=64
window mw type=2
post BIND_MW id=1 window=mw to=mem len=64 rights=w
done BIND_MW id=1
refused EBUSY dereg mem
post LOCAL_INV id=2 inv=mw
done LOCAL_INV id=2
dereg mem

== windows-invalidation/dealloc-bound/frees-the-region
needs MEM_WINDOW_TYPE_2B
qp rc
region mem len=64
window mw type=2
post BIND_MW id=1 window=mw to=mem len=64 rights=w
done BIND_MW id=1
refused EBUSY dereg mem
dereg mw
dereg mem

== windows-invalidation/dealloc-bound/key-dead
needs MEM_WINDOW_TYPE_2B
qp rc
window mw type=2
post BIND_MW id=1 window=mw to=buf len=64 rights=w
done BIND_MW id=1
dereg mw
< WRITE_ONLY psn=0 va=buf rkey=mw data=8*0xaa ack
> NAK_ACCESS psn=0
holds buf 64
";
