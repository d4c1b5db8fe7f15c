//! What the engine remembers besides the ledger: tasks, clients, their sessions, and where each target stands.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ownership::Lineage;
use ownership::id::{ClientId, ClientSessionId, ContextId, FrameId, SessionId, TargetId, TaskId};
use policy::{Decision, Mode, Policies, Question, Verb};
use rustc_hash::{FxHashMap, FxHashSet};

use super::audit::Judgement;
use super::calls::ReplyTo;
use super::clicks::Click;
use super::downloads::DownloadWish;
use super::info::{Filter, TargetInfo};
use super::io::{AdminRequest, TaskContext};
use super::mirror::Mirrored;
use super::sites::Sites;
use super::sockets::trips_sockets;
use super::told_cookies::RequestHosts;

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum TaskState {
    /// Its browser context is being made.
    Starting,
    Active,
    Ending,
}

pub struct Task {
    pub name: String,
    pub state: TaskState,
    pub context_kind: TaskContext,
    /// The context shown as the default one: the task's own, or the profile's.
    pub context: Option<ContextId>,
    pub policy: Arc<Policies>,
    /// By verb: whether the policy allows it on every document that the task can hold.
    pub free: Vec<bool>,
    /// Whether the policy may stop something that a page loads beside its documents.
    pub gates_requests: bool,
    /// Whether sockets that the policy denies stop the page that opens them.
    pub trips_sockets: bool,
    /// When top documents were loaded, where the policy limits how many in a minute.
    pub loads: VecDeque<Instant>,
    pub idle_ttl: Option<Duration>,
    pub idle_since: Instant,
    pub labels: BTreeMap<String, String>,
    pub open: Option<String>,
    /// A first page is on its way, so no second one is asked for.
    pub opening: bool,
    pub waiting_new: Option<AdminRequest>,
    /// Steps of the end that are still in flight.
    pub ending_steps: usize,
    pub ending_requests: Vec<AdminRequest>,
    pub refusals: VecDeque<String>,
    /// Where its pages have been; kept until it ends.
    pub sites: Sites,
    /// What was allowed just now, and would not be if what is in monitor mode were enforced.
    pub trials: Cell<Vec<Judgement>>,
}

impl Task {
    pub fn set_policy(&mut self, policy: Arc<Policies>, mode: Mode) {
        self.trips_sockets = trips_sockets(&policy, mode);
        self.free = free_verbs(&policy);
        self.gates_requests = gates_requests(&policy);
        self.policy = policy;
    }

    /// Judges what is about to happen. (A question that is only asked is put to the policy itself.)
    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let decision = self.policy.judge(question);
        if let Some(would) = decision.would.as_deref().filter(|_| decision.allowed()) {
            let trial =
                Judgement { decision: would.clone(), verb: Some(question.verb), object: question.url.to_owned() };
            let mut trials = self.trials.take();
            trials.push(trial);
            self.trials.set(trials);
        }
        decision
    }

    pub fn allows_all_loads(&self) -> bool {
        let loads = [Verb::Navigate, Verb::Frame, Verb::Popup, Verb::Subresource, Verb::Worker, Verb::WebSocket];
        loads.iter().all(|verb| self.policy.allows_everywhere(*verb))
    }

    pub fn shared(&self) -> bool {
        self.context_kind == TaskContext::Shared
    }
}

/// By verb: whether the policy allows it on every document that a task can hold. Worked out once, since every command asks.
pub fn free_verbs(policy: &Policies) -> Vec<bool> {
    Verb::ALL.iter().map(|verb| policy.allows_on_documents(*verb)).collect()
}

pub fn gates_requests(policy: &Policies) -> bool {
    ![Verb::Subresource, Verb::Worker].iter().all(|verb| policy.allows_everywhere(*verb))
}

/// What a client asked of its root, or of a browser session beside it.
#[derive(Default)]
pub struct Scope {
    pub discover: Option<Filter>,
    pub auto_attach: Option<AutoAttach>,
}

#[derive(Clone)]
pub struct AutoAttach {
    pub wait: bool,
    pub filter: Filter,
}

