//! `tabwarden status`.

use serde_json::Value;

use crate::api_client::ApiClient;
use crate::args::ServerArgs;
use crate::exit::Failure;
use crate::output::{self, printable};

pub async fn run(args: ServerArgs) -> Result<(), Failure> {
    let status = ApiClient::find(&args)?.call("GET", "status", None).await?;
    if args.json {
        output::line(&status.to_string());
        return Ok(());
    }
    output::line(&format!("tabwarden {}, pid {}: {}", text(&status["version"]), status["pid"], text(&status["state"])));
    if let Some(note) = status["note"].as_str() {
        output::line(note);
    }
    let browser = &status["browser"];
    if browser.is_object() {
        let sandbox = if browser["no_sandbox"] == true { ", WITHOUT SANDBOX" } else { "" };
        output::line(&format!("browser  {} ({}{sandbox})", text(&browser["product"]), text(&browser["origin"])));
    }
    output::line(&format!("tasks    {} of {} at most", status["tasks"], status["max_tasks"]));
    output::line(&format!("clients  {}", status["clients"]));
    output::line(&format!("pages    {}", status["pages"]));
    print_policies(&status);
    Ok(())
}

fn print_policies(status: &Value) {
    let audit = &status["audit"];
    let lost = match audit["lost"].as_u64() {
        None | Some(0) => String::new(),
        Some(lost) => format!(", {lost} LOST"),
    };
    output::line(&format!("audit    {}: {} written{lost}", text(&audit["file"]), audit["written"]));
    if let Some(trouble) = audit["trouble"].as_str() {
        output::line(&format!("         {}", printable(trouble)));
    }
    let last = &status["policies"]["last_reload"];
    output::line(&format!("policies read {} ({})", text(&last["at"]), text(&last["by"])));
    if let Some(error) = last["error"].as_str() {
        output::line(&format!("         NOT IN FORCE, those from before are: {}", printable(error)));
    }
    for task in status["task_policies"].as_array().into_iter().flatten() {
        output::line(&format!("task     {}", text(&task["task"])));
        print_enforcement(task);
    }
}

/// What holds for one task.
pub fn print_enforcement(enforcement: &Value) {
    let files = enforcement["files"].as_array().into_iter().flatten();
    let names: Vec<String> =
        files.map(|file| format!("{} ({})", printable(text(&file["name"])), text(&file["layer"]))).collect();
    output::line(&format!("rules    {}  {}", names.join(", "), text(&enforcement["hash"])));
    for channel in enforcement["channels"].as_array().into_iter().flatten().filter(|channel| channel["denied"] == true)
    {
        let how = match (channel["enforced_by"].as_str(), channel["setting"].as_str()) {
            (Some(by), _) => format!("enforced by {}", printable(by)),
            (None, Some("accept")) => "NOT enforced, which the policies accept".to_owned(),
            (None, setting) => format!("NOT enforced; the policies say {}", printable(setting.unwrap_or("nothing"))),
        };
        output::line(&format!("         {}: {how}", text(&channel["name"])));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}
