//! What goes into the engine and what comes out: the whole of its contract with the server and with tests.
//!
//! The engine does no I/O, reads no clock and draws no ids. The server feeds it one [`Input`] at a time and drains
//! [`Output`]s after each; `poll_timeout` says when it wants a [`Input::Tick`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ownership::id::{ClientId, DownloadId, TaskId};
use policy::{Grants, Policies, RuleRef, Verb, Verdict};

/// A larger frame makes Chromium drop the connection of everybody (105 MB on a WebSocket, 110 MB on a pipe; measured).
pub const LARGEST_TO_BROWSER: usize = 64 << 20;

/// Whose browser it is: this decides who ends it and what the gates can rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserOrigin {
    /// Started by us: with our flags and preferences, and it ends with us.
    Launched,
    /// The person's: it was there before us and stays after us.
    Attached,
}

#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub origin: BrowserOrigin,
    /// Active tasks at most; one more is refused with the name of the idlest.
    pub max_tasks: usize,
    /// Directories below which a client may name files for uploads (absolute, already canonical).
    pub read_dirs: Vec<PathBuf>,
    /// Nobody named them: a policy that names others is followed instead.
    pub reads_by_default: bool,
    /// Directories below which clients may have their downloads placed (absolute, canonical), beside
    /// `<temp_dir>/playwright-artifacts-*`, which Playwright makes at each connect.
    pub write_dirs: Vec<PathBuf>,
    /// Holds a directory of each task, of its name (absolute, and UTF-8, as the protocol has no other paths). This server's
    /// alone.
    pub tasks_dir: PathBuf,
    /// The OS temp directory (absolute, canonical).
    pub temp_dir: PathBuf,
    /// Keeps the ids of this run's audit records apart from those of others, for example eight random hex digits.
    pub audit_prefix: String,
    /// The wall clock when the engine was made: milliseconds since 1970, for timestamps of log entries.
    pub born_unix_ms: u64,
    /// Give the keyboard focus back to the person's tab when an agent's click or popup has taken it.
    pub return_focus: bool,
}

/// Whether a task can be called so: names stand in URLs, logs and file names. (None begins with a dot, so none leads up.)
pub fn is_task_name(name: &str) -> bool {
    name.len() <= LONGEST_TASK_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

const LONGEST_TASK_NAME: usize = 64;

/// How a task's pages relate to the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskContext {
    /// A browser context of its own, without the profile's logins; shown to clients as the default context.
    Isolated,
    /// The profile's default context, with its logins.
    Shared,
}

#[derive(Clone, Debug)]
pub struct TaskSpec {
    /// `None`: the engine names it `task-N`.
    pub name: Option<String>,
    pub context: TaskContext,
    pub policy: Arc<Policies>,
    /// Time without a client after which the task ends; `None`: never.
    pub idle_ttl: Option<Duration>,
    pub labels: BTreeMap<String, String>,
    /// A page to open at once, in the background.
    pub open: Option<String>,
}

/// A number by which the server matches an [`Output::AdminReply`] to its HTTP handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdminRequest(pub u64);

#[derive(Clone, Debug)]
pub enum AdminCommand {
    /// Answered when the task's browser context exists and its pages can be used.
    TaskNew(TaskSpec),
    TaskList,
    TaskShow(String),
    /// Closes the task's pages and clients; a task that does not exist is a success.
    TaskEnd {
        name: String,
        keep_pages: bool,
    },
    Status,
    /// The policy files were read anew: what these tasks have now holds at once, also for pages that are there.
    SetPolicies(Vec<(TaskId, Arc<Policies>)>),
}

pub enum Input<'a> {
    ClientJoined {
        client: ClientId,
        task: TaskId,
        user_agent: String,
    },
    /// One text message. (Binary messages close the client in the server: Chromium would drop everybody.)
    ClientFrame {
        client: ClientId,
        text: &'a str,
    },
    ClientLeft {
        client: ClientId,
    },
    BrowserFrame {
        text: &'a str,
    },
    BrowserLost {
        reason: String,
    },
    Admin {
        request: AdminRequest,
        command: AdminCommand,
    },
    /// What became of [`FileWork::Keep`].
    DownloadKept {
        download: DownloadId,
        outcome: Result<Kept, String>,
    },
    /// The answer to [`FileWork::FindPaths`], in the same order.
    PathsFound {
        request: u64,
        found: Vec<Result<RealPath, String>>,
    },
    /// Orderly end: tasks in a launched browser go with it; in an attached one, pages that the tasks made are closed and
    /// everything else is let go. Followed by [`Output::Drained`].
    Drain,
    Tick,
}

#[derive(Debug, PartialEq)]
pub enum Output {
    ToClient {
        client: ClientId,
        text: String,
    },
    /// `on_behalf`: the client whose command this frame carries out; `None` for the engine's own.
    ToBrowser {
        text: String,
        on_behalf: Option<ClientId>,
    },
    CloseClient {
        client: ClientId,
        code: CloseCode,
        reason: String,
    },
    AdminReply {
        request: AdminRequest,
        reply: Result<AdminReply, AdminError>,
    },
    /// The root gates stand; clients and tasks may come.
    Ready,
    /// The task is gone: its token opens nothing any more.
    TaskEnded {
        task: TaskId,
        name: String,
    },
    /// The browser did not do what everything rests on (a root gate was refused): nothing may be served.
    Fatal {
        reason: String,
    },
    Drained,
    Record(Record),
    /// Done by the server, for the engine has no files.
    Files(FileWork),
    /// For the audit: every decision that is not a plain forward, and what monitored rules would have refused.
    Audit(Box<Audit>),
}

