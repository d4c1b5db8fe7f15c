//! The tripwire for sockets. No interception of Chromium's sees a WebSocket or WebTransport before it is opened (measured), so
//! where the policy says `websocket = "tripwire"` one that is denied is noticed as it opens, and its page is stopped: the
//! handshake has left by then, and the audit says so.

use ownership::id::{SessionId, TargetId};
use policy::{ChannelName, Mode, Policies, Question, Unenforceable, Verb};
use serde_json::{Value, json};

use super::Engine;
use super::audit::Judgement;
use super::calls::Purpose;

/// Whether denied sockets of a task with that policy are to be noticed.
pub fn trips_sockets(policy: &Policies, mode: Mode) -> bool {
    let websocket = ChannelName::WebSocket.as_str();
    let mut channels = policy.coverage(mode).into_iter();
    channels.any(|channel| channel.name == websocket && channel.setting == Some(Unenforceable::Tripwire))
}

impl Engine {
    /// On the guard's session on a page, an OOPIF or a dedicated worker.
    pub(super) fn watch_sockets(&mut self, page: TargetId, guard: SessionId) {
        if self.task_of_page(page).is_some_and(|(_, task)| task.trips_sockets) {
            let no_bodies = json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0});
            self.own(Some(guard), "Network.enable", &no_bodies, Purpose::Nothing);
        }
    }

    /// `Network.webSocketCreated` or `webTransportCreated` on a guard's session.
    pub(super) fn socket_opened(&mut self, page: TargetId, params: &Value) {
        let url = params["url"].as_str().unwrap_or_default();
        let Some((_, task)) = self.task_of_page(page).filter(|(_, task)| task.trips_sockets) else { return };
        let question = Question::new(Verb::WebSocket, url).on_behalf_of(self.initiator(page.as_str()));
        let Some(mut judged) = Judgement::unless_allowed(task.judge(&question), Verb::WebSocket, url) else {
            return;
        };
        judged.decision.reason = match judged.decision.reason.as_str() {
            "" => LEAKED.to_owned(),
            reason => format!("{}; {LEAKED}", reason.trim_end_matches('.')),
        };
        self.stop_page(page, &judged);
    }
}

const LEAKED: &str = "leaked_handshake: it was noticed when its handshake had left, and the page was stopped";
