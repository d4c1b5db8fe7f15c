//! Browser contexts: a task's own is shown as the default one, and clients may make more.

use ownership::id::ContextId;
use serde_json::{Map, Value, json};

use super::{Ask, Engine};
use crate::engine::calls::{Learn, Purpose};
use crate::engine::from_client::{Addressee, Forward, Judged};
use crate::engine::io::{CloseCode, Output};
use crate::engine::refusal::Refusal;

impl Engine {
    pub(super) fn create_browser_context(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let mut params = Map::new();
        let task = self.task_of(ask.to.client).and_then(|task| self.tasks.get(&task));
        if ask.params["proxyServer"].as_str().is_some_and(|proxy| !proxy.is_empty())
            && !task.is_some_and(|task| task.allows_all_loads())
        {
            return Err(self.beyond_rules(
                ask.to.client,
                ask.row,
                "a proxy server is asked for everything that its pages load, and the policy of this task does not allow all of \
                 the web",
                "Leave proxyServer out.",
            ));
        }
        for key in ["proxyServer", "proxyBypassList"] {
            if let Some(value) = ask.params[key].as_str() {
                params.insert(key.into(), json!(value));
            }
        }
        if ask.params["originsWithUniversalNetworkAccess"].as_array().is_some_and(|origins| !origins.is_empty()) {
            return Err(Refusal::ours(
                "Target.createBrowserContext refused: originsWithUniversalNetworkAccess switches CORS off; leave it out",
            ));
        }
        let dispose_on_detach = ask.flag("disposeOnDetach")?;
        // Upstream always: should Tabwarden be killed, nothing of its tasks stays behind. Towards the client the wish is
        // kept by the engine, since the upstream connection outlives it.
        params.insert("disposeOnDetach".into(), json!(true));
        let params = Value::Object(params).to_string();
        let permitted = self.permit_forward(
            ask.to,
            ask.row,
            ask.surface,
            &own_context(),
            Forward { session: None, method: ask.row.method, params: &params },
        )?;
        self.forward(ask.to, permitted, Learn::Context { dispose_on_detach });
        Ok(())
    }

    pub(super) fn dispose_browser_context(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let text = ask.required("browserContextId")?;
        let context = self.check_context(ask.to.client, text)?;
        let is_default = self.task_of(ask.to.client).is_some_and(|task| self.context_of_task(task) == Some(context));
        if is_default {
            // The default context cannot be disposed, in Chromium neither.
            return Err(Refusal { code: -32000, message: format!("Failed to find context with id {text}") });
        }
        let params = json!({"browserContextId": context.as_str()}).to_string();
        let permitted = self.permit_forward(
            ask.to,
            ask.row,
            ask.surface,
            &own_context(),
            Forward { session: None, method: ask.row.method, params: &params },
        )?;
        self.forward(ask.to, permitted, Learn::ContextDisposed(context));
        Ok(())
    }

    pub(super) fn get_browser_contexts(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let Some(task) = self.task_of(ask.to.client) else { return Ok(()) };
        let default = self.context_of_task(task);
        let mut contexts: Vec<ContextId> =
            self.ledger.contexts(task).filter(|context| Some(*context) != default).collect();
        contexts.sort_unstable();
        let ids: Vec<&str> = contexts.iter().map(ContextId::as_str).collect();
        let mut result = json!({"browserContextIds": ids});
        if let Some(default) = default {
            result["defaultBrowserContextId"] = json!(default.as_str());
        }
        self.result(ask.to, &result.to_string());
        Ok(())
    }

    pub(in crate::engine) fn dispose_context(&mut self, context: ContextId) {
        self.own(
            None,
            "Target.disposeBrowserContext",
            &json!({"browserContextId": context.as_str()}),
            Purpose::Nothing,
        );
    }

    /// The context that a command of the root means: the one that it names, or the task's default one.
    pub(super) fn meant_context(&self, ask: &Ask<'_>) -> Result<(Option<ContextId>, bool), Refusal> {
        let task = self.task_of(ask.to.client).ok_or_else(Refusal::not_allowed)?;
        let context = match ask.text("browserContextId") {
            Some(context) => Some(self.check_context(ask.to.client, context)?),
            None => match ask.addressee {
                Addressee::Session(session) => {
                    self.client_session(session).and_then(|session| self.ledger.context_of(session.page))
                }
                Addressee::Scope(_) => self.context_of_task(task),
            },
        };
        let is_own = context.is_some_and(|context| self.ledger.owner_of_context(context) == Some(task));
        Ok((context, is_own))
    }

    /// What a client means by it is "I am done": its contexts go, its task's pages stay, and so does the browser.
    pub(super) fn close_browser(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let client = ask.to.client;
        self.result(ask.to, "{}");
        let contexts: Vec<ContextId> = self
            .clients
            .get(&client)
            .map(|state| state.contexts.iter().map(|own| own.id).collect())
            .unwrap_or_default();
        for context in contexts {
            self.dispose_context(context);
            self.change(ownership::Change::ContextGone { context });
        }
        let reason = "Browser.close: this client is done, the browser stays".to_owned();
        self.outputs.push_back(Output::CloseClient { client, code: CloseCode::Closed, reason });
        self.client_left(client);
        Ok(())
    }
}

fn own_context() -> Judged {
    Judged { shared_profile: Some(false), ..Judged::default() }
}
