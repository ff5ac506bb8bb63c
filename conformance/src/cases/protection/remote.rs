//! What peers ask for: each operation against each thing that can be wrong with its key, its range
//! and its rights.

use super::super::book::named;
use crate::case::Case;

/// An operation of 8 bytes, as a packet without address and key.
struct Operation {
    name: &'static str,
    packet: &'static str,
    /// The letter of the right that it needs.
    right: char,
    /// What answers it when all is well.
    answer: &'static str,
    /// Whether its address must be a multiple of 8.
    aligned: bool,
    /// What the device must be able to do.
    needs: &'static str,
}

const OPERATIONS: [Operation; 6] = [
    Operation {
        name: "write",
        packet: "WRITE_ONLY psn=0 data=8*0xaa ack",
        right: 'w',
        answer: "ACK psn=0",
        aligned: false,
        needs: "",
    },
    Operation {
        name: "read",
        packet: "READ_REQUEST psn=0 len=8",
        right: 'r',
        answer: "READ_RESPONSE_ONLY psn=0 size=8",
        aligned: false,
        needs: "",
    },
    Operation {
        name: "fetch-add",
        packet: "FETCH_ADD psn=0 add=0x1111",
        right: 'a',
        answer: "ATOMIC_ACKNOWLEDGE psn=0",
        aligned: true,
        needs: "",
    },
    Operation {
        name: "compare-swap",
        packet: "COMPARE_SWAP psn=0 compare=1 swap=2",
        right: 'a',
        answer: "ATOMIC_ACKNOWLEDGE psn=0",
        aligned: true,
        needs: "",
    },
    Operation {
        name: "atomic-write",
        packet: "ATOMIC_WRITE psn=0 data=8*0xaa",
        right: 'w',
        answer: "READ_RESPONSE_ONLY psn=0 size=0",
        aligned: true,
        needs: "needs ATOMIC_WRITE\n",
    },
    Operation {
        name: "flush",
        packet: "FLUSH psn=0 len=8 placement=1 selectivity=0",
        right: 'f',
        answer: "READ_RESPONSE_ONLY psn=0 size=0",
        aligned: false,
        needs: "needs FLUSH_GLOBAL\n",
    },
];

impl Operation {
    /// All rights of queue pair or region that this operation, or another one, may need.
    fn all_rights(&self) -> &'static str {
        if self.right == 'f' { "wraf" } else { "wra" }
    }

    /// All of them but the one that it needs.
    fn other_rights(&self) -> String {
        let all = self.all_rights().chars();
        all.filter(|letter| *letter != self.right).collect()
    }

    /// A region of 64 bytes, a request, and what is to come of it.
    fn script(&self, qp_rights: &str, region: &str, at: &str, outcome: &str) -> String {
        let Self { needs, packet, .. } = self;
        format!("{needs}qp rc rights={qp_rights}\n{region}\n< {packet} {at}\n{outcome}")
    }
}

/// The NAK that a request of this kind gets, and that nothing else happens.
fn refused(nak: &str) -> String {
    format!("> {nak} psn=0\nin ERR\nholds mem 64\nidle")
}

/// Where an access lies: (rule, variant, place, whether it is granted).
const RANGES: [(&str, &str, &str, bool); 9] = [
    ("range-last-byte", "ends-with-the-region", "mem+56", true),
    ("range-last-byte", "one-byte-past", "mem+57", false),
    ("range-last-byte", "begins-behind-the-region", "mem+64", false),
    ("range-first-byte", "begins-with-the-region", "mem", true),
    ("range-first-byte", "one-byte-before", "mem-1", false),
    ("range-first-byte", "ends-before-the-region", "mem-8", false),
    ("range-wrap", "wraps", "0xfffffffffffffffc", false),
    ("range-wrap", "last-8-bytes-of-all", "0xfffffffffffffff8", false),
    ("range-wrap", "first-byte-of-all", "0", false),
];

pub(super) fn cases() -> Vec<Case> {
    OPERATIONS.iter().flat_map(of_operation).chain(lengths()).collect()
}

