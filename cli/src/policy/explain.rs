//! `policy explain`.

use ::policy::{Date, Policies};
use router::server::explain::{self, Asked};
use url::form_urlencoded;

use super::args::ExplainArgs;
use super::{Report, load};
use crate::api_client::ApiClient;
use crate::exit::Failure;

/// By files, or by the built-in policy.
pub fn explain(args: &ExplainArgs, today: Date) -> Result<Report, Failure> {
    let policies = match args.policy.is_empty() {
        true => Policies::built_in(),
        false => load::together(&args.policy, today)?,
    };
    let explained = explain::explain(&policies, &asked(args)).map_err(Failure::usage)?;
    match args.server.json {
        true => Ok(Report::of(explained.json.to_string())),
        false => Ok(Report::of(explained.text)),
    }
}

/// By what a task of a running server has in force, all layers of it.
pub async fn of_task(args: &ExplainArgs, task: &str) -> Result<Report, Failure> {
    let asked = asked(args);
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("verb", &asked.verb).append_pair("url", &asked.url);
    for (name, value) in [("from", &asked.from), ("method", &asked.method)] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    let name: String = form_urlencoded::byte_serialize(task.as_bytes()).collect();
    let path = format!("tasks/{name}/explain?{}", query.finish());
    let mut answer = ApiClient::find(&args.server)?.call("GET", &path, None).await?;
    let text = answer["text"].take();
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("text");
    }
    match args.server.json {
        true => Ok(Report::of(answer.to_string())),
        false => Ok(Report::of(text.as_str().unwrap_or_default())),
    }
}

fn asked(args: &ExplainArgs) -> Asked {
    Asked { verb: args.verb.clone(), url: args.url.clone(), from: args.from.clone(), method: args.method.clone() }
}
