//! The audit: every decision that was not a plain forward, as a line of JSON in a file and, for a while, in memory.
//!
//! Lines of one batch are written at its end and before the clients are told, in the driver's thread: it is one write into
//! the page cache, and what a client was told of stands in the file even if we are ended right after.

mod file;
mod line;
mod ring;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use ownership::id::TaskId;
use tracing::{error, info};

use super::time;
use crate::engine::io::Audit;
use file::{LogFile, OpenError};
pub use file::{MAX_BYTES, MAX_FILES, all as files};
pub use line::{escape, is_unprintable};
use ring::Ring;
pub use ring::{Decisions, MAX_DECISIONS, Since};

/// Servers of one user that can write to the default directory at a time.
const MAX_SERVERS: usize = 16;

/// More than this is not kept back until the end of the batch.
const MAX_BUFFER: usize = 256 << 10;

#[derive(Clone, Debug)]
pub struct Settings {
    pub place: Place,
    /// Addresses keep their query and fragment, in which there may be secrets.
    pub queries: bool,
}

#[derive(Clone, Debug)]
pub enum Place {
    File(PathBuf),
    /// `audit.jsonl` in this directory, or `audit-2.jsonl` and so on while other servers write to those.
    Directory(PathBuf),
}

/// What the HTTP side and the driver share.
pub struct Trail {
    pub file: PathBuf,
    rings: DashMap<TaskId, Ring>,
    written: AtomicU64,
    lost: AtomicU64,
    trouble: Mutex<Option<String>>,
}

/// Since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub written: u64,
    /// Made while the file could not be written; they stand in no file.
    pub lost: u64,
    /// Why the last one could not be written.
    pub trouble: Option<String>,
}

impl Trail {
    pub fn decisions(&self, task: TaskId, since: &Since) -> Decisions {
        self.rings.get(&task).map(|ring| ring.since(since)).unwrap_or_default()
    }

    pub fn forget(&self, task: TaskId) {
        self.rings.remove(&task);
    }

