//! Init scripts in `noopener` popups. Such a popup has no renderer while it is held; when it runs, what the clients' sessions
//! have sent reaches the renderer after the first document's scripts (measured: 11 of 12 too late), because the renderer waits
//! for the session that holds the page only, and that is the guard's. So for that first document the guard sends the few
//! commands that must be in force before a script runs on its own session too, and takes them back when it has committed.

use std::borrow::Cow;

use ownership::id::{SessionId, TargetId};
use serde_json::{Value, json};

use super::Engine;
use super::calls::Purpose;
use crate::wire::Outcome;

/// How the guard's copy of a client's command is undone.
#[derive(Clone, Debug)]
pub struct Mirrored {
    pub method: &'static str,
    pub params: Value,
}

const ADD_SCRIPT: &str = "Page.addScriptToEvaluateOnNewDocument";

impl Engine {
    /// Has the guard do the same, where it matters. Gives the parameters that the client's own command is sent with.
    pub(super) fn mirror<'p>(&mut self, session: SessionId, method: &str, params: &'p str) -> Cow<'p, str> {
        let (copied, undo): (&'static str, Option<Mirrored>) = match method {
            ADD_SCRIPT => (ADD_SCRIPT, None), // Undone by the identifier that the answer brings.
            "Emulation.setUserAgentOverride" => (
                "Emulation.setUserAgentOverride",
                Some(Mirrored { method: "Emulation.setUserAgentOverride", params: json!({"userAgent": ""}) }),
            ),
            "Emulation.setScriptExecutionDisabled" => (
                "Emulation.setScriptExecutionDisabled",
                Some(Mirrored { method: "Emulation.setScriptExecutionDisabled", params: json!({"value": false}) }),
            ),
            _ => return Cow::Borrowed(params),
        };
        let Some((id, guard)) = self.held_without_renderer(session) else { return Cow::Borrowed(params) };
        let Ok(mut parsed) = serde_json::from_str::<Value>(params) else { return Cow::Borrowed(params) };
        // The client's copy comes after the guard's has run in the first document: `runImmediately` would run it there again.
        if let Some(parsed) = parsed.as_object_mut() {
            parsed.remove("runImmediately");
        }
        self.own(Some(guard), copied, &parsed, Purpose::Mirror(id));
        if let (Some(undo), Some(target)) = (undo, self.targets.get_mut(&id)) {
            target.mirrored.push(undo);
        }
        Cow::Owned(parsed.to_string())
    }

    fn held_without_renderer(&self, session: SessionId) -> Option<(TargetId, SessionId)> {
        let id = self.client_session(session)?.target;
        let target = self.targets.get(&id)?;
        let noopener = target.info.opener.is_some() && !target.info.can_access_opener;
        (noopener && target.hold.is_some()).then_some(())?;
        Some((id, target.guard?))
    }

    pub(super) fn mirror_answered(&mut self, id: TargetId, outcome: Outcome<'_>) {
        let result = outcome.result();
        let Some(script) = result["identifier"].as_str() else { return };
        let undo =
            Mirrored { method: "Page.removeScriptToEvaluateOnNewDocument", params: json!({"identifier": script}) };
        let Some(target) = self.targets.get_mut(&id) else { return };
        target.mirrored.push(undo);
        self.end_mirroring(id);
    }

    /// Once the first document is there and the clients' own commands are in force.
    pub(super) fn end_mirroring(&mut self, id: TargetId) {
        if self.is_being_set_up(id) {
            return;
        }
        let Some(target) = self.targets.get_mut(&id).filter(|target| target.committed) else { return };
        let (mirrored, guard) = (std::mem::take(&mut target.mirrored), target.guard);
        for Mirrored { method, params } in mirrored {
            self.own(guard, method, &params, Purpose::Nothing);
        }
    }
}
