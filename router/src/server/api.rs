//! `/api/v1`: tasks and status for programs, under the admin token. Described by `openapi.json` beside this file.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::API_IDLE_TTL;
use super::handle::Handle;
use super::policies::DEFAULT_NAME;
use super::refusal::{Refusal, Reply, json as reply_json, plain};
use super::registry::Phase;
use crate::engine::io::{
    AdminCommand, AdminError, AdminErrorKind, AdminReply, BrowserOrigin, TaskContext, TaskInfo, TaskSpec,
};

pub const OPENAPI: &str = include_str!("openapi.json");

/// Bodies hold a name and a few labels.
const MAX_BODY: usize = 64 << 10;

const MAX_NAME: usize = 64;

/// Beyond a year the arithmetic of deadlines is nobody's need.
const MAX_TTL_S: u64 = 366 * 24 * 3600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskRequest {
    name: Option<String>,
    context: Option<Context>,
    policy: Option<String>,
    /// Absent: an hour. `null`: never.
    #[serde(default, deserialize_with = "present")]
    idle_ttl_s: Option<Option<u64>>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    open: Option<String>,
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

/// `path` is what stands behind `/api/v1`.
pub async fn answer(
    handle: &Handle,
    method: &Method,
    path: &str,
    query: Option<&str>,
    host: &str,
    body: Incoming,
) -> Reply {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let outcome = match (method.as_str(), segments.as_slice()) {
        ("GET", ["openapi.json"]) => Ok(plain(StatusCode::OK, "application/json; charset=utf-8", OPENAPI)),
        ("GET", ["status"]) => Ok(status(handle).await),
        ("GET", ["tasks"]) => list(handle).await,
        ("POST", ["tasks"]) => match read(body).await {
            Ok(body) => create(handle, host, &body).await,
            Err(refusal) => Err(refusal),
        },
        ("GET", ["tasks", name]) => show(handle, name).await,
        ("DELETE", ["tasks", name]) => end(handle, name, query).await,
        ("POST", ["tasks", name, "token"]) => rotate(handle, host, name),
        (_, ["openapi.json" | "status" | "tasks"] | ["tasks", _] | ["tasks", _, "token"]) => Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            format!("{method} cannot be used here; see /api/v1/openapi.json for what can."),
        )),
        _ => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "The API has nothing at this path; see /api/v1/openapi.json for what it has.",
        )),
    };
    outcome.unwrap_or_else(Refusal::into_json)
}

pub fn unauthorized() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "The API needs the admin token; send it as `Authorization: Bearer TOKEN` (it stands in the runtime file of \
            `tabwarden serve`).",
    )
}

pub fn refusal(error: AdminError) -> Refusal {
    let (status, code) = match error.kind {
        AdminErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid"),
        AdminErrorKind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        AdminErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
        AdminErrorKind::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too_many_tasks"),
        AdminErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    };
    Refusal::new(status, code, error.message)
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "invalid", message)
}

/// Whether a task can be called so: names stand in URLs, logs and file names.
pub fn is_task_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(invalid(format!(
            "The body could not be read ({error}); send a JSON object of at most {} KiB.",
            MAX_BODY >> 10
        ))),
    }
}

async fn create(handle: &Handle, host: &str, body: &[u8]) -> Result<Reply, Refusal> {
    let body = if body.is_empty() { b"{}" } else { body };
    let request: TaskRequest = serde_json::from_slice(body).map_err(|error| {
        invalid(format!("The body is no description of a task ({error}); see /api/v1/openapi.json."))
    })?;
    if let Some(name) = &request.name
        && !is_task_name(name)
    {
        return Err(invalid(
            "A task's name begins with a letter or digit, holds only these, '-', '_' and '.', and has 64 characters \
                at most; choose another.",
        ));
    }
    let idle_ttl = match request.idle_ttl_s {
        None => Some(API_IDLE_TTL),
        Some(None) => None,
        Some(Some(seconds @ 1..=MAX_TTL_S)) => Some(Duration::from_secs(seconds)),
        Some(Some(_)) => {
            return Err(invalid(
                "idle_ttl_s is a number of seconds from 1 to a year; give null for a task that never expires.",
            ));
        }
    };
    let policy = handle.shared.settings.policies.load(request.policy.as_deref().unwrap_or(DEFAULT_NAME)).map_err(
        |mut error| {
            // The task is what is asked for here; that its policy is missing is a mistake in the request.
            error.kind = AdminErrorKind::Invalid;
            refusal(error)
        },
    )?;
    let spec = TaskSpec {
        name: request.name,
        context: match request.context {
            Some(Context::Shared) => TaskContext::Shared,
            Some(Context::Isolated) | None => TaskContext::Isolated,
        },
        policy,
        idle_ttl,
        labels: request.labels,
        open: request.open,
    };
    let made = handle.new_task(spec, None).await.map_err(refusal)?;
    let address = handle.shared.address(host, &made.token);
    let mut answer = summary(&made.info);
    answer["http_url"] = address.http_url.into();
    answer["ws_url"] = address.ws_url.into();
    answer["token"] = made.token.reveal().into();
    if made.info.context == TaskContext::Isolated {
        answer["note"] =
            "The task starts without the profile's logins; make it with context shared to have them.".into();
    }
    Ok(reply_json(StatusCode::CREATED, &answer))
}

