//! The engine: one owner of all state, no I/O, no clock, no randomness. [`Engine::handle`] takes one input, and
//! [`Engine::poll_output`] is drained after each. See `ARCHITECTURE.md` for the invariants.

mod admin;
mod answers;
mod attach;
mod audit;
mod binding;
mod calls;
mod check;
mod clicks;
mod cookies;
mod departed;
mod documents;
mod downloads;
mod events;
mod focus;
mod from_browser;
mod from_client;
mod gate;
mod info;
mod intercept;
pub mod io;
mod leave;
mod limits;
mod mirror;
mod pages;
mod refusal;
mod requests;
mod sites;
mod sockets;
mod startup;
mod state;
mod storage;
mod tasks;
mod told_cookies;
mod trace_filter;
mod traces;
mod uploads;
mod workers;

pub use check::UNCHECKED;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ownership::id::{ClientId, ClientSessionId, ContextId, FrameId, SessionId, TargetId, TaskId};
use ownership::{Change, Ledger};
use policy::Grants;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use crate::wire;
use calls::{Call, Calls, Purpose, ReplyTo};
use io::{BrowserOrigin, EngineConfig, Input, LARGEST_TO_BROWSER, Output, Record, RecordKind};

/// Bytes of a frame beside its method and parameters, at most.
const ENVELOPE: usize = 128;
use refusal::Refusal;
use state::{Client, HiddenFrames, Session, Target, Task, Undecided};

/// What the browser said of itself at start.
#[derive(Default)]
struct Browser {
    /// `Browser.getVersion`, as it came.
    version: String,
    product: String,
    user_agent: String,
    protocol_version: String,
    revision: String,
    js_version: String,
    default_context: Option<ContextId>,
    /// The id under which clients know the browser target. Ours: the real one would open the real thing.
    target: Option<TargetId>,
    ready: bool,
    lost: bool,
    draining: bool,
}

pub struct Engine {
    config: EngineConfig,
    grants: Arc<Grants>,
    draw: Box<dyn FnMut() -> [u8; 16]>,
    now: Instant,
    /// Releases of other people's targets: out before anything else of the batch.
    urgent: VecDeque<Output>,
    outputs: VecDeque<Output>,
    ledger: Ledger,
    calls: Calls,
    browser: Browser,
    tasks: FxHashMap<TaskId, Task>,
    next_task: u32,
    clients: FxHashMap<ClientId, Client>,
    sessions: FxHashMap<SessionId, Session>,
    targets: FxHashMap<TargetId, Target>,
    expected: Vec<clicks::Expected>,
    undecided: Vec<Undecided>,
    hidden_frames: HiddenFrames,
    documents: FxHashMap<FrameId, documents::Document>,
    focus: focus::Focus,
    downloads: downloads::Downloads,
    uploads: uploads::Uploads,
    /// Browser contexts in which a target was seen; whose they are the ledger says.
    seen_contexts: FxHashSet<ContextId>,
    /// Scopes of service workers, by browser context and registration.
    worker_scopes: FxHashMap<ContextId, FxHashMap<String, String>>,
    /// What clients have set in the person's profile, in the order in which they did.
    permission_overrides: Vec<answers::PermissionOverride>,
    /// The one trace that is being recorded.
    trace: Option<traces::Trace>,
    trace_streams: FxHashMap<String, traces::TraceStream>,
    requesters: requests::Requesters,
    departed: departed::Departed,
    /// The browser's own `Fetch` looks at more than documents.
    root_fetch_is_wide: bool,
    /// Whether a task has something in monitor mode.
    has_trials: bool,
    trials_kept: VecDeque<audit::KeptTrial>,
    said_once: FxHashSet<String>,
    /// How many `Page.navigate`s clients have sent.
    navigations: u64,
    /// How many records the audit was given: the number of the last one.
    audits: u64,
    /// When this engine was made.
    born: Instant,
    deadline: Cell<Option<Instant>>,
    deadline_is_stale: Cell<bool>,
}

