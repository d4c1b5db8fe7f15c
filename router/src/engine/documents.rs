//! The documents in the frames of owned pages: which one a command meets, on whose behalf a request is made, and whether the
//! policy lets a client do there what it asks for.

use ownership::Lineage;
use ownership::id::{FrameId, SessionId, TargetId, TaskId};
use policy::methods::Row;
use policy::{Question, Verb};
use serde_json::Value;

use super::Engine;
use super::audit::Judgement;
use super::calls::ReplyTo;
use super::gate::always_holdable;
use super::refusal::Refusal;
use super::state::Task;

/// The verbs that are judged at the document which a command meets. Of the others, cookies, storage, permissions and
/// downloads are judged at the place they name, and loads at their URL.
const AT_DOCUMENT: [Verb; 7] =
    [Verb::Read, Verb::Script, Verb::Input, Verb::Emulate, Verb::Upload, Verb::Intercept, Verb::Raw];

/// The document in a frame.
#[derive(Debug)]
pub struct Document {
    pub page: TargetId,
    /// The target that holds it: the page, or the OOPIF that it is in or is.
    pub held_by: TargetId,
    pub parent: Option<FrameId>,
    pub url: String,
    /// Where the frame may be going, until that commits or ends: a command that is sent meanwhile may meet any of these
    /// documents (measured: an `evaluate` sent after `Page.navigate` ran in the new one, 829 of 829).
    pub coming: Vec<Coming>,
    /// What opened the page, where this is a document with its maker's origin. Kept, since the opener can go.
    pub maker: Option<String>,
    /// Of a document with its maker's origin, the one before it in the frame: it may have gone there itself, and then the origin is
    /// its own. (The browser tells none of `about:blank`.)
    before: Option<String>,
}

/// A document that may commit in a frame.
#[derive(Debug)]
pub struct Coming {
    url: String,
    /// The number of the `Page.navigate` that asked for it; `None`: told by the browser.
    by_command: Option<u64>,
}

/// Commands that name a request by its id and tell what it brought or took.
const BODIES: [&str; 6] = [
    "Network.getRequestPostData",
    "Network.getResponseBody",
    "Network.replayXHR",
    "Network.searchInResponseBody",
    "Network.streamResourceContent",
    "Network.takeResponseBodyForInterceptionAsStream",
];

/// It goes on to Chromium as it came: a second id is an error, for Chromium could take the other.
#[derive(serde::Deserialize)]
struct NamedRequest {
    #[serde(rename = "requestId")]
    request_id: String,
}

/// Requests of a session that are remembered.
const REQUESTS: usize = 10_000;

/// Documents that may be coming to one frame at a time.
const COMING: usize = 64;

/// What was judged before a command was sent, so that the answer can be judged again if the document has changed meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    pub row: &'static Row,
    pub target: TargetId,
    /// Of the target's documents, when the command was sent.
    pub generation: u64,
}

impl Engine {
    // --- learning -----------------------------------------------------------------------------------------------

    /// A frame has this document now. `told_by`: the target whose session said so.
    pub(super) fn learn_document(&mut self, page: TargetId, told_by: TargetId, frame: &Value) {
        let Some(id) = frame["id"].as_str().and_then(FrameId::new) else { return };
        let url = frame["url"].as_str().unwrap_or_default().to_owned();
        // An OOPIF's session tells no parent: the one that was told when the frame was made still holds.
        let known = self.documents.get(&id).and_then(|document| document.parent);
        let parent = frame["parentId"].as_str().and_then(FrameId::new).or(known);
        let maker = if parent.is_none() && is_its_makers(&url) { self.maker_of(page) } else { None };
        let before = if is_its_makers(&url) { self.named_document(id) } else { None };
        self.documents.insert(id, Document { page, held_by: told_by, parent, url, coming: Vec::new(), maker, before });
        self.documents_changed(told_by);
        // A picture of the page shows this frame too.
        if told_by != page {
            self.documents_changed(page);
        }
    }

