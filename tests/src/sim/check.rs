//! The invariants, checked on every single output. What is whose comes from the model browser, never from the engine.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::browser::{Audience, Browser, PRIVATE, TargetKind};
use super::client::{Client, Sent};
use super::truth::{ClientNo, Id, Kind, Owner, TaskNo, Thing, tokens};

/// Which promise was broken. Short, so that reports can be grouped by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Every command gets exactly one response, or its connection closes.
    OneResponse,
    /// A response is that of its own command.
    RightResponse,
    /// A client gets nothing but what its own sessions say.
    OwnSession,
    /// No client reads an id, a URL or a title of somebody else's.
    NothingForeignToClient,
    /// No frame sent for a client names anything of somebody else's.
    NothingForeignToBrowser,
    /// Other people's targets get nothing but their release.
    ForeignUntouched,
    /// A document that the task may not hold is not seen by its clients.
    Secret,
    /// What the model itself notices: guards and holds.
    Gates,
    /// A held page or document goes on once its clients have asked or left.
    HoldEnds,
    /// Nothing is told to be gone that is there.
    ToldTruth,
    /// Every request of the API is answered once.
    AdminAnswered,
    /// At the end nothing of ours is left.
    NothingLeft,
    Panic,
    Livelock,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: Rule,
    pub what: String,
}

pub type Check<T = ()> = Result<T, Violation>;

pub fn broken<T>(rule: Rule, what: impl Into<String>) -> Check<T> {
    Err(Violation { rule, what: what.into() })
}

/// What the checks have to know of a task.
#[derive(Clone, Copy)]
pub struct Belongs {
    pub task: TaskNo,
    /// The profile's context is its default one.
    pub shared: bool,
}

#[derive(Default)]
pub struct Checker {
    /// Every session id that a client was told, and which: none is ever told to two.
    shown: HashMap<String, ClientNo>,
    /// Upstream sessions and the ids under which their events come out.
    bound: HashMap<Id, (ClientNo, String)>,
    /// Released in the batch of outputs at hand: what was said before may still name it.
    released: HashSet<Id>,
}

fn is_profile(browser: &Browser, token: &str) -> bool {
    *browser.profile == *token
}

impl Checker {
    pub fn batch_begins(&mut self) {
        self.released.clear();
    }

    // --- to a client --------------------------------------------------------------------------------------------

