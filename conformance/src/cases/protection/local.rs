//! The program's own memory: elements of sends, receives, and where answers go.

use super::super::book::named;
use crate::case::Case;

/// A work request with local memory: what is posted with `{}` in place of the elements, what leaves
/// first when all is well, and whether memory is written.
const REQUESTS: [(&str, &str, &str, bool); 7] = [
    ("send", "SEND id=1 {}", "SEND_ONLY psn=0", false),
    ("write", "RDMA_WRITE id=1 to=8 rkey=9 {}", "WRITE_ONLY psn=0", false),
    ("read", "RDMA_READ id=1 to=8 rkey=9 {}", "READ_REQUEST psn=0", true),
    ("fetch-add", "FETCH_ADD id=1 to=8 rkey=9 swap=1 {}", "FETCH_ADD psn=0", true),
    ("compare-swap", "COMP_SWAP id=1 to=8 rkey=9 {}", "COMPARE_SWAP psn=0", true),
    ("atomic-write", "ATOMIC_WRITE id=1 to=8 rkey=9 {}", "ATOMIC_WRITE psn=0", false),
    ("datagram", "SEND id=1 {}", "SEND_ONLY", false),
];

/// What can be wrong with 8 bytes: (rule, variant, region, elements).
const WRONG: [(&str, &str, &str, &str); 8] = [
    ("unknown-key", "no-such-index", "", "at=mem len=8 lkey=0xdead0000"),
    ("stale-key", "next-variant", "", "at=mem len=8 lkey=mem+1"),
    ("cross-pd-local", "other-domain", " pd=other", "at=mem len=8"),
    ("range-last-byte", "one-byte-past", "", "at=mem+57 len=8"),
    ("range-first-byte", "one-byte-before", "", "at=mem-1 len=8"),
    ("sge-each", "first-of-two", "", "sge=mem+61:4,mem:4"),
    ("sge-each", "second-of-two", "", "sge=mem:4,mem+61:4"),
    ("sge-each", "last-of-four", "", "sge=mem:2,mem:2,mem:2,mem+63:2"),
];

pub(super) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (name, post, packet, written) in REQUESTS {
        let (qp, needs) = match name {
            "datagram" => ("qp ud", ""),
            "atomic-write" => ("qp rc", "needs ATOMIC_WRITE\n"),
            _ => ("qp rc", ""),
        };
        let state = if name == "datagram" { "SQE" } else { "ERR" };
        let failed = |region: &str, elements: &str| {
            format!(
                "{needs}{qp}\nregion mem len=64{region}\npost {}\n\
                 done id=1 status=LOC_PROT_ERR\nin {state}\nquiet\nholds mem 64",
                post.replace("{}", elements)
            )
        };
        for (rule, variant, region, elements) in WRONG {
            let case = format!("protection/{rule}/local-{name}-{variant}");
            all.push(named(&case, failed(region, elements)));
        }
        if written {
            all.push(named(
                &format!("protection/local-write-right/{name}-without"),
                failed(" rights=r", "at=mem len=8"),
            ));
        } else {
            let done = if name == "datagram" { "done SEND id=1" } else { "" };
            all.push(named(
                &format!("protection/local-read-always/{name}"),
                format!(
                    "{needs}{qp} timeout=0\nregion mem len=64 rights=-\npost {}\n\
                     > {packet} data=8\n{done}",
                    post.replace("{}", "at=mem len=8")
                ),
            ));
        }
    }
    for (rule, variant, region, elements) in WRONG {
        all.push(named(
            &format!("protection/{rule}/receive-{variant}"),
            format!(
                "qp rc\nregion mem len=64{region}\nrecv id=1 {elements}\n\
                 < SEND_ONLY psn=0 data=8*0xaa ack\n\
                 > NAK_OPERATION psn=0\ndone id=1 status=LOC_PROT_ERR\nin ERR"
            ),
        ));
    }
    all.push(named(
        "protection/local-write-right/receive-without",
        "qp rc\nregion mem len=64 rights=r\nrecv id=1 at=mem len=8\n\
         < SEND_ONLY psn=0 data=8*0xaa ack\n\
         > NAK_OPERATION psn=0\ndone id=1 status=LOC_PROT_ERR\nin ERR\nholds mem 64",
    ));
    all
}
