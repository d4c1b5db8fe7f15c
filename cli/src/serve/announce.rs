//! Saying that it is ready: one JSON line for programs on stdout, or a banner for people on stderr.

use std::path::Path;

use router::engine::io::TaskContext;
use router::server::{Handle, Settings, TaskAddress};
use serde_json::{Value, json};

use crate::output;

pub struct Made {
    pub name: String,
    pub context: TaskContext,
    pub address: TaskAddress,
}

/// `profile`: of the browser that we started; `None` for one that was there.
pub fn ready(
    as_json: bool,
    handle: &Handle,
    tasks: &[Made],
    profile: Option<&str>,
    settings: &Settings,
    runtime_file: &Path,
) {
    if as_json {
        output::line(&line(&handle.http_url(), tasks).to_string());
        return;
    }
    let mut lines = vec![String::new(), format!("Tabwarden is ready at {}", handle.http_url())];
    lines.push(match profile {
        Some(profile) => format!("  browser  started by Tabwarden and ends with it; {profile}"),
        None => "  browser  yours: it stays when Tabwarden ends".to_owned(),
    });
    if settings.no_sandbox {
        lines.push("  sandbox  OFF: a page that breaks out of its process has all rights of this user".to_owned());
    }
    let dirs: Vec<String> = settings.engine.read_dirs.iter().map(|dir| dir.display().to_string()).collect();
    lines.push(format!("  uploads  clients may upload files below {}", dirs.join(", ")));
    lines.push(format!("  admin    {}", runtime_file.display()));
    for task in tasks {
        let context = match task.context {
            TaskContext::Isolated => "isolated: without the profile's logins",
            TaskContext::Shared => "shared: with the profile's logins",
        };
        lines.push(format!("  task {} ({context})", task.name));
        lines.push(format!("    http   {}", task.address.http_url));
        lines.push(format!("    ws     {}", task.address.ws_url));
    }
    if tasks.is_empty() {
        lines.push("  no task yet; make one with `tabwarden task new NAME`".to_owned());
    }
    lines.push(String::new());
    // On stdout, apart from the log: the addresses of tasks are secrets.
    output::line(&lines.join("\n"));
}

fn line(http_url: &str, tasks: &[Made]) -> Value {
    let tasks: Value = tasks
        .iter()
        .map(|task| json!({"name": task.name, "http_url": task.address.http_url, "ws_url": task.address.ws_url}))
        .collect();
    json!({"event": "ready", "http_url": http_url, "tasks": tasks})
}
