//! Reading scripts.

use std::fmt;

use super::{Act, At, DoneSpec, PacketSpec, Script, Step};
use crate::names;
use crate::program::Command;
use crate::text::{Arguments, Bytes, Reason, Value, number, time_ns};

/// Where a script cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// Understands a script.
///
/// # Errors
/// The first line that is not one.
pub fn parse(text: &str) -> Result<Script, ParseError> {
    let mut steps = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let said = content.split_once('#').map_or(content, |(said, _)| said).trim();
        if said.is_empty() {
            continue;
        }
        let step = step(line, said).map_err(|reason| ParseError { line, reason })?;
        steps.push(step);
    }
    if steps.is_empty() {
        return Err(ParseError { line: 1, reason: "the script says nothing".into() });
    }
    Ok(Script { steps })
}

fn step(line: usize, said: &str) -> Result<Step, Reason> {
    let (first, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let (at, act) = match first.strip_prefix('+') {
        Some(after) => (Some(At::After(time_ns(after)?)), rest.trim()),
        None if first.starts_with(|c: char| c.is_ascii_digit()) => {
            (Some(At::Since(time_ns(first)?)), rest.trim())
        }
        None => (None, said),
    };
    Ok(Step { line, text: act.to_owned(), at, act: understand(act)? })
}

fn understand(said: &str) -> Result<Act, Reason> {
    if let Some(packet) = said.strip_prefix(">?") {
        return PacketSpec::parse(packet).map(Act::MayLeave);
    }
    if let Some(packet) = said.strip_prefix('>') {
        return PacketSpec::parse(packet).map(Act::Leaves);
    }
    if let Some(packet) = said.strip_prefix('<') {
        return PacketSpec::parse(packet).map(Act::Arrives);
    }
    let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let rest = rest.trim();
    match word {
        "done" => done(rest).map(Act::Done),
        "idle" => none_more(rest).map(|()| Act::Idle),
        "holds" => {
            let (place, bytes) = rest.split_once(' ').ok_or("holds PLACE BYTES")?;
            let bytes = Bytes::parse(bytes.trim())?.0;
            let command = format!("memory {place} len={}", bytes.len()).parse()?;
            Ok(Act::Holds(command, bytes))
        }
        "in" => {
            let mut args = Arguments::new(rest);
            let state = known(&args.word("a state")?, names::STATES)?;
            let qp = args.pair("qp").unwrap_or_else(|| "qp".into());
            args.finish()?;
            Ok(Act::In(format!("state qp={qp}").parse()?, state))
        }
        "event" => event(rest).map(Act::Event),
        "no-event" => event(rest).map(Act::NoEvent),
        "quiet" if rest.is_empty() => Ok(Act::Quiet(None)),
        "quiet" => Ok(Act::Quiet(Some(time_ns(rest)?))),
        "wait" => Ok(Act::Wait(time_ns(rest)?)),
        "refused" => {
            let (errno, command) = rest.split_once(' ').ok_or("refused ERRNO COMMAND")?;
            if !errno.starts_with('E') {
                return Err(format!("{errno:?} is no errno"));
            }
            Ok(Act::Refused(errno.to_owned(), command.parse()?))
        }
        "needs" => known(rest, names::CAPABILITIES).map(Act::Needs),
        _ => said.parse::<Command>().map(Act::Does),
    }
}

fn none_more(rest: &str) -> Result<(), Reason> {
    if rest.is_empty() { Ok(()) } else { Err(format!("{rest:?} means nothing here")) }
}

fn known<T: Copy>(name: &str, table: &[(&str, T)]) -> Result<String, Reason> {
    let found = names::value(table, name).map(|_| name.to_owned());
    found.ok_or_else(|| format!("{name:?} is not known"))
}

fn event(name: &str) -> Result<String, Reason> {
    let known = names::EVENTS.contains(&name).then(|| name.to_owned());
    known.ok_or_else(|| format!("{name:?} is no event"))
}

fn done(rest: &str) -> Result<DoneSpec, Reason> {
    let mut args = Arguments::new(rest);
    let status = args.pair("status").unwrap_or_else(|| "SUCCESS".into());
    let status = known(&status, names::STATUSES)?;
    let opcode = args.next_word().map(|word| known(&word, names::OPCODES)).transpose()?;
    if opcode.is_some() && status != "SUCCESS" {
        return Err("the opcode of a failed completion means nothing".into());
    }
    let short = |text: &str| {
        let number = number(text)?;
        u32::try_from(number).map(Some).map_err(|_| format!("{number} is too large"))
    };
    let spec = DoneSpec {
        qp: args.pair("qp"),
        id: args.read("id", None, |text| number(text).map(Some))?,
        status,
        opcode,
        flags: args.read("flags", None, flags)?,
        len: args.read("len", None, short)?,
        imm: args.read("imm", None, short)?,
        inv: args.read("inv", None, |text| Value::parse(text).map(Some))?,
        src: args.read("src", None, short)?,
        vendor: args.read("vendor", None, short)?,
    };
    args.finish()?;
    Ok(spec)
}

fn flags(list: &str) -> Result<Option<Vec<String>>, Reason> {
    if list == "-" {
        return Ok(Some(Vec::new()));
    }
    list.split(',').map(|name| known(name, names::FLAGS)).collect::<Result<_, _>>().map(Some)
}
