//! Events on clients' sessions: delivered, filtered or dropped as the table says. What has no row is dropped and said once.

use ownership::id::{FrameId, SessionId, TargetId};
use ownership::{Change, TargetKind};
use policy::methods::{self, Delivery, EventRow, ParamKind};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Engine;
use super::calls::Purpose;
use super::check::{values_at, world_of_handle};
use super::state::World;
use crate::wire::{read_lossy, value_of};

const EXTENSION: &str = "chrome-extension://";

/// Events that tell what is in a document, and not only that there is one: kept back where the policy denies `read`.
fn tells_content(method: &str) -> bool {
    ["DOM.", "CSS.", "Accessibility.", "Animation.", "LayerTree.", "WebMCP."]
        .iter()
        .any(|domain| method.starts_with(domain))
        || matches!(
            method,
            "Page.screencastFrame"
                | "Console.messageAdded"
                | "Log.entryAdded"
                | "Runtime.consoleAPICalled"
                | "Runtime.exceptionThrown"
                | "Runtime.bindingCalled"
                | "Network.webSocketFrameReceived"
                | "Network.webSocketFrameSent"
                | "Network.eventSourceMessageReceived"
        )
}

impl Engine {
    pub(super) fn client_session_event(&mut self, session: SessionId, method: &str, params: Option<&RawValue>) {
        let raw = params.map_or("{}", RawValue::get);
        let Some(row) = methods::event(method) else {
            return self.odd(method, format!("event {method} has no row in the table and is dropped"));
        };
        if tells_content(method) && self.may_not_read(session) {
            // Or the frames would end for good.
            if let ("Page.screencastFrame", Some(frame)) = (method, value_of(params)["sessionId"].as_i64()) {
                self.own(Some(session), "Page.screencastFrameAck", &json!({"sessionId": frame}), Purpose::Nothing);
            }
            return;
        }
        if method == "Network.requestWillBeSent" && !self.reads_all(session) {
            self.note_request(session, &value_of(params));
        }
        match row.delivery {
            Delivery::Drop => {}
            Delivery::Deliver => {
                if method == "Page.frameAttached" {
                    self.learn_attached_frame(session, &value_of(params));
                }
                match method.starts_with("Network.") || method.starts_with("Fetch.") {
                    true => self.deliver_network(session, method, raw),
                    false => self.deliver(session, method, raw),
                }
            }
            Delivery::Filter => self.filter(session, row, params),
        }
    }

    pub(super) fn deliver(&mut self, session: SessionId, method: &str, raw: &str) {
        let Some((client, shown)) = self.client_session(session).map(|session| (session.client, session.shown)) else {
            return;
        };
        self.event(client, Some(shown), method, raw);
    }

    /// The guard sees the same event, but on a session of its own: which of the two is read first is Chromium's choice, and
    /// a client may use the frame at once.
    fn learn_attached_frame(&mut self, session: SessionId, params: &Value) {
        let page = self.client_session(session).map(|session| session.page);
        if let (Some(page), Some(frame)) = (page, params["frameId"].as_str().and_then(FrameId::new)) {
            self.change(Change::FrameAttached { frame, page });
        }
    }

    fn filter(&mut self, session: SessionId, row: &'static EventRow, params: Option<&RawValue>) {
        let method = row.event;
        self.touch_deadline();
        let raw = params.map_or("{}", RawValue::get);
        match method {
            "Target.attachedToTarget" => self.client_child_attached(session, &value_of(params)),
            "Target.detachedFromTarget" => self.client_child_detached(&value_of(params)),
            "Target.targetInfoChanged" => self.client_child_changed(session, &value_of(params), raw),
            "Fetch.requestPaused" => self.client_request_paused(session, params, raw),
            "Page.downloadProgress" => self.page_download_progressed(session, params),
            "Runtime.executionContextCreated" => self.world_created(session, &value_of(params), raw),
            "Runtime.executionContextDestroyed" => self.world_destroyed(session, &value_of(params), raw),
            "Runtime.executionContextsCleared" => {
                if let Some(session) = self.client_session_mut(session) {
                    session.worlds.clear();
                    session.unique_worlds.clear();
                }
                self.deliver(session, method, raw);
            }
            // Scripts of extensions are no part of the page. The text is looked at first: there are many of these.
            "Debugger.scriptParsed" | "Debugger.scriptFailedToParse" => {
                let of_extension = raw.contains(EXTENSION)
                    && value_of(params)["url"].as_str().is_some_and(|url| url.starts_with(EXTENSION));
                if !of_extension && !self.is_of_hidden_world(session, row, params) {
                    return self.deliver(session, method, raw);
                }
                let script = value_of(params)["scriptId"].as_str().map(str::to_owned);
                if let (Some(script), Some(session)) = (script, self.client_session_mut(session)) {
                    session.hidden_scripts.insert(script);
                }
            }
            // A pause in an extension's world would give handles into it; the client cannot end what it is not told of.
            "Debugger.paused" if self.is_of_hidden_world(session, row, params) || raw.contains(EXTENSION) => {
                self.own(Some(session), "Debugger.resume", &json!({}), Purpose::Nothing);
            }
            method if method.starts_with("Runtime.") || method.starts_with("Debugger.") => {
                if !self.is_of_hidden_world(session, row, params) {
                    self.deliver(session, method, raw);
                }
            }
            method if method.starts_with("Network.") && method.ends_with("ExtraInfo") => {
                self.deliver_network(session, method, raw);
            }
            "ServiceWorker.workerRegistrationUpdated"
            | "ServiceWorker.workerVersionUpdated"
            | "ServiceWorker.workerErrorReported" => self.deliver_workers(session, method, params),
            method if method.starts_with("DOMStorage.") => self.deliver_storage(session, method, params),
            method if method.starts_with("Storage.") && !row.own_context => {
                self.deliver_storage(session, method, params);
            }
            "Audits.issueAdded" => self.deliver_issue(session, method, raw),
            // They list what the whole profile has; in a context of the task's own that is the task's.
            _ if row.own_context => {
                if !self.is_shared(session) {
                    self.deliver(session, method, raw);
                }
            }
            // Filtered, and nothing here knows how: dropped.
            _ => self
                .odd(method, format!("event {method} is filtered in the table, and no filter knows it; it is dropped")),
        }
    }

