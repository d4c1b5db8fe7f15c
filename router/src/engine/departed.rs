//! Frames and workers of tasks that are gone, while requests of theirs may still be under way: a beacon, a ping or a
//! `fetch(…, {keepalive: true})` goes on when its page is closed, up to 30 s, and follows redirects. The guard's session has
//! ended with its target, and Chromium then lets what was paused there go on by itself (measured: all such requests reached a
//! forbidden server, and now and then a plain `fetch` did). The browser's own `Fetch` still pauses each hop and names the frame.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ownership::Lineage;
use ownership::id::{FrameId, TargetId, TaskId};
use policy::{Policies, Question, Verb};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Engine;
use super::audit::Judgement;
use super::gate::forbids_by;
use super::io::{Record, RecordKind};
use super::requests::{http_method, is_document, judge_request_by};

/// Chromium gives a request whose frame is gone 30 s.
const AFTERLIFE: Duration = Duration::from_secs(120);

/// The oldest are forgotten above this: a few megabytes.
const REMEMBERED: usize = 1 << 16;

#[derive(Default)]
pub struct Departed {
    of: FxHashMap<TargetId, Past>,
    order: VecDeque<(TargetId, Instant)>,
    /// The highest number of a request that has paused on the browser's session.
    last_request: u64,
}

struct Past {
    of: Arc<Whose>,
    at: Instant,
    /// The frame lives on in the person's hands: only redirects of requests up to this number are the task's,
    through: Option<u64>,
    /// and the load for which it was released.
    load_ends: bool,
}

impl Departed {
    pub fn len(&self) -> usize {
        self.of.len()
    }

    pub fn saw_request(&mut self, params: &Value) {
        let number = params["requestId"].as_str().and_then(number_of).unwrap_or_default();
        self.last_request = self.last_request.max(number);
    }

    fn remember(&mut self, id: TargetId, past: Past) {
        self.forget_old(past.at);
        if self.order.len() >= REMEMBERED
            && let Some((oldest, _)) = self.order.pop_front()
        {
            self.of.remove(&oldest);
        }
        self.order.push_back((id, past.at));
        self.of.insert(id, past);
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |at: Instant| now.saturating_duration_since(at) >= AFTERLIFE;
        while let Some((id, _)) = self.order.front().copied().filter(|(_, at)| is_old(*at)) {
            self.order.pop_front();
            // It may have departed again since.
            if self.of.get(&id).is_some_and(|past| is_old(past.at)) {
                self.of.remove(&id);
            }
        }
    }

    /// What a paused request is judged by, if it was begun by something that is gone.
    fn past_of(&self, params: &Value) -> Option<&Past> {
        let id = params["frameId"].as_str().and_then(TargetId::new)?;
        let past = self.of.get(&id)?;
        let Some(through) = past.through else { return Some(past) };
        if is_document(params) && past.load_ends {
            return Some(past);
        }
        // What a released page loads is the person's, its document above all.
        let begun = params["redirectedRequestId"].as_str().filter(|_| !is_document(params))?;
        number_of(begun).is_none_or(|number| number <= through).then_some(past)
    }
}

/// The task may end before its requests do.
pub struct Whose {
    pub task: TaskId,
    pub name: String,
    pub policy: Arc<Policies>,
}

/// `interception-job-12.1` is the second hop of the twelfth request.
fn number_of(request: &str) -> Option<u64> {
    let (_, number) = request.strip_prefix("interception-job-")?.split_once('.').map(|(job, hop)| (hop, job))?;
    number.parse().ok()
}

impl Engine {
    /// A page of a task's closes or is released (`in_hands_of_person`), with all that is known to have been in it.
    pub(super) fn page_departs(&mut self, page: TargetId, in_hands_of_person: bool) {
        // Shared workers are known by their context alone.
        let context = || self.targets.get(&page).and_then(|target| target.info.context);
        let owner = self.ledger.owner(page).or_else(|| self.ledger.owner_of_context(context()?));
        let Some(task) = owner else { return };
        let frames = self.ledger.frames_of(page).filter_map(|frame| TargetId::new(frame.as_str()));
        let below = self.ledger.targets_below(page);
        let all: Vec<TargetId> = frames.chain(below).chain([page]).collect();
        self.depart(&all, task, in_hands_of_person);
    }

    /// Nobody of the task's has asked for the load for which a page was just released, so it is the person's; but downloads that turn
    /// into loads look the same, and so does the page of an error that loads itself anew. It fails, once: the person can load it
    /// again.
    pub(super) fn end_load_of_released(&mut self, page: TargetId) {
        if let Some(past) = self.departed.of.get_mut(&page) {
            past.load_ends = true;
        }
    }

    /// Whether another page of a task's has a handle to this one, being its opener or opened by it: were it released, that one
    /// could send it anywhere, with no gate.
    pub(super) fn is_within_reach(&self, page: TargetId) -> bool {
        let opener = |page: TargetId| match self.ledger.lineage(page) {
            Some(Lineage::OpenedBy(opener) | Lineage::ClickedIn(opener)) => Some(opener),
            _ => None,
        };
        let is_owned = |other: TargetId| self.ledger.owner(other).is_some();
        let opened = || self.targets.keys().any(|other| is_owned(*other) && opener(*other) == Some(page));
        opener(page).is_some_and(is_owned) || opened()
    }

    /// The load has come to its pause.
    pub(super) fn load_of_released_paused(&mut self, frame: FrameId) {
        let past = TargetId::new(frame.as_str()).and_then(|id| self.departed.of.get_mut(&id));
        if let Some(past) = past {
            past.load_ends = false;
        }
    }

