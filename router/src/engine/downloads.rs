//! Downloads of owned pages. Chromium writes those of a task's own contexts into the task's directory; in the person's
//! profile nothing is changed, and the file is taken from where the person's settings had it put. What a client asked
//! for (a directory, events, none at all) is kept here and carried out when a download is complete: the event that says
//! so leaves only after the file is where it says.

use std::path::{Path, PathBuf};

use ownership::Change;
use ownership::id::{ContextId, DownloadId, FrameId, SessionId, TargetId, TaskId};
use policy::{Question, Verb};
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Engine;
use super::audit::Judgement;
use super::calls::Purpose;
use super::io::{FileWork, Keep, Kept, Naming, Output, Place, Record, RecordKind};
use super::state::TaskState;
use crate::wire::value_of;

const PAGE_EVENT: &str = "Page.downloadProgress";

/// What a client wants done with the downloads of a context.
#[derive(Clone, Debug)]
pub struct DownloadWish {
    pub wanted: Wanted,
    /// The latest wish of a task decides whether there is a download at all.
    pub order: u64,
}

#[derive(Clone, Debug)]
pub enum Wanted {
    /// Chromium's default: wherever its user has them put, which is the task's directory here.
    Default,
    Deny,
    In {
        dir: PathBuf,
        naming: Naming,
    },
}

