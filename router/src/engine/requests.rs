//! What pages load beside their documents: judged at the guard's own `Fetch`, on the session of the page and of each OOPIF of
//! it, and once more at the browser's. What the task's own service and shared workers load, and what is gone (`departed.rs`), is
//! judged at the browser's alone.
//!
//! Not only there, for a request names its frame and no more, and that of a frame which a script has just made can be told before the
//! frame is. The guard's stands only where the task's policy may stop a request. The guard was attached
//! before any client, so its `Fetch` is the one next to the network and sees what a client's own interception made of a URL.
//! Requests of dedicated workers come on the session of the page.

use ownership::Change;
use ownership::id::{FrameId, SessionId, TargetId, TaskId};
use policy::{Decision, Policies, Question, Verb};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::Engine;
use super::audit::Judgement;
use super::calls::Purpose;
use super::info::TargetInfo;
use super::io::{Record, RecordKind};
use super::state::{Session, Task};
use crate::wire::{Outcome, value_of};

/// Frames that are remembered to be frames; the browser is asked again about those that were forgotten.
const REMEMBERED_FRAMES: usize = 4096;

/// Who asks for what pauses on the browser's session.
#[derive(Default)]
pub struct Requesters {
    are_frames: FxHashSet<TargetId>,
    /// Requests of those about whom the browser has been asked.
    unknown: FxHashMap<TargetId, Vec<Value>>,
}

impl Engine {
    /// Puts up the gate on a guard's session, where the policy of the page's task needs one.
    pub(super) fn gate_requests(&mut self, page: TargetId, guard: SessionId) {
        self.watch_sockets(page, guard);
        if self.has_forbidden_workers(page) {
            self.bypass_workers(page, guard);
        }
        if !self.has_gated_requests(page) {
            return;
        }
        self.own(Some(guard), "Fetch.enable", &every_request(), Purpose::Gate(page));
        // The profile's workers serve the person too, so nothing of theirs is paused: owned pages go past them.
        if !self.context_is_own(page) {
            self.bypass_workers(page, guard);
        }
    }

    pub(super) fn has_gated_requests(&self, page: TargetId) -> bool {
        self.task_of_page(page).is_some_and(|(_, task)| task.gates_requests)
    }

    /// The policy was narrowed: the gate goes up on the guards that have been there without one.
    pub(super) fn gate_requests_of(&mut self, page: TargetId) {
        for guard in self.guards_of(page) {
            self.gate_requests(page, guard);
        }
    }