    pub(super) fn frame_departs(&mut self, frame: FrameId) {
        let task = self.ledger.page_of_frame(frame).and_then(|page| self.ledger.owner(page));
        if let Some((id, task)) = TargetId::new(frame.as_str()).zip(task) {
            self.depart(&[id], task, false);
        }
    }

    pub(super) fn has_departed(&self, frame: FrameId) -> bool {
        TargetId::new(frame.as_str()).is_some_and(|id| self.departed.of.contains_key(&id))
    }

    fn depart(&mut self, all: &[TargetId], task: TaskId, in_hands_of_person: bool) {
        let Some(state) = self.tasks.get(&task).filter(|task| !task.allows_all_loads()) else { return };
        let of = Arc::new(Whose { task, name: state.name.clone(), policy: state.policy.clone() });
        let through = in_hands_of_person.then_some(self.departed.last_request);
        for id in all {
            self.departed.remember(*id, Past { of: of.clone(), at: self.now, through, load_ends: false });
        }
    }

    /// When the last of them can be forgotten: then the browser's `Fetch` need not look at everything any more.
    pub(super) fn departed_deadline(&self) -> Option<Instant> {
        self.departed.order.back().map(|(_, at)| *at + AFTERLIFE)
    }

    pub(super) fn forget_departed(&mut self) {
        self.departed.forget_old(self.now);
        self.look_at_requests();
    }

    /// A request, or a document, paused on the browser's session for something that is gone. `None`: not so.
    pub(super) fn judge_departed(&self, params: &Value) -> Option<(Arc<Whose>, Option<Judgement>)> {
        let past = self.departed.past_of(params)?;
        let policy = self.tasks.get(&past.of.task).map_or(&past.of.policy, |task| &task.policy);
        if !is_document(params) {
            return Some((past.of.clone(), judge_request_by(|question| policy.judge(question), params, None)));
        }
        // Which kind of frame it was is forgotten: it has to be allowed as either.
        let url = params["request"]["url"].as_str().unwrap_or_default();
        let question = |verb| Question::new(verb, url).created_by(Some("task")).with_method(http_method(params));
        let judged = [Verb::Navigate, Verb::Frame]
            .into_iter()
            .find_map(|verb| forbids_by(|question| policy.judge(question), &question(verb)));
        Some((past.of.clone(), judged))
    }

    pub(super) fn settle_departed(&mut self, whose: &Whose, request: &str, judged: Option<Judgement>) {
        let Some(judged) = judged else { return self.continue_document(request) };
        self.fail_request(None, request);
        let id = self.audit_of(whose, None, "", &judged);
        let message = format!("{} [{id}]", judged.sentence());
        let task = self.tasks.contains_key(&whose.task).then_some(whose.task);
        self.record(Record { task, client: None, kind: RecordKind::Blocked, message });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(n: u8) -> TargetId {
        TargetId::from_bytes([n; 16])
    }

    fn paused(n: u8, redirected: Option<&str>) -> Value {
        json!({"frameId": id(n).as_str(), "resourceType": "Ping", "redirectedRequestId": redirected})
    }

    fn past(task: u32, at: Instant, through: Option<u64>) -> Past {
        Past {
            of: Arc::new(Whose { task: TaskId(task), name: String::new(), policy: Arc::new(Policies::built_in()) }),
            at,
            through,
            load_ends: false,
        }
    }

    fn task_of(departed: &Departed, params: &Value) -> Option<TaskId> {
        departed.past_of(params).map(|past| past.of.task)
    }

    #[test]
    fn what_a_closed_page_has_begun_is_its_tasks_for_a_while() {
        let start = Instant::now();
        let mut departed = Departed::default();
        departed.remember(id(1), past(7, start, None));
        assert_eq!(task_of(&departed, &paused(1, None)), Some(TaskId(7)));
        assert_eq!(task_of(&departed, &paused(2, None)), None);
        departed.forget_old(start + AFTERLIFE);
        assert_eq!(task_of(&departed, &paused(1, None)), None);
    }

    #[test]
    fn of_a_released_page_only_what_was_under_way_is_the_tasks() {
        let mut departed = Departed::default();
        departed.remember(id(1), past(7, Instant::now(), Some(12)));
        assert_eq!(task_of(&departed, &paused(1, Some("interception-job-12.0"))), Some(TaskId(7)));
        assert_eq!(task_of(&departed, &paused(1, Some("interception-job-13.0"))), None);
        assert_eq!(task_of(&departed, &paused(1, None)), None);
        assert_eq!(task_of(&departed, &paused(1, Some("another-name"))), Some(TaskId(7)), "unreadable is the task's");
        let mut document = paused(1, Some("interception-job-12.0"));
        document["resourceType"] = json!("Document");
        assert_eq!(task_of(&departed, &document), None);
    }

    #[test]
    fn one_that_departs_twice_is_remembered_from_the_second_time() {
        let start = Instant::now();
        let mut departed = Departed::default();
        departed.remember(id(1), past(7, start, Some(1)));
        departed.remember(id(1), past(8, start + AFTERLIFE / 2, None));
        departed.forget_old(start + AFTERLIFE);
        assert_eq!(task_of(&departed, &paused(1, None)), Some(TaskId(8)));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let mut departed = Departed::default();
        for n in 0..REMEMBERED as u128 + 10 {
            departed.remember(TargetId::from_bytes(n.to_be_bytes()), past(7, Instant::now(), None));
        }
        assert!(departed.len() <= REMEMBERED);
    }
}