/// A session as its client knows it.
#[derive(Clone, Copy, Debug)]
pub enum Shown {
    /// A browser session, which exists only here.
    Browser { scope: Option<ClientSessionId> },
    /// A session of Chromium's.
    Real(SessionId),
}

pub struct Client {
    pub task: TaskId,
    pub user_agent: String,
    pub since: Instant,
    /// Frames that came before the task had a page to show; `None` once it has.
    pub queue: Option<Vec<String>>,
    pub queued_bytes: usize,
    /// The root (`None`) and browser sessions.
    pub scopes: FxHashMap<Option<ClientSessionId>, Scope>,
    pub sessions: FxHashMap<ClientSessionId, Shown>,
    pub contexts: Vec<OwnContext>,
    /// Its sessions (`None`: the root) that asked for events of downloads.
    pub download_events: FxHashSet<Option<ClientSessionId>>,
    /// What it wants done with the downloads of these contexts.
    pub downloads: FxHashMap<ContextId, DownloadWish>,
    /// What it set in contexts that stay when it goes, and what Chromium would undo with its connection.
    pub set_permissions: FxHashSet<ContextId>,
    /// Responses that wait for a page to be shown to this client.
    pub waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug)]
pub struct OwnContext {
    pub id: ContextId,
    pub dispose_on_detach: bool,
}

/// A response that may leave only after the client was shown (or will never be shown) these targets.
pub struct Waiter {
    pub to: ReplyTo,
    pub result: String,
    pub targets: Vec<TargetId>,
}

/// A session of Chromium's that the engine knows.
#[derive(Debug)]
pub enum Session {
    /// Tabwarden's own, on an owned page or on an OOPIF of it.
    Guard {
        page: TargetId,
        /// The page itself, or an OOPIF or service worker of it.
        target: TargetId,
    },
    Client(Box<ClientSession>),
}

#[derive(Debug)]
pub struct ClientSession {
    pub client: ClientId,
    pub shown: ClientSessionId,
    pub target: TargetId,
    /// The page at the top (the target itself for pages and service workers).
    pub page: TargetId,
    /// Upstream session below which it appeared; `None`: attached from the root by us.
    pub parent: Option<SessionId>,
    /// Where its events of attaching and detaching appear.
    pub scope: Option<ClientSessionId>,
    /// Execution contexts that the client was told of; others do not exist for it (extension worlds).
    pub worlds: FxHashMap<i64, World>,
    pub unique_worlds: FxHashMap<String, i64>,
    /// Worlds of extensions, which were not told.
    pub hidden_worlds: FxHashSet<i64>,
    /// Scripts of extensions, which were not told either; their ids are small numbers.
    pub hidden_scripts: FxHashSet<String>,
    /// Set-up commands that are not answered yet.
    pub setup_in_flight: usize,
    /// It has enabled the `Log` domain.
    pub hears_log: bool,
    /// Requests paused by its own interception, as far as it was told of them.
    pub told_requests: FxHashMap<String, Told>,
    /// For which document a request was made, where its task may not read all of them.
    pub requests_of: FxHashMap<String, String>,
    /// Hosts that requests went to, as far as their cookies are looked at.
    pub request_hosts: RequestHosts,
}

/// An execution context that a client was told of.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// The frame in which it is; `None` in a worker.
    pub frame: Option<FrameId>,
    /// By which it can be named without being mistaken for one of another process.
    pub unique: Option<String>,
    /// The page's own, in which an `evaluate` without a context runs.
    pub is_default: bool,
}

/// A request of which a client's own interception was told.
#[derive(Debug)]
pub struct Told {
    pub url: String,
    pub method: Option<String>,
    pub resource_type: Option<String>,
    pub frame: Option<FrameId>,
}

impl Told {
    /// What is not told to be anything else is judged as a document.
    pub fn is_document(&self) -> bool {
        self.resource_type.as_ref().is_none_or(|kind| kind == "Document")
    }
}

/// Where a top-level target of ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not ours, or not attached yet.
    Seen,
    /// The task's clients may have it.
    Shown,
}

