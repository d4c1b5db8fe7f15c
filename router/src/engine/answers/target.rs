//! `Target.*`: a browser in which there are only the task's own targets.

use ownership::id::{ClientSessionId, SessionId, TargetId};
use ownership::{Relation, TargetKind};
use policy::Verb;
use serde_json::{Map, Value, json};

use super::{Ask, Engine};
use crate::engine::calls::{AttachCall, Learn, Listing, Purpose, ReplyTo};
use crate::engine::from_client::{Addressee, Forward, Judged};
use crate::engine::info::{Filter, TargetInfo};
use crate::engine::refusal::Refusal;
use crate::engine::state::{AutoAttach, Scope, Shown, Wish};
use crate::wire::{Outcome, value_of};

const NESTED: &str =
    "sessions without `flatten: true` are not offered; attach with flatten: true, as current clients do";

impl Engine {
    // --- asking for targets -------------------------------------------------------------------------------------

    pub(super) fn set_auto_attach(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let on = ask.required_flag("autoAttach")?;
        let wait = ask.required_flag("waitForDebuggerOnStart")?;
        if on && !ask.flag("flatten")? {
            return Err(Refusal::ours(format!("Target.setAutoAttach refused: {NESTED}")));
        }
        let filter = ask.params.get("filter").filter(|filter| !filter.is_null());
        let filter = Filter::read(filter).ok_or_else(|| Refusal::invalid_params("filter must be a list of entries"))?;
        match ask.addressee {
            Addressee::Scope(scope) => self.auto_attach_scope(&ask, scope, on.then_some(AutoAttach { wait, filter })),
            // Related targets only (OOPIFs, workers), whatever the filter says (measured). The guard's own was sent when
            // the page was claimed, so this client's hold comes second.
            Addressee::Session(session) => {
                let params = ask.params.to_string();
                let forward = self.permit_forward(
                    ask.to,
                    ask.row,
                    ask.surface,
                    &Judged::default(),
                    Forward { session: Some(session), method: ask.row.method, params: &params },
                )?;
                self.forward(ask.to, forward, Learn::Nothing);
                Ok(())
            }
        }
    }

    fn auto_attach_scope(
        &mut self,
        ask: &Ask<'_>,
        scope: Option<ClientSessionId>,
        auto: Option<AutoAttach>,
    ) -> Result<(), Refusal> {
        let to = ask.to;
        let Some(client) = self.clients.get_mut(&to.client) else { return Ok(()) };
        let task = client.task;
        let state = client.scopes.entry(scope).or_default();
        let was_on = state.auto_attach.is_some();
        state.auto_attach = auto;
        let is_on = state.auto_attach.is_some();
        if !is_on {
            return self.end_auto_attached(ask, scope);
        }
        if was_on {
            // Chromium keeps what is attached; only what comes from now on follows the new wish.
            self.result(to, "{}");
            return Ok(());
        }
        let mut targets: Vec<TargetId> = self.ledger.pages(task).collect();
        targets.sort_unstable();
        for target in &targets {
            self.offer(to.client, *target, crate::engine::attach::Offer::Existing);
        }
        // Puppeteer takes pages that are attached after this response for pages that do not exist yet.
        self.answer_when_shown(to, json!({}), targets);
        Ok(())
    }

