//! May they? Requests in, decisions out: the table of methods and events, the policy file, and the judgement of URLs.
//!
//! Pure functions: no I/O, no clock, no async. What cannot be understood is denied. Only [`admit`], next to [`decide`],
//! turns a decision into the [`Permitted`] value without which the engine cannot send anything.

mod address;
mod canonical;
mod date;
mod decide;
mod decision;
mod file;
mod layer;
pub mod methods;
mod narrowing;
mod pattern;
mod policies;
mod rules;
#[cfg(test)]
mod tests;
mod verb;

pub use date::Date;
pub use decide::{Grants, Request, Surface, decide};
pub use decision::{Decision, Permitted, RuleRef, Verdict, admit};
pub use file::PolicyError;
pub use policies::{LayerKind, Policies, Question};
pub use rules::{Policy, TestFailure};
pub use verb::Verb;

/// Whether the text reads as an absolute URL at all. Nothing that does not is ever allowed.
pub fn is_url(text: &str) -> bool {
    url::Url::parse(text).is_ok()
}