async fn list(handle: &Handle) -> Result<Reply, Refusal> {
    match handle.ask(AdminCommand::TaskList).await.map_err(refusal)? {
        AdminReply::Tasks(tasks) => {
            let tasks: Value = tasks.iter().map(summary).collect();
            Ok(reply_json(StatusCode::OK, &json!({"tasks": tasks})))
        }
        other => Err(bug(&other)),
    }
}

async fn show(handle: &Handle, name: &str) -> Result<Reply, Refusal> {
    match handle.ask(AdminCommand::TaskShow(name.to_owned())).await.map_err(refusal)? {
        AdminReply::Task(task) => Ok(reply_json(StatusCode::OK, &details(&task))),
        other => Err(bug(&other)),
    }
}

async fn end(handle: &Handle, name: &str, query: Option<&str>) -> Result<Reply, Refusal> {
    let keep_pages = match query {
        None | Some("" | "keep_pages=false") => false,
        Some("keep_pages=true") => true,
        Some(_) => {
            return Err(invalid("The only query here is keep_pages=true or keep_pages=false; leave the rest out."));
        }
    };
    handle.ask(AdminCommand::TaskEnd { name: name.to_owned(), keep_pages }).await.map_err(refusal)?;
    Ok(plain(StatusCode::NO_CONTENT, "application/json; charset=utf-8", ""))
}

fn rotate(handle: &Handle, host: &str, name: &str) -> Result<Reply, Refusal> {
    match handle.rotate(name).map_err(refusal)? {
        Some(token) => {
            let address = handle.shared.address(host, &token);
            let answer =
                json!({"name": name, "http_url": address.http_url, "ws_url": address.ws_url, "token": token.reveal()});
            Ok(reply_json(StatusCode::OK, &answer))
        }
        None => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "There is no task of this name; GET /api/v1/tasks lists them.",
        )),
    }
}

async fn status(handle: &Handle) -> Reply {
    let shared = &handle.shared;
    // Asked anew for the counts; a browser that is not there has none.
    let counted = match handle.ask(AdminCommand::Status).await {
        Ok(AdminReply::Status(status)) => Some(status),
        _ => None,
    };
    let (state, note) = match shared.registry.phase() {
        Phase::Ready(_) => ("ready", None),
        Phase::Waiting(why) => ("waiting", Some(why)),
        Phase::Over(why) => ("ended", Some(why)),
    };
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "state": state,
        "note": note,
        "browser": counted.as_ref().map(|status| json!({
            "product": status.product,
            "user_agent": status.user_agent,
            "protocol_version": status.protocol_version,
            "origin": match status.origin { BrowserOrigin::Launched => "launched", BrowserOrigin::Attached => "attached" },
            "no_sandbox": shared.settings.no_sandbox,
        })),
        "tasks": counted.as_ref().map_or(0, |status| status.tasks),
        "max_tasks": shared.settings.engine.max_tasks,
        "clients": counted.as_ref().map_or(0, |status| status.clients),
        "pages": counted.as_ref().map_or(0, |status| status.pages),
    });
    reply_json(StatusCode::OK, &body)
}

fn bug(reply: &AdminReply) -> Refusal {
    let message = format!("The engine answered with something else ({reply:?}); report this as a bug of Tabwarden.");
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
}

fn summary(task: &TaskInfo) -> Value {
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

fn details(task: &TaskInfo) -> Value {
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
    rfc3339(seconds)
}

/// Civil date of a day count, after Howard Hinnant's `civil_from_days`; years from 1970 on.
fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_709_164_799), "2024-02-28T23:59:59Z");
        assert_eq!(rfc3339(4_102_444_799), "2099-12-31T23:59:59Z");
    }

    #[test]
    fn names_of_tasks_can_stand_in_urls() {
        for good in ["a", "task-1", "A.b_c", "9"] {
            assert!(is_task_name(good), "{good}");
        }
        for bad in ["", "-a", "../x", "a b", "a/b", "ä", "a\n", &"a".repeat(65)] {
            assert!(!is_task_name(bad), "{bad}");
        }
    }
}