impl Engine {
    /// `draw` gives 128 random bits for each session id; a test gives a counter.
    pub fn new(config: EngineConfig, now: Instant, draw: Box<dyn FnMut() -> [u8; 16]>) -> Engine {
        let grants = Grants {
            read_dirs: config.read_dirs.clone(),
            write_dirs: config.write_dirs.clone(),
            temp_dir: config.temp_dir.clone(),
        };
        Engine {
            config,
            grants: Arc::new(grants),
            draw,
            now,
            urgent: VecDeque::new(),
            outputs: VecDeque::new(),
            ledger: Ledger::default(),
            calls: Calls::default(),
            browser: Browser::default(),
            tasks: FxHashMap::default(),
            next_task: 1,
            clients: FxHashMap::default(),
            sessions: FxHashMap::default(),
            targets: FxHashMap::default(),
            expected: Vec::new(),
            undecided: Vec::new(),
            hidden_frames: HiddenFrames::default(),
            documents: FxHashMap::default(),
            focus: focus::Focus::default(),
            downloads: downloads::Downloads::default(),
            uploads: uploads::Uploads::default(),
            seen_contexts: FxHashSet::default(),
            worker_scopes: FxHashMap::default(),
            permission_overrides: Vec::new(),
            trace: None,
            trace_streams: FxHashMap::default(),
            requesters: requests::Requesters::default(),
            departed: departed::Departed::default(),
            root_fetch_is_wide: false,
            has_trials: false,
            trials_kept: VecDeque::new(),
            said_once: FxHashSet::default(),
            navigations: 0,
            audits: 0,
            born: now,
            deadline: Cell::new(None),
            deadline_is_stale: Cell::new(true),
        }
    }

    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = now;
        if !matches!(input, Input::ClientFrame { .. } | Input::BrowserFrame { .. }) {
            self.touch_deadline();
        }
        match input {
            Input::ClientJoined { client, task, user_agent } => self.client_joined(client, task, user_agent),
            Input::ClientFrame { client, text } => self.client_frame(client, text),
            Input::ClientLeft { client } => self.client_left(client),
            Input::BrowserFrame { text } => self.browser_frame(text),
            Input::BrowserLost { reason } => self.browser_lost(&reason),
            Input::Admin { request, command } => self.admin(request, command),
            Input::DownloadKept { download, outcome } => self.download_kept(download, outcome),
            Input::PathsFound { request, found } => self.paths_found(request, &found),
            Input::Drain => self.drain(),
            Input::Tick => self.tick(),
        }
        if self.has_trials {
            self.keep_trials();
        }
    }

    /// Drain this after each `handle`, and write to the browser in this order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.urgent.pop_front().or_else(|| self.outputs.pop_front())
    }

    /// When the engine wants an [`Input::Tick`]. Asked at every turn of the server's loop, and found anew only after
    /// something that can change it: most frames cannot.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.deadline_is_stale.replace(false) {
            let deadlines = self.hold_deadlines().chain(self.click_deadlines()).chain(self.task_deadlines());
            self.deadline.set(deadlines.chain(self.departed_deadline()).min());
        }
        self.deadline.get()
    }

    /// Holds, candidates of clicks, or who is there may have changed.
    fn touch_deadline(&self) {
        self.deadline_is_stale.set(true);
    }

    /// How many things are remembered, by kind: after all clients and tasks have gone, that has to be none of theirs.
    #[doc(hidden)]
    pub fn footprint(&self) -> [(&'static str, usize); 14] {
        [
            ("tasks", self.tasks.len()),
            ("clients", self.clients.len()),
            ("sessions", self.sessions.len()),
            ("calls", self.calls.purposes().count()),
            ("targets", self.targets.len()),
            ("undecided", self.undecided.len()),
            ("hidden frames", self.hidden_frames.len()),
            ("documents", self.documents.len()),
            ("contexts with workers", self.worker_scopes.len()),
            ("permissions", self.permission_overrides.len()),
            ("traces", usize::from(self.trace.is_some())),
            ("trace streams", self.trace_streams.len()),
            ("downloads", self.downloads.remembered()),
            ("uploads", self.uploads.waiting()),
        ]
    }

    fn tick(&mut self) {
        self.resume_overdue_holds();
        self.let_silent_clicks_go();
        self.expire_tasks();
        self.forget_departed();
    }

    // --- words to the browser -----------------------------------------------------------------------------------

    /// A command of the engine's own.
    fn own(&mut self, session: Option<SessionId>, method: &'static str, params: &Value, purpose: Purpose) {
        self.transmit(session, method, &params.to_string(), purpose, None, false);
    }

    /// The engine's own again, but out before everything else that this batch leads to.
    fn own_first(&mut self, session: Option<SessionId>, method: &'static str, params: &Value) {
        self.transmit(session, method, &params.to_string(), Purpose::Nothing, None, true);
    }

    /// The one place where a frame to the browser is made.
    fn transmit(
        &mut self,
        session: Option<SessionId>,
        method: &str,
        params: &str,
        purpose: Purpose,
        on_behalf: Option<ClientId>,
        urgent: bool,
    ) {
        if self.browser.lost {
            return self.unanswerable(purpose);
        }
        if params.len() + method.len() + ENVELOPE > LARGEST_TO_BROWSER {
            return self.too_large(purpose);
        }
        let Some(id) = self.calls.open(Call { session, purpose }) else {
            return self.odd("calls", "more than two thousand million commands are in flight".to_owned());
        };
        let text = wire::render_command(id, method, session.as_ref().map(SessionId::as_str), params);
        let output = Output::ToBrowser { text, on_behalf };
        match urgent {
            true => self.urgent.push_back(output),
            false => self.outputs.push_back(output),
        }
    }

    // --- words to clients ---------------------------------------------------------------------------------------

    fn send_to_client(&mut self, client: ClientId, text: String) {
        if self.clients.contains_key(&client) {
            self.outputs.push_back(Output::ToClient { client, text });
        }
    }

    fn result(&mut self, to: ReplyTo, result: &str) {
        let session = to.session.as_ref().map(ClientSessionId::as_str);
        self.send_to_client(to.client, wire::render_result(to.id, session, result));
    }

    /// `error`: the object as Chromium sent it.
    fn error(&mut self, to: ReplyTo, error: &str) {
        let session = to.session.as_ref().map(ClientSessionId::as_str);
        self.send_to_client(to.client, wire::render_error(Some(to.id), session, error));
    }

    fn refuse(&mut self, to: ReplyTo, refusal: &Refusal) {
        if refusal.is_noteworthy() {
            self.note_refusal(to.client, refusal);
        }
        self.error(to, &refusal.render());
    }

    fn event(&mut self, client: ClientId, scope: Option<ClientSessionId>, method: &str, params: &str) {
        let text = wire::render_event(method, scope.as_ref().map(ClientSessionId::as_str), params);
        self.send_to_client(client, text);
    }

    // --- records ------------------------------------------------------------------------------------------------

    fn note_refusal(&mut self, client: ClientId, refusal: &Refusal) {
        let task = self.clients.get(&client).map(|client| client.task);
        if let Some(task) = task.and_then(|task| self.tasks.get_mut(&task)) {
            task.refusals.push_back(refusal.message.clone());
            while task.refusals.len() > tasks::REMEMBERED_REFUSALS {
                task.refusals.pop_front();
            }
        }
        self.record(Record { task, client: Some(client), kind: RecordKind::Refused, message: refusal.message.clone() });
    }

    fn record(&mut self, record: Record) {
        self.outputs.push_back(Output::Record(record));
    }

    /// Something that should not be, said once for each `key`.
    fn odd(&mut self, key: &str, message: String) {
        if self.said_once.insert(key.to_owned()) {
            self.record(Record { task: None, client: None, kind: RecordKind::Odd, message });
        }
    }

    // --- small questions ----------------------------------------------------------------------------------------

    fn change(&mut self, change: Change) {
        if let Change::ContextGone { context } = &change {
            self.worker_scopes.remove(context);
            self.forget_downloads_in(*context);
            self.seen_contexts.remove(context);
        }
        self.note_change_for_trace(&change);
        self.ledger.apply(&change);
    }

    fn draw_session(&mut self) -> ClientSessionId {
        ClientSessionId::from_bytes((self.draw)())
    }

    /// Milliseconds since 1970, for what clients are told.
    fn unix_ms(&self) -> u64 {
        let lived = self.now.saturating_duration_since(self.born).as_millis();
        self.config.born_unix_ms.saturating_add(u64::try_from(lived).unwrap_or(u64::MAX))
    }

    fn launched(&self) -> bool {
        self.config.origin == BrowserOrigin::Launched
    }

    fn task_of(&self, client: ClientId) -> Option<TaskId> {
        self.clients.get(&client).map(|client| client.task)
    }

    fn client_session(&self, session: SessionId) -> Option<&state::ClientSession> {
        match self.sessions.get(&session) {
            Some(Session::Client(session)) => Some(session),
            _ => None,
        }
    }

    fn client_session_mut(&mut self, session: SessionId) -> Option<&mut state::ClientSession> {
        match self.sessions.get_mut(&session) {
            Some(Session::Client(session)) => Some(session),
            _ => None,
        }
    }

    fn clients_of(&self, task: TaskId) -> Vec<ClientId> {
        let mut clients: Vec<ClientId> =
            self.clients.iter().filter(|(_, client)| client.task == task).map(|(id, _)| *id).collect();
        clients.sort_unstable();
        clients
    }
}
