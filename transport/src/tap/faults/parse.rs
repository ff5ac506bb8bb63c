//! The text form of fault rules:
//!
//! ```text
//! drop=1%,reorder=2%,duplicate=0.5%,delay=1%:500us,corrupt=0.1%,ecn=5%,seed=7
//! ```
//!
//! A fault befalls a share of the frames (`1%`) or one of them (`#3`, the third). `side`, `opcode`
//! and `qp` limit all faults of the text to some frames; `seed` chooses the chances.

use std::error::Error;
use std::fmt;

use softrnic_model::verbs::QpNum;

use super::rules::{Effect, FaultRule, Match, Opcodes, Pick};
use super::{Direction, FaultRules};

const ALLOWED: &str = "drop=1%, reorder=1%, duplicate=1%, corrupt=1%, ecn=1%, delay=1%:500us \
                       (or #3 for the third frame instead of a share), seed=7, side=tx|rx|both, \
                       opcode=RDMA_WRITE_ONLY, qp=0x12";
const HUNDRED_PERCENT: u64 = 1_000_000;

/// Which item of a text is wrong, and what is allowed instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFaultsError {
    item: String,
    problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    UnknownName,
    NoValue,
    Share,
    Duration,
    NoDuration,
    UnwantedDuration,
    Seed,
    Side,
    Opcode,
    Qp,
    Twice,
}

impl fmt::Display for ParseFaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault rule {:?}: ", self.item)?;
        f.write_str(match self.problem {
            Problem::UnknownName => "no such rule",
            Problem::NoValue => "a value is missing",
            Problem::Share => {
                "not a share between 0% and 100% (down to 0.0001%), nor a frame as #3"
            }
            Problem::Duration => "not a time as 500ns, 500us, 5ms or 1s",
            Problem::NoDuration => "a time is missing, as in delay=1%:500us",
            Problem::UnwantedDuration => "takes no time",
            Problem::Seed => "not a number",
            Problem::Side => "neither tx nor rx nor both",
            Problem::Opcode => "no such opcode; use the name as traces print it",
            Problem::Qp => "not a queue pair number",
            Problem::Twice => "said before",
        })?;
        write!(f, "; allowed are {ALLOWED}")
    }
}

impl Error for ParseFaultsError {}

impl FaultRules {
    /// Reads the text form (see the module). An empty text means no rules.
    ///
    /// # Errors
    /// Which item is wrong, and what is allowed.
    pub fn parse(text: &str) -> Result<Self, ParseFaultsError> {
        Self::parse_seeded(text, 0)
    }

    /// The same; `otherwise` is the seed of a text that names none.
    ///
    /// # Errors
    /// As [`FaultRules::parse`].
    pub fn parse_seeded(text: &str, otherwise: u64) -> Result<Self, ParseFaultsError> {
        let mut parsed = Parsed::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            parsed
                .take(item)
                .map_err(|problem| ParseFaultsError { item: item.to_owned(), problem })?;
        }
        let Parsed { faults, matches, seed, .. } = parsed;
        let rule = |(index, (_, pick, effect))| {
            FaultRule::in_list(matches.clone(), pick, effect, seed.unwrap_or(otherwise), index)
        };
        Ok((0..).zip(faults).map(rule).fold(Self::new(), Self::with))
    }
}

#[derive(Default)]
struct Parsed {
    faults: Vec<(String, Pick, Effect)>,
    matches: Match,
    seed: Option<u64>,
    side: bool,
}

impl Parsed {
    fn take(&mut self, item: &str) -> Result<(), Problem> {
        let (name, value) = item.split_once('=').unwrap_or((item, ""));
        let (name, value) = (name.trim(), value.trim());
        let effect = match name {
            "drop" => Effect::Drop,
            "reorder" => Effect::Reorder,
            "duplicate" => Effect::Duplicate,
            "delay" => Effect::Delay(0),
            "corrupt" => Effect::Corrupt,
            "ecn" => Effect::MarkCe,
            _ => return self.take_setting(name, value),
        };
        if value.is_empty() {
            return Err(Problem::NoValue);
        }
        let (pick, duration) = match value.split_once(':') {
            Some((pick, duration)) => (pick, Some(duration)),
            None => (value, None),
        };
        let pick = parse_pick(pick.trim()).ok_or(Problem::Share)?;
        let effect = match (effect, duration) {
            (Effect::Delay(_), None) => return Err(Problem::NoDuration),
            (Effect::Delay(_), Some(duration)) => {
                Effect::Delay(parse_ns(duration.trim()).ok_or(Problem::Duration)?)
            }
            (_, Some(_)) => return Err(Problem::UnwantedDuration),
            (effect, None) => effect,
        };
        // several frames may be named one by one, but only one share of each kind makes sense
        let share = |pick: &Pick| matches!(pick, Pick::Chance(_));
        if share(&pick) && self.faults.iter().any(|(other, pick, _)| other == name && share(pick)) {
            return Err(Problem::Twice);
        }
        self.faults.push((name.to_owned(), pick, effect));
        Ok(())
    }

    fn take_setting(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        let said = match name {
            "seed" => self.seed.is_some(),
            "side" => self.side,
            "opcode" => self.matches.opcodes.is_some(),
            "qp" => self.matches.dest_qp.is_some(),
            _ => return Err(Problem::UnknownName),
        };
        if said {
            return Err(Problem::Twice);
        }
        if value.is_empty() {
            return Err(Problem::NoValue);
        }
        match name {
            "seed" => self.seed = Some(parse_number(value).ok_or(Problem::Seed)?),
            "side" => {
                self.side = true;
                self.matches.direction = match value {
                    "tx" => Some(Direction::Sent),
                    "rx" => Some(Direction::Received),
                    "both" => None,
                    _ => return Err(Problem::Side),
                };
            }
            "opcode" => {
                self.matches.opcodes = Some(Opcodes::named(value).ok_or(Problem::Opcode)?);
            }
            _ => {
                let number = parse_number(value).and_then(|number| u32::try_from(number).ok());
                let number = number.filter(|number| *number < 1 << 24).ok_or(Problem::Qp)?;
                self.matches.dest_qp = Some(QpNum::new(number));
            }
        }
        Ok(())
    }
}

/// `0x12` or `18`.
fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `1.5%` or `#3`.
fn parse_pick(text: &str) -> Option<Pick> {
    if let Some(number) = text.strip_prefix('#') {
        return number.parse().ok().filter(|number| *number > 0).map(Pick::Nth);
    }
    // parts of a million: four digits behind the point
    let share = parse_decimal(text.strip_suffix('%')?.trim_end(), 4)?;
    u32::try_from(share).ok().filter(|_| share <= HUNDRED_PERCENT).map(Pick::Chance)
}

/// `500us`, `1.5ms`, in nanoseconds.
fn parse_ns(text: &str) -> Option<u64> {
    let units = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
    let (number, digits) = units
        .into_iter()
        .find_map(|(unit, digits)| Some((text.strip_suffix(unit)?.trim_end(), digits)))?;
    parse_decimal(number, digits)
}

/// A decimal number times 10 to the `digits`, if that is a whole number.
fn parse_decimal(text: &str, digits: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > digits || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let zeros = digits - fraction.len();
    format!("{whole}{fraction}{:0<zeros$}", "").parse().ok()
}
