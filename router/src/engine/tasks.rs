//! Tasks: made, given their first page, expired and ended.

use std::time::Instant;

use ownership::id::{ContextId, TargetId, TaskId};
use ownership::{Change, TargetKind};
use policy::{Mode, Question, Verb};
use serde_json::{Map, Value, json};

use super::Engine;
use super::calls::{Purpose, ReplyTo};
use super::io::{
    AdminError, AdminErrorKind, AdminReply, AdminRequest, CloseCode, Output, TaskContext, TaskSpec, is_task_name,
};
use super::sockets::trips_sockets;
use super::state::{Task, TaskState, free_verbs, gates_requests};
use crate::wire::Outcome;

/// How many refusals `task show` can list.
pub const REMEMBERED_REFUSALS: usize = 20;

fn field(outcome: &Outcome<'_>, key: &str) -> Option<String> {
    outcome.result()[key].as_str().map(str::to_owned)
}

impl Engine {
    // --- made ---------------------------------------------------------------------------------------------------

    pub(super) fn new_task(&mut self, request: AdminRequest, spec: TaskSpec) -> Result<(), AdminError> {
        let error = |kind, message: String| Err(AdminError { kind, message });
        if !self.browser.ready || self.browser.lost {
            return error(
                AdminErrorKind::Unavailable,
                "the browser is not ready for tasks; try again in a moment".to_owned(),
            );
        }
        let living = self.tasks.values().filter(|task| task.state != TaskState::Ending).count();
        if living >= self.config.max_tasks {
            let idlest = self.idlest_task().unwrap_or_default();
            return error(
                AdminErrorKind::TooMany,
                format!(
                    "{living} tasks are active, which is the limit; end one first (the idlest is {idlest:?}), or raise --max-tasks"
                ),
            );
        }
        if spec.context == TaskContext::Shared && self.browser.default_context.is_none() {
            return error(
                AdminErrorKind::Unavailable,
                "this browser does not tell which browser context is its profile, so no task can share it; use an isolated task".to_owned(),
            );
        }
        if let Some(url) = &spec.open {
            let question = Question::new(Verb::Navigate, url).created_by(Some("task"));
            let decision = spec.policy.judge(&question.with_method(Verb::Navigate.usual_method()));
            if !decision.allowed() {
                return error(AdminErrorKind::Invalid, decision.sentence(&format!("navigate to {url}")));
            }
        }
        let id = TaskId(self.next_task);
        let name = spec.name.unwrap_or_else(|| format!("task-{}", id.0));
        if !is_task_name(&name) {
            return error(
                AdminErrorKind::Invalid,
                format!(
                    "{name:?} cannot be a task's name, as directories are called so; use letters, digits, '-', '_' and '.'"
                ),
            );
        }
        // Each has a directory of its name, and there are file systems to which both cases of a letter are one.
        if self.tasks.values().any(|task| task.name.eq_ignore_ascii_case(&name)) {
            return error(
                AdminErrorKind::Conflict,
                format!("a task named {name:?} exists already; choose another name or end that one"),
            );
        }
        self.next_task += 1;
        let (launched, shared) = (self.launched(), spec.context == TaskContext::Shared);
        self.tasks.insert(
            id,
            Task {
                name,
                state: if shared { TaskState::Active } else { TaskState::Starting },
                context_kind: spec.context,
                context: if shared { self.browser.default_context } else { None },
                free: free_verbs(&spec.policy),
                gates_requests: gates_requests(&spec.policy),
                loads: Default::default(),
                trips_sockets: trips_sockets(&spec.policy, Mode { launched, isolated: !shared }),
                policy: spec.policy,
                idle_ttl: spec.idle_ttl,
                idle_since: self.now,
                labels: spec.labels,
                open: spec.open,
                opening: false,
                waiting_new: Some(request),
                ending_steps: 0,
                ending_requests: Vec::new(),
                refusals: Default::default(),
                sites: Default::default(),
                trials: Default::default(),
            },
        );
        self.policies_changed();
        match shared {
            true => {
                self.make_task_dir(id);
                self.watch_profile_downloads();
                self.task_is_active(id);
            }
            // Upstream it goes with our connection, so that nothing of it stays in an attached browser should we die.
            false => self.own(
                None,
                "Target.createBrowserContext",
                &json!({"disposeOnDetach": true}),
                Purpose::TaskContext(id),
            ),
        }
        Ok(())
    }