    pub(super) fn guards_of(&self, page: TargetId) -> Vec<SessionId> {
        let of_page = |session: &Session| matches!(session, Session::Guard { page: other, .. } if *other == page);
        let mut guards: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| of_page(session)).map(|(id, _)| *id).collect();
        guards.sort_unstable();
        guards
    }

    // --- on the browser's session -------------------------------------------------------------------------------

    /// Of a task that has come, has gone, or has other policies now.
    pub(super) fn policies_changed(&mut self) {
        self.look_at_requests();
        self.has_trials = self.tasks.values().any(|task| task.policy.has_trial());
    }

    /// Service and shared workers of a task's own context have no session that could be held in time (measured: the first
    /// requests of a shared worker went by), and of what is gone there is none any more (see `departed.rs`). The browser's own
    /// `Fetch` sees theirs and names the frame or the worker, so it looks at every request while there is a task that needs it;
    /// those of the person's tabs go on at once.
    pub(super) fn look_at_requests(&mut self) {
        let wide = self.departed.len() > 0 || self.tasks.values().any(|task| task.gates_requests);
        if wide == self.root_fetch_is_wide {
            return;
        }
        self.root_fetch_is_wide = wide;
        let looked_at = if wide { every_request() } else { every_document() };
        self.own(None, "Fetch.enable", &looked_at, Purpose::Nothing);
    }

    /// A request other than a document's, paused on the browser's session.
    pub(super) fn root_request_paused(&mut self, params: Value) {
        let Some(request) = params["requestId"].as_str() else { return };
        let Some(id) = params["frameId"].as_str().and_then(TargetId::new) else {
            return self.continue_document(request);
        };
        self.departed.saw_request(&params);
        // A page's own have been judged on its guard's session; once more costs nothing, and rests on nothing else.
        let frame = FrameId::new(id.as_str());
        let page = frame.and_then(|frame| self.documents.get(&frame)).map(|document| document.page);
        if let Some(page) = page.or_else(|| frame.and_then(|frame| self.ledger.page_of_frame(frame))) {
            let judged = self.judge_request(page, &params);
            return self.settle_request(None, page, request, judged);
        }
        if let Some((whose, judged)) = self.judge_departed(&params) {
            return self.settle_departed(&whose, request, judged);
        }
        if let Some(info) = self.targets.get(&id).map(|target| target.info.clone()) {
            return self.judge_worker_request(&info, &params);
        }
        // The profile's workers serve the person too.
        let has_own_workers = |task: &Task| task.gates_requests && !task.shared();
        if self.requesters.are_frames.contains(&id) || !self.tasks.values().any(has_own_workers) {
            return self.continue_document(request);
        }
        // A worker's first request can be told before the worker is (measured). The browser is asked, once for each.
        let waiting = self.requesters.unknown.entry(id).or_default();
        waiting.push(params);
        if waiting.len() == 1 {
            let params = json!({"targetId": id.as_str()});
            self.own(None, "Target.getTargetInfo", &params, Purpose::WhoAsks(id));
        }
    }

    pub(super) fn requester_answered(&mut self, id: TargetId, outcome: Outcome<'_>) {
        let info = match outcome {
            Outcome::Result(result) => TargetInfo::read(&value_of(Some(result))["targetInfo"]),
            // No target of that name: a frame, of the person's or one that its own guard looks after.
            Outcome::Error(_) => None,
        };
        if info.is_none() {
            if self.requesters.are_frames.len() >= REMEMBERED_FRAMES {
                self.requesters.are_frames.clear();
            }
            self.requesters.are_frames.insert(id);
        }
        for params in self.requesters.unknown.remove(&id).unwrap_or_default() {
            match &info {
                Some(info) => self.judge_worker_request(info, &params),
                None => self.continue_document(params["requestId"].as_str().unwrap_or_default()),
            }
        }
    }

    fn judge_worker_request(&mut self, info: &TargetInfo, params: &Value) {
        let request = params["requestId"].as_str().unwrap_or_default();
        // A page's own have been judged on its guard's session.
        let is_worker = matches!(info.kind.as_str(), "shared_worker" | "service_worker");
        let owner = info.context.filter(|_| is_worker).and_then(|context| self.ledger.owner_of_context(context));
        match owner {
            Some(task) => self.settle_worker_request(task, request, self.judge(task, params, Some(&info.url))),
            None => self.continue_document(request),
        }
    }

    /// There is no page whose clients could be told.
    fn settle_worker_request(&mut self, task: TaskId, request: &str, judged: Option<Judgement>) {
        let Some(judged) = judged else { return self.continue_document(request) };
        self.fail_request(None, request);
        let id = self.audit(task, None, "", &judged);
        let message = format!("{} [{id}]", judged.sentence());
        self.record(Record { task: Some(task), client: None, kind: RecordKind::Blocked, message });
    }

    // --- pauses -------------------------------------------------------------------------------------------------

    /// A request of an owned page is paused on a guard's session.
    pub(super) fn request_paused(&mut self, guard: SessionId, page: TargetId, params: &Value) {
        let Some(request) = params["requestId"].as_str() else { return };
        self.learn_requester(page, params);
        // Documents pause once more on the browser's session, and are judged there.
        let judged = self.judge_request(page, params).filter(|_| !is_document(params));
        self.settle_request(Some(guard), page, request, judged);
    }

    /// This pause comes before the one on the browser's session, and may come before the frame is told of, or be all that is
    /// ever told of it: whose frame it is has to be known if the page closes now.
    fn learn_requester(&mut self, page: TargetId, params: &Value) {
        let frame = params["frameId"].as_str().and_then(FrameId::new);
        let unknown = |frame: &FrameId| self.ledger.page_of_frame(*frame).is_none() && !self.has_departed(*frame);
        if let Some(frame) = frame.filter(unknown) {
            self.change(Change::FrameAttached { frame, page });
        }
    }

    fn settle_request(&mut self, on: Option<SessionId>, page: TargetId, request: &str, judged: Option<Judgement>) {
        match judged {
            None => self.own(on, "Fetch.continueRequest", &json!({"requestId": request}), Purpose::Nothing),
            Some(judged) => {
                self.fail_request(on, request);
                self.blocked(page, &judged);
            }
        }
    }

    pub(super) fn fail_request(&mut self, on: Option<SessionId>, request: &str) {
        let params = json!({"requestId": request, "errorReason": "BlockedByClient"});
        self.own(on, "Fetch.failRequest", &params, Purpose::Nothing);
    }

    /// `None`: it may go on.
    fn judge_request(&self, page: TargetId, params: &Value) -> Option<Judgement> {
        let requester = params["frameId"].as_str().unwrap_or_default();
        let initiator = self.initiator(requester).or_else(|| self.initiator(page.as_str()));
        self.judge(self.ledger.owner(page)?, params, initiator)
    }

    fn judge(&self, task: TaskId, params: &Value, initiator: Option<&str>) -> Option<Judgement> {
        match self.tasks.get(&task) {
            Some(task) => judge_request_by(|question| task.judge(question), params, initiator),
            // Without its task nothing may be loaded.
            None => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let decision = Policies::built_in().judge(&Question::new(Verb::Subresource, ""));
                Judgement::unless_allowed(decision, Verb::Subresource, url)
            }
        }
    }

    /// What a frame's document was asked for by: the document above it. Of a top document nobody can be sure.
    pub(super) fn initiator_of_document(&self, frame: FrameId) -> Option<&str> {
        let parent = self.documents.get(&frame)?.parent?;
        self.origin_document(parent)
    }
}

