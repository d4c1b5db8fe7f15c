//! Sessions: giving clients theirs on pages, following children below them, and ending them so that every command in
//! flight gets its one response.

use ownership::id::{ClientId, ClientSessionId, SessionId, TargetId, TaskId};
use ownership::{Change, TargetKind};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value, json};

use super::Engine;
use super::calls::{AttachCall, Learn, Listing, Purpose, ReplyTo};
use super::info::TargetInfo;
use super::refusal::Refusal;
use super::state::{Awaited, ClientSession, Session, Shown, Stage, Target, Waiter};
use crate::wire::{Outcome, value_of};

/// Why a client is offered a target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It has just become the task's.
    New,
    /// The client has just asked for targets.
    Existing,
}

/// Children of a page that clients know what to do with. Others are let go: their hold would never end.
fn child_kind(kind: &str) -> Option<TargetKind> {
    match kind {
        "iframe" => Some(TargetKind::Frame),
        "worker" => Some(TargetKind::Worker),
        "service_worker" => Some(TargetKind::ServiceWorker),
        _ => None,
    }
}

impl Engine {
    // --- offering -----------------------------------------------------------------------------------------------

    /// Announces a target to a client's scopes and attaches those that auto-attach.
    pub(super) fn offer(&mut self, client: ClientId, id: TargetId, offer: Offer) {
        let Some(state) = self.clients.get(&client) else { return };
        if state.queue.is_some() {
            return; // It will be offered everything when it becomes active.
        }
        let scopes: Vec<Option<ClientSessionId>> = state.scopes.keys().copied().collect();
        for scope in scopes {
            if offer == Offer::New {
                self.announce(client, scope, id);
            }
            self.auto_attach(client, scope, id);
        }
    }

    /// `Target.targetCreated`, where the scope asked for such targets.
    pub(super) fn announce(&mut self, client: ClientId, scope: Option<ClientSessionId>, id: TargetId) {
        if !self.discovers(client, scope, id) {
            return;
        }
        let Some(info) = self.info_for_clients(id) else { return };
        self.event(client, scope, "Target.targetCreated", &json!({"targetInfo": info}).to_string());
    }

    fn discovers(&self, client: ClientId, scope: Option<ClientSessionId>, id: TargetId) -> bool {
        let Some(kind) = self.targets.get(&id).map(|target| target.info.kind.as_str()) else { return false };
        let discover = self.clients.get(&client).and_then(|c| c.scopes.get(&scope)).and_then(|s| s.discover.as_ref());
        discover.is_some_and(|filter| match kind {
            "page" => filter.includes_pages(),
            kind => filter.includes(kind),
        })
    }

    fn auto_attach(&mut self, client: ClientId, scope: Option<ClientSessionId>, id: TargetId) {
        let Some(target) = self.targets.get_mut(&id) else { return };
        let Some(auto) =
            self.clients.get(&client).and_then(|c| c.scopes.get(&scope)).and_then(|s| s.auto_attach.clone())
        else {
            return;
        };
        let wanted = match target.info.kind.as_str() {
            "page" => auto.filter.includes_pages(),
            kind => auto.filter.includes(kind),
        };
        if !wanted || target.stage != Stage::Shown {
            return;
        }
        if let (true, Some(hold)) = (auto.wait, target.hold.as_mut()) {
            hold.awaited.push(Awaited { client, scope });
        }
        self.attach(AttachCall { client, scope, target: id, reply: None });
    }

    pub(super) fn attach(&mut self, call: AttachCall) {
        let params = json!({"targetId": call.target.as_str(), "flatten": true}).to_string();
        let (purpose, on_behalf) = (Purpose::Attach(call), Some(call.client));
        self.transmit(None, "Target.attachToTarget", &params, purpose, on_behalf, false);
    }

    pub(super) fn info_for_clients(&self, id: TargetId) -> Option<Value> {
        let target = self.targets.get(&id)?;
        let task = self.ledger.owner(id);
        let opener_visible = target.info.opener.is_some_and(|opener| {
            task.is_some_and(|task| {
                matches!(self.ledger.target(task, opener), ownership::Relation::Owned | ownership::Relation::Gone)
            })
        });
        Some(target.info.write(!target.sessions.is_empty(), opener_visible))
    }

