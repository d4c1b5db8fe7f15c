//! Where the policy lets a client's script into some documents only: scripts are bound to the document for which they were
//! judged, those that would last beyond it are refused, and an answer that comes from another one is judged again.

use ownership::id::{ClientId, FrameId, SessionId};
use policy::Verb;
use policy::methods::{ParamKind, Row};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Engine;
use super::calls::ReplyTo;
use super::documents::Met;
use super::refusal::Refusal;
use super::state::Task;
use crate::wire::{Outcome, read_lossy, value_of};

/// How Chromium says that `Fetch` has failed a load with `BlockedByClient`.
const BLOCKED: &str = "net::ERR_BLOCKED_BY_CLIENT";

/// Commands whose script runs in every document from then on.
const LASTING: [&str; 4] = [
    "Debugger.setBreakpointByUrl",
    "Page.addScriptToEvaluateOnLoad",
    "Page.addScriptToEvaluateOnNewDocument",
    "Runtime.addBinding",
];

/// What goes on to Chromium as it came: a second one of either is an error, for Chromium could take the other.
#[derive(serde::Deserialize)]
struct Script {
    source: Option<String>,
    #[serde(rename = "scriptToEvaluateOnLoad")]
    on_load: Option<String>,
}

impl Engine {
    fn script_is_free(&self, session: SessionId) -> bool {
        let task = self.client_session(session).and_then(|session| self.task_of(session.client));
        task.and_then(|task| self.tasks.get(&task)).is_some_and(|task| Engine::is_free(task, Verb::Script))
    }