    /// Without clients for the longest time.
    fn idlest_task(&self) -> Option<String> {
        self.tasks
            .iter()
            .filter(|(id, task)| task.state != TaskState::Ending && self.clients_of(**id).is_empty())
            .min_by_key(|(_, task)| task.idle_since)
            .or_else(|| self.tasks.iter().min_by_key(|(_, task)| task.idle_since))
            .map(|(_, task)| task.name.clone())
    }

    pub(super) fn task_context_answered(&mut self, id: TaskId, outcome: Outcome<'_>) {
        let context = field(&outcome, "browserContextId").as_deref().and_then(ContextId::new);
        let Some(task) = self.tasks.get_mut(&id) else {
            return; // Ended meanwhile: `end_task` waits for us, so this does not happen.
        };
        let Some(context) = context else {
            if task.state == TaskState::Ending {
                return self.end_step_done(id);
            }
            let request = task.waiting_new.take();
            let why = match outcome {
                Outcome::Error(error) => error.get().to_owned(),
                Outcome::Result(_) => "no browserContextId in the answer".to_owned(),
            };
            self.tasks.remove(&id);
            self.policies_changed();
            let message = format!(
                "the browser would not make a browser context for this task ({why}); use --context shared, or restart the browser"
            );
            return self.admin_reply(request, Err(AdminError { kind: AdminErrorKind::Unavailable, message }));
        };
        task.context = Some(context);
        self.change(Change::ContextCreated { context, task: id });
        if self.tasks.get(&id).is_some_and(|task| task.state == TaskState::Ending) {
            return self.end_step_done(id);
        }
        self.make_task_dir(id);
        self.gather_downloads(context, id);
        self.task_is_active(id);
    }

    fn task_is_active(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.state = TaskState::Active;
        let (request, open) = (task.waiting_new.take(), task.open.take());
        if let Some(url) = open {
            self.open_page(id, url);
        }
        if let Some(info) = self.task_info(id) {
            self.admin_reply(request, Ok(AdminReply::Task(info)));
        }
        if !self.clients_of(id).is_empty() {
            self.prepare(id);
        }
    }

    // --- pages --------------------------------------------------------------------------------------------------

