//! The judgement of a scenario: answers against the recorded ones, memory and states against rules.
//!
//! A declared difference is *demanded*: an answer that agrees with the recording where a difference
//! is declared is as wrong as one that differs where none is.

use std::fmt;

use softrnic_model::verbs::{QpState, QpType, WcStatus};

use crate::difference::{Difference, Oddity};
use crate::recorded::{Answer, Recording};
use crate::scenario::{Observation, Outcome, Side};

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a judgement finds.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Differences that were declared and are there.
    pub differences: Vec<Oddity>,
    /// Everything else that is not as recorded, or not as it must be.
    pub problems: Vec<Problem>,
}

/// What one side is to be told of a scenario.
#[derive(Clone, Debug)]
pub struct Right {
    /// The answer.
    pub answer: Answer,
    /// Why it is not the recorded one, if so.
    pub differences: Vec<Oddity>,
    /// Differences that are declared, and make none of the recorded answer.
    void: Vec<Oddity>,
}

impl Right {
    /// The recorded answer but for the declared differences; none if that was not recorded.
    #[must_use]
    pub fn of(
        scenario: &str,
        side: Side,
        recording: &Recording,
        declared: &[Difference],
    ) -> Option<Self> {
        let answer = recording.answer(scenario, side)?.clone();
        let mut right = Self { answer, differences: Vec::new(), void: Vec::new() };
        let applies = |d: &&Difference| d.side == side && d.scenarios.contains(&scenario);
        for difference in declared.iter().filter(applies) {
            let before = right.answer.clone();
            difference.right.apply(&mut right.answer);
            if right.answer == before {
                right.void.push(difference.why);
            }
            right.differences.push(difference.why);
        }
        Some(right)
    }

    /// Whether that is a completion.
    #[must_use]
    pub fn is_completion(&self) -> bool {
        matches!(&self.answer, Answer::Completed(lines) if !lines.is_empty())
    }
}

/// Holds what was observed against what was recorded, but for the declared differences, and against
/// the rules about memory and states.
#[must_use]
pub fn judge(
    observation: &Observation,
    qp_type: QpType,
    recording: &Recording,
    declared: &[Difference],
) -> Verdict {
    let name = observation.scenario.name;
    let mut verdict = Verdict::default();
    for side in Side::ALL {
        let Some(right) = Right::of(name, side, recording, declared) else {
            verdict.problems.push(Problem(format!("{name} was not recorded")));
            continue;
        };
        let void = |why| Problem(format!("{side}: the recording does not have the oddity {why:?}"));
        verdict.problems.extend(right.void.iter().map(void));
        let found = Answer::from(&observation.outcomes[side as usize]);
        if found != right.answer {
            let text = format!(
                "{side}: {found:?}\n  right is {:?}\n  recorded {:?}",
                right.answer,
                recording.answer(name, side)
            );
            verdict.problems.push(Problem(text));
        }
        verdict.differences.extend(right.differences);
        let expected = state_after(side, &observation.outcomes[0], qp_type);
        let state = observation.states[side as usize];
        if state != expected {
            let text = format!("the {side} is in state {state:?}, not {expected:?}");
            verdict.problems.push(Problem(text));
        }
    }
    let wrong_bytes = observation.wrong_bytes.iter();
    verdict.problems.extend(wrong_bytes.map(|byte| Problem(byte.to_string())));
    verdict
}

/// The state that a queue pair must be in, told from how the work request ended: a failed one of RC
/// is fatal to the requester, and to a responder that refused it for good (IBA volume 1, 9.9.3,
/// 10.3.1).
fn state_after(side: Side, requester: &Outcome, qp_type: QpType) -> QpState {
    let status = match requester {
        Outcome::Completed(wcs) => wcs.last().map_or(WcStatus::Success, |wc| wc.status),
        Outcome::Refused(_) => WcStatus::Success,
    };
    let refused = matches!(
        status,
        WcStatus::RemoteInvalidRequest
            | WcStatus::RemoteAccessError
            | WcStatus::RemoteOperationError
    );
    match side {
        Side::Requester if status != WcStatus::Success && qp_type == QpType::Rc => QpState::Err,
        Side::Requester if status != WcStatus::Success => QpState::Sqe,
        Side::Responder if refused => QpState::Err,
        Side::Requester | Side::Responder => QpState::Rts,
    }
}
