//! What was decided and by which rule, and the proof that something was allowed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// From strict to lax is `Deny`, `Confirm`, `Allow`: of several, the strictest holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// A person has to say yes. Without an approver this denies, and the sentence says so.
    Confirm,
    Deny,
}

impl Verdict {
    /// Low is strict.
    pub(crate) fn rank(self) -> u8 {
        match self {
            Verdict::Deny => 0,
            Verdict::Confirm => 1,
            Verdict::Allow => 2,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Confirm => "confirm",
            Verdict::Deny => "deny",
        }
    }
}

/// Where a decision comes from: a rule of a policy file, or a row of the method table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleRef {
    pub id: String,
    pub file: String,
    /// One-based; 0 for what stands in no file.
    pub line: u32,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{} ({})", self.id, self.file),
            line => write!(f, "{} ({}:{line})", self.id, self.file),
        }
    }
}

/// The private field keeps others from making one: decisions come from this crate only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    pub rule: Arc<RuleRef>,
    /// Why, for a person; without a full stop. Empty where an allowing rule gives none.
    pub reason: String,
    /// What to do about a refusal; a sentence, or empty where the reason says it.
    advice: Cow<'static, str>,
    /// What a rule or file in monitor mode would have decided otherwise. It changes nothing; the audit keeps it.
    pub would: Option<Box<Decision>>,
}

impl Decision {
    pub(crate) fn allow(rule: &Arc<RuleRef>) -> Decision {
        Decision {
            verdict: Verdict::Allow,
            rule: rule.clone(),
            reason: String::new(),
            advice: Cow::Borrowed(""),
            would: None,
        }
    }

    pub(crate) fn deny(
        rule: &Arc<RuleRef>,
        reason: impl Into<String>,
        advice: impl Into<Cow<'static, str>>,
    ) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            rule: rule.clone(),
            reason: reason.into(),
            advice: advice.into(),
            would: None,
        }
    }

    /// There always is a layer; should there be none, nothing is allowed.
    pub(crate) fn nothing_loaded() -> Decision {
        let rule = RuleRef { id: "default".to_owned(), file: "no policy".to_owned(), line: 0 };
        Decision::deny(&Arc::new(rule), "no policy is loaded", "Give the server a policy file.")
    }

    pub(crate) fn by_rule(verdict: Verdict, rule: &Arc<RuleRef>, reason: &str) -> Decision {
        let (reason, advice) = match verdict {
            Verdict::Allow => (reason.to_owned(), ""),
            Verdict::Confirm => (
                join(reason, "a person has to confirm it, and this version has nobody to ask"),
                "Use what is allowed without confirmation, or ask whoever keeps the policy file for an allow rule.",
            ),
            Verdict::Deny => {
                (reason.to_owned(), "Use what the policy allows, or ask whoever keeps the policy file to change it.")
            }
        };
        Decision { verdict, rule: rule.clone(), reason, advice: Cow::Borrowed(advice), would: None }
    }

    /// Whether it may happen now. A confirmation that nobody can give is no permission.
    pub fn allowed(&self) -> bool {
        self.verdict == Verdict::Allow
    }

    /// The refusal for `what`, which is a verb and its object (`navigate to https://x.test/`), standing alone: clients
    /// print the message of an error and drop everything beside it.
    pub fn sentence(&self, what: &str) -> String {
        let verb = match self.verdict {
            Verdict::Allow => "allowed",
            Verdict::Confirm | Verdict::Deny => "denied",
        };
        let mut text = format!("tabwarden: {what} {verb} by rule {}", self.rule);
        if !self.reason.is_empty() {
            text.push_str(": ");
            text.push_str(self.reason.trim_end_matches('.'));
        }
        text.push('.');
        if !self.advice.is_empty() {
            text.push(' ');
            text.push_str(&self.advice);
        }
        text
    }
}

fn join(first: &str, second: &str) -> String {
    match first.trim_end_matches('.') {
        "" => second.to_owned(),
        first => format!("{first}; {second}"),
    }
}

/// Proof that `T` was allowed. There is no way to make one but [`admit`].
#[derive(Debug)]
pub struct Permitted<T>(T);

impl<T> Permitted<T> {
    pub fn into_inner(self) -> T {
        self.0
    }

    pub fn get(&self) -> &T {
        &self.0
    }
}

/// The only door: `thing` goes through when the decision allows it, and is dropped otherwise.
pub fn admit<T>(decision: &Decision, thing: T) -> Option<Permitted<T>> {
    decision.allowed().then_some(Permitted(thing))
}
