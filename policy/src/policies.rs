//! Everything that holds for one task: layers of policy files, of which each can only narrow what the others allow.

use std::sync::Arc;

use crate::{Decision, Policy, Verb, Verdict};

/// Whether `verb` may happen at `url`, and what is known of the circumstances.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub verb: Verb,
    pub url: &'a str,
    /// Who made a document that has its maker's origin (`data:`, `blob:null`, `about:blank`): `"task"` for a client's own,
    /// else the URL of the document that made it.
    pub creator: Option<&'a str>,
    /// The document on whose behalf it happens, for rules with `when`.
    pub initiator: Option<&'a str>,
    /// Of HTTP, in upper case; `None` where there is no request (yet): rules that name methods then match none that allow
    /// and all that deny.
    pub method: Option<&'a str>,
}

impl<'a> Question<'a> {
    pub fn new(verb: Verb, url: &'a str) -> Question<'a> {
        Question { verb, url, creator: None, initiator: None, method: None }
    }

    pub fn created_by(self, creator: Option<&'a str>) -> Question<'a> {
        Question { creator, ..self }
    }

    pub fn on_behalf_of(self, initiator: Option<&'a str>) -> Question<'a> {
        Question { initiator, ..self }
    }

    pub fn with_method(self, method: Option<&'a str>) -> Question<'a> {
        Question { method, ..self }
    }
}

/// The policy of one task: the strictest of its layers. Immutable; shared as `Arc<Policies>`.
#[derive(Debug)]
pub struct Policies {
    /// The task's own is the last one. Never empty.
    layers: Vec<Arc<Policy>>,
    hash: String,
}

impl From<Arc<Policy>> for Policies {
    fn from(policy: Arc<Policy>) -> Policies {
        Policies { layers: vec![policy], hash: String::new() }
    }
}

impl Policies {
    pub fn built_in() -> Policies {
        Policies::from(Arc::new(Policy::built_in()))
    }

    /// Of the task's own layer.
    pub fn name(&self) -> &str {
        self.layers.last().map_or("none", |policy| policy.name())
    }

    /// `sha256:…` of all layers in canonical form: which set of rules a decision was made by.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let decisions = self.layers.iter().map(|policy| policy.judge(question));
        let strictness = |decision: &Decision| match decision.verdict {
            Verdict::Deny => 0,
            Verdict::Confirm => 1,
            Verdict::Allow => 2,
        };
        decisions.min_by_key(strictness).unwrap_or_else(|| Policy::built_in().judge(&Question::new(question.verb, "")))
    }

    /// Whether `verb` is allowed at every http, https, ws and wss URL, whoever asks: then no gate is needed for it.
    pub fn allows_everywhere(&self, verb: Verb) -> bool {
        self.layers.iter().all(|policy| policy.allows_everywhere(verb))
    }
}
