//! Files that a client has the browser read: only below granted directories, and where they really are. What a path leads to
//! is the file system's to say, so the server is asked, and the command goes on (or not) with its answer: Chromium is given
//! real paths, without links. The server keeps the client's later commands back meanwhile.

use std::path::{Path, PathBuf};

use ownership::id::{SessionId, TaskId};
use policy::methods::{ParamKind, Row};
use policy::{Grants, Surface};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Engine;
use super::audit::Judgement;
use super::calls::ReplyTo;
use super::check::values_at_mut;
use super::from_client::Judged;
use super::io::{FileWork, Output, RealPath};
use super::refusal::Refusal;

/// A command that waits for the server to say where its files are.
struct Upload {
    to: ReplyTo,
    session: SessionId,
    row: &'static Row,
    surface: Surface,
    judged: Judged,
    params: Value,
}

#[derive(Default)]
pub struct Uploads {
    waiting: FxHashMap<u64, Upload>,
    last: u64,
}

impl Uploads {
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Engine {
    /// Only what lies below a granted directory by its name is looked at: the answer for anything else tells nothing of it.
    pub(super) fn ask_where_files_are(
        &mut self,
        to: ReplyTo,
        session: SessionId,
        row: &'static Row,
        surface: Surface,
        judged: Judged,
        params: Value,
    ) -> Result<(), Refusal> {
        self.permit(to, row, surface, &judged, ())?;
        self.uploads.last += 1;
        let request = self.uploads.last;
        let paths = judged.read_paths.iter().map(PathBuf::from).collect();
        self.uploads.waiting.insert(request, Upload { to, session, row, surface, judged, params });
        self.outputs.push_back(Output::Files(FileWork::FindPaths { client: to.client, request, paths }));
        Ok(())
    }

    pub(super) fn paths_found(&mut self, request: u64, found: &[Result<RealPath, String>]) {
        let Some(upload) = self.uploads.waiting.remove(&request) else { return };
        let to = upload.to;
        if let Err(refusal) = self.upload(upload, found) {
            self.refuse(to, &refusal);
        }
    }

    fn upload(&mut self, upload: Upload, found: &[Result<RealPath, String>]) -> Result<(), Refusal> {
        let Upload { to, session, row, surface, mut judged, mut params } = upload;
        // Its page may have gone meanwhile.
        if self.session_of(to) != Some(session) {
            return Err(Refusal::unknown_session());
        }
        let grants = self.grants_of(self.task_of(to.client));
        let asked = std::mem::take(&mut judged.read_paths);
        for (n, path) in asked.iter().enumerate() {
            let real = match found.get(n) {
                Some(Ok(real)) => real,
                Some(Err(why)) => return Err(no_file(row, path, why)),
                None => return Err(no_file(row, path, "it was not looked for")),
            };
            if leads_out(real, &grants) {
                let decision = policy::leads_out(row, path);
                let judged = Judgement { decision, verb: None, object: row.method.to_owned() };
                return Err(self.denied(to.client, row.method, &judged));
            }
            // What is no text cannot be said in JSON, and a near miss would be another file.
            let real = real.path.to_str().ok_or_else(|| no_file(row, path, "its name is no UTF-8"))?;
            judged.read_paths.push(real.to_owned());
        }
        let mut real = judged.read_paths.iter();
        for param in row.params.iter().filter(|param| param.kind == ParamKind::ReadPaths) {
            for value in values_at_mut(&mut params, param.path) {
                if let Some(real) = real.next() {
                    *value = Value::String(real.clone());
                }
            }
        }
        self.send_checked(to, session, row, surface, &judged, &params)
    }

    /// What the server was started with, as far as the task's policy does not say otherwise.
    pub(super) fn grants_of(&self, task: Option<TaskId>) -> std::sync::Arc<Grants> {
        let policy = task.and_then(|task| self.tasks.get(&task)).map(|task| &task.policy);
        let (reads, writes) = policy.map_or((None, None), |policy| (policy.read_dirs(), policy.write_dirs()));
        if reads.is_none() && writes.is_none() {
            return self.grants.clone();
        }
        let narrowed = |said: Option<Vec<PathBuf>>, started: &Vec<PathBuf>, by_default: bool| match said {
            None => started.clone(),
            Some(said) if by_default => said,
            Some(said) => policy::common_dirs(Some(started.clone()), said),
        };
        std::sync::Arc::new(Grants {
            read_dirs: narrowed(reads, &self.grants.read_dirs, self.config.reads_by_default),
            write_dirs: narrowed(writes, &self.grants.write_dirs, self.grants.write_dirs.is_empty()),
            temp_dir: self.grants.temp_dir.clone(),
        })
    }
}

/// A link below a granted directory is no grant of what it leads to.
fn leads_out(real: &RealPath, grants: &Grants) -> bool {
    let granted = |path: &Path| path.to_str().is_some_and(|path| grants.may_read(path));
    !granted(&real.path) || !real.links_to.iter().all(|path| granted(path))
}

fn no_file(row: &Row, asked: &str, why: &str) -> Refusal {
    Refusal::ours(format!("{} refused: the file {asked:?} cannot be used ({why}); name one that is there", row.method))
}
