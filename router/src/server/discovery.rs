//! `/json/version` and `/json/list` of one task, in the shape of Chromium's.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::admission::{Carrier, Visitor};
use super::handle::Handle;
use super::refusal::{self, Refusal};
use super::routes::Opened;
use crate::engine::io::{AdminCommand, AdminReply, PageInfo};

pub async fn version(
    State(handle): State<Handle>,
    Extension(visitor): Extension<Visitor>,
) -> Result<Response, Refusal> {
    let status = handle.browser()?;
    let body = json!({
        "Browser": status.product,
        "Protocol-Version": status.protocol_version,
        "User-Agent": status.user_agent,
        "V8-Version": status.js_version,
        // Frozen at 537.36 in all Chromiums since 2013.
        "WebKit-Version": format!("537.36 ({})", status.revision),
        "webSocketDebuggerUrl": socket_url(&handle, &visitor),
    });
    Ok(refusal::json(StatusCode::OK, &body))
}

/// The Host has passed admission; the URL carries the token the same way as the question did.
fn socket_url(handle: &Handle, visitor: &Visitor) -> String {
    let (_, base) = handle.shared.addresses(&visitor.host);
    let id = &handle.shared.browser_id;
    match &visitor.token {
        Some((token, Carrier::Path)) => format!("{base}/t/{token}/devtools/browser/{id}"),
        Some((_, Carrier::Bearer)) | None => format!("{base}/devtools/browser/{id}"),
    }
}

/// Without `webSocketDebuggerUrl` for each page, as `/devtools/page/` is not served yet.
pub async fn list(State(handle): State<Handle>, Extension(opened): Extension<Opened>) -> Result<Response, Refusal> {
    let AdminReply::Task(task) = handle.ask(AdminCommand::TaskShow(opened.name)).await? else {
        return Err(Refusal::nothing_here());
    };
    let page = |page: &PageInfo| json!({"description": "", "id": page.target_id, "title": page.title, "type": "page", "url": page.url});
    let pages: Value = task.pages.iter().map(page).collect();
    Ok(refusal::json(StatusCode::OK, &pages))
}
