//! The life of a top-level target: seen, attributed, guarded, shown to the task's clients, held until they have asked,
//! resumed, and released or gone.

use std::time::{Duration, Instant};

use ownership::id::{ContextId, SessionId, TargetId, TaskId};
use ownership::{Change, Lineage, TargetKind};
use serde_json::{Value, json};

use super::Engine;
use super::attach::Offer;
use super::audit::without_query;
use super::calls::Purpose;
use super::info::TargetInfo;
use super::io::{Record, RecordKind};
use super::state::{Hold, Session, Stage, Target, TaskState, Undecided};
use crate::wire::{Outcome, value_of};

/// A page whose clients do not ask for its resumption runs all the same after this: one client that hangs must not
/// freeze the page for the others of its task.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// How a target stands when it is attached by the root's auto-attach.
enum Whose {
    Task(TaskId, Lineage),
    Nobody,
    /// The response to one of these commands will tell, or the witnesses of a click.
    Undecided(Vec<i32>),
}

impl Engine {
    // --- seen ---------------------------------------------------------------------------------------------------

    pub(super) fn target_created(&mut self, params: &Value) {
        let Some(info) = TargetInfo::read(&params["targetInfo"]) else { return };
        let id = info.id;
        self.change(Change::TargetSeen { target: id });
        self.seen_contexts.extend(info.context);
        // A ctrl-clicked tab tells its URL here and nowhere later (the attach event says ""), so this is where it is
        // matched with the click.
        let (claim, click) = self.attribute_click(&info);
        let worker_of = self.whose_service_worker(&info);
        let target = self.targets.entry(id).or_insert_with(|| Target::new(info));
        target.claim = target.claim.or(claim);
        target.click = target.click.take().or(click);
        if let Some(task) = worker_of {
            self.claim_service_worker(id, task);
        }
    }

    /// A service worker of the profile's serves the person too; one of a task's own context is the task's.
    fn whose_service_worker(&self, info: &TargetInfo) -> Option<TaskId> {
        let context = info.context.filter(|_| info.kind == "service_worker")?;
        self.ledger.owner_of_context(context).filter(|task| self.is_living(*task))
    }

    fn claim_service_worker(&mut self, id: TargetId, task: TaskId) {
        let Some(context) = self.targets.get(&id).and_then(|target| target.info.context) else { return };
        let (kind, lineage) = (TargetKind::ServiceWorker, Lineage::InContext);
        self.change(Change::Claimed { target: id, task, kind, context, lineage });
        if let Some(target) = self.targets.get_mut(&id) {
            target.hold = Some(Hold { since: self.now, awaited: Vec::new(), paused_documents: Vec::new() });
        }
        self.show(id);
    }

    pub(super) fn target_info_changed(&mut self, params: &Value) {
        let Some(info) = TargetInfo::read(&params["targetInfo"]) else { return };
        let id = info.id;
        match self.targets.get_mut(&id) {
            // The opener is told in the first event and left out of later ones once it is closed; ownership and what
            // clients see must not change with that.
            Some(target) => {
                target.info.title = info.title;
                target.info.url = info.url;
                target.info.subtype = info.subtype;
            }
            None => return,
        }
        self.judge_shown_url(id);
        self.tell_info_changed(id);
    }

    pub(super) fn target_destroyed(&mut self, id: TargetId) {
        self.page_departs(id, false);
        self.drop_target(id);
        // Whether or not it is still anybody's: a task can be over before its pages are.
        self.forget_guards(id);
        self.forget_hidden_frames(id);
        self.forget_documents(id);
        self.forget_children(id);
        self.change(Change::Gone { target: id });
        self.targets.remove(&id);
        self.undecided.retain(|undecided| undecided.target != id);
        self.recheck_waiters();
    }

    /// Clients forget it; their sessions on it are ended in Chromium's order (detach, then destroy).
    fn drop_target(&mut self, id: TargetId) {
        let Some(task) = self.ledger.owner(id) else { return };
        let sessions = self.targets.get(&id).map(|target| target.sessions.clone()).unwrap_or_default();
        for session in sessions {
            self.session_gone(session);
        }
        if self.targets.get(&id).is_some_and(|target| target.stage == Stage::Shown) {
            self.tell_destroyed(task, id);
        }
    }

