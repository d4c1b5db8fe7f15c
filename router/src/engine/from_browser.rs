//! A frame from the browser: learn from it first, then deliver it, and only to the client that owns its session.

use ownership::id::{SessionId, TargetId};
use serde_json::value::RawValue;

use super::Engine;
use super::calls::{Call, Learn, Purpose, ReplyTo};
use super::documents::Met;
use super::requests::is_document;
use super::state::{OwnContext, Session, World};
use crate::wire::{BrowserMessage, Outcome, parse_browser_message, value_of};
use ownership::Change;
use ownership::id::{ContextId, WindowId};

impl Engine {
    pub(super) fn browser_frame(&mut self, text: &str) {
        match parse_browser_message(text) {
            Ok(BrowserMessage::Response { id, session, outcome }) => {
                let session = session.as_deref().and_then(SessionId::new);
                // No call: its session has ended meanwhile, and its client has had its answer from us.
                if let Some(call) = self.calls.close(id, session) {
                    self.answered(call, outcome);
                }
            }
            Ok(BrowserMessage::Event { method, session: None, params }) => self.root_event(&method, params),
            Ok(BrowserMessage::Event { method, session: Some(session), params }) => {
                let Some(session) = SessionId::new(&session) else { return };
                self.session_event(session, &method, params);
            }
            Err(garbage) => self.odd("garbage", format!("the browser sent something that is {}", garbage.reason)),
        }
    }

    // --- responses ----------------------------------------------------------------------------------------------

    fn answered(&mut self, call: Call, outcome: Outcome<'_>) {
        if !matches!(call.purpose, Purpose::Client { .. }) {
            self.touch_deadline();
        }
        match call.purpose {
            Purpose::Client { to, learn, met } => self.client_answered(call.session, to, learn, met, outcome),
            Purpose::Root(step) => self.root_answered(step, outcome),
            Purpose::TaskContext(task) => self.task_context_answered(task, outcome),
            Purpose::OpenPage { task, .. } => self.open_page_answered(task, outcome),
            Purpose::CreatePage { to, task, .. } => self.create_page_answered(to, task, outcome),
            Purpose::Gate(target) => self.gate_answered(target, outcome),
            Purpose::FrameTree { page, told_by } => self.frame_tree_answered(page, told_by, outcome),
            Purpose::WhoAsks(id) => self.requester_answered(id, outcome),
            Purpose::Attach(attach) => self.attach_answered(attach, outcome),
            Purpose::RunThenDetach { session, to } => self.ran_and_detaches(session, to),
            Purpose::LetGo { session, parent } => self.child_let_go(session, parent),
            Purpose::ClickWindow { tab, is_page } => self.window_witnessed(tab, is_page, outcome),
            Purpose::Focus(step) => self.focus_answered(step, outcome),
            Purpose::Refresh(listing) => self.refreshed(listing, outcome),
            Purpose::Mirror(target) => self.mirror_answered(target, outcome),
            Purpose::ClearCookies(clearing) => self.go_on_clearing(*clearing, outcome),
            Purpose::Trace(step) => self.trace_answered(step, outcome),
            Purpose::EndTask(task) => self.end_step_done(task),
            Purpose::Nothing => {}
        }
    }

    fn client_answered(
        &mut self,
        session: Option<SessionId>,
        to: ReplyTo,
        learn: Learn,
        met: Option<Met>,
        outcome: Outcome<'_>,
    ) {
        if let Outcome::Result(result) = outcome {
            self.learn(session, to, learn, result);
        }
        if let Learn::Navigate { frame: Some(frame), nth } = learn {
            self.navigate_answered(frame, nth, outcome);
        }
        if let Some(refusal) = met.and_then(|met| self.refuse_by_now(to.client, &met)) {
            self.refuse(to, &refusal);
        } else {
            self.tell_outcome(to, learn, outcome);
        }
        if learn == Learn::Press {
            self.give_focus_back();
        }
        if let (Learn::Setup, Some(session)) = (learn, session) {
            self.setup_answered(session);
        }
    }

    fn tell_outcome(&mut self, to: ReplyTo, learn: Learn, outcome: Outcome<'_>) {
        match outcome {
            Outcome::Result(result) => match learn {
                Learn::Navigate { .. } => self.tell_navigated(to, result),
                Learn::Cookies { own_context } => self.answer_cookies(to, own_context, result),
                _ => self.result(to, result.get()),
            },
            Outcome::Error(error) => {
                if let Learn::Context { .. } | Learn::ContextDisposed(_) = learn {
                    self.odd("context", format!("the browser would not make or dispose a context: {}", error.get()));
                }
                self.error(to, error.get());
            }
        }
    }

