//! FLUSH and ATOMIC WRITE.

use super::book::{book, named};
use crate::case::Case;

/// The cases of the family.
pub(super) fn cases() -> Vec<Case> {
    let mut all = book(SCRIPTS);
    for (rule, variant, before, packet, nak, event) in REFUSED {
        let needs = if packet.starts_with("FLUSH") { "FLUSH_GLOBAL" } else { "ATOMIC_WRITE" };
        all.push(named(
            &format!("flush-placement/{rule}/{variant}"),
            format!(
                "needs {needs}
                {before}
                recv id=9 at=buf+2048 len=16
                < {packet} psn=0
                > {nak} psn=0 msn=0
                in ERR
                done id=9 status=WR_FLUSH_ERR
                event {event}
                quiet
                holds buf 256"
            ),
        ));
    }
    all
}

const ALL: &str = "qp rc rights=wraf\nregion buf rights=lwraf";
const QP_WITHOUT: &str = "qp rc rights=wra\nregion buf rights=lwraf";
const REGION_WITHOUT: &str = "qp rc rights=wraf\nregion buf rights=lwra";
const READ_ONLY: &str = "qp rc rights=wraf\nregion buf rights=lraf";
const OTHER_DOMAIN: &str = "qp rc rights=wraf\nregion buf rights=lwraf pd=other";

/// Requests that are refused: rule, variant, set-up, packet, answer, event.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const INVALID: &str = "NAK_INVALID";
const ACCESS: &str = "NAK_ACCESS";
const REQ: &str = "QP_REQ_ERR";
const ACC: &str = "QP_ACCESS_ERR";

const REFUSED: [Row; 26] = [
    ("flush-key-checked", "unknown", ALL, "FLUSH rkey=0xdead00 len=8", ACCESS, ACC),
    ("flush-key-checked", "unknown-of-nothing", ALL, "FLUSH rkey=0xdead00 len=0", ACCESS, ACC),
    ("flush-key-checked", "stale-variant", ALL, "FLUSH rkey=buf+1 len=8", ACCESS, ACC),
    ("flush-key-checked", "other-domain", OTHER_DOMAIN, "FLUSH len=8", ACCESS, ACC),
    ("flush-range", "past-the-end", ALL, "FLUSH va=buf+4090 len=8", ACCESS, ACC),
    ("flush-range", "before-the-start", ALL, "FLUSH va=buf-1 len=8", ACCESS, ACC),
    ("flush-range", "wraps", ALL, "FLUSH va=0xfffffffffffffffc len=8", ACCESS, ACC),
    ("flush-region", "unknown-key", ALL, "FLUSH rkey=0xdead00 selectivity=1 len=0", ACCESS, ACC),
    ("flush-selectivity-reserved", "two", ALL, "FLUSH selectivity=2 len=8", INVALID, REQ),
    ("flush-selectivity-reserved", "three", ALL, "FLUSH selectivity=3 len=8", INVALID, REQ),
    ("flush-placement-none", "arrives", ALL, "FLUSH placement=0 len=8", INVALID, REQ),
    ("flush-placement-none", "reserved-bits", ALL, "FLUSH placement=12 len=8", INVALID, REQ),
    ("flush-qp-right", "global", QP_WITHOUT, "FLUSH len=8", INVALID, REQ),
    ("flush-region-right", "global", REGION_WITHOUT, "FLUSH len=8", ACCESS, ACC),
    ("flush-format", "with-payload", ALL, "FLUSH len=8 data=8*0xaa", INVALID, REQ),
    ("atomic-write-length", "four-bytes", ALL, "ATOMIC_WRITE len=4 data=4*0xaa", INVALID, REQ),
    ("atomic-write-length", "sixteen-bytes", ALL, "ATOMIC_WRITE len=16 data=16*0xaa", INVALID, REQ),
    ("atomic-write-length", "none", ALL, "ATOMIC_WRITE len=0", INVALID, REQ),
    ("atomic-write-length", "header-says-less", ALL, "ATOMIC_WRITE len=4 data=8*0xaa", INVALID, REQ),
    ("atomic-write-length", "header-says-more", ALL, "ATOMIC_WRITE len=16 data=8*0xaa", INVALID, REQ),
    ("atomic-write-aligned", "by-one", ALL, "ATOMIC_WRITE va=buf+1 data=8*0xaa", INVALID, REQ),
    ("atomic-write-aligned", "by-four", ALL, "ATOMIC_WRITE va=buf+4 data=8*0xaa", INVALID, REQ),
    (
        "atomic-write-right",
        "queue-pair",
        "qp rc rights=raf\nregion buf rights=lwraf",
        "ATOMIC_WRITE data=8*0xaa",
        INVALID,
        REQ,
    ),
    ("atomic-write-right", "region", READ_ONLY, "ATOMIC_WRITE data=8*0xaa", ACCESS, ACC),
    ("atomic-write-right", "unknown-key", ALL, "ATOMIC_WRITE rkey=0xdead00 data=8*0xaa", ACCESS, ACC),
    ("atomic-write-right", "other-domain", OTHER_DOMAIN, "ATOMIC_WRITE data=8*0xaa", ACCESS, ACC),
];

const SCRIPTS: &str = r"
== flush-placement/flush-format/sent
needs FLUSH_GLOBAL
qp rc
post FLUSH id=1 to=0x1000 rkey=0x77 len=64
> FLUSH psn=0 va=0x1000 rkey=0x77 len=64 placement=1 selectivity=0 size=0 ack
< READ_RESPONSE_ONLY psn=0 msn=1
done FLUSH id=1

== flush-placement/flush-format/sent-for-a-region
needs FLUSH_GLOBAL
qp rc
post FLUSH id=1 to=0x1000 rkey=0x77 len=64 selectivity=region
> FLUSH psn=0 rkey=0x77 selectivity=1
< READ_RESPONSE_ONLY psn=0 msn=1
done FLUSH id=1