    pub(super) fn open_page(&mut self, id: TaskId, url: String) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.opening = true;
        let mut params = Map::new();
        params.insert("url".into(), json!(url));
        params.insert("newWindow".into(), json!(true));
        params.insert("background".into(), json!(true));
        let context = task.context;
        if let Some(context) = context {
            params.insert("browserContextId".into(), json!(context.as_str()));
        }
        self.own(None, "Target.createTarget", &Value::Object(params), Purpose::OpenPage { task: id, context });
    }

    pub(super) fn open_page_answered(&mut self, id: TaskId, outcome: Outcome<'_>) {
        let created = field(&outcome, "targetId").as_deref().and_then(TargetId::new);
        if let Some(task) = self.tasks.get_mut(&id) {
            task.opening = false;
        }
        self.page_created(id, created);
        if let Outcome::Error(error) = outcome {
            self.odd("open", format!("the browser would not open a page for a task: {}", error.get()));
        }
        // Without a first page a client still connects, and can try for itself.
        let coming = created.and_then(|page| self.targets.get(&page)).is_some_and(|target| target.claim.is_some());
        if !coming {
            self.let_clients_in(id);
        }
    }

    pub(super) fn create_page_answered(&mut self, to: ReplyTo, task: TaskId, outcome: Outcome<'_>) {
        let created = field(&outcome, "targetId").as_deref().and_then(TargetId::new);
        self.page_created(task, created);
        match (outcome, created) {
            (Outcome::Result(_), Some(target)) => {
                self.answer_when_shown(to, json!({"targetId": target.as_str()}), vec![target]);
            }
            (Outcome::Result(result), None) => self.result(to, result.get()),
            (Outcome::Error(error), _) => self.error(to, error.get()),
        }
    }

    // --- expired and ended --------------------------------------------------------------------------------------

    pub(super) fn expires_at(&self, id: TaskId) -> Option<Instant> {
        let task = self.tasks.get(&id)?;
        let ttl = task.idle_ttl?;
        let idle = task.state == TaskState::Active && self.clients_of(id).is_empty();
        idle.then(|| task.idle_since + ttl)
    }

    pub(super) fn task_deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        self.tasks.keys().filter_map(|id| self.expires_at(*id))
    }

    pub(super) fn expire_tasks(&mut self) {
        let now = self.now;
        let expired: Vec<TaskId> = self
            .tasks
            .keys()
            .copied()
            .filter(|id| self.expires_at(*id).is_some_and(|deadline| now >= deadline))
            .collect();
        for id in expired {
            self.end_task(id, false, None, CloseCode::TaskExpired);
        }
    }

    pub(super) fn end_task(&mut self, id: TaskId, keep_pages: bool, request: Option<AdminRequest>, code: CloseCode) {
        let pages = self.page_ids(id);
        let contexts: Vec<ContextId> = self.ledger.contexts(id).collect();
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.ending_requests.extend(request);
        if task.state == TaskState::Ending {
            return;
        }
        let was_starting = task.state == TaskState::Starting;
        let never_told = task.waiting_new.take();
        task.state = TaskState::Ending;
        // One step for this function itself, so that answers which come at once do not end the task under our feet.
        task.ending_steps = 1 + usize::from(was_starting && !self.browser.lost);
        let name = task.name.clone();
        let message = "the task was ended before it was ready".to_owned();
        self.admin_reply(never_told, Err(AdminError { kind: AdminErrorKind::Conflict, message }));
        for client in self.clients_of(id) {
            let reason = match code {
                CloseCode::TaskExpired => format!("task {name:?} was idle for too long and has ended"),
                CloseCode::Shutdown => "Tabwarden is shutting down".to_owned(),
                _ => format!("task {name:?} was ended"),
            };
            self.outputs.push_back(Output::CloseClient { client, code, reason });
            self.client_left(client);
        }
        for page in pages {
            let in_own_context = self.ledger.context_of(page).is_some_and(|context| contexts.contains(&context));
            if in_own_context || self.ledger.kind(page) != Some(TargetKind::Page) {
                continue; // Goes with its context.
            }
            match keep_pages {
                true => self.release(page, "its task was ended with --keep-pages"),
                // `closeTarget` does not run beforeunload.
                false => self.end_step(id, "Target.closeTarget", &json!({"targetId": page.as_str()})),
            }
        }
        self.drop_downloads(id, keep_pages);
        for context in contexts {
            self.end_step(id, "Target.disposeBrowserContext", &json!({"browserContextId": context.as_str()}));
        }
        self.end_step_done(id);
    }

    fn end_step(&mut self, id: TaskId, method: &'static str, params: &Value) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.ending_steps += 1;
        }
        self.own(None, method, params, Purpose::EndTask(id));
    }

    pub(super) fn end_step_done(&mut self, id: TaskId) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.ending_steps = task.ending_steps.saturating_sub(1);
        // A context that was being made when the end came goes too.
        if task.ending_steps == 0
            && let Some(context) = task.context.filter(|_| !task.shared())
            && self.ledger.owner_of_context(context) == Some(id)
            && self.page_ids(id).is_empty()
        {
            self.dispose_context(context);
        }
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if task.ending_steps > 0 {
            return;
        }
        let requests = std::mem::take(&mut task.ending_requests);
        let name = task.name.clone();
        for page in self.page_ids(id) {
            self.page_departs(page, false);
            self.forget_children(page);
        }
        self.tasks.remove(&id);
        self.drop_downloads(id, true);
        self.policies_changed();
        self.change(Change::TaskEnded { task: id });
        self.outputs.push_back(Output::TaskEnded { task: id, name });
        for request in requests {
            self.admin_reply(Some(request), Ok(AdminReply::Ended));
        }
        if self.browser.draining && self.tasks.is_empty() {
            self.outputs.push_back(Output::Drained);
        }
    }

    pub(super) fn drain(&mut self) {
        let tasks: Vec<TaskId> = self.tasks.keys().copied().collect();
        // A launched browser goes as a whole; in the person's own, what the tasks made is taken away.
        if self.launched() || self.browser.lost {
            for task in tasks {
                for client in self.clients_of(task) {
                    let reason = "Tabwarden is shutting down".to_owned();
                    self.outputs.push_back(Output::CloseClient { client, code: CloseCode::Shutdown, reason });
                    self.client_left(client);
                }
            }
            self.outputs.push_back(Output::Drained);
            return;
        }
        if tasks.is_empty() {
            self.outputs.push_back(Output::Drained);
            return;
        }
        self.browser.draining = true;
        for task in tasks {
            self.end_task(task, false, None, CloseCode::Shutdown);
        }
    }
}
