//! Every request: accepted, judged by admission, then routed.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::USER_AGENT;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use ownership::id::{ClientId, TaskId};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, info, warn};

use super::admission::{self, Visitor};
use super::client_socket::{self, Joining};
use super::handle::{Handle, Shared};
use super::refusal::{Refusal, Reply, json, plain};
use super::registry::{Holder, Phase};
use super::{Token, api, discovery};
use crate::engine::io::{AdminCommand, AdminReply, StatusInfo};

/// A request's head must be there by then: open connections are not free.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);

/// Client sockets of one task; whoever holds one token cannot use up everything.
const MAX_CLIENTS_OF_TASK: usize = 128;

/// Client sockets in all.
const MAX_CLIENTS: usize = 1024;

pub async fn accept(listener: TcpListener, shared: Rc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::task::spawn_local(serve(stream, shared.clone()));
            }
            Err(error) => {
                warn!("A connection could not be accepted ({error}); trying again.");
                // Out of file descriptors, most likely: without a pause this would spin.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, shared: Rc<Shared>) {
    // Small messages must not wait for each other; where it cannot be set, they are only later.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<Reply, Infallible>(answer(&shared, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        debug!("A connection ended early: {error}");
    }
}

async fn answer(shared: &Rc<Shared>, mut request: Request<Incoming>) -> Reply {
    let upgrade = client_socket::wants_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
    let (head, body) = request.into_parts();
    let visitor = match admission::admit(&shared.settings.doors, &head.uri, &head.headers) {
        Ok(visitor) => visitor,
        Err(refusal) => {
            warn!("Refused: {}", refusal.message);
            return refusal.into_text();
        }
    };
    if visitor.token.is_none() {
        match visitor.path {
            "/healthz" => return plain(StatusCode::OK, "text/plain", "ok\n"),
            "/readyz" => return readiness(&shared.registry.phase()),
            _ => {}
        }
    }
    let holder = visitor.token.map(|(token, _)| shared.registry.holder(token));
    if let Some(path) = visitor.path.strip_prefix("/api/v1").filter(|path| path.is_empty() || path.starts_with('/')) {
        if !matches!(holder, Some(Some(Holder::Admin)))
            || !matches!(visitor.token, Some((_, admission::Carrier::Bearer)))
        {
            return api::unauthorized().into_json();
        }
        let handle = Handle { shared: shared.clone() };
        return api::answer(&handle, &head.method, path, head.uri.query(), visitor.host, body).await;
    }
    let (task, name) = match holder {
        Some(Some(Holder::Task { id, name })) => (id, name),
        Some(Some(Holder::Expected)) => return not_yet(shared).into_text(),
        Some(Some(Holder::Admin)) => {
            return unauthorized(
                "The admin token opens /api/v1 only; use the address of a task, which `tabwarden task new` prints.",
            )
            .into_text();
        }
        Some(None) => {
            info!("Refused at {}: a token that opens nothing.", loggable(visitor.path));
            return unauthorized(
                "This token opens nothing, as its task has ended or the token was replaced; ask for \
                a new one with `tabwarden task token --rotate` or `tabwarden task new`.",
            )
            .into_text();
        }
        None => {
            hint(shared, &visitor);
            return Refusal::nothing_here().into_text();
        }
    };
    let outcome = match (visitor.path.trim_end_matches('/'), upgrade) {
        (path, Some(upgrade)) if path.starts_with("/devtools/browser/") => {
            let checks = Request::from_parts(head.clone(), ());
            join(shared, &checks, upgrade, task, name)
        }
        ("/json/version" | "/json/list" | "/json", None)
            if head.method != Method::GET && head.method != Method::HEAD =>
        {
            Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Discovery is only read; use GET."))
        }
        ("/json/version", None) => browser(shared).map(|status| {
            let (token, carrier) = visitor.token.unwrap_or(("", admission::Carrier::Bearer));
            json(StatusCode::OK, &discovery::version(shared, &status, visitor.host, token, carrier))
        }),
        ("/json/list" | "/json", None) => list(shared, name).await,
        (path, _) => {
            info!(task = %name, "Refused at {}: nothing is there.", loggable(path));
            Err(Refusal::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "This task has nothing at this path; connect to /devtools/browser/tabwarden or read /json/version \
                    below its address.",
            ))
        }
    };
    outcome.unwrap_or_else(Refusal::into_text)
}

