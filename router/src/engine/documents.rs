//! The documents in the frames of owned pages: which one a command meets, on whose behalf a request is made, and whether the
//! policy lets a client do there what it asks for.

use ownership::id::{FrameId, SessionId, TargetId, TaskId};
use policy::methods::Row;
use policy::{Question, Verb};
use serde_json::Value;

use super::Engine;
use super::audit::Judgement;
use super::gate::always_holdable;
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
    /// Where the frame is going, until that commits or ends: a command that is sent meanwhile may meet either document
    /// (measured: an `evaluate` sent after `Page.navigate` ran in the new one, 829 of 829).
    pub coming: Option<String>,
}

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
        self.documents.insert(id, Document { page, held_by: told_by, parent, url, coming: None });
        self.documents_changed(told_by);
    }

    pub(super) fn learn_new_frame(&mut self, page: TargetId, told_by: TargetId, params: &Value) {
        let frame = params["frameId"].as_str().and_then(FrameId::new);
        let parent = params["parentFrameId"].as_str().and_then(FrameId::new);
        if let Some(frame) = frame {
            let url = "about:blank".to_owned();
            self.documents.entry(frame).or_insert(Document { page, held_by: told_by, parent, url, coming: None });
        }
    }

    /// The frame is on its way to that URL; `None`: it stays where it is.
    pub(super) fn frame_goes_to(&mut self, frame: FrameId, url: Option<&str>) {
        if let Some(document) = self.documents.get_mut(&frame) {
            document.coming = url.map(str::to_owned);
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
            at = document.parent?;
        }
        None
    }

    /// Whether every command of that verb may go to every document that the task can hold: then nothing is looked up.
    pub(super) fn is_free(task: &Task, verb: Verb) -> bool {
        task.free.get(verb as usize).copied().unwrap_or(false)
    }

    /// The verbs of a row that have to be judged at a document.
    fn guarded_verbs<'a>(task: &'a Task, row: &'static Row) -> impl Iterator<Item = Verb> + 'a {
        row.verbs.iter().copied().filter(|verb| AT_DOCUMENT.contains(verb) && !Engine::is_free(task, *verb))
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

    /// Reading and input reach into every frame of a page: a picture shows them all, a key goes to the focused one. The rest
    /// meets the document at the top of the session's target, in whose process same-origin frames are its own anyway.
    fn documents_met(&self, target: TargetId, named: Option<FrameId>, verb: Verb) -> Vec<&str> {
        let top = FrameId::new(target.as_str());
        let of_frame = |frame: FrameId| self.origin_document(frame).into_iter().chain(self.coming_document(frame));
        if let Some(frame) = named {
            return of_frame(frame).collect();
        }
        if matches!(verb, Verb::Read | Verb::Input) {
            let below = |document: &Document| document.held_by == target || document.page == target;
            let frames = self.documents.iter().filter(|(_, document)| below(document)).map(|(frame, _)| *frame);
            return frames.flat_map(of_frame).collect();
        }
        // A worker has no frame: it is judged as the script that it runs.
        let worker = self.targets.get(&target).filter(|target| target.info.kind.contains("worker"));
        let script = worker.map(|target| target.info.url.as_str());
        top.into_iter().flat_map(of_frame).chain(script).collect()
    }

    fn coming_document(&self, frame: FrameId) -> Option<&str> {
        let url = self.documents.get(&frame)?.coming.as_deref()?;
        (!is_its_makers(url) && !always_holdable(url)).then_some(url)
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

fn judge_at(task: &Task, verb: Verb, url: &str) -> Option<Judgement> {
    if always_holdable(url) {
        return None;
    }
    let decision = task.policy.judge(&Question::new(verb, url).created_by(Some("task")));
    Judgement::unless_allowed(decision, verb, url)
}

/// A document with the origin of whoever made it.
fn is_its_makers(url: &str) -> bool {
    url.is_empty() || ["about:", "data:"].iter().any(|scheme| url.starts_with(scheme))
}
