//! `GET /tasks/NAME/decisions?since=`: the audit's last records of one task.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::{TaskName, invalid, no_such_task};
use crate::server::audit::Since;
use crate::server::handle::Handle;
use crate::server::refusal::{ApiRefusal, plain};
use crate::server::time;

pub async fn decisions(
    State(handle): State<Handle>,
    TaskName(name): TaskName,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiRefusal> {
    let since = since(query.as_deref().unwrap_or_default()).map_err(invalid)?;
    let Some(task) = handle.shared.registry.id_of(&name) else { return Err(no_such_task()) };
    let found = handle.shared.trail.decisions(task, &since);
    // The lines are JSON already, the very ones of the file.
    let body = format!("{{\"decisions\":[{}],\"gap\":{}}}", found.lines.join(","), found.gap);
    Ok(plain(StatusCode::OK, "application/json; charset=utf-8", body))
}

fn since(query: &str) -> Result<Since, &'static str> {
    let mut fields = url::form_urlencoded::parse(query.as_bytes());
    let since = match (fields.next(), fields.next()) {
        (None, _) => return Ok(Since::Beginning),
        (Some((key, value)), None) if key == "since" => value,
        _ => return Err("The only query here is since=ID or since=TIME; leave the rest out."),
    };
    if since.starts_with("a-") {
        return Ok(Since::Id(since.into_owned()));
    }
    time::parse_rfc3339(&since)
        .map(Since::Time)
        .ok_or("since is the id of a decision (a-…) or a time like 2026-01-31T12:00:00Z; give one of these.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_an_id_or_a_time() {
        assert_eq!(since(""), Ok(Since::Beginning));
        assert_eq!(since("since=a-12"), Ok(Since::Id("a-12".into())));
        assert_eq!(since("since=1970-01-01T00%3A00:02%2B00:00"), Ok(Since::Time(2000)));
        for bad in ["since", "since=", "since=1h", "since=a-1&since=a-2", "until=a-1", "since=a-1&x"] {
            assert!(since(bad).is_err(), "{bad}");
        }
    }
}