/// A client that has to ask before a held page runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    pub client: ClientId,
    pub scope: Option<ClientSessionId>,
}

pub struct Hold {
    pub since: Instant,
    pub awaited: Vec<Awaited>,
    /// Documents that `Fetch` holds for us until the page may run.
    pub paused_documents: Vec<String>,
}

/// What a client has asked of a service worker's session below a page.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    Run(ReplyTo),
    Detach(ReplyTo),
}

impl Wish {
    pub fn reply_to(self) -> ReplyTo {
        match self {
            Wish::Run(to) | Wish::Detach(to) => to,
        }
    }
}

/// Who moved the top document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Client,
    Page,
}

/// Where a top document is going.
#[derive(Clone, Debug)]
pub struct Navigation {
    pub cause: Option<Cause>,
    /// Nobody of the task's has asked for it.
    pub by_person: bool,
}

pub struct Target {
    pub info: TargetInfo,
    /// Decided before the target is attached: whose it will be.
    pub claim: Option<(TaskId, Lineage)>,
    /// It may be the tab of a click in an owned page.
    pub click: Option<Click>,
    /// Origins of the documents in its frames.
    pub origins: FxHashSet<String>,
    pub stage: Stage,
    pub guard: Option<SessionId>,
    pub hold: Option<Hold>,
    /// A service worker that is held below a page: its clients' wishes there, kept until they have set up the session that
    /// they have on it from the root, as it would be if that one held it too.
    pub held_below: Vec<(SessionId, Wish)>,
    /// Documents that go on when the clients' set-up commands are answered.
    pub delayed_documents: Vec<String>,
    /// What the guard does for the first document in the clients' place, and how it is undone; see `mirror.rs`.
    pub mirrored: Vec<Mirrored>,
    /// Client sessions on it.
    pub sessions: Vec<SessionId>,
    /// Navigations that a client or the page itself has asked for and that have not started yet. One that never starts stays
    /// here, so that a later one of the person's is taken for the task's: it is failed then, and not let through.
    pub asked: VecDeque<Cause>,
    pub navigation: Option<Navigation>,
    /// It was a task's, and is nobody's now.
    pub released: bool,
    /// The first document that was asked for has committed.
    pub committed: bool,
    /// Its renderer has crashed, and it has loaded nothing since.
    pub crashed: bool,
    /// Its loads go past service workers.
    pub bypasses_workers: bool,
    /// Why the last document that it asked for was blocked, until that is told.
    pub blocked: Option<String>,
    /// Counts the changes of the documents that it holds.
    pub generation: u64,
}

/// Navigations of one page that are remembered to have been asked for.
const ASKED: usize = 64;

impl Target {
    pub fn asks(&mut self, cause: Cause) {
        // What a page asks for without end is still asked for.
        if self.asked.len() < ASKED {
            self.asked.push_back(cause);
        }
    }

    pub fn new(info: TargetInfo) -> Target {
        Target {
            info,
            claim: None,
            click: None,
            origins: FxHashSet::default(),
            stage: Stage::Seen,
            guard: None,
            hold: None,
            held_below: Vec::new(),
            delayed_documents: Vec::new(),
            mirrored: Vec::new(),
            sessions: Vec::new(),
            asked: VecDeque::new(),
            navigation: None,
            released: false,
            committed: false,
            crashed: false,
            bypasses_workers: false,
            blocked: None,
            generation: 0,
        }
    }
}

/// A page of the profile's default context that appeared while a task's page was being made there: whose it is will be
/// said by the response.
pub struct Undecided {
    pub target: TargetId,
    pub session: SessionId,
    pub waiting: bool,
    /// The commands that were in flight in its context when it appeared, and one of which may have made it.
    pub made_by: Vec<i32>,
    /// Its documents that `Fetch` has paused meanwhile.
    pub paused_documents: Vec<String>,
}

/// Frames whose document a client must not have (extension pages): the page keeps them, clients get no session on them.
pub type HiddenFrames = FxHashSet<FrameId>;
