//! The gates on documents: root `Fetch`, which can veto a load, and the commit gate for what commits without it. Where a
//! page is about to hold a document that its task may not, clients are detached before the commit and the page is let go.

use ownership::id::{FrameId, SessionId, TargetId, TaskId};
use ownership::{Change, Lineage, TargetKind};
use policy::{Decision, Policies, Question, Verb};
use serde_json::{Value, json};

use super::Engine;
use super::audit::Judgement;
use super::calls::Purpose;
use super::clicks::origin;
use super::info::TargetInfo;
use super::io::{Record, RecordKind};
use super::requests::http_method;
use super::state::{Cause, Navigation};

/// Schemes whose documents commit without a network request. Other unknown schemes (`mailto:`, `tel:`) never commit.
const LOCAL_DOCUMENTS: [&str; 14] = [
    "about",
    "blob",
    "chrome",
    "chrome-error",
    "chrome-extension",
    "chrome-search",
    "chrome-untrusted",
    "data",
    "devtools",
    "edge",
    "filesystem",
    "isolated-app",
    "javascript",
    "view-source",
];

/// What kind of load a URL is, which says what can stop it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Root `Fetch` pauses it (`file:` too).
    Network,
    /// Commits without a pause.
    Local,
    /// Handed to another program or nowhere; there is no commit.
    External,
}

fn load_of(url: &str) -> Load {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
    match scheme.as_str() {
        "http" | "https" | "file" | "ftp" => Load::Network,
        scheme if LOCAL_DOCUMENTS.contains(&scheme) => Load::Local,
        _ => Load::External,
    }
}

/// Stands for the URL that the browser ought to have told and did not. No rule allows it, and it is not the empty URL of a
/// page without a document.
const NO_URL: &str = "an untold URL";

/// Documents that say nothing of anybody: the error page (whose target URL reads as the URL that failed), the initial
/// document of every page, and none yet.
pub(super) fn always_holdable(url: &str) -> bool {
    url.is_empty()
        || url.starts_with("chrome-error:")
        || url == "about:blank"
        || url.starts_with("about:blank#")
        || url == "about:srcdoc"
}

/// What the guard's sessions are for. The rest of what comes on them is not even parsed.
pub(super) fn is_guard_event(method: &str) -> bool {
    method.starts_with("Page.frame")
        || method.starts_with("Target.")
        || matches!(
            method,
            "Page.javascriptDialogOpening"
                | "Page.navigatedWithinDocument"
                | "ServiceWorker.workerRegistrationUpdated"
                | "Network.webSocketCreated"
                | "Network.webTransportCreated"
        )
}