    // --- attributed ---------------------------------------------------------------------------------------------

    /// The root's auto-attach has attached (and perhaps holds) a target.
    pub(super) fn auto_attached(&mut self, session: SessionId, info: TargetInfo, waiting: bool) {
        let id = info.id;
        match self.whose(&info) {
            Whose::Nobody => self.let_go(session),
            Whose::Undecided(made_by) => {
                self.targets.entry(id).or_insert_with(|| Target::new(info));
                self.undecided.push(Undecided { target: id, session, waiting, made_by, paused_documents: Vec::new() });
                self.ask_witnesses(id);
            }
            Whose::Task(task, lineage) => {
                self.targets.entry(id).or_insert_with(|| Target::new(info));
                self.claim(id, task, lineage, session, waiting);
            }
        }
    }

    /// Somebody else's: resumed and let go at once, before any other work.
    fn let_go(&mut self, session: SessionId) {
        // Detaching alone leaves a popup held, and its opener blocked (measured).
        self.own_first(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}));
        self.own_first(None, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}));
    }

    fn whose(&self, info: &TargetInfo) -> Whose {
        // `prerender`, `disconnected` and whatever comes next are not pages that a client can work with, and a target
        // without a context made every client's connect throw (a zombie of Chromium's).
        let Some(context) = info.context else { return Whose::Nobody };
        if info.subtype.is_some() {
            return Whose::Nobody;
        }
        let owner = self.ledger.owner_of_context(context).filter(|task| self.is_living(*task));
        match info.kind.as_str() {
            "page" => self.whose_page(info, owner),
            _ => Whose::Nobody,
        }
    }

    fn whose_page(&self, info: &TargetInfo, context_owner: Option<TaskId>) -> Whose {
        let claim = self.targets.get(&info.id).and_then(|target| target.claim);
        if let Some((task, lineage)) = claim.filter(|(task, _)| self.is_living(*task)) {
            return Whose::Task(task, lineage);
        }
        if let Some(opener) = info.opener {
            // From an OOPIF the opener is told as the page, but a page of a page is a page's all the same.
            return match self.ledger.owner(opener).filter(|task| self.is_living(*task)) {
                Some(task) => Whose::Task(task, Lineage::OpenedBy(opener)),
                None => Whose::Nobody,
            };
        }
        if let Some(task) = context_owner {
            return Whose::Task(task, Lineage::InContext);
        }
        // Ctrl+T and its like: nothing that a task may open.
        if info.url.starts_with("chrome:") {
            return Whose::Nobody;
        }
        let may_be_clicked = self.targets.get(&info.id).is_some_and(|target| target.click.is_some());
        match self.calls.creating(info.context) {
            made_by if made_by.is_empty() && !may_be_clicked => Whose::Nobody,
            made_by => Whose::Undecided(made_by),
        }
    }

    fn is_living(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|task| task.state != TaskState::Ending)
    }

    /// The response to a `createTarget` has come: now it is known whose that page is.
    pub(super) fn page_created(&mut self, task: TaskId, created: Option<TargetId>) {
        if let Some(id) = created
            && !self.is_living(task)
        {
            // Its task has ended meanwhile, and what a task made goes with it, together with the session that holds it.
            self.undecided.retain(|undecided| undecided.target != id);
            self.own(None, "Target.closeTarget", &json!({"targetId": id.as_str()}), Purpose::Nothing);
        } else if let Some(id) = created
            && let Some(target) = self.targets.get_mut(&id)
            && target.guard.is_none()
        {
            target.claim = Some((task, Lineage::Created));
        }
        let waiting: Vec<TargetId> = self.undecided.iter().map(|undecided| undecided.target).collect();
        for id in waiting {
            let claim = self.targets.get(&id).and_then(|target| target.claim);
            let calls = &self.calls;
            let Some(undecided) = self.undecided.iter_mut().find(|undecided| undecided.target == id) else { continue };
            undecided.made_by.retain(|call| calls.is_in_flight(*call));
            let is_last = undecided.made_by.is_empty();
            let may_be_clicked = self.targets.get(&id).is_some_and(|target| target.click.is_some());
            match claim {
                Some(claim) => self.settle_undecided(id, Some(claim)),
                None if !is_last => {}
                None if may_be_clicked => {
                    if let Some(verdict) = self.click_verdict(id) {
                        self.settle_undecided(id, verdict);
                    }
                }
                None => self.settle_undecided(id, None),
            }
        }
    }

    /// Now it is known whose a held tab is.
    pub(super) fn settle_undecided(&mut self, id: TargetId, owner: Option<(TaskId, Lineage)>) {
        let Some(at) = self.undecided.iter().position(|undecided| undecided.target == id) else { return };
        let undecided = self.undecided.remove(at);
        if let Some(target) = self.targets.get_mut(&id) {
            target.click = None;
            target.claim = owner;
        }
        let info = self.targets.get(&id).map(|target| target.info.clone());
        match (owner, info) {
            (Some(_), Some(info)) => self.auto_attached(undecided.session, info, undecided.waiting),
            _ => self.let_go(undecided.session),
        }
        for request in undecided.paused_documents {
            self.decided_document(id, request);
        }
    }

    // --- guarded ------------------------------------------------------------------------------------------------

    fn claim(&mut self, id: TargetId, task: TaskId, lineage: Lineage, guard: SessionId, waiting: bool) {
        let Some(target) = self.targets.get_mut(&id) else { return };
        let Some(context) = target.info.context else { return };
        target.guard = Some(guard);
        target.hold = waiting.then(|| Hold { since: self.now, awaited: Vec::new(), paused_documents: Vec::new() });
        self.sessions.insert(guard, Session::Guard { page: id, target: id });
        self.change(Change::Claimed { target: id, task, kind: TargetKind::Page, context, lineage });
        let message = format!("page {id} is this task's: {lineage:?}");
        self.record(Record { task: Some(task), client: None, kind: RecordKind::Claimed, message });
        self.put_up_gates(id, guard);
        self.learn_own_window(id);
        if matches!(lineage, Lineage::OpenedBy(_) | Lineage::ClickedIn(_)) {
            self.give_focus_back();
            self.close_if_too_many(task, id, lineage);
        }
        self.show(id);
    }

    /// Sent before any client can send anything, on the one connection, so they are in force before it. The answers are not
    /// waited for: a held `noopener` popup has no renderer yet, and answers only once it runs (measured).
    fn put_up_gates(&mut self, id: TargetId, guard: SessionId) {
        // Before any client's setAutoAttach on this page: holds of children are serial in that order.
        let related = Engine::children_to_hold();
        self.own(Some(guard), "Target.setAutoAttach", &related, Purpose::Gate(id));
        self.own(Some(guard), "Page.enable", &json!({}), Purpose::Gate(id));
        let focus = json!({"enabled": true});
        self.own(Some(guard), "Emulation.setFocusEmulationEnabled", &focus, Purpose::Gate(id));
        self.own(Some(guard), "Page.getFrameTree", &json!({}), Purpose::FrameTree { page: id, told_by: id });
        self.gate_requests(id, guard);
        // Tells the scopes of the profile's service workers, which answer for documents that `Fetch` never sees.
        self.own(Some(guard), "ServiceWorker.enable", &json!({}), Purpose::Nothing);
    }

    /// What a guard attaches to. Workers are in it only because a worker from a `blob:` URL is held whatever the filter says, and
    /// one that is held without a session never runs (measured).
    pub(super) fn children_to_hold() -> Value {
        let kinds = [json!({"type": "iframe"}), json!({"type": "worker"})];
        json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": kinds})
    }

    pub(super) fn gate_answered(&mut self, id: TargetId, outcome: Outcome<'_>) {
        // A page that does not take its gates stays with nobody. (One that has gone meanwhile is nobody's anyway.)
        if let Outcome::Error(error) = outcome {
            let reason = format!("a gate could not be put up on it ({})", error.get());
            self.release(id, &reason);
        }
    }

    pub(super) fn frame_tree_answered(&mut self, id: TargetId, told_by: TargetId, outcome: Outcome<'_>) {
        if let Outcome::Result(result) = outcome {
            let result = value_of(Some(result));
            self.learn_frame_tree(id, told_by, &result["frameTree"]);
        }
    }

    // --- shown --------------------------------------------------------------------------------------------------

    /// The gates stand: the task's clients get it, and a held page waits for those that asked to be waited for.
    fn show(&mut self, id: TargetId) {
        let Some(task) = self.ledger.owner(id) else { return };
        if let Some(target) = self.targets.get_mut(&id) {
            target.stage = Stage::Shown;
        }
        for client in self.clients_of(task) {
            self.offer(client, id, Offer::New);
        }
        self.resume_if_all_asked(id);
        self.task_has_page(task);
        self.recheck_waiters();
    }

    // --- resumed ------------------------------------------------------------------------------------------------

    /// Resumes a held page once nobody has to be waited for.
    pub(super) fn resume_if_all_asked(&mut self, id: TargetId) {
        let Some(target) = self.targets.get_mut(&id) else { return };
        let ready = target.stage == Stage::Shown && target.hold.as_ref().is_some_and(|hold| hold.awaited.is_empty());
        if !ready {
            return;
        }
        let Some(hold) = target.hold.take() else { return };
        let (guard, below) = (target.guard, std::mem::take(&mut target.held_below));
        if let Some(guard) = guard {
            self.own(Some(guard), "Runtime.runIfWaitingForDebugger", &json!({}), Purpose::Nothing);
        }
        self.run_below(id, guard.is_none(), below);
        // Documents that were under way before the page could be held (ctrl-click, createTarget{url}) go on only now,
        // so that init scripts are in place when they commit.
        if let Some(target) = self.targets.get_mut(&id) {
            target.delayed_documents.extend(hold.paused_documents);
        }
        self.continue_delayed_documents(id);
    }

    /// They wait for the clients' set-up commands to be answered. The commands travel on sessions of their own, and what
    /// holds a document in the renderer is over with the guard's resumption; measured: init scripts came too late.
    pub(super) fn continue_delayed_documents(&mut self, id: TargetId) {
        if self.is_being_set_up(id) || self.targets.get(&id).is_none_or(|target| target.hold.is_some()) {
            return;
        }
        let documents = self.targets.get_mut(&id).map(|target| std::mem::take(&mut target.delayed_documents));
        for request in documents.unwrap_or_default() {
            self.own(None, "Fetch.continueRequest", &json!({"requestId": request}), Purpose::Nothing);
        }
    }

    pub(super) fn setup_answered(&mut self, session: SessionId) {
        let Some(state) = self.client_session_mut(session) else { return };
        state.setup_in_flight = state.setup_in_flight.saturating_sub(1);
        let target = state.target;
        self.continue_delayed_documents(target);
        self.end_mirroring(target);
    }

    /// Whether set-up commands of clients on it are unanswered.
    pub(super) fn is_being_set_up(&self, id: TargetId) -> bool {
        let sessions = self.targets.get(&id).map(|target| target.sessions.as_slice()).unwrap_or_default();
        sessions.iter().any(|session| self.client_session(*session).is_some_and(|s| s.setup_in_flight > 0))
    }

    pub(super) fn hold_deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        self.targets.values().filter_map(|target| target.hold.as_ref()).map(|hold| hold.since + LONGEST_HOLD)
    }

    pub(super) fn resume_overdue_holds(&mut self) {
        let now = self.now;
        let overdue: Vec<TargetId> = self
            .targets
            .iter()
            .filter(|(_, target)| target.hold.as_ref().is_some_and(|hold| now >= hold.since + LONGEST_HOLD))
            .map(|(id, _)| *id)
            .collect();
        for id in overdue {
            if let Some(hold) = self.targets.get_mut(&id).and_then(|target| target.hold.as_mut()) {
                hold.awaited.clear();
            }
            let message = format!("page {id} was resumed after 30 s although a client of its task never asked for it");
            let task = self.ledger.owner(id);
            self.record(Record { task, client: None, kind: RecordKind::Odd, message });
            self.resume_if_all_asked(id);
        }
    }

    // --- released -----------------------------------------------------------------------------------------------

    /// Automation is detached and the page is nobody's from now on; the tab stays as it is. Clients' sessions go first:
    /// their scripts and bindings must not run in the document that is about to commit.
    pub(super) fn release(&mut self, id: TargetId, why: &str) {
        let Some(task) = self.ledger.owner(id) else { return };
        let Some(target) = self.targets.get_mut(&id) else { return };
        target.sessions.clear();
        let guard = target.guard.take();
        let hold = target.hold.take();
        let delayed = std::mem::take(&mut target.delayed_documents);
        target.mirrored.clear();
        target.released = true;
        let was_shown = target.stage == Stage::Shown;
        target.stage = Stage::Seen;
        target.claim = None;
        target.navigation = None;
        // Those on frames and workers below it too, where a client has attached to them from its root.
        let mut sessions: Vec<SessionId> = self.sessions_attached_below(id).collect();
        sessions.sort_unstable();
        for session in sessions {
            // Upstream first, so that nothing which the client sends from now on could be before it.
            self.own_first(None, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}));
            self.session_gone(session);
        }
        self.page_departs(id, true);
        self.forget_hidden_frames(id);
        self.forget_documents(id);
        if let Some(guard) = guard {
            self.let_go(guard);
            self.guard_gone(guard);
        }
        for request in hold.into_iter().flat_map(|hold| hold.paused_documents).chain(delayed) {
            self.own(None, "Fetch.continueRequest", &json!({"requestId": request}), Purpose::Nothing);
        }
        self.forget_children(id);
        self.change(Change::Released { target: id });
        if was_shown {
            self.tell_destroyed(task, id);
        }
        self.expected.retain(|expected| expected.page != id);
        let message = format!("page {id} was released, the tab stays open: {why}");
        self.record(Record { task: Some(task), client: None, kind: RecordKind::Released, message });
        self.recheck_waiters();
    }

    /// A page of the task's sends one somewhere that was released: its opener, say, which still has a handle to it. There it could
    /// be at home again (`about:blank` has the origin of whoever went there), with no gate. The person's work would be lost in any
    /// case.
    pub(super) fn close_moved(&mut self, by: TargetId, id: TargetId, url: &str) {
        self.own_first(None, "Target.closeTarget", &json!({"targetId": id.as_str()}));
        let message = format!(
            "page {id}, which had been released, was closed: page {by} of its task sent it to {}",
            without_query(url)
        );
        let task = self.ledger.owner(by);
        self.record(Record { task, client: None, kind: RecordKind::Blocked, message });
    }

    fn sessions_attached_below(&self, page: TargetId) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.iter().filter_map(move |(id, session)| match session {
            Session::Client(session) if session.page == page && session.parent.is_none() => Some(*id),
            _ => None,
        })
    }

    /// The guard is no more, and the guards below it if it was the page's own. What they were asked is never answered.
    pub(super) fn guard_gone(&mut self, guard: SessionId) {
        let Some(Session::Guard { page, .. }) = self.sessions.remove(&guard) else { return };
        self.calls.drain_session(guard);
        self.guard_gone_in_trace(guard);
        if self.targets.get(&page).is_none_or(|target| target.guard.is_none()) {
            self.forget_guards(page);
        }
    }

    /// A page that closes need not tell of the sessions below its own.
    fn forget_guards(&mut self, page: TargetId) {
        let of_page = |session: &Session| matches!(session, Session::Guard { page: other, .. } if *other == page);
        let guards: Vec<SessionId> =
            self.sessions.iter().filter(|(_, session)| of_page(session)).map(|(id, _)| *id).collect();
        for guard in guards {
            self.sessions.remove(&guard);
            self.calls.drain_session(guard);
            self.guard_gone_in_trace(guard);
        }
    }

    /// Of workers the root tells nothing, so nobody else would say that they are gone.
    pub(super) fn forget_children(&mut self, page: TargetId) {
        let ledger = &self.ledger;
        self.targets.retain(|id, _| *id == page || ledger.page_of(*id) != Some(page));
    }

    fn forget_hidden_frames(&mut self, page: TargetId) {
        let ledger = &self.ledger;
        self.hidden_frames.retain(|frame| ledger.page_of_frame(*frame).is_some_and(|other| other != page));
    }

    /// Whether a page is in a browser context of its task's own.
    pub(super) fn context_is_own(&self, page: TargetId) -> bool {
        self.ledger.context_of(page).is_some_and(|context| self.ledger.owner_of_context(context).is_some())
    }

    pub(super) fn context_of_task(&self, task: TaskId) -> Option<ContextId> {
        self.tasks.get(&task).and_then(|task| task.context)
    }
}
