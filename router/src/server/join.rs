//! `/devtools/browser/…`: a tool becomes a client of its task, as long as there is room.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::USER_AGENT;
use axum::response::Response;
use ownership::id::{ClientId, TaskId};

use super::client_socket::{self, Newcomer};
use super::handle::Handle;
use super::refusal::Refusal;
use super::routes::Opened;

/// Client sockets of one task; whoever holds one token cannot use up everything.
const MAX_CLIENTS_OF_TASK: usize = 128;

/// Client sockets in all.
const MAX_CLIENTS: usize = 1024;

pub async fn join(
    State(handle): State<Handle>,
    Extension(opened): Extension<Opened>,
    mut request: Request,
) -> Result<Response, Refusal> {
    if !client_socket::wants_upgrade(request.headers()) {
        return Err(no_such_path());
    }
    let accept = client_socket::check_upgrade(&request)?;
    handle.browser()?;
    let place = Place::take(&handle, opened.task)?;
    let user_agent = request.headers().get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    // Shown in lists and on every log line of this client.
    let user_agent = user_agent.chars().take(200).collect();
    let upgrade = hyper::upgrade::on(&mut request);
    handle.shared.welcome(Newcomer { upgrade, place, task_name: opened.name, user_agent })?;
    Ok(client_socket::switching_protocols(&accept))
}

pub fn no_such_path() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "This task has nothing at this path; connect to /devtools/browser/tabwarden or read /json/version below its \
            address.",
    )
}

/// One of the client sockets that may be open; given back when dropped.
pub struct Place {
    handle: Handle,
    pub client: ClientId,
    pub task: TaskId,
}

impl Place {
    /// Two that come at the very same time on two threads could exceed the limit by one; there is one thread.
    fn take(handle: &Handle, task: TaskId) -> Result<Place, Refusal> {
        let open = &handle.shared.open;
        let of_task = open.iter().filter(|one| *one.value() == task).count();
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
        let client = handle.shared.next_client();
        open.insert(client, task);
        Ok(Place { handle: handle.clone(), client, task })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.handle.shared.open.remove(&self.client);
        self.handle.shared.closed.notify_one();
    }
}
