//! What the engine wants done with files: on other threads where it can take long, and in the order that clients expect.

use std::time::Instant;

use ownership::id::ClientId;
use tracing::warn;

use super::Driver;
use crate::engine::io::{FileWork, Input, Keep, Kept, RealPath};
use crate::server::paths;
use crate::server::task_files::{Finished, TaskFiles};

/// What another thread has done with files.
pub(super) enum Done {
    /// A download was moved and placed, or not.
    Kept {
        work: Box<Keep>,
        outcome: Result<Kept, String>,
    },
    Found {
        client: ClientId,
        request: u64,
        found: Vec<Result<RealPath, String>>,
    },
}

impl Driver {
    /// What can take long is done on another thread.
    pub(super) fn file_work(&mut self, work: FileWork) {
        match work {
            FileWork::MakeTaskDir { name } => {
                if let Err(error) = self.files.make(&name) {
                    warn!("The directory of the task {name} cannot be made ({error}); its downloads will be lost.");
                }
            }
            FileWork::Keep(work) => {
                let (root, to_done) = (self.files.root().to_owned(), self.to_done.clone());
                tokio::task::spawn_blocking(move || {
                    let outcome = TaskFiles::keep(&root, &work);
                    // Nobody waits for it once the driver has ended.
                    let _ = to_done.send(Done::Kept { work, outcome });
                });
            }
            FileWork::FindPaths { client, request, paths } => {
                if let Some(known) = self.clients.get_mut(&client) {
                    known.looking += 1;
                }
                let to_done = self.to_done.clone();
                tokio::task::spawn_blocking(move || {
                    let found = paths::find(&paths);
                    let _ = to_done.send(Done::Found { client, request, found });
                });
            }
            FileWork::Discard { written } => {
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = std::fs::remove_file(&written) {
                        warn!("A denied download stays at {} ({error}); delete it.", written.display());
                    }
                });
            }
        }
    }

    pub(super) fn files_done(&mut self, done: Done) {
        match done {
            Done::Kept { work, outcome } => {
                // Not when its task has ended meanwhile.
                if let (Ok(kept), true) = (&outcome, self.task_names.contains_key(&work.task)) {
                    let finished = Finished { path: kept.path.clone(), suggested: work.suggested };
                    self.files.finish(&work.task_name, work.download.as_str(), finished);
                }
                let download = work.download;
                self.core.handle(Instant::now(), Input::DownloadKept { download, outcome });
                self.dispatch();
            }
            Done::Found { client, request, found } => {
                if let Some(known) = self.clients.get_mut(&client) {
                    known.looking = known.looking.saturating_sub(1);
                }
                self.core.handle(Instant::now(), Input::PathsFound { request, found });
                self.dispatch();
                self.catch_up(client);
            }
        }
    }

    /// What a client said while paths of its were looked for; one of these may be about paths again.
    fn catch_up(&mut self, client: ClientId) {
        while let Some(known) = self.clients.get_mut(&client).filter(|known| known.looking == 0)
            && let Some(text) = known.later.pop_front()
        {
            known.channel.taken(text.len());
            self.core.handle(Instant::now(), Input::ClientFrame { client, text: &text });
            self.dispatch();
        }
    }
}
