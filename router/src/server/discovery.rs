//! `/json/version` and `/json/list` of one task, in the shape of Chromium's.

use serde_json::{Value, json};

use super::admission::Carrier;
use super::handle::Shared;
use crate::engine::io::{StatusInfo, TaskInfo};

/// `host` has passed admission; the URL carries the token the same way as the question did.
pub fn version(shared: &Shared, status: &StatusInfo, host: &str, token: &str, carrier: Carrier) -> Value {
    let (_, base) = shared.addresses(host);
    let id = &shared.browser_id;
    let socket = match carrier {
        Carrier::Path => format!("{base}/t/{token}/devtools/browser/{id}"),
        Carrier::Bearer => format!("{base}/devtools/browser/{id}"),
    };
    json!({
        "Browser": status.product,
        "Protocol-Version": status.protocol_version,
        "User-Agent": status.user_agent,
        "V8-Version": status.js_version,
        // Frozen at 537.36 in all Chromiums since 2013.
        "WebKit-Version": format!("537.36 ({})", status.revision),
        "webSocketDebuggerUrl": socket,
    })
}

/// Without `webSocketDebuggerUrl` for each page, as `/devtools/page/` is not served yet.
pub fn list(task: &TaskInfo) -> Value {
    let page = |page: &crate::engine::io::PageInfo| json!({"description": "", "id": page.target_id, "title": page.title, "type": "page", "url": page.url});
    task.pages.iter().map(page).collect()
}
