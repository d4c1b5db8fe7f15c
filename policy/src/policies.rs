//! Everything that holds for one task: layers of policy files, of which each can only narrow what the others allow.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::address::Address;
use crate::canonical;
use crate::date::Date;
use crate::layer::Layer;
use crate::{Decision, Policy, PolicyError, RuleRef, Verb, Verdict};

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

/// Where a layer's authority comes from: the place and owner of its files, never something that they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    Admin,
    Server,
    Task,
}

impl fmt::Display for LayerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LayerKind::Admin => "admin",
            LayerKind::Server => "server",
            LayerKind::Task => "task",
        })
    }
}

/// The policy of one task: the strictest of its layers. Immutable; shared as `Arc<Policies>`.
#[derive(Debug)]
pub struct Policies {
    /// Never empty.
    layers: Vec<Layer>,
    hash: String,
    today: Date,
}

/// One file alone, on a day on which everything that expires has.
impl From<Arc<Policy>> for Policies {
    fn from(policy: Arc<Policy>) -> Policies {
        Policies::of(vec![Layer::new(LayerKind::Server, vec![policy])], Date::LATEST)
    }
}

impl Policies {
    pub fn built_in() -> Policies {
        Policies::from(Arc::new(Policy::built_in()))
    }

    /// The rules of one layer are judged together; of the layers, the strictest holds, and their order means nothing. There
    /// may be several of a kind. A layer without files is left out, and without any the built-in default holds.
    ///
    /// A file may be in several layers. Two rules of one id are an error, which names both.
    pub fn layered(layers: Vec<(LayerKind, Vec<Arc<Policy>>)>, today: Date) -> Result<Policies, PolicyError> {
        unique_ids(layers.iter().flat_map(|(_, files)| files))?;
        let layers: Vec<Layer> = layers
            .into_iter()
            .filter(|(_, files)| !files.is_empty())
            .map(|(kind, files)| Layer::new(kind, files))
            .collect();
        if layers.is_empty() {
            return Ok(Policies { today, ..Policies::built_in() });
        }
        Ok(Policies::of(layers, today))
    }

    fn of(layers: Vec<Layer>, today: Date) -> Policies {
        let hash = canonical::hash(&layers);
        Policies { layers, hash, today }
    }

    /// Of the task's own policy: that of the last layer which does not merely narrow.
    pub fn name(&self) -> &str {
        let mut files = self.layers.iter().rev().flat_map(Layer::files);
        files.find(|file| !file.only_narrows).map_or("none", |policy| policy.name())
    }

    /// The layer and name of every file.
    pub fn names(&self) -> impl Iterator<Item = (LayerKind, &str)> {
        self.layers.iter().flat_map(|layer| layer.files().map(|file| (layer.kind(), file.name())))
    }

    /// `sha256:…` of all layers in canonical form: which set of rules a decision was made by. The order of files and rules,
    /// and where they stand, do not change it.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let address = Address::read(question.url);
        let decisions = self.layers.iter().map(|layer| layer.judge(question, &address, self.today));
        let strictness = |decision: &Decision| match decision.verdict {
            Verdict::Deny => 0,
            Verdict::Confirm => 1,
            Verdict::Allow => 2,
        };
        decisions.min_by_key(strictness).unwrap_or_else(nothing_loaded)
    }

    /// Whether `verb` is allowed at every http, https, ws and wss URL, whoever asks: then no gate is needed for it.
    pub fn allows_everywhere(&self, verb: Verb) -> bool {
        self.layers.iter().all(|layer| layer.allows_everywhere(verb, self.today))
    }
}

/// There always is a layer; should there be none, nothing is allowed.
fn nothing_loaded() -> Decision {
    let rule = RuleRef { id: "default".to_owned(), file: "no policy".to_owned(), line: 0 };
    Decision::deny(&Arc::new(rule), "no policy is loaded", "Give the server a policy file.")
}

fn unique_ids<'a>(files: impl Iterator<Item = &'a Arc<Policy>>) -> Result<(), PolicyError> {
    let mut seen: HashMap<&str, &RuleRef> = HashMap::new();
    for rule in files.filter(|file| !file.only_narrows).flat_map(|file| &file.rules) {
        let here = &*rule.rule;
        match seen.insert(&here.id, here) {
            // The same file, in another layer.
            Some(there) if there == here => {}
            Some(there) => {
                let message = format!(
                    "the id `{}` is already that of the rule in {}:{}, and ids are unique over all files that are loaded: give one of them another",
                    here.id, there.file, there.line
                );
                return Err(PolicyError { file: here.file.clone(), line: here.line, column: 1, message });
            }
            None => {}
        }
    }
    Ok(())
}
