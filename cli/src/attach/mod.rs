//! Taking over the connection to a browser that a person handed over. One dial: Chrome asks them at each.

mod candidates;

use std::time::Duration;

use router::server::net::{self, Answer};
use router::server::upstream::websocket::{DialError, dial};
use router::server::{Handle, Upstream};
use serde_json::Value;
use tracing::info;
use url::Url;

use crate::exit::Failure;
use crate::files;

/// A person has to see the prompt and to decide.
const CONSENT_PATIENCE: Duration = Duration::from_secs(300);

/// Without consent to ask for, a browser answers at once; only then is it worth saying that we wait.
const SILENCE: Duration = Duration::from_secs(1);

const WAITING: &str = "Tabwarden is waiting for your approval in Chrome; click Allow there, then try again.";

#[derive(Clone, Debug, PartialEq)]
pub enum AttachConfig {
    Url(Url),
    Auto,
}

pub async fn connect(config: &AttachConfig, handle: &Handle) -> Result<Upstream, Failure> {
    let url = match config {
        AttachConfig::Url(url) => socket_url(url).await?,
        AttachConfig::Auto => choose(candidates::find(&files::home().unwrap_or_default()).await)?,
    };
    handle.set_waiting(WAITING);
    let place = place(&url);
    let dialling = dial(&url, CONSENT_PATIENCE);
    let saying = async {
        tokio::time::sleep(SILENCE).await;
        info!("Waiting for your approval in Chrome: it asks whether remote debugging is allowed.");
        std::future::pending().await
    };
    let dialled = tokio::select! {
        dialled = dialling => dialled,
        never = saying => never,
    };
    match dialled {
        Ok(socket) => Ok(Upstream::WebSocket(Box::new(socket))),
        Err(error) => Err(explain(&error, &place)),
    }
}

/// Four different situations, four remedies.
fn explain(error: &DialError, place: &str) -> Failure {
    Failure::new(match error {
        DialError::Refused => format!(
            "The browser at {place} refused the connection (403): somebody clicked Cancel, or debugging is not \
                allowed in it; run the command again and click Allow, or open chrome://inspect#remote-debugging."
        ),
        DialError::Unanswered => format!(
            "The browser at {place} asked for approval and nobody answered within {} minutes; run the command again \
                with somebody at the browser.",
            CONSENT_PATIENCE.as_secs() / 60
        ),
        DialError::NotListening(why) => format!(
            "Nothing listens at {place} ({why}); start the browser, and allow debugging at \
                chrome://inspect#remote-debugging or start it with --remote-debugging-port and an own --user-data-dir."
        ),
        DialError::Other(why) => {
            format!("What listens at {place} is no browser that can be debugged ({why}); check the address.")
        }
    })
}

/// The browser's WebSocket, asked over HTTP where an HTTP address was given.
async fn socket_url(url: &Url) -> Result<Url, Failure> {
    match url.scheme() {
        "ws" | "wss" => return Ok(url.clone()),
        "http" | "https" => {}
        other => {
            return Err(Failure::usage(format!(
                "A browser is not reached over {other}; give --browser-url http(s):// or ws(s)://."
            )));
        }
    }
    let answer = version(url).await.map_err(|why| explain(&DialError::NotListening(why), &place(url)))?;
    let version: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    if let Some(socket) = version["webSocketDebuggerUrl"].as_str() {
        return Url::parse(socket).map_err(|error| {
            explain(&DialError::Other(format!("its webSocketDebuggerUrl is no URL: {error}")), &place(url))
        });
    }
    if answer.status != 404 {
        return Err(explain(&DialError::Other(format!("/json/version answered HTTP {}", answer.status)), &place(url)));
    }
    // A browser in which a person allowed debugging hides its /json and takes any id.
    let mut socket = url.clone();
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    if socket.set_scheme(scheme).is_err() {
        return Err(Failure::usage(
            "This --browser-url cannot be turned into a WebSocket address; give the ws:// address itself.",
        ));
    }
    socket.set_path("/devtools/browser/tabwarden");
    Ok(socket)
}

async fn version(base: &Url) -> Result<Answer, String> {
    let mut url = base.clone();
    url.set_path(&format!("{}/json/version", base.path().trim_end_matches('/')));
    net::request("GET", &url, None, None).await
}

fn choose(found: candidates::Found) -> Result<Url, Failure> {
    match (found.listening.as_slice(), found.stale.as_slice()) {
        ([one], _) => Ok(one.url.clone()),
        ([], []) => Err(Failure::new(
            "No browser was found that can be shared; open chrome://inspect#remote-debugging in Chrome and allow it, \
                name one with --browser-url, or let Tabwarden start one with --launch.",
        )),
        ([], [stale, ..]) => Err(Failure::new(format!(
            "Nothing listens any more for the profile {}, as its browser has ended; start it and allow debugging at \
                chrome://inspect#remote-debugging.",
            stale.display()
        ))),
        (several, _) => {
            let lines: String =
                several.iter().map(|one| format!("\n  --browser-url {}   # {}", one.url, one.name)).collect();
            Err(Failure::usage(format!("Several browsers can be shared; choose one:{lines}")))
        }
    }
}

/// Host and port only: the rest of such an address can be a secret.
fn place(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use candidates::{Candidate, Found};

    fn candidate(port: u16) -> Candidate {
        Candidate {
            name: format!("Chrome on {port}"),
            url: Url::parse(&format!("ws://127.0.0.1:{port}/devtools/browser/x")).unwrap(),
        }
    }

    #[test]
    fn one_candidate_is_taken_and_several_are_for_the_person_to_choose() {
        assert_eq!(choose(Found { listening: vec![candidate(1)], stale: vec![] }).unwrap(), candidate(1).url);
        let failure = choose(Found { listening: vec![candidate(1), candidate(2)], stale: vec![] }).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("--browser-url ws://127.0.0.1:2/devtools/browser/x"));
    }

    #[test]
    fn the_ways_to_find_nothing_have_different_remedies() {
        let nothing = choose(Found::default()).unwrap_err().message;
        let stale = choose(Found { listening: vec![], stale: vec!["/p".into()] }).unwrap_err().message;
        let mut messages = vec![nothing, stale];
        for error in [
            DialError::Refused,
            DialError::Unanswered,
            DialError::NotListening("x".into()),
            DialError::Other("x".into()),
        ] {
            messages.push(explain(&error, "127.0.0.1:9222").message);
        }
        let different: std::collections::BTreeSet<&String> = messages.iter().collect();
        assert_eq!(different.len(), messages.len());
    }
}
