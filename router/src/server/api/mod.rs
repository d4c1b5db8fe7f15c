//! `/api/v1`: tasks and status for programs, under the admin token. Described by `openapi.json` beside this file.

mod decisions;
mod explain;
mod shape;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use ownership::id::TaskId;
use serde_json::{Value, json};

use super::admission::Visitor;
use super::files;
use super::handle::Handle;
use super::policies::Trigger;
use super::refusal::{self, ApiRefusal, Refusal, plain};
use super::routes::with_and_without_slash;
use crate::engine::io::{AdminCommand, AdminReply, TaskContext};
use shape::TaskRequest;

pub use crate::engine::io::is_task_name;

pub const OPENAPI: &str = include_str!("openapi.json");

/// Bodies hold a name and a few labels.
const MAX_BODY: usize = 64 << 10;

/// Every path below `/api/v1`, as `openapi.json` writes them too.
pub(super) fn table() -> [(&'static str, MethodRouter<Handle>); 9] {
    [
        ("/openapi.json", get(document)),
        ("/reload", post(reload)),
        ("/status", get(status)),
        ("/tasks", get(list).post(create)),
        ("/tasks/{name}", get(show).delete(end)),
        ("/tasks/{name}/decisions", get(decisions::decisions)),
        ("/tasks/{name}/explain", get(explain::explain)),
        ("/tasks/{name}/token", post(rotate)),
        ("/tasks/{name}/files/{guid}", get(files::of_any_task)),
    ]
}

pub fn routes() -> Router<Handle> {
    let mut router = Router::new();
    for (path, handlers) in table() {
        router = with_and_without_slash(router, path, handlers);
    }
    router.method_not_allowed_fallback(wrong_method).fallback(nothing).layer(DefaultBodyLimit::max(MAX_BODY))
}

async fn wrong_method(method: Method) -> ApiRefusal {
    ApiRefusal(Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{method} cannot be used here; see /api/v1/openapi.json for what can."),
    ))
}

async fn nothing() -> ApiRefusal {
    ApiRefusal(Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "The API has nothing at this path; see /api/v1/openapi.json for what it has.",
    ))
}

pub fn unauthorized() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "The API needs the admin token; send it as `Authorization: Bearer TOKEN` (it stands in the runtime file of \
            `tabwarden serve`).",
    )
}

fn invalid(message: impl Into<String>) -> ApiRefusal {
    ApiRefusal(Refusal::new(StatusCode::BAD_REQUEST, "invalid", message))
}

fn no_such_task() -> ApiRefusal {
    ApiRefusal(Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "There is no task of this name; GET /api/v1/tasks lists them.",
    ))
}

fn bug(reply: &AdminReply) -> ApiRefusal {
    let message = format!("The engine answered with something else ({reply:?}); report this as a bug of Tabwarden.");
    ApiRefusal(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
}

/// The name in the path. What is no UTF-8 becomes the empty name, which no task has.
struct TaskName(String);

impl<S: Send + Sync> FromRequestParts<S> for TaskName {
    type Rejection = ApiRefusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<TaskName, ApiRefusal> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        Ok(TaskName(name.map(|Path(name)| name).unwrap_or_default()))
    }
}

async fn document() -> Response {
    plain(StatusCode::OK, "application/json; charset=utf-8", OPENAPI)
}

async fn create(
    State(handle): State<Handle>,
    Extension(visitor): Extension<Visitor>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiRefusal> {
    let body = body.map_err(|error| {
        let limit = MAX_BODY >> 10;
        invalid(format!("The body could not be read ({error}); send a JSON object of at most {limit} KiB."))
    })?;
    let request = TaskRequest::parse(&body).map_err(invalid)?;
    let made = handle.new_task(request.plan().map_err(invalid)?, None).await?;
    let address = handle.shared.address(&visitor.host, &made.token);
    let mut answer = shape::summary(&made.info);
    answer["http_url"] = address.http_url.into();
    answer["ws_url"] = address.ws_url.into();
    answer["token"] = made.token.reveal().into();
    if made.info.context == TaskContext::Isolated {
        answer["note"] =
            "The task starts without the profile's logins; make it with context shared to have them.".into();
    }
    Ok(refusal::json(StatusCode::CREATED, &answer))
}

async fn list(State(handle): State<Handle>) -> Result<Response, ApiRefusal> {
    match handle.ask(AdminCommand::TaskList).await? {
        AdminReply::Tasks(tasks) => {
            let tasks: Vec<_> = tasks.iter().map(shape::summary).collect();
            Ok(refusal::json(StatusCode::OK, &json!({"tasks": tasks})))
        }
        other => Err(bug(&other)),
    }
}

async fn show(State(handle): State<Handle>, TaskName(name): TaskName) -> Result<Response, ApiRefusal> {
    match handle.ask(AdminCommand::TaskShow(name)).await? {
        AdminReply::Task(task) => {
            let mut answer = shape::details(&task);
            answer["enforcement"] = enforcement(&handle, task.id);
            Ok(refusal::json(StatusCode::OK, &answer))
        }
        other => Err(bug(&other)),
    }
}

async fn end(
    State(handle): State<Handle>,
    TaskName(name): TaskName,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let keep_pages = match query.as_deref() {
        None | Some("" | "keep_pages=false") => false,
        Some("keep_pages=true") => true,
        Some(_) => {
            return Err(invalid("The only query here is keep_pages=true or keep_pages=false; leave the rest out."));
        }
    };
    handle.ask(AdminCommand::TaskEnd { name, keep_pages }).await?;
    Ok(plain(StatusCode::NO_CONTENT, "application/json; charset=utf-8", ""))
}

async fn rotate(
    State(handle): State<Handle>,
    Extension(visitor): Extension<Visitor>,
    TaskName(name): TaskName,
) -> Result<Response, ApiRefusal> {
    let Some(token) = handle.rotate(&name)? else {
        return Err(no_such_task());
    };
    let address = handle.shared.address(&visitor.host, &token);
    let answer = json!({"name": name, "http_url": address.http_url, "ws_url": address.ws_url, "token": token.reveal()});
    Ok(refusal::json(StatusCode::OK, &answer))
}

/// `null` for a task that has just ended.
fn enforcement(handle: &Handle, task: TaskId) -> Value {
    let shown = handle.shared.registry.each(|id, entry| (id == task).then(|| shape::enforcement(entry)));
    shown.into_iter().flatten().next().unwrap_or_default()
}

async fn reload(State(handle): State<Handle>) -> Result<Response, ApiRefusal> {
    match handle.reload(Trigger::Command).await {
        Ok(done) => Ok(refusal::json(StatusCode::OK, &json!({"tasks": done.tasks, "released_pages": done.released}))),
        Err(error) => {
            let message = format!("The policies stay as they were: {error}");
            Err(ApiRefusal(Refusal::new(StatusCode::CONFLICT, "policies_kept", message)))
        }
    }
}

async fn status(State(handle): State<Handle>) -> Response {
    // Asked anew for the counts; a browser that is not there has none.
    let counted = match handle.ask(AdminCommand::Status).await {
        Ok(AdminReply::Status(status)) => Some(status),
        _ => None,
    };
    let shared = &handle.shared;
    refusal::json(StatusCode::OK, &shape::status(shared, counted.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
