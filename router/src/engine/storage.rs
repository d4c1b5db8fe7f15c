//! Storage and service workers by origin. Chromium takes any origin of the browser context; in the person's profile a task
//! reaches those where its pages have been, and everywhere those that its policy allows.

use ownership::id::{SessionId, TargetId, TaskId};
use policy::methods::Row;
use policy::{Question, Verb};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Engine;
use super::from_client::Judged;
use super::refusal::Refusal;
use super::sites::{not_been_there, web_url};
use crate::wire::value_of;

/// How a parameter names an origin.
#[derive(Clone, Copy)]
pub(super) enum Naming {
    Origin,
    StorageKey,
}

/// The origin at the beginning of a storage key.
fn origin_of_key(key: &str) -> &str {
    let origin = key.split('^').next().unwrap_or_default();
    origin.strip_suffix('/').unwrap_or(origin)
}

/// Whose storage an event may tell.
#[derive(Clone, Copy)]
struct Reader {
    task: TaskId,
    shared: bool,
}

impl Engine {
    /// In the profile only as Chromium itself writes it: what is spelt otherwise could be read otherwise.
    pub(super) fn check_storage(
        &self,
        session: Option<SessionId>,
        row: &Row,
        naming: Naming,
        text: &str,
        judged: &mut Judged,
    ) -> Result<(), Refusal> {
        let Some(session) = session else { return Err(Refusal::not_allowed()) };
        let task = self.client_session(session).and_then(|session| self.task_of(session.client));
        let task = task.ok_or_else(Refusal::not_allowed)?;
        if self.is_shared(session) && !self.has_been(task, naming, text) {
            return Err(not_been_there(row, &format!("the storage of {:?}", text.escape_debug().to_string())));
        }
        let url = match naming {
            Naming::Origin => text.to_owned(),
            Naming::StorageKey => format!("{}/", origin_of_key(text)),
        };
        let verbs = row.verbs.iter().filter(|verb| !self.is_unlimited(task, **verb));
        judged.urls.extend(verbs.map(|verb| (*verb, url.clone())));
        Ok(())
    }

    fn has_been(&self, task: TaskId, naming: Naming, text: &str) -> bool {
        self.sites_of(task).is_some_and(|sites| match naming {
            Naming::Origin => sites.has_origin(text.strip_suffix('/').unwrap_or(text)),
            Naming::StorageKey => sites.has_storage_key(text),
        })
    }

    // --- events -------------------------------------------------------------------------------------------------

    /// `None`: everything may be told.
    fn storage_reader(&self, session: SessionId) -> Option<Reader> {
        let task = self.client_session(session).and_then(|session| self.task_of(session.client))?;
        let shared = self.is_shared(session);
        (shared || !self.is_unlimited(task, Verb::StorageRead)).then_some(Reader { task, shared })
    }

    fn may_tell_storage(&self, reader: Reader, naming: Naming, named: &Value) -> bool {
        let Some(text) = named.as_str() else { return false };
        let url = match naming {
            Naming::Origin => text.to_owned(),
            Naming::StorageKey => format!("{}/", origin_of_key(text)),
        };
        let been_there = !reader.shared || self.has_been(reader.task, naming, text);
        let policy = self.tasks.get(&reader.task).map(|task| &task.policy);
        been_there && policy.is_some_and(|policy| policy.judge(&Question::new(Verb::StorageRead, &url)).allowed())
    }

    /// Changes to storage: of `DOMStorage` in the page's frames, of `Storage` wherever a client has asked for them.
    pub(super) fn deliver_storage(&mut self, session: SessionId, method: &str, params: Option<&RawValue>) {
        if let Some(reader) = self.storage_reader(session) {
            let event = value_of(params);
            let key = match method.split_once('.') {
                Some(("DOMStorage", _)) => &event["storageId"]["storageKey"],
                Some((_, "storageBucketCreatedOrUpdated")) => &event["bucketInfo"]["bucket"]["storageKey"],
                _ => &event["storageKey"],
            };
            if !self.may_tell_storage(reader, Naming::StorageKey, key) {
                return;
            }
        }
        self.deliver(session, method, params.map_or("{}", RawValue::get));
    }

    /// The service workers of the profile, cut to scopes where the task has been.
    pub(super) fn deliver_workers(&mut self, session: SessionId, method: &str, params: Option<&RawValue>) {
        let Some(reader) = self.storage_reader(session) else {
            return self.deliver(session, method, params.map_or("{}", RawValue::get));
        };
        let mut event = value_of(params);
        let told = match method {
            "ServiceWorker.workerRegistrationUpdated" => {
                self.keep_workers(reader, &mut event["registrations"], "scopeURL")
            }
            "ServiceWorker.workerVersionUpdated" => self.keep_workers(reader, &mut event["versions"], "scriptURL"),
            _ => self.may_tell_registration(session, reader, &event["errorMessage"]["registrationId"]),
        };
        if told {
            self.deliver(session, method, &event.to_string());
        }
    }

    /// Whether the event still says something: it is empty also when there are none, which is worth telling.
    fn keep_workers(&self, reader: Reader, workers: &mut Value, url: &str) -> bool {
        let Some(workers) = workers.as_array_mut() else { return false };
        let were_none = workers.is_empty();
        workers.retain(|worker| self.may_tell_scope(reader, &worker[url]));
        if reader.shared {
            workers.iter_mut().for_each(|worker| self.hide_foreign_targets(reader.task, worker));
        }
        were_none || !workers.is_empty()
    }

    fn may_tell_scope(&self, reader: Reader, scope: &Value) -> bool {
        let origin = scope.as_str().and_then(web_url).map(|url| url.origin().ascii_serialization());
        origin.is_some_and(|origin| self.may_tell_storage(reader, Naming::Origin, &json!(origin)))
    }

    fn may_tell_registration(&self, session: SessionId, reader: Reader, registration: &Value) -> bool {
        let context = self.client_session(session).and_then(|session| self.ledger.context_of(session.page));
        let scopes = context.and_then(|context| self.worker_scopes.get(&context));
        let scope = registration.as_str().and_then(|id| scopes?.get(id));
        scope.is_some_and(|scope| self.may_tell_scope(reader, &json!(scope)))
    }

    /// A worker of the profile serves the person's tabs too; their ids are none of the task's business, nor is the worker's own.
    fn hide_foreign_targets(&self, task: TaskId, worker: &mut Value) {
        let is_own = |id: &Value| {
            let id = id.as_str().and_then(TargetId::new);
            id.is_some_and(|id| self.ledger.target(task, id) == ownership::Relation::Owned)
        };
        let Some(worker) = worker.as_object_mut() else { return };
        if let Some(Value::Array(clients)) = worker.get_mut("controlledClients") {
            clients.retain(is_own);
        }
        if !worker.get("targetId").is_some_and(is_own) {
            worker.remove("targetId");
        }
    }
}