/// What the engine wants done with files.
#[derive(Clone, Debug, PartialEq)]
pub enum FileWork {
    /// The directory of a task of this name, before the outputs that follow.
    MakeTaskDir { name: String },
    /// A download is complete. Answered by [`Input::DownloadKept`], whenever it is done.
    Keep(Box<Keep>),
    /// Where these really are, with every link read. Answered by [`Input::PathsFound`]; the client's commands wait until
    /// then.
    FindPaths { client: ClientId, request: u64, paths: Vec<PathBuf> },
    /// A download that was denied was complete before it could be cancelled.
    Discard { written: PathBuf },
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq)]
pub struct RealPath {
    /// Without links, `.` and `..`.
    pub path: PathBuf,
    /// Of a directory: where the links in it lead, at any depth.
    pub links_to: Vec<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Keep {
    pub download: DownloadId,
    pub task: TaskId,
    pub task_name: String,
    /// Where Chromium wrote it.
    pub written: PathBuf,
    /// The file name that its server or its page suggested. Whoever made the page chose it.
    pub suggested: String,
    /// Where clients want it besides.
    pub places: Vec<Place>,
    /// Places have to lie below these once every link on the way is read.
    pub grants: Arc<Grants>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub client: ClientId,
    pub dir: PathBuf,
    pub naming: Naming,
}

/// How a client wants the file called, in Chromium's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `allowAndName`: by its guid.
    Guid,
    /// `allow`: as suggested.
    Suggested,
}

/// Where a download is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// In the task's own directory.
    pub path: PathBuf,
    /// At the places that were asked for, or why not there.
    pub placed: Vec<(ClientId, Result<PathBuf, String>)>,
}

/// One decision, as the audit keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// `a-…`; a refusal's message names it.
    pub id: String,
    pub task: TaskId,
    pub task_name: String,
    pub client: Option<ClientId>,
    /// Of the command; empty where a load was judged that no command asked for.
    pub method: String,
    pub verb: Option<Verb>,
    /// Mostly a URL, query and fragment included: whoever writes it down leaves them out unless told otherwise.
    pub object: String,
    pub verdict: Verdict,
    /// `false`: a monitored rule would have decided so, and nothing was refused.
    pub enforced: bool,
    pub rule: Arc<RuleRef>,
    pub reason: String,
    /// Of the task's policy, `sha256:…`.
    pub policy_hash: String,
}

/// Close codes of client WebSockets; documented in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCode {
    /// 4001: the task was ended.
    TaskEnded,
    /// 4002: the task's idle time ran out.
    TaskExpired,
    /// 4003: the browser is gone.
    BrowserGone,
    /// 4004: a limit of this client's was exceeded.
    Limit,
    /// 1001: Tabwarden is shutting down.
    Shutdown,
    /// 1000: the client said `Browser.close`.
    Closed,
}

impl CloseCode {
    pub fn number(self) -> u16 {
        match self {
            CloseCode::TaskEnded => 4001,
            CloseCode::TaskExpired => 4002,
            CloseCode::BrowserGone => 4003,
            CloseCode::Limit => 4004,
            CloseCode::Shutdown => 1001,
            CloseCode::Closed => 1000,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum AdminReply {
    Task(TaskInfo),
    Tasks(Vec<TaskInfo>),
    Ended,
    Status(StatusInfo),
    /// Done, and how many pages their tasks may no longer hold.
    PoliciesSet {
        released: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskInfo {
    pub id: TaskId,
    pub name: String,
    /// `starting`, `active` or `ending`.
    pub state: &'static str,
    pub context: TaskContext,
    pub policy: String,
    pub policy_hash: String,
    pub labels: BTreeMap<String, String>,
    /// When the task ends unless a client comes; `None` while one is there or without a TTL.
    pub expires_at: Option<Instant>,
    pub idle_ttl: Option<Duration>,
    pub pages: Vec<PageInfo>,
    pub clients: Vec<ClientInfo>,
    /// The newest last; twenty at most.
    pub last_refusals: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PageInfo {
    pub target_id: String,
    pub url: String,
    pub title: String,
    pub opener: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClientInfo {
    pub id: ClientId,
    pub user_agent: String,
    pub since: Instant,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StatusInfo {
    /// `Browser.getVersion` of the browser, e.g. `Chrome/156.0.8078.114`.
    pub product: String,
    pub user_agent: String,
    pub protocol_version: String,
    /// `revision` and `jsVersion` of `Browser.getVersion`: discovery shows them as WebKit-Version and V8-Version.
    pub revision: String,
    pub js_version: String,
    pub origin: BrowserOrigin,
    pub tasks: usize,
    pub clients: usize,
    pub pages: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminErrorKind {
    /// 400
    Invalid,
    /// 404
    NotFound,
    /// 409
    Conflict,
    /// 429
    TooMany,
    /// 503
    Unavailable,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AdminError {
    pub kind: AdminErrorKind,
    pub message: String,
}

/// Something that an operator may want to know later. The server logs it under the client's span.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub task: Option<TaskId>,
    pub client: Option<ClientId>,
    pub kind: RecordKind,
    /// One sentence; no page content and no secrets.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// A command was refused.
    Refused,
    /// A load was failed in `Fetch`.
    Blocked,
    /// A page was claimed by a task.
    Claimed,
    /// A page was let go: the tab stays, automation is gone.
    Released,
    /// Something that the table does not know, or that looked wrong; logged once for each kind.
    Odd,
}