    pub fn delivery(&mut self, client: &mut Client, who: Belongs, text: &str, browser: &Browser) -> Check {
        if !client.connected {
            return broken(Rule::OwnSession, format!("c{} is gone and gets {text}", client.no));
        }
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            return broken(Rule::RightResponse, format!("not JSON: {text}"));
        };
        let sent = match frame.get("method") {
            Some(_) => None,
            None => self.response(client, &frame)?,
        };
        if text.contains(PRIVATE) {
            return broken(Rule::NothingForeignToClient, format!("what only the person visits: {text}"));
        }
        self.ids_to_client(client, who, &frame, text, sent.as_ref(), browser)?;
        self.marker(client, who, &frame, text, browser)?;
        if let Some(method) = frame["method"].as_str() {
            self.event(client, method, &frame, browser)?;
        }
        client.learn(&browser.truth, text);
        Ok(())
    }

    /// `None` for the answer to a malformed frame.
    fn response(&mut self, client: &mut Client, frame: &Value) -> Check<Option<Sent>> {
        let Some(id) = frame["id"].as_i64() else {
            if client.idless == 0 {
                return broken(Rule::OneResponse, format!("c{} gets an error for nothing it sent: {frame}", client.no));
            }
            client.idless -= 1;
            return Ok(None);
        };
        let (session, nonce) = (frame["sessionId"].as_str(), frame["result"]["echo"].as_str());
        let lost = frame["error"]["code"] == -32001;
        let Some(sent) = client.take(id, session, nonce, lost) else {
            return broken(
                Rule::OneResponse,
                format!("c{} gets a response that it does not wait for: {frame}", client.no),
            );
        };
        if nonce.is_some_and(|nonce| nonce != sent.nonce) {
            return broken(
                Rule::RightResponse,
                format!("c{} gets the response of another command: {frame} for {}", client.no, sent.text),
            );
        }
        if session.is_none() && sent.session.is_some() && !lost {
            return broken(Rule::RightResponse, format!("a response without its session: {frame} for {}", sent.text));
        }
        let knew =
            |session: &str| client.sessions.contains_key(session) || client.dead.iter().any(|dead| dead == session);
        let detaches = sent.method == "Target.detachFromTarget"; // The session is none that it names.
        if lost && !detaches && sent.session.as_deref().is_none_or(|session| client.sessions.contains_key(session)) {
            return broken(
                Rule::RightResponse,
                format!("a living session is said to be none: {frame} for {}", sent.text),
            );
        }
        if session.is_some_and(|session| !knew(session)) {
            return broken(
                Rule::OwnSession,
                format!("a response on a session that c{} does not have: {frame}", client.no),
            );
        }
        Ok(Some(sent))
    }

    fn ids_to_client(
        &self,
        client: &Client,
        who: Belongs,
        frame: &Value,
        text: &str,
        sent: Option<&Sent>,
        browser: &Browser,
    ) -> Check {
        let method = frame["method"].as_str().unwrap_or_default();
        let tells_end = matches!(method, "Target.targetDestroyed" | "Target.detachedFromTarget");
        for token in tokens(text) {
            let Some(thing) = browser.truth.get(token) else { continue };
            let own = Owner::Task(who.task);
            let fine = match thing.kind {
                Kind::Session => thing.made_for == Some(client.no),
                _ if said_itself(frame, sent, token) => true,
                _ if is_profile(browser, token) => who.shared,
                _ => thing.owner == own || (thing.former == Some(own) && (tells_end || self.released.contains(token))),
            };
            if !fine {
                return broken(
                    Rule::NothingForeignToClient,
                    format!("c{} of task {} reads {}: {text}", client.no, who.task, describe(thing)),
                );
            }
        }
        Ok(())
    }

    fn marker(&mut self, client: &mut Client, who: Belongs, frame: &Value, text: &str, browser: &Browser) -> Check {
        let Some(number) = frame["params"]["marker"].as_str().and_then(|marker| marker[1..].parse::<u64>().ok()) else {
            return Ok(());
        };
        let Some(marker) = browser.markers.get(&number) else { return Ok(()) };
        let right = match marker.audience {
            Audience::Client(no) => no == client.no,
            Audience::Task(task) => task == who.task,
            Audience::Nobody => return broken(Rule::Secret, format!("c{} reads what nobody may: {text}", client.no)),
        };
        if !right {
            return broken(Rule::OwnSession, format!("c{} reads what is for {:?}: {text}", client.no, marker.audience));
        }
        let (Some(upstream), Some(session)) = (&marker.session, frame["sessionId"].as_str()) else { return Ok(()) };
        let Some(known) = client.sessions.get_mut(session) else { return Ok(()) };
        let bound = self.bound.entry(upstream.clone()).or_insert_with(|| (client.no, session.to_owned()));
        let first = known.bound.get_or_insert_with(|| upstream.clone());
        if *bound != (client.no, session.to_owned()) || first != upstream {
            return broken(
                Rule::OwnSession,
                format!("the events of two sessions come out on one, or the reverse: {text}"),
            );
        }
        Ok(())
    }

    fn event(&mut self, client: &mut Client, method: &str, frame: &Value, browser: &Browser) -> Check {
        let scope = frame["sessionId"].as_str();
        if scope.is_some_and(|scope| !client.sessions.contains_key(scope)) {
            return broken(
                Rule::OwnSession,
                format!("an event on a session that c{} does not have: {frame}", client.no),
            );
        }
        let params = &frame["params"];
        match method {
            "Target.attachedToTarget" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                let again = self.shown.insert(session.to_owned(), client.no).is_some();
                if again {
                    return broken(Rule::OwnSession, format!("a session is told twice: {frame}"));
                }
                client.attached(params, scope);
            }
            "Target.detachedFromTarget" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                if !client.sessions.contains_key(session) {
                    return broken(
                        Rule::ToldTruth,
                        format!("the end of a session that c{} does not have: {frame}", client.no),
                    );
                }
                client.detached(session);
            }
            "Target.targetDestroyed" => {
                let target = params["targetId"].as_str().unwrap_or_default();
                // Of a worker only its sessions tell: without one it is as good as gone.
                let frame_or_page = browser.targets.get(target).is_some_and(|target| target.kind != TargetKind::Worker);
                let released = browser.truth.get(target).is_some_and(|thing| thing.former.is_some());
                if frame_or_page && !browser.ends.contains_key(target) && !released {
                    return broken(Rule::ToldTruth, format!("a target that lives is said to be gone: {frame}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    // --- to the browser -----------------------------------------------------------------------------------------

    /// `who`: the client for which it is sent and its task.
    pub fn sending(&mut self, text: &str, who: Option<(ClientNo, Belongs)>, browser: &mut Browser) -> Check {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            return broken(Rule::Gates, format!("not JSON: {text}"));
        };
        let method = frame["method"].as_str().unwrap_or_default();
        if let Some(session) = frame["sessionId"].as_str() {
            Self::session_to_browser(session, who, text, browser)?;
        }
        // As it stands, and where there are escapes also as Chromium reads it.
        let decoded = if text.contains("\\u") { frame["params"].to_string() } else { String::new() };
        let envelope = frame["sessionId"].as_str();
        for token in tokens(text).into_iter().filter(|token| Some(*token) != envelope).chain(tokens(&decoded)) {
            let Some(thing) = browser.truth.get(token).filter(|thing| thing.alive && !thing.doomed) else { continue };
            let fine = match (who, thing.kind) {
                (Some((client, _)), Kind::Session) => thing.made_for == Some(client),
                (Some((_, who)), _) if is_profile(browser, token) => who.shared,
                (Some((_, who)), _) => thing.owner == Owner::Task(who.task),
                (None, Kind::Session) => method == "Target.detachFromTarget",
                // Whose window a tab is in may be asked: it changes nothing, and tells whose click it was.
                (None, Kind::Target) if method == "Browser.getWindowForTarget" => true,
                (None, _) => is_profile(browser, token) || thing.owner != Owner::Person,
            };
            if !fine {
                let rule = if who.is_some() { Rule::NothingForeignToBrowser } else { Rule::ForeignUntouched };
                return broken(rule, format!("for {}: {} in {text}", behalf(who), describe(thing)));
            }
        }
        if let (Some((_, who)), Some(window)) = (who, frame["params"]["windowId"].as_i64()) {
            let owners: Vec<Owner> =
                browser.targets.iter().filter(|(_, t)| t.window == window).map(|(id, _)| browser.owner(id)).collect();
            if !owners.is_empty() && !owners.contains(&Owner::Task(who.task)) && method.starts_with("Browser.") {
                return broken(Rule::NothingForeignToBrowser, format!("somebody else's window: {text}"));
            }
        }
        self.follow(method, &frame["params"], browser);
        Ok(())
    }

    fn session_to_browser(session: &str, who: Option<(ClientNo, Belongs)>, text: &str, browser: &Browser) -> Check {
        // A session that is gone, or will be when this arrives, reaches nothing.
        let doomed = browser.truth.get(session).is_none_or(|thing| thing.doomed);
        let Some(known) = browser.sessions.get(session).filter(|_| !doomed) else { return Ok(()) };
        // What waits for a session of ours is let go by running it; only then can it be detached.
        let lets_go = who.is_none() && text.contains("Runtime.runIfWaitingForDebugger");
        if browser.owner(&known.target) == Owner::Person && !lets_go {
            return broken(Rule::ForeignUntouched, format!("for {}: {text}", behalf(who)));
        }
        match who {
            Some((client, _)) if known.made_for != Some(client) => {
                broken(Rule::OwnSession, format!("on a session that is not c{client}'s: {text}"))
            }
            _ => Ok(()),
        }
    }

    /// What a frame will do when it arrives: nothing that is sent later on the same connection comes before it.
    fn follow(&mut self, method: &str, params: &Value, browser: &mut Browser) {
        match method {
            "Target.detachFromTarget" => {
                let session = params["sessionId"].as_str().unwrap_or_default();
                let guard_of = browser
                    .sessions
                    .get(session)
                    .filter(|known| known.made_for.is_none() && known.parent.is_none())
                    .map(|known| known.target.clone());
                doom(browser, session);
                if let Some(target) = guard_of {
                    self.released.insert(target.clone());
                    self.released.extend(browser.released(&target));
                }
            }
            "Target.disposeBrowserContext" => {
                let context = params["browserContextId"].as_str().unwrap_or_default();
                browser.truth.with(context, |thing| thing.doomed = true);
            }
            _ => {}
        }
    }
}

/// A session and all below it.
fn doom(browser: &mut Browser, session: &str) {
    browser.truth.with(session, |thing| thing.doomed = true);
    let below: Vec<Id> = browser
        .sessions
        .iter()
        .filter(|(_, known)| known.parent.as_deref() == Some(session))
        .map(|(id, _)| id.clone())
        .collect();
    below.iter().for_each(|id| doom(browser, id));
}

/// An error may say again what the command itself has said.
fn said_itself(frame: &Value, sent: Option<&Sent>, token: &str) -> bool {
    frame.get("error").is_some()
        && sent.is_some_and(|sent| {
            serde_json::from_str::<Value>(&sent.text).is_ok_and(|it| it.to_string().contains(token))
        })
}

fn behalf(who: Option<(ClientNo, Belongs)>) -> String {
    who.map_or("itself".to_owned(), |(client, who)| format!("c{client} of task {}", who.task))
}

fn describe(thing: &Thing) -> String {
    let Thing { kind, name, owner, former, made_for, .. } = thing;
    let mut text = format!("{name} ({kind:?} of {owner:?}");
    if let Some(former) = former {
        text.push_str(&format!(", formerly of {former:?}"));
    }
    if let Some(client) = made_for {
        text.push_str(&format!(", made for c{client}"));
    }
    text.push(')');
    text
}
