//! The policies in force: read all at once, and replaced all at once or not at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use policy::{Date, LayerKind, Mode, Policies, Policy};

use super::reading::{Reading, wrong};
use super::trusted::{self, Authority};
use super::watched::Stamps;
use super::{DEFAULT_NAME, PolicyFiles, Source, TaskPolicy, is_policy_name};
use crate::server::time;

const DEFAULT: &str = include_str!("../../../../policies/default.toml");

/// How messages call the hosts that a task was made for.
const ALLOWED_AT_START: &str = "task new";

/// What holds for every task.
#[derive(Clone, Debug)]
pub struct Base {
    admin: Vec<Arc<Policy>>,
    server: Vec<Arc<Policy>>,
    today: Date,
    /// Grows with each reading that was good.
    pub generation: u64,
}

/// What holds for one task, and where it came from.
#[derive(Clone, Debug)]
pub struct Applied {
    pub from: TaskPolicy,
    pub mode: Mode,
    own: Own,
    pub policies: Arc<Policies>,
    /// Of the [`Base`] that it was put together with.
    pub generation: u64,
}

/// The layers of the task itself.
#[derive(Clone, Debug)]
struct Own {
    policy: Arc<Policy>,
    allow: Option<Arc<Policy>>,
}

/// What had the files read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Start,
    /// `tabwarden reload`, or the API.
    Command,
    Signal,
    /// A file or directory has changed.
    Watch,
}

impl Trigger {
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::Start => "start",
            Trigger::Command => "command",
            Trigger::Signal => "signal",
            Trigger::Watch => "watch",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LastReload {
    /// In milliseconds since 1970.
    pub at: u64,
    pub by: Trigger,
    /// Why the policies from before are still in force.
    pub error: Option<String>,
}

/// What the policies in force have to be renewed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    Files,
    /// Another one has begun, on which rules may have expired.
    Day,
}

pub struct Store {
    files: PolicyFiles,
    /// Whether the browser was started by us.
    launched: bool,
    state: Mutex<State>,
    /// One reading at a time: else an older one could come last.
    pub reloading: tokio::sync::Mutex<()>,
}

struct State {
    base: Base,
    last: LastReload,
    /// The files as they were before they were last read, well or badly.
    seen: Stamps,
    /// How the files looked at the last look, if other than when they were read.
    changing: Option<Stamps>,
}

