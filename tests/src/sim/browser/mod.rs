//! A model of Chromium, as far as the engine can tell it from the real one: targets, sessions, holds, documents and the
//! order of what it says. Its facts are those of `shared/facts/chromium-156.md`; the places where Chromium is free to
//! choose (which queue is served next, whether a dying page tells of the sessions below it) are drawn from the seed.
//!
//! It does no I/O either: commands are put into `inbox`, [`Browser::work`] does one piece of work at a time, and what it
//! says is in `outbox`.

mod documents;
mod happenings;
mod life;
mod root;
mod session;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde_json::{Value, json};

use super::rng::Rng;
use super::truth::{ClientNo, Id, Kind, Owner, TaskNo, Truth};
pub use documents::Navigation;

/// The host that the policy of one task denies.
pub const FORBIDDEN: &str = "forbidden.test";
/// What only the person visits. No client may ever read it.
pub const PRIVATE: &str = "private.test";

/// A frame for the engine.
pub struct Said {
    pub text: String,
    pub on_root: bool,
}

/// A frame from the engine.
pub struct Incoming {
    pub text: String,
    pub on_behalf: Option<ClientNo>,
    /// The task for which the engine acts, as far as the run knows it from what led to this frame.
    pub cause: Option<TaskNo>,
}

pub struct Context {
    pub owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    Page,
    Iframe,
    Worker,
    ServiceWorker,
}

impl TargetKind {
    pub fn name(self) -> &'static str {
        match self {
            TargetKind::Page => "page",
            TargetKind::Iframe => "iframe",
            TargetKind::Worker => "worker",
            TargetKind::ServiceWorker => "service_worker",
        }
    }
}

pub struct Target {
    pub kind: TargetKind,
    pub context: Id,
    pub url: String,
    pub title: String,
    /// The page, and the frame of it.
    pub opener: Option<(Id, Id)>,
    pub can_access_opener: bool,
    /// The target above a child, and the page at the top.
    pub parent: Option<Id>,
    /// Frames in its process, the main one left out.
    pub frames: Vec<Id>,
    pub window: i64,
    /// In the order of attaching.
    pub sessions: Vec<Id>,
    /// The session that holds it.
    pub held_by: Option<Id>,
    /// Who will attach (and perhaps hold) once the one before has let go. `None`: the root.
    pub attachers: VecDeque<Option<Id>>,
    /// A document is on its way.
    pub navigating: bool,
    /// What a popup loads as soon as it runs.
    pub first_url: Option<String>,
    /// Its document is one that its task's clients must not see: nothing from now on may reach them.
    pub secret: bool,
    pub closing: bool,
    /// An extension's frame in a page.
    pub extension: bool,
    /// Execution contexts, with whether they are an extension's.
    pub worlds: Vec<(i64, bool)>,
}

impl Target {
    /// A popup without an opener that it may access has no renderer while it is held, and answers nothing.
    pub fn has_renderer(&self) -> bool {
        self.held_by.is_none() || self.opener.is_none() || self.can_access_opener
    }
}

#[derive(Clone)]
pub struct AutoAttach {
    pub wait: bool,
    pub filter: Option<Value>,
    /// Holds of children are serial in this order.
    pub order: u64,
}

pub struct Session {
    pub target: Id,
    /// The session below which it appeared; `None` for the root.
    pub parent: Option<Id>,
    pub made_for: Option<ClientNo>,
    pub auto_attach: Option<AutoAttach>,
    pub page_enabled: bool,
    pub runtime_enabled: bool,
    /// What its renderer has to answer, in this order.
    pub in_flight: VecDeque<Pending>,
}

pub struct Pending {
    pub id: i64,
    pub answer: Value,
    /// A promise that never resolves.
    pub stuck: bool,
}

/// What is done later, without being asked again.
pub enum Later {
    Commit(Navigation),
    /// The tab that a modified click opens.
    Tab {
        url: String,
        context: Id,
        owner: Owner,
        window: i64,
    },
    Destroy(Id),
    Swap {
        page: Id,
        frame: Id,
        url: String,
        extension: bool,
    },
}

/// Who may read something that the browser has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Client(ClientNo),
    Task(TaskNo),
    Nobody,
}