    fn learn(&mut self, session: Option<SessionId>, to: ReplyTo, learn: Learn, result: &RawValue) {
        match learn {
            Learn::Nothing | Learn::Setup | Learn::Press | Learn::Cookies { .. } | Learn::Navigate { .. } => {}
            Learn::World { frame } => {
                let world = value_of(Some(result))["executionContextId"].as_i64();
                if let (Some(world), Some(session)) = (world, session.and_then(|id| self.client_session_mut(id))) {
                    session.worlds.entry(world).or_insert(World { frame, ..World::default() });
                }
            }
            Learn::Window(page) => {
                if let Some(window) = value_of(Some(result))["windowId"].as_i64() {
                    self.change(Change::WindowSeen { window: WindowId(window), page });
                }
            }
            Learn::Context { dispose_on_detach } => {
                let made = value_of(Some(result))["browserContextId"].as_str().and_then(ContextId::new);
                let Some(context) = made else { return };
                match self.task_of(to.client) {
                    Some(task) => {
                        self.change(Change::ContextCreated { context, task });
                        self.gather_downloads(context, task);
                        if let Some(client) = self.clients.get_mut(&to.client) {
                            client.contexts.push(OwnContext { id: context, dispose_on_detach });
                        }
                    }
                    // Its client has gone: so does the context.
                    None => self.dispose_context(context),
                }
            }
            Learn::ContextDisposed(context) => {
                self.change(Change::ContextGone { context });
                for client in self.clients.values_mut() {
                    client.contexts.retain(|own| own.id != context);
                }
            }
        }
    }

    // --- events -------------------------------------------------------------------------------------------------

    fn root_event(&mut self, method: &str, params: Option<&RawValue>) {
        self.touch_deadline();
        match method {
            "Target.attachedToTarget" => self.root_attached(&value_of(params)),
            "Target.detachedFromTarget" => {
                if let Some(session) = value_of(params)["sessionId"].as_str().and_then(SessionId::new) {
                    self.session_gone(session);
                }
            }
            "Target.targetCreated" => {
                self.target_created(&value_of(params));
            }
            "Target.targetInfoChanged" => self.target_info_changed(&value_of(params)),
            "Target.targetDestroyed" => {
                if let Some(target) = value_of(params)["targetId"].as_str().and_then(TargetId::new) {
                    self.target_destroyed(target);
                }
            }
            "Target.targetCrashed" => self.target_crashed(params),
            "Fetch.requestPaused" => {
                let params = value_of(params);
                match is_document(&params) {
                    true => self.document_paused(&params),
                    false => self.root_request_paused(params),
                }
            }
            method if method.starts_with("Tracing.") => self.trace_event(None, method, params),
            "Browser.downloadWillBegin" => self.download_began(params),
            "Browser.downloadProgress" => self.download_progressed(params),
            _ => {}
        }
    }

    fn session_event(&mut self, session: SessionId, method: &str, params: Option<&RawValue>) {
        match self.sessions.get(&session) {
            Some(Session::Guard { page, target }) => {
                let (page, target) = (*page, *target);
                if method.starts_with("Tracing.") {
                    return self.trace_event(Some(session), method, params);
                }
                if method == "Fetch.requestPaused" {
                    return self.request_paused(session, page, &value_of(params));
                }
                if super::gate::is_guard_event(method) {
                    self.touch_deadline();
                    self.guard_event(page, target, method, &value_of(params));
                }
            }
            Some(Session::Client(_)) => self.client_session_event(session, method, params),
            // A session between its event and its response, or one that has ended: nobody's.
            None => {}
        }
    }

    fn target_crashed(&mut self, params: Option<&RawValue>) {
        let Some(raw) = params else { return };
        let Some(id) = value_of(params)["targetId"].as_str().and_then(TargetId::new) else { return };
        if let Some(target) = self.targets.get_mut(&id) {
            target.crashed = true;
        }
        let Some(task) = self.ledger.owner(id) else { return };
        for (client, scope) in self.scopes_of(task) {
            let discovers =
                self.clients.get(&client).and_then(|c| c.scopes.get(&scope)).is_some_and(|s| s.discover.is_some());
            if discovers {
                self.event(client, scope, "Target.targetCrashed", raw.get());
            }
        }
    }
}