    fn end_auto_attached(&mut self, ask: &Ask<'_>, scope: Option<ClientSessionId>) -> Result<(), Refusal> {
        let sessions: Vec<SessionId> = self.client_sessions(ask.to.client, scope);
        for session in sessions {
            self.own(None, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}), Purpose::Nothing);
            self.session_gone(session);
        }
        self.result(ask.to, "{}");
        Ok(())
    }

    fn client_sessions(&self, client: ownership::id::ClientId, scope: Option<ClientSessionId>) -> Vec<SessionId> {
        let Some(state) = self.clients.get(&client) else { return Vec::new() };
        let mut sessions: Vec<SessionId> = state
            .sessions
            .values()
            .filter_map(|shown| match shown {
                Shown::Real(session) => Some(*session),
                Shown::Browser { .. } => None,
            })
            .filter(|session| {
                self.client_session(*session).is_some_and(|session| session.parent.is_none() && session.scope == scope)
            })
            .collect();
        sessions.sort_unstable();
        sessions
    }

    pub(super) fn set_discover_targets(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let Addressee::Scope(scope) = ask.addressee else { return Err(Refusal::not_allowed()) };
        let on = ask.required_flag("discover")?;
        let filter = ask.params.get("filter").filter(|filter| !filter.is_null());
        let filter = Filter::read(filter).ok_or_else(|| Refusal::invalid_params("filter must be a list of entries"))?;
        let to = ask.to;
        let Some(client) = self.clients.get_mut(&to.client) else { return Ok(()) };
        let task = client.task;
        let shows_browser = filter.includes("browser");
        let state = client.scopes.entry(scope).or_default();
        let was_on = state.discover.is_some();
        state.discover = on.then_some(filter);
        if on && !was_on {
            if shows_browser && let Some(info) = self.browser_info() {
                self.event(to.client, scope, "Target.targetCreated", &json!({"targetInfo": info}).to_string());
            }
            for target in self.visible_targets(task) {
                self.announce(to.client, scope, target);
            }
        }
        self.result(to, "{}");
        Ok(())
    }

    fn visible_targets(&self, task: ownership::id::TaskId) -> Vec<TargetId> {
        let mut targets: Vec<TargetId> = self
            .targets
            .iter()
            .filter(|(id, target)| {
                target.stage == crate::engine::state::Stage::Shown && self.ledger.target(task, **id) == Relation::Owned
            })
            .map(|(id, _)| *id)
            .collect();
        // Pages before what is below them.
        targets.sort_unstable_by_key(|id| (self.ledger.page_of(*id) != Some(*id), *id));
        targets
    }

    fn browser_info(&self) -> Option<Value> {
        let id = self.browser.target?;
        Some(
            json!({"targetId": id.as_str(), "type": "browser", "title": "", "url": "", "attached": true, "canAccessOpener": false}),
        )
    }

    pub(super) fn get_targets(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let filter = ask.params.get("filter").filter(|filter| !filter.is_null());
        let filter = Filter::read(filter).ok_or_else(|| Refusal::invalid_params("filter must be a list of entries"))?;
        self.refresh(Listing::Targets { to: ask.to, filter });
        Ok(())
    }

    fn list_targets(&mut self, to: ReplyTo, filter: &Filter) {
        let Some(task) = self.task_of(to.client) else { return };
        let mut infos: Vec<Value> = self
            .visible_targets(task)
            .into_iter()
            .filter(|id| self.targets.get(id).is_some_and(|target| filter.includes(&target.info.kind)))
            .filter_map(|id| self.info_for_clients(id))
            .collect();
        if filter.includes("browser") {
            infos.extend(self.browser_info());
        }
        self.result(to, &json!({"targetInfos": infos}).to_string());
    }

    /// Asks the browser for titles and URLs as they are now, and answers then.
    pub(in crate::engine) fn refresh(&mut self, listing: Listing) {
        self.own(None, "Target.getTargets", &json!({}), Purpose::Refresh(listing));
    }

    pub(in crate::engine) fn refreshed(&mut self, listing: Listing, outcome: Outcome<'_>) {
        if let Outcome::Result(result) = outcome {
            let result: Value = value_of(Some(result));
            for info in result["targetInfos"].as_array().into_iter().flatten().filter_map(TargetInfo::read) {
                if let Some(target) = self.targets.get_mut(&info.id) {
                    target.info.title = info.title;
                    target.info.url = info.url;
                }
            }
        }
        match listing {
            Listing::Targets { to, filter } => self.list_targets(to, &filter),
            Listing::Info { to, target } => {
                let owned = self.check_target(to.client, target.as_str()).is_ok();
                match self.info_for_clients(target).filter(|_| owned) {
                    Some(info) => self.result(to, &json!({"targetInfo": info}).to_string()),
                    None => self.refuse(to, &Refusal::target_gone()),
                }
            }
            Listing::Tasks(request) => self.list_tasks(request),
            Listing::Task { request, task } => self.show_task(request, task),
        }
    }

    pub(super) fn get_target_info(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let id = match (ask.text("targetId"), ask.addressee) {
            (Some(id), _) if self.is_browser_target(id) => None,
            (Some(id), _) => Some(self.check_target(ask.to.client, id)?),
            (None, Addressee::Session(session)) => self.client_session(session).map(|session| session.target),
            (None, Addressee::Scope(_)) => None,
        };
        if let Some(target) = id {
            self.refresh(Listing::Info { to: ask.to, target });
            return Ok(());
        }
        let info = self.browser_info().ok_or_else(Refusal::target_gone)?;
        self.result(ask.to, &json!({"targetInfo": info}).to_string());
        Ok(())
    }

    fn is_browser_target(&self, id: &str) -> bool {
        self.browser.target.is_some_and(|target| target.as_str() == id)
    }

    // --- sessions -----------------------------------------------------------------------------------------------

    pub(super) fn attach_to_target(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let id = ask.required("targetId")?;
        if self.is_browser_target(id) {
            return self.attach_to_browser_target(ask);
        }
        let target = self.check_target(ask.to.client, id)?;
        if !ask.flag("flatten")? {
            return Err(Refusal::ours(format!("Target.attachToTarget refused: {NESTED}")));
        }
        let frame_is_hidden = self.targets.get(&target).is_some_and(|target| self.is_hidden(&target.info));
        if frame_is_hidden {
            return Err(Refusal::unknown_target());
        }
        self.permit(ask.to, ask.row, ask.surface, &Judged::default(), ())?;
        let scope = ask.to.session;
        self.attach(AttachCall { client: ask.to.client, scope, target, reply: Some(ask.to) });
        Ok(())
    }

    /// A browser session of the client's own. It exists only here: the real one would reach everything.
    pub(super) fn attach_to_browser_target(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let Addressee::Scope(scope) = ask.addressee else { return Err(Refusal::not_allowed()) };
        let shown = self.draw_session();
        let Some(info) = self.browser_info() else { return Err(Refusal::not_allowed()) };
        let Some(client) = self.clients.get_mut(&ask.to.client) else { return Ok(()) };
        client.sessions.insert(shown, Shown::Browser { scope });
        client.scopes.insert(Some(shown), Scope::default());
        let params = json!({"sessionId": shown.as_str(), "targetInfo": info, "waitingForDebugger": false});
        self.event(ask.to.client, scope, "Target.attachedToTarget", &params.to_string());
        self.result(ask.to, &json!({"sessionId": shown.as_str()}).to_string());
        Ok(())
    }

    pub(super) fn detach_from_target(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let to = ask.to;
        let shown = match (ask.text("sessionId"), ask.text("targetId")) {
            (Some(session), _) => ClientSessionId::new(session),
            // The deprecated form names the target: the session of that target which appeared here.
            (None, Some(target)) => {
                let target = self.check_target(to.client, target)?;
                self.client_sessions(to.client, to.session)
                    .into_iter()
                    .filter_map(|session| self.client_session(session))
                    .find(|session| session.target == target)
                    .map(|session| session.shown)
            }
            (None, None) => return Err(Refusal::invalid_params("sessionId must be a string")),
        };
        let shown = shown.ok_or_else(Refusal::no_such_child_session)?;
        let known = self.clients.get(&to.client).and_then(|client| client.sessions.get(&shown)).copied();
        match known.ok_or_else(Refusal::no_such_child_session)? {
            Shown::Browser { scope } => {
                self.end_browser_session(to.client, scope, shown);
                self.result(to, "{}");
            }
            Shown::Real(session) => {
                let appeared =
                    self.client_session(session).map(|session| (session.scope, session.parent, session.target));
                let Some((scope, parent, target)) = appeared else { return Err(Refusal::no_such_child_session()) };
                // Only where it appeared, as in Chromium; Playwright also detaches children from the root.
                if scope != to.session && to.session.is_some() {
                    return Err(Refusal::no_such_child_session());
                }
                if self.is_below_a_page(session) {
                    self.permit(to, ask.row, ask.surface, &Judged::default(), ())?;
                    self.detach_below(session, to);
                    return Ok(());
                }
                self.no_longer_awaited(target, to.client, Some(scope));
                let params = json!({"sessionId": session.as_str()}).to_string();
                let command = Forward { session: parent, method: ask.row.method, params: &params };
                let permitted = self.permit(to, ask.row, ask.surface, &Judged::default(), command)?;
                self.send_permitted(to, permitted, Purpose::Client { to, learn: Learn::Nothing, met: None });
            }
        }
        Ok(())
    }

    fn end_browser_session(
        &mut self,
        client: ownership::id::ClientId,
        scope: Option<ClientSessionId>,
        shown: ClientSessionId,
    ) {
        for session in self.client_sessions(client, Some(shown)) {
            self.own(None, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}), Purpose::Nothing);
            self.session_gone(session);
        }
        self.session_gone_in_trace(client, shown);
        if let Some(state) = self.clients.get_mut(&client) {
            state.sessions.remove(&shown);
            state.scopes.remove(&Some(shown));
        }
        let params = json!({"sessionId": shown.as_str(), "targetId": self.browser.target.map(|id| id.to_string())});
        self.event(client, scope, "Target.detachedFromTarget", &params.to_string());
    }

    /// The client's page may run as far as it is concerned. Only the guard resumes; a child's hold is the client's own.
    pub(super) fn run_if_waiting(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let Addressee::Session(session) = ask.addressee else {
            return Err(Refusal::method_not_found(ask.row.method));
        };
        let own_hold = self.client_session(session).is_some_and(|session| session.parent.is_some());
        if own_hold && self.waits_for_its_root_session(session) {
            let target = self.client_session(session).map(|session| session.target);
            if let Some(target) = target.and_then(|target| self.targets.get_mut(&target)) {
                target.held_below.push((session, Wish::Run(ask.to)));
            }
            return Ok(());
        }
        if own_hold {
            let forward = self.permit_forward(
                ask.to,
                ask.row,
                ask.surface,
                &Judged::default(),
                Forward { session: Some(session), method: ask.row.method, params: "{}" },
            )?;
            self.forward(ask.to, forward, Learn::Nothing);
            return Ok(());
        }
        self.asked_to_run(session);
        self.done(ask.to)
    }

    /// A service worker runs when one of its holds ends, and a client may end that below its page at once, counting on the
    /// root's: what it sets up on its session from the root (interception of the worker's script) has to come first.
    fn waits_for_its_root_session(&self, session: SessionId) -> bool {
        let target = self.client_session(session).map(|session| session.target);
        self.is_below_a_page(session)
            && target.and_then(|target| self.targets.get(&target)).is_some_and(|target| target.hold.is_some())
    }

    // --- pages --------------------------------------------------------------------------------------------------

    pub(super) fn create_target(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let to = ask.to;
        let url = ask.text("url").unwrap_or("about:blank").to_owned();
        let url = if url.is_empty() { "about:blank".to_owned() } else { url };
        let task = self.task_of(to.client).ok_or_else(Refusal::unknown_target)?;
        let context = match ask.text("browserContextId") {
            Some(context) => Some(self.check_context(to.client, context)?),
            None => self.context_of_task(task),
        };
        if ask.flag("hidden")? {
            return Err(Refusal::ours(
                "Target.createTarget refused: hidden targets belong to no window and die with Tabwarden's own connection; leave `hidden` out",
            ));
        }
        self.refuse_another_tab(to.client, task, &url)?;
        let judged = Judged { urls: vec![(Verb::Navigate, url.clone())], ..Judged::default() };
        let mut params = Map::new();
        params.insert("url".into(), json!(url));
        for size in ["left", "top", "width", "height"] {
            if let Some(value) = ask.params[size].as_i64() {
                params.insert(size.into(), json!(value));
            }
        }
        if let Some(context) = context {
            params.insert("browserContextId".into(), json!(context.as_str()));
        }
        // A window of its own, behind the person's: only there can a page be clicked and photographed without taking the
        // focus. (A background tab gets no clicks, and its screenshot never comes.)
        params.insert("newWindow".into(), json!(true));
        params.insert("background".into(), json!(true));
        let params = Value::Object(params).to_string();
        let command = Forward { session: None, method: ask.row.method, params: &params };
        let permitted = self.permit_forward(to, ask.row, ask.surface, &judged, command)?;
        self.send_permitted(to, permitted, Purpose::CreatePage { to, task, context });
        Ok(())
    }

    pub(super) fn close_target(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let target = self.check_target(ask.to.client, ask.required("targetId")?)?;
        if self.ledger.kind(target) == Some(TargetKind::Frame) {
            return Err(Refusal::ours(
                "Target.closeTarget refused: a frame cannot be closed without its page; remove its element instead",
            ));
        }
        let params = json!({"targetId": target.as_str()}).to_string();
        let permitted = self.permit_forward(
            ask.to,
            ask.row,
            ask.surface,
            &Judged::default(),
            Forward { session: None, method: ask.row.method, params: &params },
        )?;
        self.forward(ask.to, permitted, Learn::Nothing);
        Ok(())
    }
}