/// Playwright names such a directory at each connect, and does not connect when it is refused. It may be on the client's
/// machine, or of another temp directory: then nothing is placed there, and the file can be fetched by the API.
pub fn is_playwrights_own(dir: &Path) -> bool {
    let text = dir.to_string_lossy();
    let plain = !text.split(['/', '\\']).any(|part| part == "..");
    plain && text.rsplit(['/', '\\']).next().is_some_and(|last| last.starts_with("playwright-artifacts-"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// It was cancelled by us; when it is complete all the same, the file goes.
    Denied,
    /// Complete, and the server is at it.
    Keeping,
}

struct Download {
    task: TaskId,
    /// A context of the task's own; `None`: the profile.
    context: Option<ContextId>,
    /// The context that clients mean by their wishes, the profile's too.
    wished_in: Option<ContextId>,
    page: TargetId,
    url: String,
    suggested: String,
    received: u64,
    stage: Stage,
    /// What says that it is complete, kept back until it is true.
    held: Vec<Held>,
}

enum Held {
    Root(Value),
    Page(SessionId, Value),
}

#[derive(Default)]
pub struct Downloads {
    known: FxHashMap<DownloadId, Download>,
    /// Bytes of what is over, by task.
    taken: FxHashMap<TaskId, u64>,
    wishes: u64,
    /// Events of the profile's downloads were asked for.
    watching_profile: bool,
}

impl Downloads {
    pub fn remembered(&self) -> usize {
        self.known.len() + self.taken.len()
    }

    pub fn next_wish(&mut self) -> u64 {
        self.wishes += 1;
        self.wishes
    }

    /// The task's own context that it is in; `None` for the profile.
    pub fn context(&self, download: DownloadId) -> Option<ContextId> {
        self.known.get(&download).and_then(|known| known.context)
    }
}

impl Engine {
    // --- set up -------------------------------------------------------------------------------------------------

    pub(super) fn make_task_dir(&mut self, task: TaskId) {
        if let Some(task) = self.tasks.get(&task) {
            self.outputs.push_back(Output::Files(FileWork::MakeTaskDir { name: task.name.clone() }));
        }
    }

    fn written_dir(&self, task: TaskId) -> Option<PathBuf> {
        self.tasks.get(&task).map(|task| self.config.tasks_dir.join(&task.name).join("downloads"))
    }

    /// Everything that is downloaded in a context of the task's own goes to the task's directory.
    pub(super) fn gather_downloads(&mut self, context: ContextId, task: TaskId) {
        let Some(dir) = self.written_dir(task) else { return };
        let params = json!({"behavior": "allowAndName", "browserContextId": context.as_str(),
            "downloadPath": dir.to_string_lossy(), "eventsEnabled": true});
        self.own(None, "Browser.setDownloadBehavior", &params, Purpose::Nothing);
    }

    /// `default` is what the profile has; the events say where a file was put.
    pub(super) fn watch_profile_downloads(&mut self) {
        if !std::mem::replace(&mut self.downloads.watching_profile, true) {
            let params = json!({"behavior": "default", "eventsEnabled": true});
            self.own(None, "Browser.setDownloadBehavior", &params, Purpose::Nothing);
        }
    }

    /// The task ends. Downloads in its own contexts end with these; those in the profile would go on.
    pub(super) fn drop_downloads(&mut self, task: TaskId, keep: bool) {
        self.downloads.taken.remove(&task);
        let of_task = |download: &Download| download.task == task;
        let gone: Vec<DownloadId> =
            self.downloads.known.iter().filter(|(_, download)| of_task(download)).map(|(id, _)| *id).collect();
        for id in gone {
            let Some(download) = self.downloads.known.remove(&id) else { continue };
            if !keep && download.context.is_none() && download.stage == Stage::Running {
                self.cancel(id, None);
            }
        }
    }

    /// What runs there ends with the context, and Chromium need not say so. Whose they were the ledger knows until the task
    /// ends: the browser may not have disposed of it yet, and their ids are nobody else's till then.
    pub(super) fn forget_downloads_in(&mut self, context: ContextId) {
        let ends = |download: &Download| download.context == Some(context) && download.stage != Stage::Keeping;
        self.downloads.known.retain(|_, download| !ends(download));
    }

    fn cancel(&mut self, download: DownloadId, context: Option<ContextId>) {
        let mut params = json!({"guid": download.as_str()});
        if let Some(context) = context {
            params["browserContextId"] = json!(context.as_str());
        }
        self.own(None, "Browser.cancelDownload", &params, Purpose::Nothing);
    }

    // --- begun --------------------------------------------------------------------------------------------------

    /// The events name no context: the first is the owner's of its frame, the later ones follow by guid.
    pub(super) fn download_began(&mut self, params: Option<&RawValue>) {
        let parsed = value_of(params);
        let Some(frame) = parsed["frameId"].as_str().and_then(FrameId::new) else { return };
        let Some(id) = parsed["guid"].as_str().and_then(DownloadId::new) else { return };
        let Some(page) = self.ledger.page_of_frame(frame) else { return };
        let Some(task) = self.ledger.owner(page) else { return };
        let wished_in = self.ledger.context_of(page);
        let context = wished_in.filter(|context| self.ledger.owner_of_context(*context) == Some(task));
        let url = parsed["url"].as_str().unwrap_or_default().to_owned();
        let denied = self.denies_download(task, page, wished_in, &url);
        let stage = if denied { Stage::Denied } else { Stage::Running };
        let suggested = parsed["suggestedFilename"].as_str().unwrap_or_default().to_owned();
        self.change(Change::DownloadBegun { download: id, task });
        let download =
            Download { task, context, wished_in, page, url, suggested, received: 0, stage, held: Vec::new() };
        self.downloads.known.insert(id, download);
        if denied {
            self.cancel(id, context);
        }
        self.tell_download(task, "Browser.downloadWillBegin", &parsed);
    }

    fn denies_download(&mut self, task: TaskId, page: TargetId, context: Option<ContextId>, url: &str) -> bool {
        if let Some(judged) = self.forbids_download(task, page, url) {
            self.blocked(page, &judged);
            return true;
        }
        // What the end of a task has not cancelled yet does not begin.
        if self.tasks.get(&task).is_none_or(|task| task.state == TaskState::Ending) {
            return true;
        }
        let wishes = self
            .clients
            .values()
            .filter(|client| client.task == task)
            .filter_map(|client| context.and_then(|context| client.downloads.get(&context)));
        wishes.max_by_key(|wish| wish.order).is_some_and(|wish| matches!(wish.wanted, Wanted::Deny))
    }

    fn forbids_download(&self, task: TaskId, page: TargetId, url: &str) -> Option<Judgement> {
        let task = self.tasks.get(&task)?;
        let document = self.targets.get(&page).map_or("", |target| target.info.url.as_str());
        // What a blank page of the task's makes, the task makes.
        let blank = document.is_empty() || document.starts_with("about:");
        let question = Question::new(Verb::Download, url)
            .created_by(Some(if blank { "task" } else { document }))
            .on_behalf_of((!blank).then_some(document));
        Judgement::unless_allowed(task.judge(&question), Verb::Download, url)
    }

    // --- going on -----------------------------------------------------------------------------------------------

    pub(super) fn download_progressed(&mut self, params: Option<&RawValue>) {
        let mut parsed = value_of(params);
        let Some(id) = parsed["guid"].as_str().and_then(DownloadId::new) else { return };
        self.count_bytes(id, parsed["receivedBytes"].as_f64().unwrap_or_default() as u64);
        let Some(download) = self.downloads.known.get(&id) else { return };
        let (task, stage) = (download.task, download.stage);
        match (parsed["state"].as_str(), stage) {
            (Some("completed"), Stage::Running) => self.keep_download(id, parsed),
            (Some("completed"), Stage::Denied) => {
                if let Some(written) = self.written(id, &parsed) {
                    self.outputs.push_back(Output::Files(FileWork::Discard { written }));
                }
                as_canceled(&mut parsed);
                self.tell_download(task, "Browser.downloadProgress", &parsed);
                self.end_download(id);
            }
            // It was told once, and is told when it is true.
            (Some("completed"), Stage::Keeping) => {}
            (Some("canceled"), _) => {
                self.tell_download(task, "Browser.downloadProgress", &parsed);
                self.end_download(id);
            }
            _ => self.tell_download(task, "Browser.downloadProgress", &parsed),
        }
    }

    /// The policy's limit is for all downloads of the task together. (Chromium tells of progress a few times a second, so a
    /// fast one is over the limit by what comes between two such events; then it is cancelled, or thrown away.)
    fn count_bytes(&mut self, id: DownloadId, received: u64) {
        let Some(download) = self.downloads.known.get_mut(&id).filter(|known| known.stage == Stage::Running) else {
            return;
        };
        download.received = download.received.max(received);
        let (task, page, context) = (download.task, download.page, download.context);
        let limit = self.tasks.get(&task).and_then(|task| task.policy.limits().download_mib);
        let Some(limit) = limit else { return };
        let running = self.downloads.known.values().filter(|known| known.task == task).map(|known| known.received);
        let taken = self.downloads.taken.get(&task).copied().unwrap_or_default();
        if taken.saturating_add(running.sum()) <= u64::from(limit.value) << 20 {
            return;
        }
        let Some(download) = self.downloads.known.get_mut(&id) else { return };
        download.stage = Stage::Denied;
        let object = download.url.clone();
        let decision = policy::over_download_limit(&limit);
        self.blocked(page, &Judgement { decision, verb: Some(Verb::Download), object });
        self.cancel(id, context);
    }

    /// The same on the session of a page, where Chromium says it first, and not where the file is.
    pub(super) fn page_download_progressed(&mut self, session: SessionId, params: Option<&RawValue>) {
        let mut parsed = value_of(params);
        let id = parsed["guid"].as_str().and_then(DownloadId::new);
        let known = id.and_then(|id| self.downloads.known.get_mut(&id));
        if let Some(download) = known.filter(|_| parsed["state"] == "completed") {
            match download.stage {
                Stage::Denied => as_canceled(&mut parsed),
                Stage::Running | Stage::Keeping => {
                    return download.held.push(Held::Page(session, parsed));
                }
            }
        }
        self.deliver(session, PAGE_EVENT, &parsed.to_string());
    }

    /// In a context of the task's own we said where; in the profile the person's settings did.
    fn written(&self, id: DownloadId, event: &Value) -> Option<PathBuf> {
        let download = self.downloads.known.get(&id)?;
        match download.context {
            Some(_) => self.written_dir(download.task).map(|dir| dir.join(id.as_str())),
            None => event["filePath"].as_str().map(PathBuf::from),
        }
    }

    fn keep_download(&mut self, id: DownloadId, event: Value) {
        let written = self.written(id, &event);
        let Some(download) = self.downloads.known.get_mut(&id) else { return };
        download.stage = Stage::Keeping;
        download.held.push(Held::Root(event));
        let (task, context, suggested) = (download.task, download.wished_in, download.suggested.clone());
        let Some(task_name) = self.tasks.get(&task).map(|task| task.name.clone()) else { return };
        let Some(written) = written else {
            return self.download_kept(id, Err("the browser does not say where it put the file".to_owned()));
        };
        let mut places = Vec::new();
        for client in self.clients_of(task) {
            let wishes = self.clients.get(&client).map(|client| &client.downloads);
            let wish = wishes.and_then(|wishes| wishes.get(&context?));
            if let Some(DownloadWish { wanted: Wanted::In { dir, naming }, .. }) = wish {
                places.push(Place { client, dir: dir.clone(), naming: *naming });
            }
        }
        let grants = self.grants_of(Some(task));
        let keep = Keep { download: id, task, task_name, written, suggested, places, grants };
        self.outputs.push_back(Output::Files(FileWork::Keep(Box::new(keep))));
    }

    pub(super) fn download_kept(&mut self, id: DownloadId, outcome: Result<Kept, String>) {
        // Its task may have ended meanwhile.
        let Some(download) = self.downloads.known.remove(&id) else { return };
        let task = download.task;
        *self.downloads.taken.entry(task).or_default() += download.received;
        self.note_where_it_is(task, &outcome);
        for held in download.held {
            match held {
                Held::Page(session, event) => self.deliver(session, PAGE_EVENT, &event.to_string()),
                Held::Root(event) => self.tell_where(task, event, &outcome),
            }
        }
        self.change(Change::DownloadEnded { download: id });
    }

    fn note_where_it_is(&mut self, task: TaskId, outcome: &Result<Kept, String>) {
        let notes: Vec<String> = match outcome {
            Err(why) => vec![format!("a download was not taken into the task's directory: {why}")],
            Ok(kept) => kept
                .placed
                .iter()
                .filter_map(|(client, place)| place.as_ref().err().map(|why| (client, why)))
                .map(|(_, why)| format!("a download stays in the task's directory: {why}"))
                .collect(),
        };
        for message in notes {
            self.record(Record { task: Some(task), client: None, kind: RecordKind::Odd, message });
        }
    }

    fn tell_where(&mut self, task: TaskId, mut event: Value, outcome: &Result<Kept, String>) {
        for client in self.clients_of(task) {
            let path = outcome.as_ref().ok().map(|kept| {
                let placed =
                    kept.placed.iter().find_map(|(whose, place)| place.as_ref().ok().filter(|_| *whose == client));
                placed.unwrap_or(&kept.path)
            });
            match (path, event.as_object_mut()) {
                (Some(path), _) => event["filePath"] = json!(path.to_string_lossy()),
                (None, Some(event)) => drop(event.remove("filePath")),
                (None, None) => {}
            }
            self.tell_client(client, "Browser.downloadProgress", &event);
        }
    }

    fn end_download(&mut self, id: DownloadId) {
        if let Some(download) = self.downloads.known.remove(&id) {
            *self.downloads.taken.entry(download.task).or_default() += download.received;
            for held in download.held {
                if let Held::Page(session, mut event) = held {
                    as_canceled(&mut event);
                    self.deliver(session, PAGE_EVENT, &event.to_string());
                }
            }
        }
        self.change(Change::DownloadEnded { download: id });
    }

    fn tell_download(&mut self, task: TaskId, method: &str, event: &Value) {
        for client in self.clients_of(task) {
            self.tell_client(client, method, event);
        }
    }

    fn tell_client(&mut self, client: ownership::id::ClientId, method: &str, event: &Value) {
        let Some(state) = self.clients.get(&client) else { return };
        let alive = |session: &Option<_>| session.is_none_or(|session| state.sessions.contains_key(&session));
        let mut sessions: Vec<_> = state.download_events.iter().filter(|session| alive(session)).copied().collect();
        sessions.sort_unstable();
        let text = event.to_string();
        for session in sessions {
            self.event(client, session, method, &text);
        }
    }
}

/// What a client is told of a download that was denied and complete at once.
fn as_canceled(event: &mut Value) {
    event["state"] = json!("canceled");
    event["receivedBytes"] = json!(0);
    if let Some(event) = event.as_object_mut() {
        event.remove("filePath");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_playwright_are_known_from_any_system() {
        for own in [
            "/tmp/playwright-artifacts-AbC",
            "/var/folders/zz/T/playwright-artifacts-1",
            r"C:\Users\me\AppData\Local\Temp\playwright-artifacts-x",
        ] {
            assert!(is_playwrights_own(Path::new(own)), "{own}");
        }
        for other in
            ["", "/", "/home/me", "/tmp/playwright-artifacts-1/x", "/tmp/../playwright-artifacts-x", "/playwright"]
        {
            assert!(!is_playwrights_own(Path::new(other)), "{other}");
        }
    }
}
