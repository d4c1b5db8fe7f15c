//! Everything that holds for one task: layers of policy files, of which each can only narrow what the others allow.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use crate::address::Address;
use crate::canonical;
use crate::date::Date;
use crate::layer::{Circumstances, Layer};
use crate::limits::{Limits, common_dirs};
use crate::{Decision, Policy, PolicyError, RuleRef, Verb};

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
#[derive(Clone, Debug)]
pub struct Policies {
    layers: Vec<Layer>,
    /// The built-in default, where no layer is enforced.
    floor: Option<Layer>,
    hash: String,
    today: Date,
    /// Whether some rule asks on whose behalf a thing happens.
    asks_initiator: bool,
    /// Whether something is in monitor mode.
    has_trial: bool,
}

/// Read once, since it is asked for wherever a page belongs to no task.
static FLOOR: LazyLock<Layer> = LazyLock::new(|| Layer::new(LayerKind::Server, vec![Arc::new(Policy::built_in())]));
static BUILT_IN: LazyLock<Policies> = LazyLock::new(|| Policies::of(Vec::new(), Date::LATEST));

/// One file alone, on a day on which everything that expires has.
impl From<Arc<Policy>> for Policies {
    fn from(policy: Arc<Policy>) -> Policies {
        Policies::of(vec![Layer::new(LayerKind::Server, vec![policy])], Date::LATEST)
    }
}

impl Policies {
    pub fn built_in() -> Policies {
        Policies::clone(&BUILT_IN)
    }

    /// The rules of one layer are judged together; of the layers, the strictest holds, and their order means nothing. There
    /// may be several of a kind. A layer without files is left out, and one whose files are all in monitor mode has no say.
    /// Where none has, the built-in default holds.
    ///
    /// A file may be in several layers. Two rules of one id are an error, which names both.
    pub fn layered(layers: Vec<(LayerKind, Vec<Arc<Policy>>)>, today: Date) -> Result<Policies, PolicyError> {
        unique_ids(layers.iter().flat_map(|(_, files)| files))?;
        let layers = layers.into_iter().filter(|(_, files)| !files.is_empty());
        Ok(Policies::of(layers.map(|(kind, files)| Layer::new(kind, files)).collect(), today))
    }

    fn of(layers: Vec<Layer>, today: Date) -> Policies {
        let floor = (!layers.iter().any(Layer::is_enforced)).then(|| FLOOR.clone());
        let all = || layers.iter().chain(&floor);
        let asks_initiator = all().flat_map(Layer::rules).any(|rule| rule.initiator.is_some());
        let has_trial = all().any(Layer::has_trial);
        let hash = canonical::hash(all());
        Policies { layers, floor, hash, today, asks_initiator, has_trial }
    }

    /// The same on another day.
    pub fn on(&self, today: Date) -> Policies {
        Policies { today, ..self.clone() }
    }

    pub(crate) fn layers(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.layers.iter().chain(&self.floor)
    }

    pub(crate) fn today(&self) -> Date {
        self.today
    }

    /// Of the task's own policy: that of the last layer which does not merely narrow.
    pub fn name(&self) -> &str {
        let mut files = self.layers.iter().rev().chain(&self.floor).flat_map(|layer| layer.files().rev());
        files.find(|file| !file.only_narrows).map_or("none", |policy| policy.name())
    }

    /// The layer and name of every file.
    pub fn names(&self) -> impl Iterator<Item = (LayerKind, &str)> {
        self.layers().flat_map(|layer| layer.files().map(|file| (layer.kind(), file.name())))
    }

    /// `sha256:…` of all layers in canonical form: which set of rules a decision was made by. The order of files and rules,
    /// and where they stand, do not change it.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The lowest that any file says of each.
    pub fn limits(&self) -> Limits {
        self.layers().flat_map(Layer::enforced_files).fold(Limits::default(), |all, file| all.lowest(&file.limits))
    }

    /// Directories from which clients may have files read. `None` when no file says anything; of several layers, those below
    /// which all of them agree.
    pub fn read_dirs(&self) -> Option<Vec<PathBuf>> {
        self.dirs(|file| &file.read_dirs)
    }

    /// The same for directories into which downloads may be written.
    pub fn write_dirs(&self) -> Option<Vec<PathBuf>> {
        self.dirs(|file| &file.write_dirs)
    }

    fn dirs(&self, of: impl Fn(&Policy) -> &[PathBuf]) -> Option<Vec<PathBuf>> {
        let layers = self.layers().map(|layer| layer.enforced_files().flat_map(&of).cloned().collect::<Vec<_>>());
        layers.filter(|dirs| !dirs.is_empty()).fold(None, |common, dirs| Some(common_dirs(common, dirs)))
    }

    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let address = Address::read(question.url);
        let known = self.circumstances(question);
        let mut decision = strictest(self.layers().filter_map(|layer| layer.judge(question, &address, &known)));
        if self.has_trial {
            let would = self.layers.iter().map(|layer| layer.judge_on_trial(question, &address, &known));
            let would = strictest(would);
            if would.verdict != decision.verdict {
                decision.would = Some(Box::new(would));
            }
        }
        decision
    }

    pub(crate) fn circumstances<'a>(&self, question: &Question<'a>) -> Circumstances<'a> {
        match self.asks_initiator {
            true => Circumstances::of(question, self.today),
            false => Circumstances::without_initiator(question, self.today),
        }
    }

    /// Whether `verb` is allowed at every document that the policy lets in: then a command of that verb need not be judged at
    /// the document which it meets. (`false` also where it may be so, but takes more than a look at each rule to tell.)
    pub fn allows_on_documents(&self, verb: Verb) -> bool {
        self.layers().all(|layer| layer.allows_on_documents(verb))
    }

    /// Whether something is in monitor mode, whose would-be refusals are to be kept.
    pub fn has_trial(&self) -> bool {
        self.layers.iter().any(Layer::has_trial)
    }

    /// Whether `verb` is allowed at every http, https, ws and wss URL, whoever asks, and would be if what is in monitor mode
    /// were enforced: then no gate is needed for it.
    pub fn allows_everywhere(&self, verb: Verb) -> bool {
        self.layers().all(|layer| layer.allows_everywhere(verb, self.today))
            && self.layers.iter().all(|layer| layer.would_allow_everywhere(verb, self.today))
    }
}

/// The first of equally strict ones.
pub(crate) fn strictest(decisions: impl Iterator<Item = Decision>) -> Decision {
    decisions.min_by_key(|decision| decision.verdict.rank()).unwrap_or_else(Decision::nothing_loaded)
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
