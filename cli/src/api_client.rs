//! The commands' side of the API: which server, which token, one request.

use router::server::net;
use serde_json::Value;
use url::Url;

use crate::args::ServerArgs;
use crate::exit::Failure;
use crate::{files, runtime_file};

pub struct ApiClient {
    base: Url,
    token: String,
}

impl ApiClient {
    pub fn find(args: &ServerArgs) -> Result<ApiClient, Failure> {
        let named = match (&args.server, std::env::var("TABWARDEN_URL")) {
            (Some(url), _) => Some(url.clone()),
            (None, Ok(url)) if !url.is_empty() => Some(Url::parse(&url).map_err(|error| {
                Failure::usage(format!("TABWARDEN_URL is no URL ({error}); set it to e.g. http://127.0.0.1:9333."))
            })?),
            (None, _) => None,
        };
        let given = match &args.admin_token_file {
            Some(path) => Some(files::read_secret(path)?),
            None => std::env::var("TABWARDEN_ADMIN_TOKEN").ok().filter(|token| !token.is_empty()),
        };
        if let (Some(base), Some(token)) = (&named, &given) {
            return Ok(ApiClient { base: base.clone(), token: token.clone() });
        }
        let mut running = runtime_file::running();
        if let Some(named) = &named {
            running.retain(|running| same_server(&running.url, named));
        }
        match (running.as_slice(), named) {
            ([one], _) => {
                let base = Url::parse(&one.url).map_err(|error| {
                    Failure::new(format!("The runtime file holds no URL ({error}); restart `tabwarden serve`."))
                })?;
                Ok(ApiClient { base, token: given.unwrap_or_else(|| one.admin_token.clone()) })
            }
            ([], Some(named)) => Err(Failure::new(format!(
                "The admin token of {named} is not known, as this user runs no such server; set \
                    TABWARDEN_ADMIN_TOKEN or use --admin-token-file FILE."
            ))),
            ([], None) => Err(Failure::new(
                "No `tabwarden serve` of this user is running; start it, or name one with --server URL and \
                    TABWARDEN_ADMIN_TOKEN.",
            )),
            (several, _) => {
                let lines: String = several.iter().map(|one| format!("\n  --server {}", one.url)).collect();
                Err(Failure::usage(format!("Several servers are running; choose one:{lines}")))
            }
        }
    }

    /// Whether it is a server of this user on this machine, whose files can be looked at.
    pub fn is_here(&self) -> bool {
        runtime_file::running().iter().any(|running| same_server(&running.url, &self.base))
    }

    /// `path` begins behind `/api/v1/`. An empty answer is `null`.
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let url = format!("{}/api/v1/{path}", self.base.as_str().trim_end_matches('/'));
        let url =
            Url::parse(&url).map_err(|error| Failure::usage(format!("{url} is no URL ({error}); check --server.")))?;
        let answer = net::request(method, &url, Some(&self.token), body.map(|body| body.to_string())).await.map_err(
            |error| {
                Failure::new(format!(
                    "The server at {} does not answer ({error}); check that `tabwarden serve` runs there.",
                    self.base
                ))
            },
        )?;
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if (200..300).contains(&answer.status) {
            return Ok(value);
        }
        let message = value["error"]["message"].as_str().unwrap_or(answer.body.trim());
        let message = match message {
            "" => format!("The server at {} answered HTTP {}; check --server.", self.base, answer.status),
            message => message.to_owned(),
        };
        // A wrong name or field was typed here.
        Err(if answer.status == 400 { Failure::usage(message) } else { Failure::new(message) })
    }
}

fn same_server(url: &str, named: &Url) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let loopback = |url: &Url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    url.port_or_known_default() == named.port_or_known_default()
        && (url.host_str() == named.host_str() || (loopback(&url) && loopback(named)))
}