    pub fn state(&self) -> State {
        State {
            written: self.written.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            trouble: self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn set_trouble(&self, trouble: Option<String>) -> Option<String> {
        std::mem::replace(&mut *self.trouble.lock().unwrap_or_else(PoisonError::into_inner), trouble)
    }
}

/// The driver's side.
pub struct Auditor {
    trail: Arc<Trail>,
    file: LogFile,
    queries: bool,
    buffer: Vec<u8>,
    buffered: u64,
}

impl Auditor {
    /// `Err` is the sentence that stops the start: an audit that was never there would be missed too late.
    pub fn open(settings: &Settings) -> Result<Auditor, String> {
        let candidates: Vec<PathBuf> = match &settings.place {
            Place::File(path) => vec![path.clone()],
            Place::Directory(dir) => std::iter::once(dir.join("audit.jsonl"))
                .chain((2..=MAX_SERVERS).map(|number| dir.join(format!("audit-{number}.jsonl"))))
                .collect(),
        };
        for path in &candidates {
            match LogFile::open(path, MAX_BYTES) {
                Ok(file) => return Ok(Auditor::new(path, file, settings.queries)),
                Err(OpenError::Taken) => {}
                Err(OpenError::Io(error)) => return Err(unusable(path, &error.to_string())),
            }
        }
        let path = candidates.first().map(PathBuf::as_path).unwrap_or(Path::new("audit.jsonl"));
        Err(unusable(path, "another Tabwarden writes to it"))
    }

    fn new(path: &Path, file: LogFile, queries: bool) -> Auditor {
        let trail = Trail {
            file: path.canonicalize().unwrap_or_else(|_| path.to_owned()),
            rings: DashMap::new(),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            trouble: Mutex::default(),
        };
        Auditor { trail: Arc::new(trail), file, queries, buffer: Vec::new(), buffered: 0 }
    }

    pub fn trail(&self) -> Arc<Trail> {
        self.trail.clone()
    }

    pub fn take(&mut self, audit: &Audit) {
        let ms = time::now_ms();
        let line = match line::render(audit, ms, self.queries) {
            Ok(line) => line,
            Err(error) => {
                self.trail.lost.fetch_add(1, Ordering::Relaxed);
                error!(
                    "The decision {} could not be written down ({error}); report this as a bug of Tabwarden.",
                    audit.id
                );
                return;
            }
        };
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        self.buffered += 1;
        self.trail.rings.entry(audit.task).or_default().push(&audit.id, ms, line);
        if self.buffer.len() > MAX_BUFFER {
            self.flush();
        }
    }

    /// A full disk must not end anybody's work: what the policy forbids is refused whether it is written down or not, and
    /// any page could fill an audit by being refused. So it is said once, counted, and tried again with the next decision.
    pub fn flush(&mut self) {
        if self.buffered == 0 {
            return;
        }
        let written = self.file.append(&self.buffer);
        let counter = if written.is_ok() { &self.trail.written } else { &self.trail.lost };
        counter.fetch_add(self.buffered, Ordering::Relaxed);
        self.buffer.clear();
        self.buffered = 0;
        let path = self.trail.file.display();
        match written {
            Ok(()) => {
                if self.trail.set_trouble(None).is_some() {
                    let lost = self.trail.lost.load(Ordering::Relaxed);
                    info!("The audit {path} can be written again; {lost} decisions of this run are not in it.");
                }
            }
            Err(problem) => {
                let sentence = format!(
                    "The audit {path} cannot be written ({problem}), so decisions are enforced and not kept; free the \
                        space or mend the directory, and it goes on with the next decision."
                );
                if self.trail.set_trouble(Some(sentence.clone())).is_none() {
                    error!("{sentence}");
                }
            }
        }
    }
}

fn unusable(path: &Path, why: &str) -> String {
    format!(
        "The audit {} cannot be written ({why}); name a file in a directory of yours with --audit-file FILE.",
        path.display()
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use ownership::id::ClientId;
    use policy::{RuleRef, Verb, Verdict};

    pub fn denied(id: &str, object: &str) -> Audit {
        Audit {
            id: id.into(),
            task: TaskId(1),
            task_name: "one".into(),
            client: Some(ClientId(3)),
            method: "Page.navigate".into(),
            verb: Some(Verb::Navigate),
            object: object.into(),
            verdict: Verdict::Deny,
            enforced: true,
            rule: Arc::new(RuleRef { id: "no".into(), file: "p.toml".into(), line: 4 }),
            reason: "because".into(),
            policy_hash: "sha256:00".into(),
        }
    }

    fn in_directory(dir: &Path) -> Settings {
        Settings { place: Place::Directory(dir.to_owned()), queries: false }
    }

    #[test]
    fn each_server_of_the_directory_has_a_file_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let settings = in_directory(dir.path());
        let servers: Vec<Auditor> = (0..3).map(|_| Auditor::open(&settings).unwrap()).collect();
        let names: Vec<_> = servers.iter().map(|one| one.trail.file.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["audit.jsonl", "audit-2.jsonl", "audit-3.jsonl"]);
        let taken = Settings { place: Place::File(dir.path().join("audit.jsonl")), queries: false };
        let refused = Auditor::open(&taken).err().unwrap();
        assert!(refused.contains("another Tabwarden writes to it") && refused.contains("--audit-file"), "{refused}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_counted_and_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let mut auditor = Auditor::open(&in_directory(dir.path())).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        auditor.take(&denied("a-1", "https://x.test/"));
        auditor.take(&denied("a-2", "https://x.test/"));
        auditor.flush();
        let state = auditor.trail.state();
        assert_eq!((state.written, state.lost), (0, 2));
        assert!(state.trouble.unwrap().contains(&path.canonicalize().unwrap().display().to_string()));
        std::fs::remove_dir(&path).unwrap();
        auditor.take(&denied("a-3", "https://x.test/"));
        auditor.flush();
        assert_eq!(auditor.trail.state(), State { written: 1, lost: 2, trouble: None });
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1);
        assert_eq!(auditor.trail.decisions(TaskId(1), &Since::Beginning).lines.len(), 3, "memory has them all");
        auditor.trail.forget(TaskId(1));
        assert_eq!(auditor.trail.decisions(TaskId(1), &Since::Beginning), Decisions::default());
    }
}