/// Judges what is not a document.
pub(super) fn judge_request_by(
    judge: impl Fn(&Question<'_>) -> Decision,
    params: &Value,
    initiator: Option<&str>,
) -> Option<Judgement> {
    let url = params["request"]["url"].as_str().unwrap_or_default();
    let resource_type = params["resourceType"].as_str().unwrap_or_default();
    judge_load(judge, url, resource_type, http_method(params), initiator)
}

pub(super) fn judge_load(
    judge: impl Fn(&Question<'_>) -> Decision,
    url: &str,
    resource_type: &str,
    method: Option<&str>,
    initiator: Option<&str>,
) -> Option<Judgement> {
    // Nothing of the network is behind these: whose they are, the document that has them is.
    if ["data:", "blob:"].iter().any(|local| url.starts_with(local)) {
        return None;
    }
    verbs_of(resource_type).iter().find_map(|verb| {
        let question = Question::new(*verb, url).on_behalf_of(initiator).with_method(method);
        Judgement::unless_allowed(judge(&question), *verb, url)
    })
}

/// All types: some of those that events name cannot be named in a pattern (`TextTrack`; measured).
fn every_request() -> Value {
    json!({"patterns": [{"urlPattern": "*", "requestStage": "Request"}]})
}

/// What the browser's own `Fetch` looks at: it is the only gate that sees the first request of ctrl-click tabs and of
/// `createTarget{url}`.
pub(super) fn every_document() -> Value {
    json!({"patterns": [{"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}]})
}

/// What is not told to be anything else is judged as a document.
pub(super) fn is_document(params: &Value) -> bool {
    params["resourceType"].as_str().is_none_or(|kind| kind == "Document")
}

/// A worker's script comes as `Other`, like a page's icon: it has to be allowed as both.
fn verbs_of(resource_type: &str) -> &'static [Verb] {
    match resource_type {
        "Other" => &[Verb::Subresource, Verb::Worker],
        _ => &[Verb::Subresource],
    }
}

/// The method by which a request is judged. A preflight asks for the method that it announces.
pub(super) fn http_method(params: &Value) -> Option<&str> {
    let request = &params["request"];
    if params["resourceType"] == "Preflight" {
        let headers = request["headers"].as_object()?;
        let announced = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("access-control-request-method"));
        return announced.and_then(|(_, method)| method.as_str());
    }
    request["method"].as_str()
}
