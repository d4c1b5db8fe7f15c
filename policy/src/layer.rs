//! One layer: its files' rules, judged together.

use std::sync::Arc;

use crate::address::{Address, HostName, Unreadable};
use crate::date::Date;
use crate::matching::Case;
use crate::policies::LayerKind;
use crate::rules::Rule;
use crate::{Decision, Policy, Question, RuleRef, Verb, Verdict};

/// What is known beside verb and URL.
pub(crate) struct Circumstances<'a> {
    pub(crate) initiator: Option<HostName>,
    pub(crate) method: Option<&'a str>,
    pub(crate) today: Date,
}

impl<'a> Circumstances<'a> {
    pub(crate) fn of(question: &Question<'a>, today: Date) -> Circumstances<'a> {
        let initiator = question.initiator.and_then(|url| Address::read(url).ok()).and_then(|address| address.host);
        Circumstances { initiator, method: question.method, today }
    }

    /// For when no rule asks on whose behalf it happens.
    pub(crate) fn without_initiator(question: &Question<'a>, today: Date) -> Circumstances<'a> {
        Circumstances { initiator: None, method: question.method, today }
    }

    pub(crate) fn case<'b>(&'b self, address: &'b Address) -> Case<'b> {
        Case { address, initiator: self.initiator.as_ref(), method: self.method, today: self.today }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Layer<F = Arc<Policy>> {
    kind: LayerKind,
    files: Vec<F>,
    /// `None` when all files are in monitor mode: then the layer changes nothing.
    enforced: Option<Fallback>,
    /// If what is in monitor mode were enforced. `None` when it would be the same.
    on_trial: Option<Fallback>,
}

/// What holds where no rule speaks.
#[derive(Clone, Debug)]
struct Fallback {
    rule: Arc<RuleRef>,
    allows: bool,
    advice: String,
}

/// Whether rules in monitor mode count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Enforced,
    OnTrial,
}

impl Fallback {
    /// The strictest of the files: the first that denies, else the first.
    fn of<'a>(files: impl Iterator<Item = &'a Policy> + Clone) -> Option<Fallback> {
        let file = files.clone().find(|file| !file.default_allows).or_else(|| files.clone().next())?;
        let advice = match file.only_narrows {
            true => "Use what the task was made for, or make one for these hosts too.".to_owned(),
            false => {
                format!("Use what the policy allows, or ask whoever keeps {} for an allow rule.", file.default.file)
            }
        };
        Some(Fallback { rule: file.default.clone(), allows: file.default_allows, advice })
    }

    fn judge(&self, address: &Address) -> Decision {
        match address.scheme.as_str() {
            // Only the web: whoever opens all of it has not thought of the settings and files of this machine.
            "http" | "https" | "ws" | "wss" if self.allows => Decision::allow(&self.rule),
            "http" | "https" | "ws" | "wss" => Decision::deny(&self.rule, "no rule allows it", self.advice.clone()),
            scheme => Decision::deny(&self.rule, format!("no rule names the scheme `{scheme}`"), self.advice.clone()),
        }
    }
}

impl<F: AsRef<Policy>> Layer<F> {
    /// Of at least one file.
    pub(crate) fn new(kind: LayerKind, files: Vec<F>) -> Layer<F> {
        let all = || files.iter().map(AsRef::as_ref);
        let enforced = Fallback::of(all().filter(|file| !file.monitor));
        let watched = all().any(|file| file.monitor || file.rules.iter().any(|rule| rule.monitor));
        let on_trial = if watched { Fallback::of(all()) } else { None };
        Layer { kind, files, enforced, on_trial }
    }

    pub(crate) fn kind(&self) -> LayerKind {
        self.kind
    }

    pub(crate) fn files(&self) -> impl DoubleEndedIterator<Item = &Policy> {
        self.files.iter().map(AsRef::as_ref)
    }

    pub(crate) fn enforced_files(&self) -> impl Iterator<Item = &Policy> {
        self.files().filter(|file| !file.monitor)
    }

    /// Whether a file of it is not in monitor mode.
    pub(crate) fn is_enforced(&self) -> bool {
        self.enforced.is_some()
    }

    /// Whether anything in it is in monitor mode.
    pub(crate) fn has_trial(&self) -> bool {
        self.on_trial.is_some()
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.files().flat_map(|file| &file.rules)
    }

    /// Whether a task may do that, as far as this layer goes. `None` when it has no say, being in monitor mode.
    pub(crate) fn judge(
        &self,
        question: &Question<'_>,
        address: &Result<Address, Unreadable>,
        known: &Circumstances<'_>,
    ) -> Option<Decision> {
        self.enforced.as_ref().map(|fallback| self.verdict(question, address, known, View::Enforced, fallback))
    }

    /// The same if what is in monitor mode were enforced.
    pub(crate) fn judge_on_trial(
        &self,
        question: &Question<'_>,
        address: &Result<Address, Unreadable>,
        known: &Circumstances<'_>,
    ) -> Decision {
        match self.on_trial.as_ref().or(self.enforced.as_ref()) {
            Some(fallback) => self.verdict(question, address, known, View::OnTrial, fallback),
            None => Decision::nothing_loaded(),
        }
    }

    /// Documents at `data:`, `blob:null`, `about:blank` and `about:srcdoc` have the origin of whoever made them, so they are
    /// judged as their `creator`: `"task"` for a client's own, else the URL of the document that made them. Without a
    /// creator they are denied, as is what cannot be read as a URL.
    fn verdict(
        &self,
        question: &Question<'_>,
        address: &Result<Address, Unreadable>,
        known: &Circumstances<'_>,
        view: View,
        fallback: &Fallback,
    ) -> Decision {
        let address = match address {
            Ok(address) => address,
            Err(error) => {
                return Decision::deny(
                    &fallback.rule,
                    error.to_string(),
                    "Give a whole URL with its scheme, for example https://example.com/.",
                );
            }
        };
        if let Some(rule) = self.strictest(question.verb, &known.case(address), view) {
            return Decision::by_rule(rule.effect, &rule.rule, &rule.reason);
        }
        match question.creator {
            Some("task") if address.by_creator => Decision::allow(&fallback.rule),
            Some(creator) if address.by_creator => {
                let inner = Question { url: creator, creator: None, ..*question };
                let mut decision = self.verdict(&inner, &Address::read(creator), known, view, fallback);
                if !decision.allowed() {
                    decision.reason = format!("a `{}:` document is judged as {creator}, which made it", address.scheme);
                }
                decision
            }
            None if address.by_creator => Decision::deny(
                &fallback.rule,
                format!("a `{}:` document is judged as whoever made it, and nobody is known to have", address.scheme),
                "Open it from a page that the policy allows.",
            ),
            _ => fallback.judge(address),
        }
    }

    fn strictest(&self, verb: Verb, case: &Case<'_>, view: View) -> Option<&Rule> {
        let matching = self
            .rules()
            .filter(|rule| rule.names(verb) && (view == View::OnTrial || !rule.monitor) && rule.check(case).is_ok());
        // The first of equally strict ones, so that messages do not change when rules are added below.
        matching.min_by_key(|rule| rule.effect.rank())
    }

    /// Whether nothing but an allow for every http, https, ws and wss URL speaks about `verb`.
    pub(crate) fn allows_everywhere(&self, verb: Verb, today: Date) -> bool {
        match &self.enforced {
            Some(fallback) => self.all_allow(verb, today, View::Enforced, fallback),
            None => true,
        }
    }

    /// The same if what is in monitor mode were enforced.
    pub(crate) fn would_allow_everywhere(&self, verb: Verb, today: Date) -> bool {
        match &self.on_trial {
            Some(fallback) => self.all_allow(verb, today, View::OnTrial, fallback),
            None => self.allows_everywhere(verb, today),
        }
    }

    /// Whether `verb` is allowed at every document that this layer lets in: its rules say of `verb` what they say of documents.
    pub(crate) fn allows_on_documents(&self, verb: Verb) -> bool {
        let documents = [Verb::Navigate, Verb::Frame];
        self.enforced.is_none()
            || self.rules().filter(|rule| !rule.monitor).all(|rule| match rule.effect {
                // Lets documents in, so it has to allow the verb there too, and always.
                Verdict::Allow if documents.iter().any(|document| rule.names(*document)) => {
                    rule.names(verb) && rule.methods.is_empty() && rule.initiator.is_none()
                }
                Verdict::Allow => true,
                // Stops the verb, so it has to stop the documents too.
                Verdict::Confirm | Verdict::Deny => {
                    !rule.names(verb)
                        || (documents.iter().all(|document| rule.names(*document))
                            && rule.methods.is_empty()
                            && rule.initiator.is_none())
                }
            })
    }

    fn all_allow(&self, verb: Verb, today: Date, view: View, fallback: &Fallback) -> bool {
        let mut everywhere = fallback.allows;
        for rule in self.rules().filter(|rule| rule.names(verb) && (view == View::OnTrial || !rule.monitor)) {
            if rule.effect != Verdict::Allow {
                return false;
            }
            everywhere |= rule.is_everywhere(today);
        }
        everywhere
    }
}