fn of_operation(operation: &Operation) -> Vec<Case> {
    let Operation { name, right, answer, aligned, .. } = operation;
    let (all, others) = (operation.all_rights(), operation.other_rights());
    let region = format!("region mem len=64 rights=l{all}");
    let right_place = "va=mem rkey=mem";
    let mut scripts = Vec::new();
    let mut add = |rule: &str, variant: String, script: String| {
        scripts.push(named(&format!("protection/{rule}/{variant}"), script));
    };
    for (rule, variant, place, granted) in RANGES {
        if *aligned && place.ends_with(['1', '7', 'c']) {
            continue;
        }
        let outcome = if granted { format!("> {answer}") } else { refused("NAK_ACCESS") };
        let at = format!("va={place} rkey=mem");
        let script = operation.script(all, &region, &at, &outcome);
        add(rule, format!("{name}-{variant}"), script);
    }
    for (rule, variant, region, key) in [
        ("unknown-key", "no-such-index", region.clone(), "0xdead0000".to_owned()),
        ("unknown-key", "zero", region.clone(), "0".to_owned()),
        ("unknown-key", "all-ones", region.clone(), "0xffffffff".to_owned()),
        ("stale-key", "next-variant", region.clone(), "mem+1".to_owned()),
        ("cross-pd-remote", "other-domain", format!("{region} pd=other"), "mem".to_owned()),
    ] {
        let at = format!("va=mem rkey={key}");
        let script = operation.script(all, &region, &at, &refused("NAK_ACCESS"));
        add(rule, format!("{name}-{variant}"), script);
    }
    let rule = match right {
        'w' => "remote-write-right",
        'r' => "remote-read-right",
        'a' => "remote-atomic-right",
        _ => "check-order",
    };
    let lacking = format!("region mem len=64 rights=l{others}");
    let script = operation.script(all, &lacking, right_place, &refused("NAK_ACCESS"));
    add(rule, format!("{name}-without"), script);
    // A region with nothing but the one right serves.
    let local = if matches!(right, 'w' | 'a') { "l" } else { "" };
    let only = format!("region mem len=64 rights={local}{right}");
    let script = operation.script(all, &only, right_place, &format!("> {answer}"));
    add(rule, format!("{name}-with-no-other"), script);
    // The queue pair's own right is asked for first, and answered otherwise.
    let script =
        operation.script(&others, &lacking, "va=mem rkey=0xdead00", &refused("NAK_INVALID"));
    add("check-order", format!("{name}-queue-pair-before-key"), script);
    // The key is asked for before the range.
    let at = "va=mem+1024 rkey=mem+1";
    let script = operation.script(all, &region, at, &refused("NAK_ACCESS"));
    add("same-answer", format!("{name}-key-and-range"), script);
    scripts
}

/// Lengths that do not fit into 31 or 32 bits together with an address.
fn lengths() -> Vec<Case> {
    let rows = [
        ("read-2-to-the-31", "READ_REQUEST psn=0 len=0x80000000", "NAK_ACCESS"),
        ("read-2-to-the-31-and-one", "READ_REQUEST psn=0 len=0x80000001", "NAK_INVALID"),
        ("read-2-to-the-32-less-one", "READ_REQUEST psn=0 len=0xffffffff", "NAK_INVALID"),
        ("write-2-to-the-31", "WRITE_FIRST psn=0 len=0x80000000 data=256*0xaa", "NAK_ACCESS"),
        (
            "write-2-to-the-32-less-one",
            "WRITE_FIRST psn=0 len=0xffffffff data=256*0xaa",
            "NAK_INVALID",
        ),
    ];
    let script = |(variant, packet, nak): (&str, &str, &str)| {
        let text =
            format!("qp rc\nregion mem len=64\n< {packet} va=mem rkey=mem\n{}", refused(nak));
        named(&format!("protection/range-4gib/{variant}"), text)
    };
    rows.map(script).into()
}