pub(super) fn forbids_by(judge: impl Fn(&Question<'_>) -> Decision, question: &Question<'_>) -> Option<Judgement> {
    if always_holdable(question.url) {
        return None;
    }
    Judgement::unless_allowed(judge(question), question.verb, question.url)
}

impl Engine {
    // --- judging ------------------------------------------------------------------------------------------------

    /// `None`: may be held. `by`: who asked for it; a document that nobody of the task's asked for has no creator there.
    pub(super) fn forbids(&self, task: TaskId, verb: Verb, url: &str, by: Option<Cause>) -> Option<Judgement> {
        let question = Question::new(verb, url).created_by(by.map(|_| "task"));
        // What had another method was judged by it before it was sent.
        self.forbids_question(task, &question.with_method(verb.usual_method()))
    }

    pub(super) fn forbids_question(&self, task: TaskId, question: &Question<'_>) -> Option<Judgement> {
        match self.tasks.get(&task) {
            Some(task) => forbids_by(|question| task.judge(question), question),
            None if always_holdable(question.url) => None,
            // Without its task nothing may be held.
            None => {
                let decision = Policies::built_in().judge(&Question::new(question.verb, ""));
                Judgement::unless_allowed(decision, question.verb, question.url)
            }
        }
    }

    // --- events of guard sessions -------------------------------------------------------------------------------

    /// `target`: on whose session it came, the page's or that of an OOPIF of it.
    pub(super) fn guard_event(&mut self, page: TargetId, target: TargetId, method: &str, params: &Value) {
        match method {
            "Page.frameAttached" => {
                self.learn_new_frame(page, target, params);
                if let Some(frame) = params["frameId"].as_str().and_then(FrameId::new) {
                    self.change(Change::FrameAttached { frame, page });
                }
            }
            "Page.frameDetached" => self.frame_detached(params),
            "Page.frameRequestedNavigation" => self.frame_requested_navigation(page, params),
            "Page.frameStartedNavigating" => self.frame_started_navigating(page, params),
            "Page.frameStoppedLoading" => self.frame_stopped_loading(page, params),
            "Page.frameNavigated" => self.frame_navigated(page, target, params),
            "Page.navigatedWithinDocument" => self.navigated_within_document(page, params),
            // A beforeunload dialog brings its page's window to the front.
            "Page.javascriptDialogOpening" if params["type"] == "beforeunload" => self.give_focus_back(),
            "ServiceWorker.workerRegistrationUpdated" => self.worker_registrations_updated(page, params),
            "Network.webSocketCreated" | "Network.webTransportCreated" => self.socket_opened(page, params),
            "Target.attachedToTarget" => self.guard_child_attached(page, params),
            "Target.detachedFromTarget" => {
                if let Some(child) = params["sessionId"].as_str().and_then(SessionId::new) {
                    self.guard_gone(child);
                }
                self.child_gone(params);
            }
            _ => {}
        }
    }

    pub(super) fn child_gone(&mut self, params: &Value) {
        let Some(id) = params["targetId"].as_str().and_then(TargetId::new) else { return };
        let is_child = matches!(self.ledger.kind(id), Some(TargetKind::Frame | TargetKind::Worker));
        // A frame that goes back into its parent's process lives on; only its target is gone.
        if is_child && self.targets.get(&id).is_none_or(|target| target.sessions.is_empty()) {
            let page = self.ledger.page_of(id);
            if let Some(task) = self.ledger.owner(id) {
                self.tell_destroyed(task, id);
            }
            self.change(Change::Gone { target: id });
            self.targets.remove(&id);
            if let (Some(page), Some(frame)) = (page, FrameId::new(id.as_str())) {
                self.change(Change::FrameAttached { frame, page });
            }
        }
    }

    fn frame_detached(&mut self, params: &Value) {
        // `swap`: the frame has moved to another process and is still there.
        if params["reason"].as_str() == Some("swap") {
            return;
        }
        if let Some(frame) = params["frameId"].as_str().and_then(FrameId::new) {
            self.hidden_frames.remove(&frame);
            self.documents.remove(&frame);
            self.frame_departs(frame);
            self.change(Change::FrameDetached { frame });
        }
    }

    pub(super) fn learn_frame_tree(&mut self, page: TargetId, told_by: TargetId, tree: &Value) {
        let mut trees = vec![tree];
        while let Some(tree) = trees.pop() {
            self.learn_document(page, told_by, &tree["frame"]);
            if let Some(frame) = tree["frame"]["id"].as_str().and_then(FrameId::new) {
                self.change(Change::FrameAttached { frame, page });
            }
            self.note_document(page, &tree["frame"]);
            let document = tree["frame"]["url"].as_str().and_then(origin).map(str::to_owned);
            if let Some(target) = self.targets.get_mut(&page) {
                target.origins.extend(document);
            }
            trees.extend(tree["childFrames"].as_array().into_iter().flatten());
        }
    }

    pub(super) fn is_main_frame(&self, page: TargetId, params: &Value) -> bool {
        params["frameId"].as_str() == Some(page.as_str())
    }

    fn frame_requested_navigation(&mut self, page: TargetId, params: &Value) {
        let (Some(url), Some(disposition)) = (params["url"].as_str(), params["disposition"].as_str()) else { return };
        match disposition {
            // Told on the session of the frame that asks, with the frame that is to go: an opener moves its popup, a frame its
            // page (measured).
            "currentTab" => {
                let Some(going) = params["frameId"].as_str().and_then(TargetId::new) else { return };
                match self.targets.get_mut(&going) {
                    Some(target) if target.released => self.close_moved(page, going, url),
                    Some(target) => target.asks(Cause::Page),
                    None => {}
                }
            }
            // The new tab will carry no opener; this event, which always comes before it, is all there is.
            "newTab" | "newWindow" => {
                self.new_tab_requested(page, url, disposition == "newTab");
            }
            _ => {}
        }
    }

    // --- the commit gate ----------------------------------------------------------------------------------------

    fn frame_started_navigating(&mut self, page: TargetId, params: &Value) {
        let Some(task) = self.ledger.owner(page) else { return };
        let Some(url) = params["url"].as_str() else { return };
        if let Some(frame) = params["frameId"].as_str().and_then(FrameId::new)
            && load_of(url) != Load::External
        {
            self.frame_goes_to(frame, url, None);
        }
        if !self.is_main_frame(page, params) {
            return self.child_frame_started_navigating(task, page, params, url);
        }
        let Some(target) = self.targets.get_mut(&page) else { return };
        // The first load of a popup or of createTarget{url} was asked for elsewhere: by the task, since it owns the page.
        let cause = target.asked.pop_front().or((!target.committed).then_some(Cause::Client));
        let denied = match load_of(url) {
            Load::External => None,
            _ => self.forbids(task, Verb::Navigate, url, cause),
        };
        // `history.back()` and the person's button are one and the same to every observer. A load is failed then whoever
        // asked: were it let through, a page could be refused an address with a secret in it, and go back to it.
        let in_history = params["navigationType"].as_str().is_some_and(|kind| kind.starts_with("history"));
        let by_person = cause.is_none() && !in_history && !self.is_within_reach(page);
        let navigation = Navigation { cause, by_person };
        if let Some(target) = self.targets.get_mut(&page) {
            target.navigation = Some(navigation);
        }
        let Some(judged) = denied else { return };
        let why = match load_of(url) {
            Load::Local => "it commits without a request that could be failed",
            _ if by_person => "the person went there",
            _ if self.has_service_worker(page, url) => {
                "its service worker may answer it, without a request that could be failed"
            }
            _ => return, // Root `Fetch` will pause it and fail it.
        };
        self.release_denied(page, why, &judged);
        if by_person && load_of(url) == Load::Network {
            self.end_load_of_released(page);
        }
    }

    fn child_frame_started_navigating(&mut self, task: TaskId, page: TargetId, params: &Value, url: &str) {
        let Some(frame) = params["frameId"].as_str().and_then(FrameId::new) else { return };
        // Told by the browser, whatever became of the renderer's frameAttached: root `Fetch` looks it up.
        self.change(Change::FrameAttached { frame, page });
        // Fetch vetoes what it sees. A local document in a frame (an extension's page, above all) stays with the page,
        // but no client may have a session in it.
        let forbidden = self.forbids(task, Verb::Frame, url, Some(Cause::Page)).filter(|_| load_of(url) == Load::Local);
        let Some(judged) = forbidden else {
            self.hidden_frames.remove(&frame);
            return;
        };
        self.hidden_frames.insert(frame);
        self.change(Change::FrameAttached { frame, page }); // Known, so that it is forgotten with its page.
        let Some(id) = TargetId::new(frame.as_str()) else { return };
        let sessions = self.targets.get(&id).map(|target| target.sessions.clone()).unwrap_or_default();
        for session in sessions {
            let parent = self.client_session(session).and_then(|session| session.parent);
            self.own_first(parent, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}));
            self.session_gone(session);
        }
        let id = self.audit(task, None, "", &judged);
        let message = format!("frame {frame} of page {page} is not given to clients: {} [{id}]", judged.sentence());
        self.record(Record { task: Some(task), client: None, kind: RecordKind::Blocked, message });
    }

    pub(super) fn is_hidden(&self, info: &TargetInfo) -> bool {
        FrameId::new(info.id.as_str()).is_some_and(|frame| self.hidden_frames.contains(&frame))
            || info.url.starts_with("chrome-extension:")
    }

    /// `mailto:`, downloads and 204 end here, without a commit: nothing is released for them. (Who has asked for the next one
    /// is kept: a client may send `Page.navigate` before this is told of the load before, and a load of the task's that is
    /// taken for the person's would reach a forbidden server.)
    fn frame_stopped_loading(&mut self, page: TargetId, params: &Value) {
        if let Some(frame) = params["frameId"].as_str().and_then(FrameId::new) {
            self.frame_stopped(frame);
        }
        if self.is_main_frame(page, params)
            && let Some(target) = self.targets.get_mut(&page)
        {
            target.navigation = None;
        }
    }

    fn frame_navigated(&mut self, page: TargetId, told_by: TargetId, params: &Value) {
        let frame = &params["frame"];
        let Some(id) = frame["id"].as_str().and_then(FrameId::new) else { return };
        self.learn_document(page, told_by, frame);
        self.change(Change::FrameAttached { frame: id, page });
        self.note_document(page, frame);
        let is_main = id.as_str() == page.as_str();
        if let Some(target) = self.targets.get_mut(&page) {
            if is_main {
                target.origins.clear();
            }
            target.origins.extend(frame["url"].as_str().and_then(origin).map(str::to_owned));
        }
        if frame["parentId"].is_string() || id.as_str() != page.as_str() {
            return;
        }
        let url = frame["url"].as_str().unwrap_or(NO_URL).to_owned();
        let Some(target) = self.targets.get_mut(&page) else { return };
        let navigation = target.navigation.take();
        let cause = match target.committed {
            true => navigation.and_then(|navigation| navigation.cause),
            false => Some(Cause::Client),
        };
        target.committed = true;
        target.crashed = false;
        self.end_mirroring(page);
        self.judge_commit(page, &url, cause);
    }

    /// The document is there. What could be stopped has been; this is the net below.
    fn judge_commit(&mut self, page: TargetId, url: &str, cause: Option<Cause>) {
        let Some(task) = self.ledger.owner(page) else { return };
        // A blob: or data: document that commits here was made by the page or by a client: nobody else has its URL.
        let by = cause.or((load_of(url) == Load::Local && url.starts_with("blob:")).then_some(Cause::Page));
        if let Some(judged) = self.forbids(task, Verb::Navigate, url, by) {
            self.release_denied(page, "its document was committed before it could be stopped", &judged);
        }
    }

    /// The one thing that only the target's URL tells is `view-source:`.
    pub(super) fn judge_shown_url(&mut self, page: TargetId) {
        let Some(url) = self.targets.get(&page).map(|target| target.info.url.clone()) else { return };
        if self.ledger.kind(page) == Some(TargetKind::Page) && url.starts_with("view-source:") {
            self.judge_commit(page, &url, None);
        }
    }

    fn navigated_within_document(&mut self, page: TargetId, params: &Value) {
        let Some(url) = params["url"].as_str().map(str::to_owned) else { return };
        if let Some(frame) = params["frameId"].as_str().and_then(FrameId::new) {
            self.document_url_changed(frame, &url);
        }
        let Some(task) = self.ledger.owner(page).filter(|_| self.is_main_frame(page, params)) else { return };
        // The document is the one that was there, with all its scripts: a page that is released for it would run on without a
        // gate, at its own wish (`history.pushState`).
        if let Some(judged) = self.forbids(task, Verb::Navigate, &url, Some(Cause::Page)) {
            self.stop_page(page, &judged);
        }
    }

    /// The document goes, with everything that runs in it, and the page stays. It is asked for by us, and by nobody who might be
    /// the person.
    pub(super) fn stop_page(&mut self, page: TargetId, judged: &Judgement) {
        self.blocked(page, judged);
        let guard = self.targets.get_mut(&page).and_then(|target| {
            target.asks(Cause::Client);
            target.guard
        });
        self.own(guard, "Page.navigate", &json!({"url": "about:blank"}), Purpose::Nothing);
    }

    // --- root Fetch ---------------------------------------------------------------------------------------------

    pub(super) fn document_paused(&mut self, params: &Value) {
        let Some(request) = params["requestId"].as_str() else { return };
        let frame = params["frameId"].as_str().and_then(FrameId::new);
        let url = params["request"]["url"].as_str().unwrap_or(NO_URL);
        let page = frame.and_then(|frame| self.page_of_frame(frame));
        let Some((frame, page)) = frame.zip(page) else {
            if let Some((whose, judged)) = self.judge_departed(params) {
                if let Some(frame) = frame {
                    self.load_of_released_paused(frame);
                }
                return self.settle_departed(&whose, request, judged);
            }
            // The person's, or nobody's yet: goes on at once.
            return self.continue_document(request);
        };
        let Some(task) = self.ledger.owner(page) else {
            return match self.undecided.iter().any(|undecided| undecided.target == page) {
                // Whose it is will be known in a moment; then the page's own gates look at it.
                true => {
                    self.keep_paused(page, request);
                    self.referrer_witnessed(page, &params["request"]);
                }
                false => self.continue_document(request),
            };
        };
        let is_main = frame.as_str() == page.as_str();
        let verb = if is_main { Verb::Navigate } else { Verb::Frame };
        if is_main {
            self.frame_goes_to(frame, url, None);
        }
        let question = Question::new(verb, url).created_by(Some("task")).with_method(http_method(params));
        let question = question.on_behalf_of(self.initiator_of_document(frame));
        let forbidden = self.forbids_question(task, &question);
        // The first document of a page that another one opened is what it was opened for.
        let forbidden = forbidden.or_else(|| match is_main && self.is_new_popup(page) {
            true => self.forbids_question(task, &Question { verb: Verb::Popup, ..question }),
            false => None,
        });
        // A redirect's next hop belongs to the same load.
        let is_new = is_main && params["redirectedRequestId"].is_null();
        let forbidden = forbidden.or_else(|| if is_new { self.count_navigation(task, url) } else { None });
        let Some(judged) = forbidden else {
            return match self.targets.get(&page).is_some_and(|target| target.hold.is_some()) && is_main {
                true => self.keep_paused(page, request),
                false => self.continue_document(request),
            };
        };
        let by_person = is_main
            && self
                .targets
                .get(&page)
                .is_some_and(|target| target.navigation.as_ref().is_some_and(|navigation| navigation.by_person));
        if by_person {
            self.release_denied(page, "the person went there", &judged);
            // See `end_load_of_released`.
            return self.fail_request(None, request);
        }
        self.fail_request(None, request);
        self.blocked(page, &judged);
    }

    fn is_new_popup(&self, page: TargetId) -> bool {
        let opened = matches!(self.ledger.lineage(page), Some(Lineage::OpenedBy(_) | Lineage::ClickedIn(_)));
        opened && self.targets.get(&page).is_some_and(|target| !target.committed)
    }

    /// Releases a page because of what it holds or is about to hold.
    pub(super) fn release_denied(&mut self, page: TargetId, why: &str, judged: &Judgement) {
        let Some(task) = self.ledger.owner(page) else { return };
        let id = self.audit(task, None, "", judged);
        self.release(page, &format!("{why}; {} [{id}]", judged.sentence()));
    }

    fn page_of_frame(&self, frame: FrameId) -> Option<TargetId> {
        self.ledger.page_of_frame(frame).or_else(|| {
            let target = TargetId::new(frame.as_str())?;
            self.undecided.iter().any(|undecided| undecided.target == target).then_some(target)
        })
    }

    pub(super) fn continue_document(&mut self, request: &str) {
        let params = json!({"requestId": request});
        self.own_first(None, "Fetch.continueRequest", &params);
    }

    /// Until the page may run, or until it is known whose it is.
    fn keep_paused(&mut self, page: TargetId, request: &str) {
        if let Some(undecided) = self.undecided.iter_mut().find(|undecided| undecided.target == page) {
            undecided.paused_documents.push(request.to_owned());
            return;
        }
        match self.targets.get_mut(&page).and_then(|target| target.hold.as_mut()) {
            Some(hold) => hold.paused_documents.push(request.to_owned()),
            None => self.continue_document(request),
        }
    }

    /// A document that was paused before its page was anybody's. The URL that a client gave was judged before the page was
    /// made, and each redirect pauses anew.
    pub(super) fn decided_document(&mut self, page: TargetId, request: String) {
        self.keep_paused(page, &request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_stop_a_load_depends_on_its_scheme() {
        for (url, load) in [
            ("https://a.test/", Load::Network),
            ("FILE:///etc/passwd", Load::Network),
            ("chrome://settings", Load::Local),
            ("data:text/html,x", Load::Local),
            ("mailto:a@b", Load::External),
            ("zoommtg://x", Load::External),
            ("", Load::External),
        ] {
            assert!(load_of(url) == load, "{url}");
        }
    }
}
