//! The JSON of the API: what a request may say, and how tasks and the server are described.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use policy::Unenforceable;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::is_task_name;
use crate::engine::io::{BrowserOrigin, StatusInfo, TaskContext, TaskInfo};
use crate::server::handle::{Shared, TaskPlan};
use crate::server::policies::{Allow, DEFAULT_NAME, Source, TaskPolicy};
use crate::server::registry::{Entry, Phase};
use crate::server::{API_IDLE_TTL, time};

/// Beyond a year the arithmetic of deadlines is nobody's need.
const MAX_TTL_S: u64 = 366 * 24 * 3600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    name: Option<String>,
    context: Option<Context>,
    policy: Option<String>,
    /// Absent: an hour. `null`: never.
    #[serde(default, deserialize_with = "present")]
    idle_ttl_s: Option<Option<u64>>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    open: Option<String>,
    allow: Option<Allow>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Context {
    Isolated,
    Shared,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl TaskRequest {
    /// An empty body asks for a task with nothing special. `Err` is the sentence for who asked.
    pub fn parse(body: &[u8]) -> Result<TaskRequest, String> {
        let body = if body.is_empty() { b"{}" } else { body };
        let request: TaskRequest = serde_json::from_slice(body)
            .map_err(|error| format!("The body is no description of a task ({error}); see /api/v1/openapi.json."))?;
        match &request.name {
            Some(name) if !is_task_name(name) => Err("A task's name begins with a letter or digit, holds only these, \
                '-', '_' and '.', and has 64 characters at most; choose another."
                .into()),
            _ => Ok(request),
        }
    }

    pub fn plan(self) -> Result<TaskPlan, String> {
        let source = Source::Named(self.policy.clone().unwrap_or_else(|| DEFAULT_NAME.into()));
        Ok(TaskPlan {
            idle_ttl: self.idle_ttl()?,
            context: self.context(),
            name: self.name,
            policy: TaskPolicy { source, allow: self.allow },
            labels: self.labels,
            open: self.open,
        })
    }

    fn idle_ttl(&self) -> Result<Option<Duration>, String> {
        match self.idle_ttl_s {
            None => Ok(Some(API_IDLE_TTL)),
            Some(None) => Ok(None),
            Some(Some(seconds @ 1..=MAX_TTL_S)) => Ok(Some(Duration::from_secs(seconds))),
            Some(Some(_)) => Err("idle_ttl_s is a number of seconds from 1 to a year; give null for a task that \
                never expires."
                .into()),
        }
    }

    fn context(&self) -> TaskContext {
        match self.context {
            Some(Context::Shared) => TaskContext::Shared,
            Some(Context::Isolated) | None => TaskContext::Isolated,
        }
    }
}

/// `counted`: what the engine says, if there is a browser.
pub fn status(shared: &Shared, counted: Option<&StatusInfo>) -> Value {
    let settings = &shared.settings;
    let audit = shared.trail.state();
    let phase = shared.registry.phase();
    let (state, note) = match &phase {
        Phase::Ready(_) => ("ready", None),
        Phase::Waiting(why) => ("waiting", Some(why)),
        Phase::Over(why) => ("ended", Some(why)),
    };
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "state": state,
        "note": note,
        "browser": counted.map(|status| json!({
            "product": status.product,
            "user_agent": status.user_agent,
            "protocol_version": status.protocol_version,
            "origin": match status.origin { BrowserOrigin::Launched => "launched", BrowserOrigin::Attached => "attached" },
            "no_sandbox": settings.no_sandbox,
        })),
        "tasks": counted.map_or(0, |status| status.tasks),
        "max_tasks": settings.engine.max_tasks,
        "clients": counted.map_or(0, |status| status.clients),
        "pages": counted.map_or(0, |status| status.pages),
        "policies": policies(shared),
        "task_policies": shared.registry.each(|_, entry| {
            let mut shown = enforcement(entry);
            shown["task"] = entry.name.as_str().into();
            shown
        }),
        "audit": {
            "file": shared.trail.file.display().to_string(),
            "written": audit.written,
            "lost": audit.lost,
            "trouble": audit.trouble,
        },
    })
}

/// What holds for every task, and how the last reading went.
fn policies(shared: &Shared) -> Value {
    let last = shared.policies.last_reload();
    json!({
        "admin_directory": shared.settings.policies.admin_dir().display().to_string(),
        "last_reload": {
            "at": time::rfc3339_ms(last.at),
            "by": last.by.as_str(),
            "ok": last.error.is_none(),
            "error": last.error,
        },
    })
}

/// What holds for one task.
pub fn enforcement(entry: &Entry) -> Value {
    let policies = &entry.policy.policies;
    json!({
        "files": policies
            .names()
            .map(|(layer, name)| json!({"layer": layer.to_string(), "name": name}))
            .collect::<Vec<_>>(),
        "hash": policies.hash(),
        "channels": policies
            .coverage(entry.policy.mode)
            .iter()
            .map(|channel| json!({
                "name": channel.name,
                "denied": channel.denied,
                "enforced_by": channel.enforced_by,
                "setting": channel.setting.map(Unenforceable::as_str),
            }))
            .collect::<Vec<_>>(),
    })
}

pub fn summary(task: &TaskInfo) -> Value {
    json!({
        "name": task.name,
        "state": task.state,
        "context": match task.context { TaskContext::Isolated => "isolated", TaskContext::Shared => "shared" },
        "policy": task.policy,
        "labels": task.labels,
        "idle_ttl_s": task.idle_ttl.map(|ttl| ttl.as_secs()),
        "expires_at": task.expires_at.map(timestamp),
    })
}

pub fn details(task: &TaskInfo) -> Value {
    let mut answer = summary(task);
    answer["pages"] = task
        .pages
        .iter()
        .map(|page| json!({"target_id": page.target_id, "url": page.url, "title": page.title, "opener": page.opener}))
        .collect();
    answer["clients"] = task
        .clients
        .iter()
        .map(|client| json!({"user_agent": client.user_agent, "since": timestamp(client.since)}))
        .collect();
    answer["last_refusals"] = task.last_refusals.iter().map(String::as_str).collect();
    answer
}

/// RFC 3339 in UTC, to the second. The engine's clock never jumps; the world's is asked here.
fn timestamp(at: Instant) -> String {
    let now = Instant::now();
    let world = SystemTime::now();
    let at = match at.checked_duration_since(now) {
        Some(ahead) => world.checked_add(ahead),
        None => world.checked_sub(now.duration_since(at)),
    };
    let seconds = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default().as_secs();
    time::rfc3339(seconds)
}
