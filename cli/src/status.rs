//! `tabwarden status`.

use serde_json::Value;

use crate::api_client::ApiClient;
use crate::args::ServerArgs;
use crate::exit::Failure;
use crate::output;

pub async fn run(args: ServerArgs) -> Result<(), Failure> {
    let status = ApiClient::find(&args)?.call("GET", "status", None).await?;
    if args.json {
        output::line(&status.to_string());
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
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
    Ok(())
}