    pub(super) fn tell_info_changed(&mut self, id: TargetId) {
        let Some(task) = self.ledger.owner(id) else { return };
        if self.targets.get(&id).is_none_or(|target| target.stage != Stage::Shown) {
            return;
        }
        let Some(info) = self.info_for_clients(id) else { return };
        let params = json!({"targetInfo": info}).to_string();
        for (client, scope) in self.scopes_of(task) {
            if self.discovers(client, scope, id) {
                self.event(client, scope, "Target.targetInfoChanged", &params);
            }
        }
    }

    pub(super) fn tell_destroyed(&mut self, task: TaskId, id: TargetId) {
        let params = json!({"targetId": id.as_str()}).to_string();
        for (client, scope) in self.scopes_of(task) {
            if self.discovers(client, scope, id) {
                self.event(client, scope, "Target.targetDestroyed", &params);
            }
        }
    }

    pub(super) fn scopes_of(&self, task: TaskId) -> Vec<(ClientId, Option<ClientSessionId>)> {
        let mut scopes: Vec<_> = self
            .clients
            .iter()
            .filter(|(_, client)| client.task == task && client.queue.is_none())
            .flat_map(|(id, client)| client.scopes.keys().map(|scope| (*id, *scope)))
            .collect();
        scopes.sort_unstable();
        scopes
    }

    // --- attached -----------------------------------------------------------------------------------------------

    /// `Target.attachedToTarget` on the root: one of the sessions that we asked for, or the root's auto-attach.
    pub(super) fn root_attached(&mut self, params: &Value) {
        let Some(session) = params["sessionId"].as_str().and_then(SessionId::new) else { return };
        let Some(info) = TargetInfo::read(&params["targetInfo"]) else { return };
        let waiting = params["waitingForDebugger"].as_bool().unwrap_or(false);
        match self.calls.is_attaching(info.id) {
            // The response says whose it is, and comes right after: nothing of a session on which nothing is enabled can come
            // between the two. (A page is not attached by anybody before the root's auto-attach has told of it.)
            true => {
                if let Some(target) = self.targets.get_mut(&info.id) {
                    target.info.title = info.title;
                    target.info.url = info.url;
                }
            }
            false => self.auto_attached(session, info, waiting),
        }
    }