impl Store {
    /// `Err` is the sentence that stops the start.
    pub fn open(files: PolicyFiles, launched: bool) -> Result<Store, String> {
        let mut reading = Reading::new(time::today());
        let base = Base::read(&files, &mut reading, 1)?;
        let last = LastReload { at: time::now_ms(), by: Trigger::Start, error: None };
        let state = State { base, last, seen: reading.seen, changing: None };
        Ok(Store { files, launched, state: Mutex::new(state), reloading: tokio::sync::Mutex::new(()) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn last_reload(&self) -> LastReload {
        self.state().last.clone()
    }

    pub fn generation(&self) -> u64 {
        self.state().base.generation
    }

    /// For a new task: its own files are read now. `isolated`: with a browser context of its own. Blocks.
    pub fn apply(&self, from: &TaskPolicy, isolated: bool) -> Result<Applied, String> {
        let mut reading = Reading::new(time::today());
        let own = self.own(from, &mut reading)?;
        let base = {
            let mut state = self.state();
            state.seen.merge(reading.seen);
            state.base.clone()
        };
        base.apply(from.clone(), own, Mode { launched: self.launched, isolated })
    }

    /// The same files of the task's own, with what holds for every task now.
    pub fn renew(&self, applied: &Applied) -> Result<Applied, String> {
        let base = self.state().base.clone();
        base.apply(applied.from.clone(), applied.own.clone(), applied.mode)
    }

    /// Reads everything anew, for these tasks too. Nothing is in force yet. Blocks.
    pub fn read<K>(&self, tasks: Vec<(K, String, Applied)>) -> Result<(Base, Vec<(K, Applied)>), String> {
        let mut reading = Reading::new(time::today());
        let outcome = self.read_all(tasks, &mut reading);
        let mut state = self.state();
        // Also when it failed: the same files would fail again.
        state.seen = reading.seen;
        state.changing = None;
        outcome
    }

    fn read_all<K>(
        &self,
        tasks: Vec<(K, String, Applied)>,
        reading: &mut Reading,
    ) -> Result<(Base, Vec<(K, Applied)>), String> {
        let base = Base::read(&self.files, reading, self.generation() + 1)?;
        let applied = tasks.into_iter().map(|(key, name, before)| {
            let own = self.own(&before.from, reading);
            let applied = own.and_then(|own| base.apply(before.from, own, before.mode));
            Ok((key, applied.map_err(|error| format!("{error} (The task {name} has it.)"))?))
        });
        let applied = applied.collect::<Result<_, String>>()?;
        Ok((base, applied))
    }

    pub fn install(&self, base: Base) {
        self.state().base = base;
    }

    /// From now on it is the day that it is. Of these tasks, those with what held until now have the same files on this day:
    /// they are not read for it, since one that was spoilt meanwhile must not keep in force what has expired; and what the
    /// browser cannot enforce is no reason to allow more than before.
    pub fn turn_day<K>(&self, tasks: Vec<(K, Applied)>) -> Vec<(K, Applied)> {
        let mut state = self.state();
        let before = state.base.generation;
        state.base.today = time::today();
        state.base.generation += 1;
        let current = tasks.into_iter().filter(|(_, applied)| applied.generation == before);
        let turned = current.map(|(key, applied)| {
            let policies = Arc::new(applied.policies.on(state.base.today));
            (key, Applied { policies, generation: state.base.generation, ..applied })
        });
        turned.collect()
    }

    pub fn set_last(&self, last: LastReload) {
        self.state().last = last;
    }

    /// Whether the files or the day call for another reading: only once they look the same twice, since a file that is half
    /// written may be a policy with fewer denials. Blocks.
    pub fn is_due(&self) -> Option<Due> {
        let seen = self.state().seen.clone();
        let now = seen.again();
        let mut state = self.state();
        if state.base.today != time::today() {
            return Some(Due::Day);
        }
        if now == seen {
            state.changing = None;
            return None;
        }
        if state.seen != seen {
            // Read while we looked: the next look is at that.
            return None;
        }
        let settled = state.changing.as_ref() == Some(&now);
        state.changing = Some(now);
        settled.then_some(Due::Files)
    }

    fn own(&self, from: &TaskPolicy, reading: &mut Reading) -> Result<Own, String> {
        let policy = match &from.source {
            Source::File(path) => reading.file(path, Authority::Operator)?,
            Source::Named(name) => self.named(name, reading)?,
        };
        let allow = from.allow.as_ref().map(|allow| {
            Policy::narrowing(&allow.hosts, &allow.sites, ALLOWED_AT_START).map(Arc::new).map_err(|error| {
                format!("The task cannot be narrowed to these hosts: {}.", error.message.trim_end_matches('.'))
            })
        });
        Ok(Own { policy, allow: allow.transpose()? })
    }

    fn named(&self, name: &str, reading: &mut Reading) -> Result<Arc<Policy>, String> {
        if !is_policy_name(name) {
            return Err(
                "The policy must be a name of lower-case letters, digits and dashes, not a path; put the file \
                into the policy directory as NAME.toml."
                    .into(),
            );
        }
        let file = self.files.named.as_ref().map(|dir| dir.join(format!("{name}.toml")));
        if let Some(file) = &file {
            reading.seen.add(file);
        }
        // Only where nothing at all stands there: a link that leads nowhere is a narrower policy that got lost.
        match file.filter(|file| name != DEFAULT_NAME || !trusted::is_absent(file)) {
            Some(file) => reading.file(&file, Authority::Operator),
            None if name == DEFAULT_NAME => {
                Policy::parse(DEFAULT, "default.toml (built in)").map(Arc::new).map_err(|error| wrong(&error))
            }
            None => Err(format!(
                "There is no policy {name}, as no policy directory was given; start `tabwarden serve` with \
                    --policy-dir DIR."
            )),
        }
    }
}

impl Base {
    fn read(files: &PolicyFiles, reading: &mut Reading, generation: u64) -> Result<Base, String> {
        let admin = reading.admin(files.admin_dir())?;
        let server =
            files.server.iter().map(|path| reading.file(path, Authority::Operator)).collect::<Result<_, _>>()?;
        Ok(Base { admin, server, today: reading.today, generation })
    }

    /// `Err` also where the browser cannot enforce what they deny, and they do not say what is then to be done.
    fn apply(&self, from: TaskPolicy, own: Own, mode: Mode) -> Result<Applied, String> {
        let mut layers = vec![
            (LayerKind::Admin, self.admin.clone()),
            (LayerKind::Server, self.server.clone()),
            (LayerKind::Task, vec![own.policy.clone()]),
        ];
        // A layer by itself: beside the rules of the task's file it would add to what these allow.
        layers.extend(own.allow.iter().map(|allow| (LayerKind::Task, vec![allow.clone()])));
        let policies = Policies::layered(layers, self.today).map_err(|error| wrong(&error))?;
        match policies.refuse_start(mode) {
            // The hosts of a task have no file in which something could be said.
            Some(refused) if refused.file == ALLOWED_AT_START => Err(format!(
                "The task cannot be narrowed to these hosts: {}; that is said by the task's policy, so name one that \
                    says it.",
                refused.message
            )),
            Some(refused) => Err(format!("A policy cannot be used here: {refused}")),
            None => Ok(Applied { from, mode, own, policies: Arc::new(policies), generation: self.generation }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    use policy::{Question, Verb};

    fn store(dir: &Path) -> Store {
        Store::open(PolicyFiles::new(vec![dir.join("a.toml")], None).with_admin_dir(&dir.join("admin")), true).unwrap()
    }

    #[test]
    fn the_built_in_default_needs_no_directory_and_other_names_do() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(PolicyFiles::new(vec![], None).with_admin_dir(dir.path()), true).unwrap();
        assert_eq!(store.apply(&TaskPolicy::default(), true).unwrap().policies.name(), "default");
        let other = TaskPolicy { source: Source::Named("other".into()), allow: None };
        assert!(store.apply(&other, true).unwrap_err().contains("--policy-dir DIR"));
        let path = TaskPolicy { source: Source::Named("../other".into()), allow: None };
        assert!(store.apply(&path, true).unwrap_err().contains("not a path"));
    }

    #[test]
    fn a_change_is_due_once_it_was_seen_twice_and_no_more_after_a_failed_try() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.toml"), DEFAULT).unwrap();
        let store = store(dir.path());
        let due = || store.is_due();
        assert_eq!([due(), due()], [None, None]);
        fs::write(dir.path().join("a.toml"), "half").unwrap();
        assert_eq!([due(), due()], [None, Some(Due::Files)]);
        assert!(store.read::<()>(vec![]).is_err());
        assert_eq!([due(), due()], [None, None]);
        fs::write(dir.path().join("a.toml"), "other").unwrap();
        assert_eq!(due(), None);
        fs::write(dir.path().join("a.toml"), DEFAULT).unwrap();
        assert_eq!([due(), due()], [None, Some(Due::Files)], "still being written at the first look");
    }

    #[test]
    fn on_another_day_rules_expire_whatever_has_become_of_the_files() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.toml"), DEFAULT).unwrap();
        let store = store(dir.path());
        let expiring = dir.path().join("b.toml");
        let text = "policy = 1\nname = \"b\"\ndefault = \"deny\"\n[[rule]]\nid = \"r\"\neffect = \"allow\"\n\
            verbs = [\"*\"]\nto = \"*\"\nschemes = [\"http\", \"https\", \"ws\", \"wss\"]\nports = \"*\"\n\
            local = true\nexpires = 2020-01-31\n";
        fs::write(&expiring, text).unwrap();
        store.state().base.today = Date::EARLIEST;
        let from = TaskPolicy { source: Source::File(expiring.clone()), allow: None };
        let task = store.apply(&from, true).unwrap();
        let stale = Applied { generation: 0, ..task.clone() };
        let allows = |applied: &Applied| {
            applied.policies.judge(&Question::new(Verb::Navigate, "https://example.com/")).allowed()
        };
        assert!(allows(&task));
        fs::write(dir.path().join("a.toml"), "spoilt").unwrap();
        fs::remove_file(&expiring).unwrap();
        assert_eq!(store.is_due(), Some(Due::Day));
        let turned = store.turn_day(vec![(1, task), (2, stale)]);
        assert_eq!(turned.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [1], "others catch up by themselves");
        assert!(!allows(&turned[0].1));
        assert_eq!(turned[0].1.generation, store.generation());
        assert_ne!(store.is_due(), Some(Due::Day));
    }
}
