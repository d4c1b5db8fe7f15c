//! What the HTTP side and the driver both know: the phase of the browser connection and which token opens what.
//! Everything else about tasks is asked from the engine.

use std::sync::{PoisonError, RwLock};

use dashmap::DashMap;
use ownership::id::TaskId;
use tokio::sync::watch;

use super::policies::Applied;
use super::token::{Token, TokenHash, Tokens};
use crate::engine::io::StatusInfo;

/// Where the one connection to the browser stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// Not yet: the sentence says what is being waited for.
    Waiting(String),
    Ready(StatusInfo),
    /// For good: the sentence says why.
    Over(String),
}

pub struct Entry {
    pub hash: TokenHash,
    pub name: String,
    pub policy: Applied,
}

pub struct Registry {
    pub tokens: Tokens,
    admin: TokenHash,
    tasks: DashMap<TaskId, Entry>,
    /// Tokens of tasks that will be made once the browser is there: kept in files, so clients know them already.
    expected: RwLock<Vec<TokenHash>>,
    phase: watch::Sender<Phase>,
}

/// What a token opens.
#[derive(Clone, Debug, PartialEq)]
pub enum Holder {
    Admin,
    Task {
        id: TaskId,
        name: String,
    },
    /// A task that is not made yet.
    Expected,
}

impl Registry {
    pub fn new(tokens: Tokens, admin: &Token) -> Registry {
        let admin = tokens.hash(admin);
        let phase = watch::Sender::new(Phase::Waiting("Tabwarden is starting; try again in a moment.".into()));
        Registry { tokens, admin, tasks: DashMap::new(), expected: RwLock::default(), phase }
    }

    /// Compares with every entry, found or not: the time says nothing about which one it was.
    pub fn holder(&self, presented: &str) -> Option<Holder> {
        let mut found = self.tokens.matches(presented, &self.admin).then_some(Holder::Admin);
        let expected = self.expected.read().unwrap_or_else(PoisonError::into_inner);
        if expected.iter().any(|hash| self.tokens.matches(presented, hash)) {
            found = Some(Holder::Expected);
        }
        for entry in self.tasks.iter() {
            if self.tokens.matches(presented, &entry.hash) {
                found = Some(Holder::Task { id: *entry.key(), name: entry.name.clone() });
            }
        }
        found
    }

    /// Whether two tasks (or a task and the API) would have the same token: a token file named twice.
    pub fn is_taken(&self, token: &Token) -> bool {
        !matches!(self.holder(token.reveal()), None | Some(Holder::Expected))
    }

    pub fn expect(&self, hash: TokenHash) {
        self.expected.write().unwrap_or_else(PoisonError::into_inner).push(hash);
    }

    /// All that were expected are there.
    pub fn expect_no_more(&self) {
        self.expected.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn insert(&self, task: TaskId, entry: Entry) {
        self.tasks.insert(task, entry);
    }

    pub fn remove(&self, task: TaskId) {
        self.tasks.remove(&task);
    }

    pub fn id_of(&self, name: &str) -> Option<TaskId> {
        self.tasks.iter().find(|entry| entry.name == name).map(|entry| *entry.key())
    }

    /// What `take` makes of each task, in their order.
    pub fn each<T>(&self, mut take: impl FnMut(TaskId, &Entry) -> T) -> Vec<T> {
        let mut all: Vec<(TaskId, T)> =
            self.tasks.iter().map(|entry| (*entry.key(), take(*entry.key(), &entry))).collect();
        all.sort_by_key(|(task, _)| *task);
        all.into_iter().map(|(_, made)| made).collect()
    }

    pub fn set_policy(&self, task: TaskId, policy: Applied) {
        if let Some(mut entry) = self.tasks.get_mut(&task) {
            entry.policy = policy;
        }
    }

    /// Replaces the token of the task with this name; `false` when there is none.
    pub fn rotate(&self, name: &str, hash: TokenHash) -> bool {
        let Some(mut entry) = self.tasks.iter_mut().find(|entry| entry.name == name) else { return false };
        entry.hash = hash;
        true
    }

    pub fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    pub fn watch_phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::policies::{PolicyFiles, Store, TaskPolicy};

    #[test]
    fn a_rotated_token_opens_nothing_and_the_new_one_does() {
        let tokens = Tokens::new().unwrap();
        let [admin, old, new] = [(); 3].map(|()| tokens.draw().unwrap());
        let (old_hash, new_hash) = (tokens.hash(&old), tokens.hash(&new));
        let registry = Registry::new(tokens, &admin);
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(PolicyFiles::new(vec![], None).with_admin_dir(dir.path()), true).unwrap();
        let policy = store.apply(&TaskPolicy::default(), true).unwrap();
        let entry = Entry { hash: old_hash, name: "one".into(), policy };
        registry.insert(TaskId(1), entry);
        assert!(registry.rotate("one", new_hash));
        assert!(!registry.rotate("two", new_hash));
        assert_eq!(registry.holder(old.reveal()), None);
        assert_eq!(registry.holder(new.reveal()), Some(Holder::Task { id: TaskId(1), name: "one".into() }));
        assert_eq!(registry.holder(admin.reveal()), Some(Holder::Admin));
        registry.remove(TaskId(1));
        assert_eq!(registry.holder(new.reveal()), None);
    }
}