    pub(super) fn attach_answered(&mut self, call: AttachCall, outcome: Outcome<'_>) {
        let session = match outcome {
            Outcome::Result(result) => value_of(Some(result))["sessionId"].as_str().and_then(SessionId::new),
            Outcome::Error(error) => {
                self.no_longer_awaited(call.target, call.client, Some(call.scope));
                if let Some(to) = call.reply {
                    self.error(to, error.get());
                }
                return self.recheck_waiters();
            }
        };
        let Some(session) = session else {
            self.no_longer_awaited(call.target, call.client, Some(call.scope));
            if let Some(to) = call.reply {
                self.refuse(to, &Refusal::target_gone());
            }
            return self.recheck_waiters();
        };
        let page = self.ledger.page_of(call.target);
        let still_wanted = self.clients.get(&call.client).is_some_and(|client| {
            client.scopes.contains_key(&call.scope) && self.ledger.owner(call.target) == Some(client.task)
        });
        let (Some(page), true) = (page, still_wanted) else {
            // The client or the page has gone meanwhile.
            self.own(None, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}), Purpose::Nothing);
            self.no_longer_awaited(call.target, call.client, Some(call.scope));
            if let Some(to) = call.reply {
                self.refuse(to, &Refusal::target_gone());
            }
            return self.recheck_waiters();
        };
        let shown = self.draw_session();
        self.open_session(session, call, shown, page, None);
        let held = self.targets.get(&call.target).is_some_and(|target| target.hold.is_some());
        if let Some(info) = self.info_for_clients(call.target) {
            let params = json!({"sessionId": shown.as_str(), "targetInfo": info, "waitingForDebugger": held});
            self.event(call.client, call.scope, "Target.attachedToTarget", &params.to_string());
        }
        if let Some(to) = call.reply {
            self.result(to, &json!({"sessionId": shown.as_str()}).to_string());
        }
        self.recheck_waiters();
    }

    fn open_session(
        &mut self,
        session: SessionId,
        call: AttachCall,
        shown: ClientSessionId,
        page: TargetId,
        parent: Option<SessionId>,
    ) {
        let AttachCall { client, scope, target, .. } = call;
        self.sessions.insert(
            session,
            Session::Client(Box::new(ClientSession {
                client,
                shown,
                target,
                page,
                parent,
                scope,
                worlds: FxHashMap::default(),
                unique_worlds: FxHashMap::default(),
                hidden_worlds: FxHashSet::default(),
                hidden_scripts: FxHashSet::default(),
                setup_in_flight: 0,
                hears_log: false,
                told_requests: FxHashMap::default(),
                requests_of: FxHashMap::default(),
                request_hosts: Default::default(),
            })),
        );
        if let Some(state) = self.clients.get_mut(&client) {
            state.sessions.insert(shown, Shown::Real(session));
        }
        if let Some(target) = self.targets.get_mut(&target) {
            target.sessions.push(session);
        }
    }

    // --- children -----------------------------------------------------------------------------------------------

    /// `Target.attachedToTarget` on a guard session: an OOPIF of an owned page. The guard holds it first, puts up its
    /// gates, and ends its own hold; the clients' come after (holds are serial).
    pub(super) fn guard_child_attached(&mut self, page: TargetId, params: &Value) {
        let Some(session) = params["sessionId"].as_str().and_then(SessionId::new) else { return };
        let Some(info) = TargetInfo::read(&params["targetInfo"]) else { return };
        self.sessions.insert(session, Session::Guard { page, target: info.id });
        if info.kind != "iframe" {
            self.watch_sockets(page, session);
            // A worker's own workers are told on its session alone.
            self.own(Some(session), "Target.setAutoAttach", &Engine::children_to_hold(), Purpose::Nothing);
            return self.own(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}), Purpose::Nothing);
        }
        self.learn_child(page, &info);
        self.own(Some(session), "Target.setAutoAttach", &Engine::children_to_hold(), Purpose::Nothing);
        self.own(Some(session), "Page.enable", &json!({}), Purpose::Nothing);
        self.gate_requests(page, session);
        self.own(Some(session), "Page.getFrameTree", &json!({}), Purpose::FrameTree { page, told_by: info.id });
        self.own(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}), Purpose::Nothing);
    }

    fn learn_child(&mut self, page: TargetId, info: &TargetInfo) {
        let Some(kind) = child_kind(&info.kind) else { return };
        let id = info.id;
        // A service worker is a top-level target of its context; below a page it is only seen once more.
        if kind == TargetKind::ServiceWorker {
            return;
        }
        self.change(Change::ChildAttached { target: id, page, kind });
        if self.ledger.page_of(id).is_none() {
            return; // Its page is nobody's any more.
        }
        let target = self.targets.entry(id).or_insert_with(|| Target::new(info.clone()));
        let first = target.stage != Stage::Shown;
        target.stage = Stage::Shown;
        if first && let Some(task) = self.ledger.owner(page) {
            for (client, scope) in self.scopes_of(task) {
                self.announce(client, scope, id);
            }
        }
    }

    /// `Target.attachedToTarget` on a client's session: a child of it, with its real id.
    pub(super) fn client_child_attached(&mut self, parent: SessionId, params: &Value) {
        let Some(above) = self.client_session(parent) else { return };
        let (client, outer, page) = (above.client, above.shown, above.page);
        let Some(session) = params["sessionId"].as_str().and_then(SessionId::new) else { return };
        let Some(info) = TargetInfo::read(&params["targetInfo"]) else { return };
        let shown = ClientSessionId::new(session.as_str());
        let (Some(shown), true) = (shown, self.may_have_child(client, &info)) else {
            return self.let_child_go(session, parent);
        };
        self.learn_child(page, &info);
        let call = AttachCall { client, scope: Some(outer), target: info.id, reply: None };
        self.open_session(session, call, shown, page, Some(parent));
        let waiting = params["waitingForDebugger"].as_bool().unwrap_or(false);
        let info = info.write(true, false);
        let params = json!({"sessionId": shown.as_str(), "targetInfo": info, "waitingForDebugger": waiting});
        self.event(client, Some(outer), "Target.attachedToTarget", &params.to_string());
    }

    /// Not for this client: ends the hold that its auto-attach has put on it. Resumed first and detached when that is done: a
    /// service worker that is detached while it is held never starts, and it may be the person's (measured).
    fn let_child_go(&mut self, session: SessionId, parent: SessionId) {
        self.own(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}), Purpose::LetGo { session, parent });
    }

    pub(super) fn child_let_go(&mut self, session: SessionId, parent: SessionId) {
        let params = json!({"sessionId": session.as_str()});
        self.own(Some(parent), "Target.detachFromTarget", &params, Purpose::Nothing);
    }

    fn may_have_child(&self, client: ClientId, info: &TargetInfo) -> bool {
        let Some(kind) = child_kind(&info.kind) else { return false };
        match kind {
            // In the profile's context it serves the person's pages too.
            TargetKind::ServiceWorker => {
                let task = self.task_of(client);
                info.context.is_some_and(|context| self.ledger.owner_of_context(context) == task && task.is_some())
            }
            _ => !self.is_hidden(info),
        }
    }

    // --- ended --------------------------------------------------------------------------------------------------

    /// A session of Chromium's has ended (or will, before anything else happens): its children first, then its commands in
    /// flight, which Chromium never answers, then the client is told.
    pub(super) fn session_gone(&mut self, session: SessionId) {
        let Some(gone) = self.client_session(session) else {
            return self.guard_gone(session);
        };
        let (client, shown, target, scope) = (gone.client, gone.shown, gone.target, gone.scope);
        let below: Vec<SessionId> = self.sessions_below(client, session, shown);
        for child in below {
            self.session_gone(child);
        }
        self.sessions.remove(&session);
        let mut unanswered = Vec::new();
        if let Some(target) = self.targets.get_mut(&target) {
            target.sessions.retain(|other| *other != session);
            unanswered.extend(target.held_below.extract_if(.., |(held, _)| *held == session));
        }
        let known = self.clients.get_mut(&client).is_some_and(|state| state.sessions.remove(&shown).is_some());
        if known {
            let params = json!({"sessionId": shown.as_str(), "targetId": target.as_str()}).to_string();
            self.event(client, scope, "Target.detachedFromTarget", &params);
        }
        // After the event and with the dead session's id: Playwright and Puppeteer have given these commands up by then
        // and ignore the answer, and whoever counts responses gets one for each command.
        for purpose in self.calls.drain_session(session) {
            self.unanswerable(purpose);
        }
        self.session_gone_in_trace(client, shown);
        for (_, wish) in unanswered {
            self.refuse(wish.reply_to(), &Refusal::unknown_session());
        }
        self.no_longer_awaited(target, client, Some(scope));
        self.continue_delayed_documents(target);
        self.end_mirroring(target);
    }

    fn sessions_below(&self, client: ClientId, session: SessionId, shown: ClientSessionId) -> Vec<SessionId> {
        let Some(state) = self.clients.get(&client) else { return Vec::new() };
        let mut below: Vec<SessionId> = state
            .sessions
            .values()
            .filter_map(|other| match other {
                Shown::Real(other) => Some(*other),
                Shown::Browser { .. } => None,
            })
            .filter(|other| {
                self.client_session(*other)
                    .is_some_and(|other| other.parent == Some(session) || other.scope == Some(shown))
            })
            .collect();
        below.sort_unstable();
        below
    }

    /// A command that was not sent, for its size: an error to whoever waits for it, and whatever else waits goes on.
    pub(super) fn too_large(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Client { to, learn, .. } => {
                self.refuse(to, &Refusal::too_large());
                let session = to.session.and_then(|shown| self.clients.get(&to.client)?.sessions.get(&shown).copied());
                if let (Learn::Setup, Some(Shown::Real(session))) = (learn, session) {
                    self.setup_answered(session);
                }
            }
            Purpose::CreatePage { to, .. } => self.refuse(to, &Refusal::too_large()),
            other => self.unanswerable(other),
        }
    }

    /// A call that the browser will never answer gets its response from us.
    pub(super) fn unanswerable(&mut self, purpose: Purpose) {
        match purpose {
            Purpose::Client { to, .. } if self.browser.lost => self.refuse(to, &Refusal::browser_lost()),
            Purpose::Client { to, .. } | Purpose::RunThenDetach { to, .. } => {
                self.refuse(to, &Refusal::unknown_session())
            }
            Purpose::CreatePage { to, .. } => self.refuse(to, &Refusal::browser_lost()),
            Purpose::Attach(AttachCall { reply: Some(to), .. }) => self.refuse(to, &Refusal::browser_lost()),
            Purpose::Refresh(Listing::Targets { to, .. } | Listing::Info { to, .. }) => {
                self.refuse(to, &Refusal::browser_lost());
            }
            Purpose::Trace(_) => self.trace_lost(&Refusal::browser_lost()),
            Purpose::ClearCookies(clearing) => self.refuse(clearing.to, &Refusal::browser_lost()),
            // Nothing more can be taken away from a browser that is gone.
            Purpose::EndTask(task) => self.end_step_done(task),
            // What we know is the best answer that there is.
            Purpose::Refresh(Listing::Tasks(request)) => self.list_tasks(request),
            Purpose::Refresh(Listing::Task { request, task }) => self.show_task(request, task),
            _ => {}
        }
    }

    /// `scope`: `None` for all scopes of that client.
    pub(super) fn no_longer_awaited(&mut self, id: TargetId, client: ClientId, scope: Option<Option<ClientSessionId>>) {
        let Some(hold) = self.targets.get_mut(&id).and_then(|target| target.hold.as_mut()) else { return };
        hold.awaited.retain(|awaited| awaited.client != client || scope.is_some_and(|scope| awaited.scope != scope));
        self.resume_if_all_asked(id);
    }

    // --- responses that wait ------------------------------------------------------------------------------------

    /// Sends the response once the client has been shown these targets: Playwright takes a `createTarget` response before
    /// its `attachedToTarget` for a failure, Puppeteer misses pages that come after `setAutoAttach`'s.
    pub(super) fn answer_when_shown(&mut self, to: ReplyTo, result: Value, targets: Vec<TargetId>) {
        if let Some(client) = self.clients.get_mut(&to.client) {
            client.waiters.push(Waiter { to, result: result.to_string(), targets });
            self.recheck_waiters();
        }
    }

    pub(super) fn recheck_waiters(&mut self) {
        let waiting: Vec<ClientId> =
            self.clients.iter().filter(|(_, client)| !client.waiters.is_empty()).map(|(id, _)| *id).collect();
        for client in waiting {
            let Some(state) = self.clients.get_mut(&client) else { continue };
            for mut waiter in std::mem::take(&mut state.waiters) {
                waiter.targets.retain(|target| !self.is_settled(client, *target));
                if waiter.targets.is_empty() {
                    self.result(waiter.to, &waiter.result);
                } else if let Some(state) = self.clients.get_mut(&client) {
                    state.waiters.push(waiter);
                }
            }
        }
    }

    /// The client has been told all there is to tell of that target.
    fn is_settled(&self, client: ClientId, id: TargetId) -> bool {
        let Some(target) = self.targets.get(&id) else { return true };
        let owned = self.ledger.owner(id).is_some() && self.ledger.owner(id) == self.task_of(client);
        let claimed = target.claim.is_some_and(|(task, _)| Some(task) == self.task_of(client));
        if !owned {
            return !claimed;
        }
        let attaching = self.calls.purposes().any(
            |purpose| matches!(purpose, Purpose::Attach(call) if call.client == client && call.target == id && call.reply.is_none()),
        );
        target.stage == Stage::Shown && !attaching
    }
}