    /// Whether the row's worlds and handles lead into a world that this client was not told of.
    fn is_of_hidden_world(&self, session: SessionId, row: &EventRow, params: Option<&RawValue>) -> bool {
        let Some(session) = self.client_session(session).filter(|session| !session.hidden_worlds.is_empty()) else {
            return false;
        };
        let Some(params) = params.map_or(Some(Value::Null), |params| read_lossy(params.get()).ok()) else {
            return true; // What cannot be read may be of any world.
        };
        row.params.iter().any(|param| {
            values_at(&params, param.path).into_iter().any(|value| {
                let world = match param.kind {
                    ParamKind::World => value.as_i64(),
                    ParamKind::Object => value.as_str().and_then(world_of_handle),
                    _ => None,
                };
                world.is_some_and(|world| session.hidden_worlds.contains(&world))
            })
        })
    }

    pub(super) fn is_shared(&self, session: SessionId) -> bool {
        let context = self.client_session(session).and_then(|session| self.ledger.context_of(session.page));
        // Only a context that is some task's own holds nothing of anybody else's.
        context.is_none_or(|context| self.ledger.owner_of_context(context).is_none())
    }

    // --- children -----------------------------------------------------------------------------------------------

    fn client_child_detached(&mut self, params: &Value) {
        if let Some(child) = params["sessionId"].as_str().and_then(SessionId::new) {
            // Only one that was shown; `session_gone` tells its client on the session above it.
            if self.client_session(child).is_some() {
                self.session_gone(child);
            }
        }
        // A frame has a guard, whose own event says when it is gone: this client may only have let go of it.
        let target = params["targetId"].as_str().and_then(TargetId::new);
        if target.and_then(|target| self.ledger.kind(target)) == Some(TargetKind::Worker) {
            self.child_gone(params);
        }
    }

    fn client_child_changed(&mut self, session: SessionId, params: &Value, raw: &str) {
        let Some(info) = super::info::TargetInfo::read(&params["targetInfo"]) else { return };
        let shown = self.targets.get(&info.id).is_some_and(|target| {
            target
                .sessions
                .iter()
                .any(|child| self.client_session(*child).is_some_and(|child| child.parent == Some(session)))
        });
        if shown && !self.is_hidden(&info) {
            self.deliver(session, "Target.targetInfoChanged", raw);
        }
    }

    // --- worlds -------------------------------------------------------------------------------------------------

    /// Worlds of extensions are not told, and a world that was not told cannot be used: `chrome.storage` is in there.
    fn world_created(&mut self, session: SessionId, params: &Value, raw: &str) {
        let world = &params["context"];
        let of_extension = world["origin"].as_str().is_some_and(|origin| origin.starts_with(EXTENSION));
        let Some(id) = world["id"].as_i64() else { return };
        if of_extension {
            if let Some(session) = self.client_session_mut(session) {
                session.hidden_worlds.insert(id);
            }
            return;
        }
        if let Some(session) = self.client_session_mut(session) {
            let unique = world["uniqueId"].as_str().map(str::to_owned);
            session.unique_worlds.extend(unique.clone().map(|unique| (unique, id)));
            let frame = world["auxData"]["frameId"].as_str().and_then(FrameId::new);
            let is_default = world["auxData"]["isDefault"] == true;
            session.worlds.insert(id, World { frame, unique, is_default });
        }
        self.deliver(session, "Runtime.executionContextCreated", raw);
    }

    fn world_destroyed(&mut self, session: SessionId, params: &Value, raw: &str) {
        let Some(id) = params["executionContextId"].as_i64() else { return };
        let known = self.client_session_mut(session).is_some_and(|session| {
            session.unique_worlds.retain(|_, world| *world != id);
            session.worlds.remove(&id).is_some()
        });
        if known {
            self.deliver(session, "Runtime.executionContextDestroyed", raw);
        }
    }
}