#[derive(Clone, Debug)]
pub struct Marker {
    pub audience: Audience,
    /// The upstream session on which it was said.
    pub session: Option<Id>,
}

#[derive(Default)]
pub struct Root {
    pub discover: bool,
    /// With its filter.
    pub auto_attach: Option<Value>,
    pub fetch: bool,
    /// Contexts whose downloads are told.
    pub downloads: BTreeSet<Id>,
}

pub struct Browser {
    pub truth: Truth,
    pub rng: Rng,
    pub inbox: VecDeque<Incoming>,
    pub outbox: VecDeque<Said>,
    pub contexts: BTreeMap<Id, Context>,
    pub profile: Id,
    pub targets: BTreeMap<Id, Target>,
    pub sessions: BTreeMap<Id, Session>,
    pub paused: BTreeMap<String, Navigation>,
    pub later: Vec<Later>,
    pub root: Root,
    /// Every marked event: what it is for, so that the checker knows who may read it.
    pub markers: HashMap<u64, Marker>,
    /// Nonces of commands that will never be answered while their session lives.
    pub stuck: BTreeSet<String>,
    /// With the browser context of each.
    pub downloads: Vec<(Id, Id)>,
    pub ended_tasks: BTreeSet<TaskNo>,
    /// How often each target has ended: a frame may leave its process and come back under the same id.
    pub ends: HashMap<Id, usize>,
    /// Tasks whose policy denies [`FORBIDDEN`].
    pub denying: BTreeSet<TaskNo>,
    /// Commands fail now and then that hardly ever fail: gates, contexts, tabs.
    pub faults: bool,
    count: u64,
    /// What the checker has to know and a frame does not say.
    pub remarks: Vec<&'static str>,
}

impl Browser {
    pub fn new(seed: u64) -> Browser {
        let mut rng = Rng::new(seed ^ 0x00b1_0e5e_4b0b_0de5);
        let mut truth = Truth::default();
        let profile = truth.make(&mut rng, Kind::Context, Owner::Person);
        let mut browser = Browser {
            truth,
            rng,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            contexts: BTreeMap::from([(profile.clone(), Context { owner: Owner::Person })]),
            profile: profile.clone(),
            targets: BTreeMap::new(),
            sessions: BTreeMap::new(),
            paused: BTreeMap::new(),
            later: Vec::new(),
            root: Root::default(),
            markers: HashMap::new(),
            stuck: BTreeSet::new(),
            downloads: Vec::new(),
            ended_tasks: BTreeSet::new(),
            ends: HashMap::new(),
            denying: BTreeSet::new(),
            faults: true,
            count: 0,
            remarks: Vec::new(),
        };
        for n in 0..1 + browser.rng.below(2) {
            let url = format!("https://{PRIVATE}/{n}");
            browser.make_page(&profile, Owner::Person, None, &url, None);
        }
        browser
    }

    pub fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    // --- saying -------------------------------------------------------------------------------------------------

    pub fn say(&mut self, frame: &Value) {
        self.outbox.push_back(Said { text: frame.to_string(), on_root: frame.get("sessionId").is_none() });
    }

    pub fn event(&mut self, session: Option<&Id>, method: &str, mut params: Value) {
        let audience = session.map(|id| self.audience(id));
        if let Some(audience) = audience.flatten() {
            params["marker"] = json!(self.mark(audience, session.cloned()));
        }
        let mut frame = json!({"method": method, "params": params});
        if let Some(session) = session {
            frame["sessionId"] = json!(&**session);
        }
        self.say(&frame);
    }

    /// `m7`, under which is kept who may read it.
    pub fn mark(&mut self, audience: Audience, session: Option<Id>) -> String {
        let number = self.number();
        self.markers.insert(number, Marker { audience, session });
        format!("m{number}")
    }

    /// Guards' events are not marked: nothing of them is passed on, which the ids in them show.
    fn audience(&self, session: &Id) -> Option<Audience> {
        let session = self.sessions.get(session)?;
        let client = session.made_for?;
        let secret = self.owner(&session.target) == Owner::Person
            || self.targets.get(&session.target).is_some_and(|target| target.secret || target.extension);
        Some(if secret { Audience::Nobody } else { Audience::Client(client) })
    }