    pub(super) fn learn_new_frame(&mut self, page: TargetId, told_by: TargetId, params: &Value) {
        let frame = params["frameId"].as_str().and_then(FrameId::new);
        let parent = params["parentFrameId"].as_str().and_then(FrameId::new);
        if let Some(frame) = frame {
            let url = "about:blank".to_owned();
            let document =
                Document { page, held_by: told_by, parent, url, coming: Vec::new(), maker: None, before: None };
            self.documents.entry(frame).or_insert(document);
        }
    }

    /// The document at the top of the page that opened this one.
    fn maker_of(&self, page: TargetId) -> Option<String> {
        let opener = match self.ledger.lineage(page)? {
            Lineage::OpenedBy(opener) | Lineage::ClickedIn(opener) => opener,
            _ => return None,
        };
        self.origin_document(FrameId::new(opener.as_str())?).map(str::to_owned)
    }

    /// The frame may be on its way to that URL. `by_command`: see [`Coming`].
    pub(super) fn frame_goes_to(&mut self, frame: FrameId, url: &str, by_command: Option<u64>) {
        let Some(document) = self.documents.get_mut(&frame) else { return };
        // Of more than these the first is the one that a newer load has cancelled.
        if document.coming.len() >= COMING {
            document.coming.remove(0);
        }
        document.coming.push(Coming { url: url.to_owned(), by_command });
    }

    /// It has stopped loading. What a command has asked for stays until that is answered: this may be of the load before.
    pub(super) fn frame_stopped(&mut self, frame: FrameId) {
        if let Some(document) = self.documents.get_mut(&frame) {
            document.coming.retain(|coming| coming.by_command.is_some());
        }
    }

    pub(super) fn command_goes_nowhere(&mut self, frame: FrameId, nth: u64) {
        if let Some(document) = self.documents.get_mut(&frame) {
            document.coming.retain(|coming| coming.by_command != Some(nth));
        }
    }

    pub(super) fn document_url_changed(&mut self, frame: FrameId, url: &str) {
        let Some(document) = self.documents.get_mut(&frame) else { return };
        url.clone_into(&mut document.url);
        let held_by = document.held_by;
        self.documents_changed(held_by);
    }

    pub(super) fn forget_documents(&mut self, page: TargetId) {
        self.documents.retain(|_, document| document.page != page);
    }

    /// What was judged on it before is not what is there now.
    pub(super) fn documents_changed(&mut self, target: TargetId) {
        if let Some(target) = self.targets.get_mut(&target) {
            target.generation += 1;
        }
    }

    fn named_document(&self, frame: FrameId) -> Option<String> {
        let document = self.documents.get(&frame)?;
        if is_its_makers(&document.url) { document.before.clone() } else { Some(document.url.clone()) }
    }

    // --- asking -------------------------------------------------------------------------------------------------

    /// The URL as which a frame's document is judged: `about:blank`, `srcdoc` and `data:` are their makers'.
    pub(super) fn origin_document(&self, frame: FrameId) -> Option<&str> {
        let mut at = frame;
        // Frames are nested a few deep; a circle would be a mistake of the browser's.
        for _ in 0..64 {
            let document = self.documents.get(&at)?;
            if !is_its_makers(&document.url) {
                return Some(&document.url);
            }
            match document.parent {
                Some(parent) => at = parent,
                None => return document.maker.as_deref(),
            }
        }
        None
    }

    /// Whether every command of that verb may go to every document that the task can hold: then nothing is looked up.
    pub(super) fn is_free(task: &Task, verb: Verb) -> bool {
        task.free.get(verb as usize).copied().unwrap_or(false)
    }

