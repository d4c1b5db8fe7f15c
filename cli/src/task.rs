//! `tabwarden task`: the API's tasks from the command line.

use serde_json::{Value, json};

use crate::api_client::ApiClient;
use crate::args::{TaskArgs, TaskCommand};
use crate::exit::Failure;
use crate::{output, status};

pub async fn run(args: TaskArgs) -> Result<(), Failure> {
    let api = ApiClient::find(&args.server)?;
    let as_json = args.server.json;
    match args.command {
        TaskCommand::New { name, context, policy, allow_host, allow_site, open, ttl } => {
            // Null: what is made by hand ends by hand.
            let mut body = json!({"name": name, "context": context, "idle_ttl_s": ttl});
            if let Some(policy) = policy {
                body["policy"] = policy.into();
            }
            if !allow_host.is_empty() || !allow_site.is_empty() {
                body["allow"] = json!({"hosts": allow_host, "sites": allow_site});
            }
            if let Some(open) = open {
                body["open"] = open.into();
            }
            let task = api.call("POST", "tasks", Some(body)).await?;
            show_address(&task, as_json);
        }
        TaskCommand::List => {
            let answer = api.call("GET", "tasks", None).await?;
            if as_json {
                output::line(&answer.to_string());
            } else {
                for task in answer["tasks"].as_array().into_iter().flatten() {
                    let expires =
                        task["expires_at"].as_str().map(|at| format!("  ends {at} unless used")).unwrap_or_default();
                    output::line(&format!(
                        "{}  {}  {}  policy {}{expires}",
                        text(&task["name"]),
                        text(&task["state"]),
                        text(&task["context"]),
                        text(&task["policy"])
                    ));
                }
            }
        }
        TaskCommand::Show { name } => {
            let task = api.call("GET", &path(&name)?, None).await?;
            if as_json { output::line(&task.to_string()) } else { print_details(&task) }
        }
        TaskCommand::Token { name, rotate: _ } => {
            let token = api.call("POST", &format!("{}/token", path(&name)?), None).await?;
            show_address(&token, as_json);
        }
        TaskCommand::End { name, keep_pages } => {
            let query = if keep_pages { "?keep_pages=true" } else { "" };
            api.call("DELETE", &format!("{}{query}", path(&name)?), None).await?;
            if !as_json {
                output::line(&format!("{name} has ended."));
            }
        }
    }
    Ok(())
}

/// A name that could lead elsewhere in a URL is no task's name.
fn path(name: &str) -> Result<String, Failure> {
    if router::server::api::is_task_name(name) {
        Ok(format!("tasks/{name}"))
    } else {
        Err(Failure::usage(format!("{name:?} cannot be a task's name; `tabwarden task list` shows those that exist.")))
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

fn show_address(task: &Value, as_json: bool) {
    if as_json {
        output::line(&task.to_string());
        return;
    }
    output::line(&format!("http  {}", text(&task["http_url"])));
    output::line(&format!("ws    {}", text(&task["ws_url"])));
    if task["context"] == "isolated" {
        output::note("The task works without the profile's logins; use --context shared to have them.");
    }
}

fn print_details(task: &Value) {
    output::line(&format!(
        "{}  {}  {}  policy {}",
        text(&task["name"]),
        text(&task["state"]),
        text(&task["context"]),
        text(&task["policy"])
    ));
    status::print_enforcement(&task["enforcement"]);
    for page in task["pages"].as_array().into_iter().flatten() {
        output::line(&format!(
            "page    {}  {}  {}",
            text(&page["target_id"]),
            text(&page["url"]),
            text(&page["title"])
        ));
    }
    for client in task["clients"].as_array().into_iter().flatten() {
        output::line(&format!("client  {}  since {}", text(&client["user_agent"]), text(&client["since"])));
    }
    for refusal in task["last_refusals"].as_array().into_iter().flatten() {
        output::line(&format!("refused {}", text(refusal)));
    }
}
