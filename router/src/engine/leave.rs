//! Clients coming and going. What a client leaves behind is undone; what its task owns stays for the next one.

use ownership::Change;
use ownership::id::{ClientId, ContextId, TaskId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;

use super::Engine;
use super::calls::Purpose;
use super::io::{CloseCode, Output};
use super::state::{Client, Scope, Shown, Stage, TaskState};

impl Engine {
    pub(super) fn client_joined(&mut self, client: ClientId, task: TaskId, user_agent: String) {
        let refusal = match self.tasks.get_mut(&task) {
            _ if self.browser.lost => Some((CloseCode::BrowserGone, "the browser is gone")),
            Some(task) if task.state != TaskState::Ending => None,
            _ => Some((CloseCode::TaskEnded, "this task has ended")),
        };
        if let Some((code, reason)) = refusal {
            self.outputs.push_back(Output::CloseClient { client, code, reason: reason.to_owned() });
            return;
        }
        let mut scopes = FxHashMap::default();
        scopes.insert(None, Scope::default());
        self.clients.insert(
            client,
            Client {
                task,
                user_agent,
                since: self.now,
                queue: Some(Vec::new()),
                queued_bytes: 0,
                scopes,
                sessions: FxHashMap::default(),
                contexts: Vec::new(),
                download_events: FxHashSet::default(),
                downloads: FxHashMap::default(),
                set_permissions: FxHashSet::default(),
                waiters: Vec::new(),
            },
        );
        self.prepare(task);
    }

    /// Lets the task's waiting clients in as soon as there is a page for them to find; asks for one where there is none.
    pub(super) fn prepare(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get(&id) else { return };
        if task.state != TaskState::Active {
            return;
        }
        let has_page = self.page_ids(id).iter().any(|page| {
            self.targets.get(page).is_some_and(|target| target.stage == Stage::Shown && target.info.kind == "page")
        });
        if has_page {
            return self.let_clients_in(id);
        }
        // A task whose clients have closed its last page gets no other one; only who comes finds one.
        let awaited = self.clients.values().any(|client| client.task == id && client.queue.is_some());
        if awaited && !task.opening {
            self.open_page(id, "about:blank".to_owned());
        }
    }

    pub(super) fn task_has_page(&mut self, task: TaskId) {
        self.prepare(task);
    }

    pub(super) fn let_clients_in(&mut self, task: TaskId) {
        for client in self.clients_of(task) {
            let Some(queue) = self.clients.get_mut(&client).and_then(|state| state.queue.take()) else { continue };
            for text in queue {
                self.client_frame(client, &text);
            }
        }
    }

    /// Its sessions go, and with them its overrides, interception and scripts (Chromium undoes these with the session);
    /// pages that waited for it run; contexts that were to go with it go.
    pub(super) fn client_left(&mut self, client: ClientId) {
        let Some(state) = self.clients.remove(&client) else { return };
        self.touch_deadline();
        let (below, above): (Vec<&Shown>, Vec<&Shown>) = state.sessions.values().partition(|shown| match shown {
            Shown::Real(session) => self.client_session(*session).is_some_and(|session| session.parent.is_some()),
            Shown::Browser { .. } => false,
        });
        for shown in below.into_iter().chain(above) {
            let Shown::Real(session) = *shown else { continue };
            let parent = match self.client_session(session) {
                Some(gone) => gone.parent,
                None => continue,
            };
            if parent.is_some() {
                // What it holds below its pages has to run before they are detached: a held service worker never would.
                self.own(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}), Purpose::Nothing);
            }
            if parent.is_none() {
                self.own(None, "Target.detachFromTarget", &json!({"sessionId": session.as_str()}), Purpose::Nothing);
            }
        }
        for shown in state.sessions.values() {
            let Shown::Real(session) = *shown else { continue };
            let Some(gone) = self.client_session(session) else { continue };
            let target = gone.target;
            self.sessions.remove(&session);
            self.calls.drain_session(session);
            if let Some(target) = self.targets.get_mut(&target) {
                target.sessions.retain(|other| *other != session);
                target.held_below.retain(|(held, _)| *held != session);
            }
            self.continue_delayed_documents(target);
            self.end_mirroring(target);
        }
        let held: Vec<_> = self.targets.iter().filter(|(_, target)| target.hold.is_some()).map(|(id, _)| *id).collect();
        for target in held {
            self.no_longer_awaited(target, client, None);
        }
        self.undo_settings(&state);
        self.undo_overrides(client);
        self.client_left_trace(client);
        for own in state.contexts.iter().filter(|own| own.dispose_on_detach) {
            self.change(Change::ContextGone { context: own.id });
            self.dispose_context(own.id);
        }
        if let Some(task) = self.tasks.get_mut(&state.task) {
            task.idle_since = self.now;
        }
    }

    /// Permissions of contexts, unless another client of the task has set them too. (Of downloads nothing was set in the
    /// browser: what a client wants done with them is known here only.)
    fn undo_settings(&mut self, gone: &Client) {
        let others: Vec<&Client> = self.clients.values().filter(|client| client.task == gone.task).collect();
        let only = |context: &&ContextId| !others.iter().any(|other| other.set_permissions.contains(context));
        let permissions: Vec<ContextId> = gone.set_permissions.iter().filter(only).copied().collect();
        for context in permissions {
            let params = json!({"browserContextId": context.as_str()});
            self.own(None, "Browser.resetPermissions", &params, Purpose::Nothing);
        }
    }

    pub(super) fn browser_lost(&mut self, reason: &str) {
        self.browser.lost = true;
        // Every command in flight gets its answer: that its outcome is unknown.
        for purpose in self.calls.drain_all() {
            self.unanswerable(purpose);
        }
        let clients: Vec<ClientId> = self.clients.keys().copied().collect();
        for client in clients {
            let reason = format!("the browser is gone: {reason}");
            self.outputs.push_back(Output::CloseClient { client, code: CloseCode::BrowserGone, reason });
        }
        self.clients.clear();
        self.lose_admin_requests(reason);
    }
}
