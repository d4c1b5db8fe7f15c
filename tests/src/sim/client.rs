//! A simulated client: what it has been told, what it has asked, and what it still waits for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::truth::{ClientNo, Id, Kind, TaskNo, Truth, tokens};

/// A command that is not answered yet.
#[derive(Clone, Debug)]
pub struct Sent {
    pub id: i64,
    pub session: Option<String>,
    pub method: String,
    /// Comes back in the result of whoever carried it out.
    pub nonce: String,
    /// The frame, since an error may say again what the command said.
    pub text: String,
}

impl Sent {
    pub fn malformed(id: i64, text: &str) -> Sent {
        Sent { id, session: None, method: "malformed".to_owned(), nonce: String::new(), text: text.to_owned() }
    }
}

/// A session that the client was told of.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub kind: String,
    /// The session on which it appeared.
    pub scope: Option<String>,
    /// The upstream session whose events come here; learned from the first.
    pub bound: Option<Id>,
    pub waiting: bool,
    /// The client has done what clients do with a new session.
    pub set_up: bool,
}

impl Known {
    pub fn is_browser(&self) -> bool {
        self.kind == "browser"
    }
}

pub struct Client {
    pub no: ClientNo,
    pub task: TaskNo,
    pub connected: bool,
    /// Runs what waits for it. The others are scripts that hang.
    pub cooperative: bool,
    pub outstanding: Vec<Sent>,
    /// Malformed frames that Chromium answers without an id.
    pub idless: usize,
    pub sessions: BTreeMap<String, Known>,
    pub dead: Vec<String>,
    pub told: BTreeMap<Kind, Vec<Id>>,
    pub next_id: i64,
}

impl Client {
    pub fn new(no: ClientNo, task: TaskNo, cooperative: bool) -> Client {
        Client {
            no,
            task,
            connected: true,
            cooperative,
            outstanding: Vec::new(),
            idless: 0,
            sessions: BTreeMap::new(),
            dead: Vec::new(),
            told: BTreeMap::new(),
            next_id: 1,
        }
    }

    /// A session that it has not set up or not let run yet.
    pub fn next_to_run(&self) -> Option<String> {
        let (id, _) = self.sessions.iter().find(|(_, known)| known.waiting || !known.set_up)?;
        Some(id.clone())
    }

    /// Remembers the ids in a frame, to use them later.
    pub fn learn(&mut self, truth: &Truth, text: &str) {
        for token in tokens(text) {
            if let Some(thing) = truth.get(token) {
                let told = self.told.entry(thing.kind).or_default();
                if !told.iter().any(|id| **id == *token) {
                    told.push(token.into());
                }
            }
        }
    }

    pub fn attached(&mut self, params: &Value, scope: Option<&str>) {
        let Some(session) = params["sessionId"].as_str() else { return };
        let info = &params["targetInfo"];
        let known = Known {
            kind: info["type"].as_str().unwrap_or_default().to_owned(),
            scope: scope.map(str::to_owned),
            bound: None,
            waiting: params["waitingForDebugger"] == Value::Bool(true),
            set_up: false,
        };
        self.sessions.insert(session.to_owned(), known);
    }

    /// With everything that appeared below it.
    pub fn detached(&mut self, session: &str) {
        let below: Vec<String> = self
            .sessions
            .iter()
            .filter(|(_, known)| known.scope.as_deref() == Some(session))
            .map(|(id, _)| id.clone())
            .collect();
        for id in below {
            self.detached(&id);
        }
        if self.sessions.remove(session).is_some() {
            self.dead.push(session.to_owned());
        }
    }

    /// Takes the command that a response answers. Ids may be used twice at a time, on different sessions: the nonce tells
    /// which it was; without one, an answer that names no session is the root's, or (`lost`) that of a dead session.
    pub fn take(&mut self, id: i64, session: Option<&str>, nonce: Option<&str>, lost: bool) -> Option<Sent> {
        let first = |fits: &dyn Fn(&Sent) -> bool| self.outstanding.iter().position(|sent| sent.id == id && fits(sent));
        let exact = nonce.and_then(|nonce| first(&|sent| sent.nonce == nonce));
        let of_dead = || {
            let dead = |sent: &Sent| sent.session.as_ref().is_some_and(|session| !self.sessions.contains_key(session));
            if lost && session.is_none() { first(&dead) } else { None }
        };
        let at = exact
            .or_else(of_dead)
            .or_else(|| first(&|sent| sent.session.as_deref() == session))
            .or_else(|| first(&|_| session.is_none()))?;
        Some(self.outstanding.remove(at))
    }
}