fn unauthorized(message: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

/// The body is the same whatever is being waited for, since everybody may read it.
fn readiness(phase: &Phase) -> Reply {
    match phase {
        Phase::Ready(_) => plain(StatusCode::OK, "text/plain", "ready\n"),
        Phase::Waiting(_) | Phase::Over(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "not ready\n"),
    }
}

fn browser(shared: &Shared) -> Result<StatusInfo, Refusal> {
    match shared.registry.phase() {
        Phase::Ready(status) => Ok(status),
        Phase::Waiting(why) | Phase::Over(why) => {
            Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why))
        }
    }
}

/// For the client of a task that is made when the browser is there.
fn not_yet(shared: &Shared) -> Refusal {
    let soon = "This task is being made; try again in a moment.";
    browser(shared).err().unwrap_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", soon))
}

async fn list(shared: &Rc<Shared>, name: String) -> Result<Reply, Refusal> {
    let handle = Handle { shared: shared.clone() };
    match handle.ask(AdminCommand::TaskShow(name)).await {
        Ok(AdminReply::Task(task)) => Ok(json(StatusCode::OK, &discovery::list(&task))),
        Ok(_) => Err(Refusal::nothing_here()),
        Err(error) => Err(api::refusal(error)),
    }
}

fn join(
    shared: &Rc<Shared>,
    head: &Request<()>,
    upgrade: hyper::upgrade::OnUpgrade,
    task: TaskId,
    task_name: String,
) -> Result<Reply, Refusal> {
    let accept = client_socket::check_upgrade(head)?;
    browser(shared)?;
    let place = Place::take(shared, task)?;
    let user_agent = head.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    // Shown in lists and on every log line of this client.
    let user_agent = user_agent.chars().take(200).collect();
    let id = ClientId(shared.next_client.replace(shared.next_client.get() + 1));
    let inbox = shared.inbox.clone();
    tokio::task::spawn_local(async move {
        client_socket::run(upgrade, Joining { id, task, task_name, user_agent }, inbox).await;
        drop(place);
    });
    Ok(client_socket::switching_protocols(&accept))
}

/// One of the client sockets that may be open; given back when dropped.
struct Place {
    shared: Rc<Shared>,
    task: TaskId,
}

impl Place {
    fn take(shared: &Rc<Shared>, task: TaskId) -> Result<Place, Refusal> {
        let mut open = shared.open.borrow_mut();
        let of_task = open.iter().filter(|one| **one == task).count();
        if open.len() >= MAX_CLIENTS || of_task >= MAX_CLIENTS_OF_TASK {
            return Err(Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_clients",
                format!(
                    "{of_task} clients of this task and {} in all are connected, which is the limit; close some of \
                        them.",
                    open.len()
                ),
            ));
        }
        open.push(task);
        Ok(Place { shared: shared.clone(), task })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.shared.open.borrow_mut();
        if let Some(at) = open.iter().position(|one| *one == self.task) {
            open.swap_remove(at);
        }
        self.shared.closed.notify_one();
    }
}

/// Puppeteer up to 23 and agent-browser drop the path of an http URL and come here; only the log may tell them more.
fn hint(shared: &Shared, visitor: &Visitor<'_>) {
    let (_, ws) = shared.addresses(visitor.host);
    info!(
        "Somebody came to {} without a token; a client that drops the path of an http URL must be given the full \
            one: {ws}/t/<token>/devtools/browser/tabwarden",
        loggable(visitor.path)
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