== flush-placement/flush-response/of-nothing
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 len=64
> READ_RESPONSE_ONLY psn=0 msn=1 size=0 pad=0
quiet

== flush-placement/flush-response/zero-length
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 len=0
> READ_RESPONSE_ONLY psn=0 msn=1 size=0

== flush-placement/flush-response/completes-the-writes-before-it
needs FLUSH_GLOBAL
qp rc
post RDMA_WRITE id=1 at=buf len=8 to=0x1000 rkey=7
post FLUSH id=2 to=0x1000 rkey=7 len=8
> WRITE_ONLY psn=0
> FLUSH psn=1
< READ_RESPONSE_ONLY psn=1 msn=2
done RDMA_WRITE id=1
done FLUSH id=2

== flush-placement/flush-after-writes/what-was-written-is-there
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< WRITE_FIRST psn=0 len=300 data=256*0xaa
< WRITE_LAST psn=1 data=44*0xbb
< FLUSH psn=2 len=300
> READ_RESPONSE_ONLY psn=2 msn=2
holds buf 256*0xaa
holds buf+256 44*0xbb

== flush-placement/flush-range/whole
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 len=4096
> READ_RESPONSE_ONLY psn=0

== flush-placement/flush-region/range-not-looked-at
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 va=0xffffffffffffffff len=0xffffffff selectivity=1
> READ_RESPONSE_ONLY psn=0 msn=1
in RTS

== flush-placement/flush-placement-none/posted
needs FLUSH_GLOBAL
qp rc
refused EINVAL post FLUSH id=1 to=0x1000 rkey=7 len=8 placement=0
quiet

== flush-placement/flush-unsupported/persistence-refused
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 placement=2 len=8
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-unsupported/both-refused
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 placement=3 len=8
> NAK_INVALID psn=0
in ERR

== flush-placement/flush-unsupported/region-not-registered
needs FLUSH_GLOBAL
refused EOPNOTSUPP region mem rights=lwp

== flush-placement/flush-duplicate/answered-again
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 len=8
> READ_RESPONSE_ONLY psn=0 msn=1
< FLUSH psn=0 len=8
> READ_RESPONSE_ONLY psn=0 msn=1
quiet

== flush-placement/flush-duplicate/other-key-dropped
needs FLUSH_GLOBAL
qp rc rights=wraf
region buf rights=lwraf
< FLUSH psn=0 len=8
> READ_RESPONSE_ONLY psn=0 msn=1
< FLUSH psn=0 rkey=0xdead00 len=8
quiet
in RTS

== flush-placement/atomic-write-format/sent
needs ATOMIC_WRITE
qp rc
post ATOMIC_WRITE id=1 at=buf+8 len=8 to=0x1000 rkey=0x77
> ATOMIC_WRITE psn=0 va=0x1000 rkey=0x77 len=8 data=8:8 pad=0 ack
< READ_RESPONSE_ONLY psn=0 msn=1
done ATOMIC_WRITE id=1

== flush-placement/atomic-write-format/received
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 va=buf+16 data=8*0xaa
> READ_RESPONSE_ONLY psn=0 msn=1 size=0
holds buf 16
holds buf+16 8*0xaa
holds buf+24 8:24

== flush-placement/atomic-write-length/posted-too-short
needs ATOMIC_WRITE
qp rc
refused EINVAL post ATOMIC_WRITE id=1 at=buf len=4 to=0x1000 rkey=7
quiet

== flush-placement/atomic-write-length/posted-too-long
needs ATOMIC_WRITE
qp rc
refused EINVAL post ATOMIC_WRITE id=1 at=buf len=16 to=0x1000 rkey=7
quiet

== flush-placement/atomic-write-whole/one-after-the-other
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 data=8*0xaa
> READ_RESPONSE_ONLY psn=0
< READ_REQUEST psn=1 len=8
> READ_RESPONSE_ONLY psn=1 data=8*0xaa
< ATOMIC_WRITE psn=2 data=8*0xbb
> READ_RESPONSE_ONLY psn=2
< READ_REQUEST psn=3 len=8
> READ_RESPONSE_ONLY psn=3 data=8*0xbb

== flush-placement/atomic-write-duplicate/not-written-again
needs ATOMIC_WRITE
qp rc
< ATOMIC_WRITE psn=0 data=8*0xaa
> READ_RESPONSE_ONLY psn=0 msn=1
store buf 8*0x55
< ATOMIC_WRITE psn=0 data=8*0xaa
> READ_RESPONSE_ONLY psn=0 msn=1
quiet
holds buf 8*0x55

== flush-placement/count-as-reads/requester
needs ATOMIC_WRITE
qp rc reads=1
post RDMA_READ id=1 at=buf len=8 to=0x1000 rkey=7
post ATOMIC_WRITE id=2 at=buf len=8 to=0x1000 rkey=7
> READ_REQUEST psn=0
quiet
< READ_RESPONSE_ONLY psn=0 data=8*0xaa msn=1
> ATOMIC_WRITE psn=1
< READ_RESPONSE_ONLY psn=1 msn=2
done RDMA_READ id=1
done ATOMIC_WRITE id=2

== flush-placement/count-as-reads/flush-of-the-requester
needs FLUSH_GLOBAL
qp rc reads=1
post FLUSH id=1 to=0x1000 rkey=7 len=8
post FLUSH id=2 to=0x1000 rkey=7 len=8
> FLUSH psn=0
quiet
< READ_RESPONSE_ONLY psn=0 msn=1
> FLUSH psn=1
< READ_RESPONSE_ONLY psn=1 msn=2
done FLUSH id=1
done FLUSH id=2
";
