//! One layer: its files' rules, judged together.

use std::sync::Arc;

use crate::address::{Address, Unreadable};
use crate::date::Date;
use crate::policies::LayerKind;
use crate::rules::Rule;
use crate::{Decision, Policy, Question, RuleRef, Verb, Verdict};

#[derive(Debug)]
pub(crate) struct Layer<F = Arc<Policy>> {
    kind: LayerKind,
    /// Never empty.
    files: Vec<F>,
    /// The `default =` of its first file, for what no rule speaks about.
    default: Arc<RuleRef>,
    advice: String,
}

impl<F: AsRef<Policy>> Layer<F> {
    pub(crate) fn new(kind: LayerKind, files: Vec<F>) -> Layer<F> {
        let default = files.first().map(|file| file.as_ref().default.clone()).unwrap_or_default();
        let advice = match files.iter().all(|file| file.as_ref().only_narrows) {
            true => "Use what the task was made for, or make one for these hosts too.".to_owned(),
            false => format!("Use what the policy allows, or add an allow rule to {}.", default.file),
        };
        Layer { kind, files, default, advice }
    }

    pub(crate) fn kind(&self) -> LayerKind {
        self.kind
    }

    pub(crate) fn files(&self) -> impl DoubleEndedIterator<Item = &Policy> {
        self.files.iter().map(AsRef::as_ref)
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.files().flat_map(|file| &file.rules)
    }

    /// Whether a task may do that, as far as this layer goes.
    ///
    /// Documents at `data:`, `blob:null`, `about:blank` and `about:srcdoc` have the origin of whoever made them, so they are
    /// judged as their `creator`: `"task"` for a client's own, else the URL of the document that made them. Without a
    /// creator they are denied, as is what cannot be read as a URL.
    pub(crate) fn judge(
        &self,
        question: &Question<'_>,
        address: &Result<Address, Unreadable>,
        today: Date,
    ) -> Decision {
        let address = match address {
            Ok(address) => address,
            Err(error) => {
                return Decision::deny(
                    &self.default,
                    error.to_string(),
                    "Give a whole URL with its scheme, for example https://example.com/.",
                );
            }
        };
        if let Some(rule) = self.strictest(question.verb, address, today) {
            return Decision::by_rule(rule.effect, &rule.rule, &rule.reason);
        }
        match question.creator {
            Some("task") if address.by_creator => Decision::allow(&self.default),
            Some(creator) if address.by_creator => {
                let inner = Question { url: creator, creator: None, ..*question };
                let mut decision = self.judge(&inner, &Address::read(creator), today);
                if !decision.allowed() {
                    decision.reason = format!("a `{}:` document is judged as {creator}, which made it", address.scheme);
                }
                decision
            }
            None if address.by_creator => Decision::deny(
                &self.default,
                format!("a `{}:` document is judged as whoever made it, and nobody is known to have", address.scheme),
                "Open it from a page that the policy allows.",
            ),
            _ => self.by_default(address),
        }
    }

    fn by_default(&self, address: &Address) -> Decision {
        let reason = match address.scheme.as_str() {
            "http" | "https" | "ws" | "wss" => "no rule allows it".to_owned(),
            scheme => format!("no rule names the scheme `{scheme}`"),
        };
        Decision::deny(&self.default, reason, self.advice.clone())
    }

    fn strictest(&self, verb: Verb, address: &Address, _today: Date) -> Option<&Rule> {
        let matching = self.rules().filter(|rule| rule.matches(verb, address));
        // The first of equally strict ones, so that messages do not change when rules are added below.
        matching.min_by_key(|rule| match rule.effect {
            Verdict::Deny => 0,
            Verdict::Confirm => 1,
            Verdict::Allow => 2,
        })
    }

    /// Whether nothing but one allow for every http, https, ws and wss URL speaks about `verb`.
    pub(crate) fn allows_everywhere(&self, verb: Verb, _today: Date) -> bool {
        let mut speaking = self.rules().filter(|rule| rule.verbs.contains(verb)).peekable();
        let mut everywhere = false;
        speaking.all(|rule| {
            everywhere |= rule.is_everywhere();
            rule.effect == Verdict::Allow
        }) && everywhere
    }
}
