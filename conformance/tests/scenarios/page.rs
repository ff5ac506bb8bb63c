//! The page about the declared differences: made here from the declarations and the recording.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use softrnic_conformance::difference::{
    BY_THE_RULES, BY_THE_RULES_ON_THE_WIRE, Difference, Exchange, Field, Oddity, Right,
    WireDifference,
};
use softrnic_conformance::lab::Family;
use softrnic_conformance::recorded::{Answer, Line};
use softrnic_model::verbs::{WcFlags, WcOpcode, WcStatus};
use softrnic_model::wire::{NakCode, Packet, Syndrome};

use crate::capture::scenes;
use crate::world::recording;

/// The page, from the root of the workspace.
const PAGE: &str = "docs/spec/differences.md";
/// Set this to have it written anew.
const WRITE: &str = "SOFTRNIC_WRITE_PAGES";

#[test]
fn the_page_of_differences_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PAGE);
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "{PAGE} is not what is declared: run the test again with {WRITE}=1");
}

fn page() -> String {
    let mut page = format!(
        "# Differences from the recorded device

A soft-RoCE device of Linux 6.1 was recorded in 57 scenarios (`conformance/captures`). Profile `rxe` answers as it did:
the same completions in every field, and the same packets. Profile `spec` does so but for what follows, where the
recorded device does not keep a rule or fills in what the rules leave open. The tests of `softrnic-conformance` demand
each of these differences, on the simulated fabric and over UDP: one that is not there is as much of an error as one
that is not listed.

Made from the declarations in `conformance/src/difference.rs`; `{WRITE}=1 cargo test -p softrnic-conformance
--test scenarios page` makes it anew.
"
    );
    for oddity in Oddity::ALL {
        let (habit, rule) = (oddity.habit(), oddity.rule());
        write!(page, "\n## {oddity:?}\n\n* Recorded: {habit}.\n* Right: {rule}.\n\n").unwrap();
        page += "| scenarios | where | recorded | right |\n|---|---|---|---|\n";
        let answers = BY_THE_RULES.iter().filter(|d| d.why == oddity).map(row);
        let wire = BY_THE_RULES_ON_THE_WIRE.iter().filter(|d| d.why == oddity).map(wire_row);
        page.extend(answers.chain(wire));
    }
    page
}

fn row(difference: &Difference) -> String {
    let Difference { scenarios, side, right, .. } = difference;
    let recorded = scenarios.iter().map(|name| recording(Family::V4).answer(name, *side).unwrap());
    let (place, before, after) = match *right {
        Right::Field(field, value) => {
            let before = the_one(recorded.map(|answer| field_of(answer, field)));
            (format!("`{}`", name(field)), show(field, before), show(field, value))
        }
        Right::Completion(line) => {
            ("completions".into(), the_one(recorded.map(completions)), completion(&line))
        }
        Right::Silence => ("completions".into(), the_one(recorded.map(completions)), "none".into()),
    };
    format!("| {} | {side}, {place} | {before} | {after} |\n", list(scenarios))
}

fn wire_row(difference: &WireDifference) -> String {
    let WireDifference { scenarios, right, .. } = difference;
    let recorded = scenarios.iter().map(|name| &scenes(Family::V4)[*name].frames);
    let (before, after) = match *right {
        Exchange::Nak(code) => {
            let codes = recorded.flatten().filter_map(|frame| {
                match Packet::parse(&frame.packet).unwrap().aeth()?.syndrome() {
                    Syndrome::Nak(code) => Some(code),
                    _ => None,
                }
            });
            (nak(the_one(codes)), nak(code))
        }
        Exchange::Refused(code) => {
            assert_eq!(recorded.flatten().count(), 0);
            ("no packet".into(), format!("a request, and {}", nak(code)))
        }
    };
    format!("| {} | packets | {before} | {after} |\n", list(scenarios))
}

/// What all are, when all are the same.
fn the_one<T: PartialEq + std::fmt::Debug>(mut all: impl Iterator<Item = T>) -> T {
    let first = all.next().expect("a difference has scenarios");
    all.for_each(|other| assert_eq!(other, first, "one row, one recorded value"));
    first
}

fn list(scenarios: &[&str]) -> String {
    scenarios.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn field_of(answer: &Answer, field: Field) -> u32 {
    match answer {
        Answer::Completed(lines) => match (field, lines.as_slice()) {
            (Field::Status, [line]) => line.status,
            (Field::Opcode, [line]) => line.opcode,
            (Field::Flags, [line]) => line.wc_flags,
            _ => panic!("not one completion: {lines:?}"),
        },
        Answer::Refused(errno) => panic!("refused with {errno}"),
    }
}

const fn name(field: Field) -> &'static str {
    match field {
        Field::Status => "status",
        Field::Opcode => "opcode",
        Field::Flags => "wc_flags",
    }
}

fn show(field: Field, value: u32) -> String {
    match field {
        Field::Status => status(value),
        Field::Opcode => opcode(value),
        Field::Flags => flags(value),
    }
}

fn completions(answer: &Answer) -> String {
    match answer {
        Answer::Refused(22) => "refused when posted (EINVAL)".into(),
        Answer::Refused(errno) => panic!("no name for errno {errno}"),
        Answer::Completed(lines) if lines.is_empty() => "none".into(),
        Answer::Completed(lines) => lines.iter().map(completion).collect::<Vec<_>>().join("; "),
    }
}

fn completion(line: &Line) -> String {
    format!("{} of {}", status(line.status), opcode(line.opcode))
}

fn status(value: u32) -> String {
    use WcStatus::{
        LocalLengthError, LocalProtectionError, LocalQpOperationError, RemoteInvalidRequest,
        RemoteOperationError,
    };
    let known = [
        LocalLengthError,
        LocalQpOperationError,
        LocalProtectionError,
        RemoteInvalidRequest,
        RemoteOperationError,
    ];
    let status = known.into_iter().find(|&status| status as u32 == value);
    format!("{:?} ({value})", status.expect("a known status"))
}

fn opcode(value: u32) -> String {
    use WcOpcode::{FetchAdd, RdmaRead, RdmaWrite, Recv, Send};
    let known = [Send, RdmaWrite, RdmaRead, FetchAdd, Recv];
    let opcode = known.into_iter().find(|&opcode| opcode as u32 == value);
    format!("{:?} ({value})", opcode.expect("a known opcode"))
}

fn flags(value: u32) -> String {
    let known = WcFlags::from_bits(u8::try_from(value).unwrap()).expect("known flags");
    let names: BTreeSet<_> = known.iter_names().map(|(name, _)| name).collect();
    if names.is_empty() {
        return "none".into();
    }
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn nak(code: NakCode) -> String {
    format!("a NAK {code:?}")
}
