//! What every text has to survive. The bodies of the fuzz targets in `tests/fuzz`, and of the seeded loop that runs in
//! `cargo test`.

mod engine;

pub use engine::engine;

use std::sync::Arc;

use policy::{Date, Policies, Policy, Question, Verb};
use router::wire::{
    BrowserMessage, Outcome, parse_browser_message, parse_command, render_command, render_error, render_event,
    render_result,
};

/// Names are rendered as they are, since those that get so far come from the table or were drawn; what needs an escape
/// never does.
fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c != '"' && c != '\\' && c >= ' ')
}

/// A client's frame. Whatever it is, reading it does not panic; and a command that is rendered reads as what it was.
pub fn command(text: &str) {
    let Ok(command) = parse_command(text) else { return };
    let session = command.session.as_deref();
    if !is_plain(&command.method) || session.is_some_and(|session| !is_plain(session)) {
        return;
    }
    let params = command.params.map_or("{}", |params| params.get());
    let rendered = render_command(command.id, &command.method, session, params);
    let again = parse_command(&rendered).unwrap_or_else(|error| panic!("{error:?}: {rendered}"));
    assert_eq!(
        (again.id, &*again.method, again.session.as_deref(), again.params.map(|params| params.get())),
        (command.id, &*command.method, session, Some(params)),
        "{text}"
    );
}

/// A frame of the browser's.
pub fn browser_message(text: &str) {
    let Ok(message) = parse_browser_message(text) else { return };
    let (session, method) = match &message {
        BrowserMessage::Response { session, .. } => (session.as_deref(), "A.b"),
        BrowserMessage::Event { session, method, .. } => (session.as_deref(), &**method),
    };
    if !is_plain(method) || session.is_some_and(|session| !is_plain(session)) {
        return;
    }
    let rendered = match &message {
        BrowserMessage::Response { id, outcome: Outcome::Result(result), .. } => {
            render_result(*id, session, result.get())
        }
        BrowserMessage::Response { id, outcome: Outcome::Error(error), .. } => {
            render_error(Some(*id), session, error.get())
        }
        BrowserMessage::Event { params, .. } => {
            render_event(method, session, params.map_or("{}", |params| params.get()))
        }
    };
    let again = parse_browser_message(&rendered).unwrap_or_else(|error| panic!("{}: {rendered}", error.reason));
    assert_eq!(parts(&again), parts(&message), "{text}");
}

/// Id, method, session, payload: a message as plain text. An event without params is rendered with empty ones.
fn parts<'a>(message: &'a BrowserMessage<'_>) -> (Option<i32>, &'a str, Option<&'a str>, &'a str) {
    match message {
        BrowserMessage::Response { id, session, outcome: Outcome::Result(it) } => {
            (Some(*id), "result", session.as_deref(), it.get())
        }
        BrowserMessage::Response { id, session, outcome: Outcome::Error(it) } => {
            (Some(*id), "error", session.as_deref(), it.get())
        }
        BrowserMessage::Event { method, session, params } => {
            (None, method, session.as_deref(), params.map_or("{}", |params| params.get()))
        }
    }
}

/// A policy file. One that can be read judges every URL, explains it, is linted and runs its own tests, without a panic.
pub fn policy(text: &str) {
    let Ok(policy) = Policy::parse(text, "fuzz.toml") else { return };
    policy.run_tests();
    policy.lints(Date::LATEST);
    for url in ["https://example.com/a?b#c", "http://[::1]:8080/%2e%2e/x", "data:text/html,x", "blob:null", text] {
        policy.judge(&Question::new(Verb::ALL[0], url));
        policy.judge(&Question::new(Verb::ALL[0], url).created_by(Some("task")));
        policy.judge(&Question::new(Verb::ALL[0], "about:blank").created_by(Some(url)));
    }
    let policies = Policies::from(Arc::new(policy));
    for url in ["http://10-0-0-1.nip.io/", "about:blank", text] {
        let question = Question::new(Verb::ALL[0], url).created_by(Some(text)).on_behalf_of(Some(url));
        let explanation = policies.explain(&question);
        assert_eq!(explanation.decision, policies.judge(&question), "{url}");
        assert!(explanation.to_string().starts_with(explanation.decision.verdict.as_str()));
    }
}
