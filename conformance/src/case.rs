//! Cases: a rule, and one outcome that it demands.
//!
//! A case is a packet script, or a function over two ends that use the verbs. Its name is the rule's
//! with a variant behind it, `rc-responder/gap-nak/write`, and there is one for every outcome: repeats
//! over sizes or addresses are one case.

use std::borrow::Cow;
use std::fmt;

use softrnic_model::profile::Profile;
use softrnic_model::verbs::VerbError;

use crate::lab::Family;
use crate::rules::family_of;
use crate::script::{self, Script};
use crate::stage::Stage;

/// One case.
pub struct Case {
    /// The rule: `family/slug`.
    pub rule: Cow<'static, str>,
    /// Which outcome of it.
    pub variant: Cow<'static, str>,
    /// The profile that it is about; any if nothing is said.
    pub profile: Option<Profile>,
    /// How it is found out.
    pub body: Body,
}

/// How a case is found out.
pub enum Body {
    /// By packets.
    Script(Cow<'static, str>),
    /// By the verbs at two ends.
    Verbs(Box<VerbsBody>),
}

/// What a case does with two ends.
pub type VerbsBody = dyn Fn(&mut Stage) -> Outcome + Send + Sync;

/// How a case over the verbs ends; success is a pass.
pub type Outcome<T = ()> = Result<T, Problem>;

/// Why a case does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The device did something else.
    Failed(String),
    /// Something is not what it should be.
    Unequal {
        /// The same as a sentence.
        why: String,
        /// What it is.
        got: String,
        /// What it should be.
        expected: String,
    },
    /// The device cannot be asked this; why.
    NotApplicable(String),
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should.
    Pass,
    /// Otherwise; how.
    Fail(String),
    /// The device cannot be asked this; why.
    NotApplicable(String),
}

impl Case {
    /// Its whole name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.rule, self.variant)
    }

    /// The same, for this profile only.
    #[must_use]
    pub fn with_profile(self, profile: Profile) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// Versions of IP that it is run over besides that of a device's first address: what it is about
    /// differs between them. It is one case all the same.
    #[must_use]
    pub fn also_over(&self) -> &'static [Family] {
        /// Families of rules about headers, their checksum, and addresses.
        const BOTH: [&str; 4] = ["packet-format", "icrc", "ud", "congestion"];
        if BOTH.contains(&family_of(&self.rule)) { &[Family::V6] } else { &[] }
    }

    /// Its script, understood; `None` if it has none.
    ///
    /// # Errors
    /// Where the script cannot be understood.
    pub fn script(&self) -> Result<Option<Script>, script::ParseError> {
        match &self.body {
            Body::Script(text) => script::parse(text).map(Some),
            Body::Verbs(_) => Ok(None),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Script(_) => "Script",
            Self::Verbs(_) => "Verbs",
        })
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name()).finish()
    }
}

/// A case by packets. `rule` is the whole id.
#[must_use]
pub fn script(
    rule: impl Into<Cow<'static, str>>,
    variant: impl Into<Cow<'static, str>>,
    text: impl Into<Cow<'static, str>>,
) -> Case {
    let body = Body::Script(text.into());
    Case { rule: rule.into(), variant: variant.into(), profile: None, body }
}

/// A case by the verbs at two ends. `rule` is the whole id.
#[must_use]
pub fn verbs(
    rule: impl Into<Cow<'static, str>>,
    variant: impl Into<Cow<'static, str>>,
    act: impl Fn(&mut Stage) -> Outcome + Send + Sync + 'static,
) -> Case {
    let body = Body::Verbs(Box::new(act));
    Case { rule: rule.into(), variant: variant.into(), profile: None, body }
}

impl From<VerbError> for Problem {
    /// What a device does not have at all cannot be judged.
    fn from(error: VerbError) -> Self {
        if let VerbError::NotSupported(_) = error {
            return Self::NotApplicable(error.to_string());
        }
        Self::Failed(format!("the device refused: {error}"))
    }
}

impl From<softrnic_verbs::PostError> for Problem {
    fn from(refused: softrnic_verbs::PostError) -> Self {
        Self::Failed(format!("the work request was refused: {}", refused.error))
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(()) => Self::Pass,
            Err(Problem::Failed(why) | Problem::Unequal { why, .. }) => Self::Fail(why),
            Err(Problem::NotApplicable(why)) => Self::NotApplicable(why),
        }
    }
}

/// What [`same!`] says of two things that differ. Of runs of bytes only the beginning is shown.
#[doc(hidden)]
pub fn unequal(what: &str, got: &dyn fmt::Debug, expected: &dyn fmt::Debug) -> Problem {
    const SHOWN: usize = 160;
    let short = |value: &dyn fmt::Debug| {
        let text = format!("{value:?}");
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}..", &text[..end]),
            None => text,
        }
    };
    let (got, expected) = (short(got), short(expected));
    let why = format!("{what}: {got}, expected {expected}");
    Problem::Unequal { why, got: format!("{what}: {got}"), expected }
}

/// Fails the case unless the condition holds; the rest says what is wrong, as in `format!`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return ::core::result::Result::Err($crate::case::Problem::Failed(format!($($why)+)));
        }
    };
}

/// Fails the case unless both are equal; the third says what they are.
#[macro_export]
macro_rules! same {
    ($got:expr, $expected:expr, $($what:tt)+) => {{
        let (got, expected) = (&$got, &$expected);
        if got != expected {
            let what = format!($($what)+);
            return ::core::result::Result::Err($crate::case::unequal(&what, got, expected));
        }
    }};
}