    /// A script that waits for documents to come cannot be judged by any of them. (One that does nothing can: Playwright
    /// makes its worlds that way.)
    pub(super) fn refuse_lasting_script(
        &mut self,
        session: SessionId,
        row: &'static Row,
        raw: &str,
    ) -> Result<(), Refusal> {
        let reloads = row.method == "Page.reload";
        if !(reloads || LASTING.contains(&row.method)) || self.script_is_free(session) {
            return Ok(());
        }
        let script: Script = serde_json::from_str(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        // A reload runs it in whatever document a redirect leads to.
        if reloads && script.on_load.as_deref().is_none_or(does_nothing) {
            return Ok(());
        }
        let is_plain = row.method == "Page.addScriptToEvaluateOnNewDocument";
        if is_plain && script.source.as_deref().is_some_and(does_nothing) {
            return Ok(());
        }
        let client = self.client_session(session).map(|session| session.client).ok_or_else(Refusal::unknown_session)?;
        Err(self.beyond_rules(
            client,
            row,
            "it would run in every document to come, and the policy of this task does not allow `script` in all of them",
            "Evaluate the script in a document where it is allowed.",
        ))
    }

    /// A context's number can name one of another process after a navigation, and without a context a script runs in
    /// whatever document is there by then: the unique id of the context that was judged cannot be mistaken.
    ///
    /// `true`: the command is bound to a context, of the top document unless it named another.
    pub(super) fn bind_to_document(
        &self,
        session: SessionId,
        row: &'static Row,
        params: &mut Value,
    ) -> Result<bool, Refusal> {
        let number = match row.method {
            "Runtime.evaluate" => "contextId",
            "Runtime.callFunctionOn" => "executionContextId",
            _ => return Ok(false),
        };
        let Some(map) = params.as_object_mut() else { return Ok(false) };
        // An object's handle names its isolate, so it cannot be mistaken either.
        if self.script_is_free(session) || map.contains_key("uniqueContextId") || map.contains_key("objectId") {
            return Ok(false);
        }
        let top = self.client_session(session).and_then(|session| FrameId::new(session.target.as_str()));
        let named = map.get(number).and_then(Value::as_i64);
        let mut beside = self.sessions_beside(Some(session));
        let unique = beside.find_map(|session| {
            let is_meant = |id: i64, world: &super::state::World| match named {
                Some(named) => id == named,
                None => world.is_default && (world.frame.is_none() || world.frame == top),
            };
            let mut worlds = session.worlds.iter().filter(|(id, world)| is_meant(**id, world));
            worlds.find_map(|(_, world)| world.unique.clone())
        });
        let Some(unique) = unique else {
            return Err(Refusal::ours(format!(
                "{} refused: the policy of this task allows `script` in some documents only, and which one this would meet is \
                 not known; send Runtime.enable first",
                row.method
            )));
        };
        map.remove(number);
        map.insert("uniqueContextId".to_owned(), json!(unique));
        Ok(true)
    }

    /// The answer may be of a document that the task may not read, script or use.
    pub(super) fn refuse_by_now(&self, client: ClientId, met: &Met) -> Option<Refusal> {
        let task = self.task_of(client).and_then(|task| self.tasks.get(&task))?;
        self.forbidden_by_now(task, met).then(|| {
            Refusal::ours(format!(
                "document changed, outcome unknown: another document was loaded while {} was under way, and the policy of \
                 this task does not allow it there; see where the page is before you go on",
                met.row.method
            ))
        })
    }

    /// Commands whose reach no rule can narrow are only for tasks whose policy has nothing to say there.
    pub(super) fn refuse_unbounded(&self, client: ClientId, row: &'static Row) -> Result<(), Refusal> {
        let Some(task) = self.task_of(client) else { return Ok(()) };
        let everything = |task: &Task| !task.gates_requests && Engine::is_free(task, Verb::Read);
        if row.method == "Network.loadNetworkResource" && !self.tasks.get(&task).is_some_and(everything) {
            return Err(Refusal::ours(
                "Network.loadNetworkResource refused: it follows redirects past every gate, and the policy of this task does \
                 not allow all of the web, or not to read all of it; fetch it from a page",
            ));
        }
        let of_storage = |verb: &Verb| matches!(verb, Verb::StorageRead | Verb::StorageWrite);
        let names_origin =
            |row: &Row| row.params.iter().any(|param| matches!(param.kind, ParamKind::Origin | ParamKind::StorageKey));
        let bookkeeping = row.method.ends_with(".enable") || row.method.ends_with(".disable");
        let limited = row.verbs.iter().any(|verb| of_storage(verb) && !self.is_unlimited(task, *verb));
        match limited && !bookkeeping && !names_origin(row) {
            true => Err(Refusal::ours(format!(
                "{} refused: it names no origin, and the policy of this task does not allow storage everywhere; use a command \
                 that names one",
                row.method
            ))),
            false => Ok(()),
        }
    }

    // --- Page.navigate ----------------------------------------------------------------------------------------------

    /// It goes nowhere when the load was failed or refused; what was already on its way there may have stopped too.
    pub(super) fn navigate_answered(&mut self, frame: FrameId, nth: u64, outcome: Outcome<'_>) {
        let goes = match outcome {
            Outcome::Result(result) => {
                let result = value_of(Some(result));
                result["loaderId"].is_string() && !result["errorText"].is_string()
            }
            Outcome::Error(_) => false,
        };
        if !goes {
            self.command_goes_nowhere(frame, nth);
        }
    }

    /// `page.goto` prints the error's text and nothing else, so the reason of a blocked load stands there.
    pub(super) fn tell_navigated(&mut self, to: ReplyTo, result: &RawValue) {
        let page = self.session_of(to).and_then(|session| self.client_session(session)).map(|session| session.page);
        let reason = page.and_then(|page| self.targets.get_mut(&page)).and_then(|target| target.blocked.take());
        if let Some(reason) = reason
            && let Ok(mut result) = read_lossy(result.get())
            && result["errorText"] == BLOCKED
        {
            result["errorText"] = json!(format!("{BLOCKED} ({reason})"));
            return self.result(to, &result.to_string());
        }
        self.result(to, result.get());
    }
}

/// Nothing but white space and comments of one line.
fn does_nothing(source: &str) -> bool {
    source.lines().all(|line| {
        let line = line.trim();
        // U+2028 and U+2029 end a line in JavaScript too.
        line.is_empty() || (line.starts_with("//") && !line.contains(['\r', '\u{2028}', '\u{2029}']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_comments_do_nothing() {
        for source in ["", "  \n", "//# sourceURL=x", "// a\n  // b"] {
            assert!(does_nothing(source), "{source:?}");
        }
        for source in ["1", "// a\nb", "/* */", "// a\u{2028}b()", "// a\rb()"] {
            assert!(!does_nothing(source), "{source:?}");
        }
    }
}