    /// The verbs of a row that have to be judged at a document, if only to keep what a rule in monitor mode would say.
    fn guarded_verbs<'a>(task: &'a Task, row: &'static Row) -> impl Iterator<Item = Verb> + 'a {
        let has_trial = task.policy.has_trial();
        let guarded = move |verb: &Verb| AT_DOCUMENT.contains(verb) && (has_trial || !Engine::is_free(task, *verb));
        row.verbs.iter().copied().filter(guarded)
    }

    /// Judges a command at the documents that it can meet: those of its session's target, where it names a frame that one
    /// alone; and the one that is about to commit there, since a command that is sent now may meet it.
    pub(super) fn forbidden_at_document(
        &self,
        session: SessionId,
        row: &'static Row,
        named: Option<FrameId>,
    ) -> Option<Judgement> {
        let state = self.client_session(session)?;
        let task = self.task_of(state.client).and_then(|task| self.tasks.get(&task))?;
        Engine::guarded_verbs(task, row).find_map(|verb| {
            self.documents_met(state.target, named, verb).into_iter().find_map(|url| judge_at(task, verb, url))
        })
    }

    /// For which document a request is made: its body can be asked for when that is gone.
    pub(super) fn note_request(&mut self, session: SessionId, params: &Value) {
        let (Some(id), Some(document)) = (params["requestId"].as_str(), params["documentURL"].as_str()) else { return };
        let frame = params["frameId"].as_str().and_then(FrameId::new);
        let makers = frame
            .filter(|_| is_its_makers(document))
            .and_then(|frame| self.named_document(frame).or_else(|| self.origin_document(frame).map(str::to_owned)));
        let document = makers.unwrap_or_else(|| document.to_owned());
        // A worker's may be told of none.
        if document.is_empty() {
            return;
        }
        if let Some(session) = self.client_session_mut(session) {
            // Of those that are forgotten nothing can be read.
            if session.requests_of.len() >= REQUESTS {
                session.requests_of.clear();
            }
            session.requests_of.insert(id.to_owned(), document);
        }
    }