    pub fn answer(&mut self, id: i64, session: Option<&Id>, answer: &Value) {
        let mut frame = json!({"id": id});
        if let Some(members) = answer.as_object() {
            for (key, value) in members {
                frame[key] = value.clone();
            }
        }
        if let Some(session) = session {
            frame["sessionId"] = json!(&**session);
        }
        self.say(&frame);
    }

    /// On all sessions of that target that have enabled the domain, in the order of attaching.
    pub fn page_event(&mut self, target: &Id, method: &str, params: &Value) {
        let sessions = self.targets.get(target).map(|target| target.sessions.clone()).unwrap_or_default();
        for id in sessions {
            let enabled = self.sessions.get(&id).is_some_and(|session| match method.split('.').next() {
                Some("Page") => session.page_enabled,
                Some("Runtime") => session.runtime_enabled,
                _ => true,
            });
            if enabled {
                self.event(Some(&id), method, params.clone());
            }
        }
    }

    // --- working ------------------------------------------------------------------------------------------------

    /// Whether anything is left to do (promises that never resolve do not count).
    pub fn is_busy(&self) -> bool {
        !self.inbox.is_empty() || !self.later.is_empty() || !self.answerable().is_empty()
    }

    fn answerable(&self) -> Vec<Id> {
        self.sessions
            .iter()
            .filter(|(_, session)| {
                session.in_flight.iter().any(|pending| !pending.stuck)
                    && self.targets.get(&session.target).is_some_and(Target::has_renderer)
            })
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// One piece of work: a command is taken, a renderer answers, or something happens that was to happen.
    pub fn work(&mut self) {
        let answerable = self.answerable();
        let choices = [
            (if self.inbox.is_empty() { 0 } else { 6 }, 0),
            (if answerable.is_empty() { 0 } else { 4 }, 1),
            (if self.later.is_empty() { 0 } else { 3 }, 2),
        ];
        if choices.iter().all(|(weight, _)| *weight == 0) {
            return;
        }
        match self.rng.weighted(&choices) {
            0 => {
                if let Some(incoming) = self.inbox.pop_front() {
                    self.take(&incoming);
                }
            }
            1 => {
                if let Some(session) = self.rng.pick(&answerable).cloned() {
                    self.renderer_answers(&session);
                }
            }
            _ => {
                let at = self.rng.below(self.later.len());
                let later = self.later.remove(at);
                self.happens(later);
            }
        }
    }

    fn happens(&mut self, later: Later) {
        match later {
            Later::Commit(navigation) => self.commit(&navigation),
            Later::Tab { url, context, owner, window } => self.clicked_tab(&url, &context, owner, window),
            Later::Destroy(target) => self.destroy(&target),
            Later::Swap { page, frame, url, extension } => self.swap_out(&page, &frame, &url, extension),
        }
    }

    fn renderer_answers(&mut self, id: &Id) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(at) = session.in_flight.iter().position(|pending| !pending.stuck) else { return };
        if let Some(pending) = session.in_flight.remove(at) {
            self.answer(pending.id, Some(id), &pending.answer);
        }
    }

    fn take(&mut self, incoming: &Incoming) {
        let Ok(frame) = serde_json::from_str::<Value>(&incoming.text) else {
            self.remarks.push("the engine sent something that is not JSON");
            return;
        };
        let id = frame["id"].as_i64().unwrap_or_default();
        let method = frame["method"].as_str().unwrap_or_default();
        let params = &frame["params"];
        match frame["sessionId"].as_str() {
            None => self.root_command(id, method, params, incoming),
            // As Chromium does: without the session's id.
            Some(session) if !self.sessions.contains_key(session) => {
                let error = json!({"error": {"code": -32001, "message": "Session with given id not found."}});
                self.answer(id, None, &error);
            }
            Some(session) => {
                let own = incoming.on_behalf.is_none();
                self.session_command(id, &Id::from(session), method, params, own);
            }
        }
    }
}

/// `{"result": …}` with the command's nonce, by which the checker knows whose response it is.
pub fn result(params: &Value, mut result: Value) -> Value {
    if let Some(nonce) = params["nonce"].as_str() {
        result["echo"] = json!(nonce);
    }
    json!({ "result": result })
}

pub fn error(code: i64, message: &str) -> Value {
    json!({"error": {"code": code, "message": message}})
}
