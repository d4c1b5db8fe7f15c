//! Every route, and who may take it: Host, Origin and token are judged around the whole table, so that no route can be
//! added beside that; then the admin's and the tasks' routes each ask for their token.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use axum::{Extension, Router};
use ownership::id::TaskId;
use tracing::{info, warn};

use super::admission::{self, Carrier, Visitor};
use super::handle::Handle;
use super::refusal::{ApiRefusal, Refusal, plain};
use super::registry::{Holder, Phase};
use super::{Token, api, discovery, files, join};

/// The task that a request's token opens; inserted by [`for_tasks`].
#[derive(Clone, Debug)]
pub struct Opened {
    pub task: TaskId,
    pub name: String,
}

pub fn all(handle: &Handle) -> Router {
    let health = Router::new()
        .route("/healthz", get(async || plain(StatusCode::OK, "text/plain", "ok\n")))
        .route("/readyz", get(readiness))
        .method_not_allowed_fallback(only_read);
    let api = api::routes().layer(from_fn_with_state(handle.clone(), for_admin));
    let of_task = of_task();
    let tasks = Router::new()
        .nest("/t/{token}", of_task.clone())
        // The token then came in the Authorization header.
        .merge(of_task)
        .method_not_allowed_fallback(only_read)
        .fallback(nothing_for_this_task)
        .layer(from_fn_with_state(handle.clone(), for_tasks));
    let routes = health.nest("/api/v1", api).merge(tasks).with_state(handle.clone());
    Router::new().fallback_service(routes).layer(from_fn_with_state(handle.clone(), admit))
}

fn of_task() -> Router<Handle> {
    let mut router = Router::new()
        .route("/devtools/browser/{*id}", any(join::join))
        .route("/files/{guid}", get(files::of_this_task));
    for (path, handler) in [
        ("/json/version", get(discovery::version)),
        ("/json/list", get(discovery::list)),
        ("/json", get(discovery::list)),
    ] {
        router = with_and_without_slash(router, path, handler);
    }
    router
}

/// Puppeteer asks with a slash at the end, Playwright without.
pub fn with_and_without_slash(router: Router<Handle>, path: &str, handler: MethodRouter<Handle>) -> Router<Handle> {
    router.route(path, handler.clone()).route(&format!("{path}/"), handler)
}

async fn admit(State(handle): State<Handle>, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let visitor = admission::admit(&handle.shared.settings.doors, request.uri(), request.headers())
        .inspect_err(|refusal| warn!("Refused: {}", refusal.message))?;
    request.extensions_mut().insert(visitor);
    Ok(next.run(request).await)
}

/// Only by header: a path ends up in logs and histories, so it does not carry the admin token.
async fn for_admin(
    State(handle): State<Handle>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
    next: Next,
) -> Result<Response, ApiRefusal> {
    match visitor.token {
        Some((token, Carrier::Bearer)) if handle.shared.registry.holder(&token) == Some(Holder::Admin) => {
            Ok(next.run(request).await)
        }
        _ => Err(api::unauthorized().into()),
    }
}

async fn for_tasks(
    State(handle): State<Handle>,
    Extension(visitor): Extension<Visitor>,
    mut request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let Some((token, _)) = &visitor.token else {
        hint(&handle, &visitor);
        return Err(Refusal::nothing_here());
    };
    match handle.shared.registry.holder(token) {
        Some(Holder::Task { id: task, name }) => {
            request.extensions_mut().insert(Opened { task, name });
            Ok(next.run(request).await)
        }
        // The client of a task that is made when the browser is there.
        Some(Holder::Expected) => {
            handle.browser()?;
            let soon = "This task is being made; try again in a moment.";
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", soon))
        }
        Some(Holder::Admin) => Err(unauthorized(
            "The admin token opens /api/v1 only; use the address of a task, which `tabwarden task new` prints.",
        )),
        None => {
            info!("Refused at {}: a token that opens nothing.", loggable(&visitor.path));
            Err(unauthorized(
                "This token opens nothing, as its task has ended or the token was replaced; ask for \
                    a new one with `tabwarden task token --rotate` or `tabwarden task new`.",
            ))
        }
    }
}

fn unauthorized(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

/// The body is the same whatever is being waited for, since everybody may read it.
async fn readiness(State(handle): State<Handle>) -> Response {
    match handle.shared.registry.phase() {
        Phase::Ready(_) => plain(StatusCode::OK, "text/plain", "ready\n"),
        Phase::Waiting(_) | Phase::Over(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "not ready\n"),
    }
}

async fn only_read() -> Response {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "This path is only read; use GET.")
        .into_response()
}

async fn nothing_for_this_task(
    Extension(visitor): Extension<Visitor>,
    Extension(opened): Extension<Opened>,
) -> Refusal {
    info!(task = %opened.name, "Refused at {}: nothing is there.", loggable(&visitor.path));
    join::no_such_path()
}

/// Puppeteer up to 23 and agent-browser drop the path of an http URL and come here; only the log may tell them more.
fn hint(handle: &Handle, visitor: &Visitor) {
    let (_, ws) = handle.shared.addresses(&visitor.host);
    info!(
        "Somebody came to {} without a token; a client that drops the path of an http URL must be given the full \
            one: {ws}/t/<token>/devtools/browser/tabwarden",
        loggable(&visitor.path)
    );
}

/// A mistyped address may hold a token where none is looked for.
fn loggable(path: &str) -> String {
    let path: String = path.chars().take(200).collect();
    let segments = path.split('/').map(|segment| if segment.len() >= Token::LENGTH { "…" } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_token_is_not_logged() {
        let token = "0123456789abcdef".repeat(2);
        for path in [format!("/T/{token}/json"), format!("//t/{token}"), format!("/{token}"), format!("/x{token}x/y")] {
            assert!(!loggable(&path).contains(&token), "{path}");
        }
        assert_eq!(loggable("/json/version/"), "/json/version/");
    }
}