    /// Commands that read what was loaded for a document that may be gone.
    pub(super) fn refuse_unread_body(
        &mut self,
        to: ReplyTo,
        session: SessionId,
        row: &'static Row,
        raw: &str,
    ) -> Result<(), Refusal> {
        if !BODIES.contains(&row.method) || self.reads_all(session) {
            return Ok(());
        }
        let named: NamedRequest =
            serde_json::from_str(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        let known = self.client_session(session).and_then(|session| session.requests_of.get(&named.request_id));
        let document = known.cloned();
        let Some(document) = document else {
            return Err(Refusal::ours(format!(
                "{} refused: the policy of this task allows `read` in some documents only, and for which one this request was \
                 made is not known; send Network.enable before it is made",
                row.method
            )));
        };
        let task = self.task_of(to.client).and_then(|task| self.tasks.get(&task));
        match task.and_then(|task| judge_at(task, Verb::Read, &document)) {
            Some(judged) => Err(self.denied(to.client, row.method, &judged)),
            None => Ok(()),
        }
    }

    pub(super) fn reads_all(&self, session: SessionId) -> bool {
        let task = self.client_session(session).and_then(|session| self.task_of(session.client));
        task.and_then(|task| self.tasks.get(&task)).is_some_and(|task| Engine::is_free(task, Verb::Read))
    }

    /// Whether a document that the session can see is none that its task may read.
    pub(super) fn may_not_read(&self, session: SessionId) -> bool {
        let Some(state) = self.client_session(session) else { return true };
        let Some(task) = self.task_of(state.client).and_then(|task| self.tasks.get(&task)) else { return true };
        !Engine::is_free(task, Verb::Read)
            && self
                .documents_met(state.target, None, Verb::Read)
                .into_iter()
                .any(|url| judge_at(task, Verb::Read, url).is_some())
    }

    /// Whether the answer to a command that has met another document than the one for which it was judged may be told.
    pub(super) fn forbidden_by_now(&self, task: &Task, met: &Met) -> bool {
        let Some(target) = self.targets.get(&met.target) else { return false };
        target.generation != met.generation
            && Engine::guarded_verbs(task, met.row).any(|verb| {
                self.documents_met(met.target, None, verb).into_iter().any(|url| judge_at(task, verb, url).is_some())
            })
    }

    /// What is remembered of a command whose answer has to be judged again; `None` where no document could forbid it.
    pub(super) fn meets(&self, session: SessionId, row: &'static Row) -> Option<Met> {
        let state = self.client_session(session)?;
        let task = self.task_of(state.client).and_then(|task| self.tasks.get(&task))?;
        Engine::guarded_verbs(task, row).next()?;
        let target = state.target;
        Some(Met { row, target, generation: self.targets.get(&target)?.generation })
    }

    /// A node, or an object whose world is not known, can be of any document that the session's target holds. Reading and
    /// input reach further, into every frame of a page: a picture shows them all, a key goes to the focused one.
    fn documents_met(&self, target: TargetId, named: Option<FrameId>, verb: Verb) -> Vec<&str> {
        let before = |frame: FrameId| self.documents.get(&frame).and_then(|document| document.before.as_deref());
        let of_frame = |frame: FrameId| {
            self.origin_document(frame).into_iter().chain(before(frame)).chain(self.coming_documents(frame))
        };
        if let Some(frame) = named {
            return of_frame(frame).collect();
        }
        let reaches_down = matches!(verb, Verb::Read | Verb::Input);
        let met = |document: &Document| document.held_by == target || (reaches_down && document.page == target);
        // A frame that has just moved to a process of its own is told by the page above it until its own session has spoken.
        let is_top = |frame: &FrameId| frame.as_str() == target.as_str();
        let all = self.documents.iter().filter(|(frame, document)| is_top(frame) || met(document));
        let frames = all.map(|(frame, _)| *frame);
        // A worker has no frame: it is judged as the script that it runs.
        let worker = self.targets.get(&target).filter(|target| target.info.kind.contains("worker"));
        let script = worker.map(|target| target.info.url.as_str());
        // One without an address of its own is its makers': of any document of its page, for which one is not told.
        let nameless = script.is_some_and(is_its_makers).then(|| self.ledger.page_of(target)).flatten();
        let makers = self.documents.iter().filter(|(_, document)| Some(document.page) == nameless);
        let makers = makers.map(|(frame, _)| *frame).flat_map(of_frame);
        frames.flat_map(of_frame).chain(script).chain(makers).collect()
    }

    fn coming_documents(&self, frame: FrameId) -> impl Iterator<Item = &str> {
        let coming = self.documents.get(&frame).map(|document| document.coming.as_slice()).unwrap_or_default();
        let urls = coming.iter().map(|coming| coming.url.as_str());
        urls.filter(|url| !is_its_makers(url) && !always_holdable(url))
    }

    /// The document on whose behalf a frame, or a worker's script, asks for something.
    pub(super) fn initiator(&self, requester: &str) -> Option<&str> {
        let frame = FrameId::new(requester).and_then(|frame| self.origin_document(frame));
        frame.or_else(|| TargetId::new(requester).and_then(|id| self.targets.get(&id)).map(|t| t.info.url.as_str()))
    }

    pub(super) fn task_of_page(&self, page: TargetId) -> Option<(TaskId, &Task)> {
        let id = self.ledger.owner(page)?;
        self.tasks.get(&id).map(|task| (id, task))
    }
}

pub(super) fn judge_at(task: &Task, verb: Verb, url: &str) -> Option<Judgement> {
    if always_holdable(url) {
        return None;
    }
    let decision = task.judge(&Question::new(verb, url).created_by(Some("task")));
    Judgement::unless_allowed(decision, verb, url)
}

/// A document with the origin of whoever made it.
fn is_its_makers(url: &str) -> bool {
    url.is_empty() || ["about:", "data:"].iter().any(|scheme| url.starts_with(scheme))
}
