//! May they? Requests in, decisions out: the table of methods and events, the policy file, and the judgement of URLs.
//!
//! Pure functions: no I/O, no clock, no async. What cannot be understood is denied. Only [`admit`], next to [`decide`],
//! turns a decision into the [`Permitted`] value without which the engine cannot send anything.

mod address;
mod canonical;
mod channels;
mod date;
mod decide;
mod decision;
mod explain;
mod file;
mod layer;
mod limits;
mod lint;
mod matching;
pub mod methods;
mod names;
mod narrowing;
mod pattern;
mod policies;
mod rules;
#[cfg(test)]
mod tests;
mod verb;

pub use channels::{Channel, ChannelName, Mode, Unenforceable};
pub use date::Date;
pub use decide::{
    Grants, Request, Surface, beyond_rules, decide, leads_out, over_download_limit, over_navigation_limit,
    over_tab_limit,
};
pub use decision::{Decision, Permitted, RuleRef, Verdict, admit};
pub use explain::{Candidate, Explanation, LayerExplanation};
pub use file::PolicyError;
pub use limits::{Limit, Limits, common_dirs};
pub use lint::{Lint, Severity};
pub use policies::{LayerKind, Policies, Question};
pub use rules::{Included, Policy, TestFailure};
pub use verb::Verb;

/// Whether the text reads as an absolute URL at all. Nothing that does not is ever allowed.
pub fn is_url(text: &str) -> bool {
    url::Url::parse(text).is_ok()
}
