//! The server over real sockets, with a stand-in for the engine and for the browser.

mod admission;
mod api;
mod audit;
mod clients;
mod policies;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ownership::id::{ClientId, TaskId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::LocalSet;

use super::audit as trail;
use super::driver::{Core, Outcome};
use super::policies::{PolicyFiles, TaskPolicy};
use super::token::{Token, Tokens};
use super::upstream::PipeEnds;
use super::{Doors, Handle, Server, Settings, TaskPlan, Upstream};
use crate::engine::io::*;

/// Answers what the server asks; of clients' words it knows `echo…`, `flood`, `end`, `audit ID` and `up…`.
#[derive(Default)]
struct FakeEngine {
    outputs: VecDeque<Output>,
    tasks: Vec<TaskInfo>,
    clients: Vec<ClientId>,
}

impl FakeEngine {
    fn admin(&mut self, now: Instant, command: AdminCommand) -> Result<AdminReply, AdminError> {
        let find = |tasks: &[TaskInfo], name: &str| tasks.iter().position(|task| task.name == name);
        match command {
            AdminCommand::TaskNew(spec) => {
                let id = TaskId(self.tasks.len() as u32 + 1);
                let name = spec.name.unwrap_or_else(|| format!("task-{id}"));
                if find(&self.tasks, &name).is_some() {
                    return Err(AdminError { kind: AdminErrorKind::Conflict, message: "taken".into() });
                }
                let task = TaskInfo {
                    id,
                    name,
                    state: "active",
                    context: spec.context,
                    policy: spec.policy.name().into(),
                    policy_hash: spec.policy.hash().into(),
                    labels: spec.labels,
                    expires_at: spec.idle_ttl.map(|ttl| now + ttl),
                    idle_ttl: spec.idle_ttl,
                    pages: vec![PageInfo {
                        target_id: "T1".into(),
                        url: "about:blank".into(),
                        title: "t".into(),
                        opener: None,
                    }],
                    clients: vec![ClientInfo { id: ClientId(1), user_agent: "ua".into(), since: now }],
                    last_refusals: vec!["no".into()],
                };
                self.tasks.push(task.clone());
                Ok(AdminReply::Task(task))
            }
            AdminCommand::TaskList => Ok(AdminReply::Tasks(self.tasks.clone())),
            AdminCommand::TaskShow(name) => match find(&self.tasks, &name) {
                Some(at) => Ok(AdminReply::Task(self.tasks[at].clone())),
                None => Err(AdminError { kind: AdminErrorKind::NotFound, message: "no such task".into() }),
            },
            AdminCommand::TaskEnd { name, .. } => {
                if let Some(at) = find(&self.tasks, &name) {
                    let task = self.tasks.remove(at);
                    self.outputs.push_back(Output::TaskEnded { task: task.id, name });
                }
                Ok(AdminReply::Ended)
            }
            AdminCommand::SetPolicies(policies) => {
                for (id, policies) in policies {
                    for task in self.tasks.iter_mut().filter(|task| task.id == id) {
                        task.policy_hash = policies.hash().into();
                    }
                }
                Ok(AdminReply::PoliciesSet { released: 0 })
            }
            AdminCommand::Status => Ok(AdminReply::Status(StatusInfo {
                product: "Chrome/156.0.0.0".into(),
                user_agent: "UA".into(),
                protocol_version: "1.3".into(),
                revision: "@abc".into(),
                js_version: "15.6".into(),
                origin: BrowserOrigin::Launched,
                tasks: self.tasks.len(),
                clients: self.clients.len(),
                pages: 0,
            })),
        }
    }

    fn close_all(&mut self, code: CloseCode, reason: &str) {
        for client in self.clients.drain(..) {
            self.outputs.push_back(Output::CloseClient { client, code, reason: reason.into() });
        }
    }
}

impl Core for FakeEngine {
    fn start(&mut self, _: Instant) {
        self.outputs.push_back(Output::Ready);
    }

    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::ClientJoined { client, .. } => self.clients.push(client),
            Input::ClientLeft { client } => self.clients.retain(|one| *one != client),
            Input::ClientFrame { client, text } => self.outputs.extend(match text {
                "flood" => (0..40).map(|_| Output::ToClient { client, text: "x".repeat(8 << 20) }).collect(),
                "end" => vec![Output::CloseClient {
                    client,
                    code: CloseCode::TaskEnded,
                    reason: "The task was ended.".into(),
                }],
                "huge" => vec![Output::ToBrowser { text: "x".repeat((64 << 20) + 1), on_behalf: Some(client) }],
                _ if text.starts_with("audit") => {
                    vec![Output::Audit(Box::new(trail::tests::denied(
                        text.trim_start_matches("audit "),
                        "https://x.test/?q",
                    )))]
                }
                _ if text.starts_with("up") => vec![Output::ToBrowser { text: text.into(), on_behalf: Some(client) }],
                _ => vec![Output::ToClient { client, text: text.into() }],
            }),
            Input::BrowserFrame { text } => {
                let to_client = |client: &ClientId| Output::ToClient { client: *client, text: text.into() };
                self.outputs.extend(self.clients.iter().map(to_client).collect::<Vec<_>>());
            }
            Input::BrowserLost { reason } => self.close_all(CloseCode::BrowserGone, &reason),
            Input::Admin { request, command } => {
                let reply = self.admin(now, command);
                self.outputs.push_back(Output::AdminReply { request, reply });
            }
            Input::Drain => {
                self.close_all(CloseCode::Shutdown, "Tabwarden is shutting down.");
                self.outputs.push_back(Output::Drained);
            }
            Input::DownloadKept { .. } | Input::PathsFound { .. } | Input::Tick => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// After so long nothing more comes. No answer at all is nothing that a test waits for, so it may be long.
const SILENCE: Duration = Duration::from_secs(20);

/// A running server with one task.
struct World {
    handle: Handle,
    port: u16,
    admin: Token,
    token: Token,
    /// The browser's ends of the pipe: it reads the first and writes the second.
    browser: Rc<tokio::sync::Mutex<Option<(UnixStream, UnixStream)>>>,
    driving: tokio::task::JoinHandle<Outcome>,
}

fn settings() -> Settings {
    Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        doors: Doors { hosts: vec!["tabs.example".into()], origins: vec!["https://app.example".into()] },
        public_url: None,
        policies: PolicyFiles::new(vec![], None).with_admin_dir("no such directory".as_ref()),
        audit: trail::Settings { place: trail::Place::File(Default::default()), queries: false },
        record_upstream: None,
        no_sandbox: false,
        engine: EngineConfig {
            origin: BrowserOrigin::Launched,
            max_tasks: 64,
            read_dirs: vec![],
            reads_by_default: false,
            write_dirs: vec![],
            temp_dir: std::env::temp_dir(),
            tasks_dir: std::env::temp_dir().join("tabwarden-no-such-directory"),
            return_focus: false,
            audit_prefix: "t".into(),
            born_unix_ms: 0,
        },
    }
}

fn plan(name: &str, policy: TaskPolicy) -> TaskPlan {
    let (idle_ttl, labels, open) = (None, Default::default(), None);
    TaskPlan { name: Some(name.into()), context: TaskContext::Isolated, policy, idle_ttl, labels, open }
}

/// Runs the test inside the one thread that everything shares.
fn with_world<F: Future<Output = ()> + 'static>(mut settings: Settings, test: impl FnOnce(World) -> F + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = LocalSet::new();
    let dir = tempfile::tempdir().unwrap();
    let open = include_str!("../../../../policies/default.toml");
    std::fs::write(dir.path().join("open.toml"), open).unwrap();
    settings.policies.named.get_or_insert(dir.path().to_owned());
    settings.audit.place = trail::Place::File(dir.path().join("audit.jsonl"));
    local.block_on(&runtime, async {
        let admin = Tokens::new().unwrap().draw().unwrap();
        let server = Server::bind(settings, &admin).await.unwrap();
        let (handle, port) = (server.handle(), server.local_addr().port());
        let (to_browser, browser_reads) = UnixStream::pair().unwrap();
        let (from_browser, browser_writes) = UnixStream::pair().unwrap();
        let upstream = Upstream::Pipe(PipeEnds { to_browser, from_browser });
        let driving =
            tokio::task::spawn_local(
                async move { server.drive_core(Box::<FakeEngine>::default(), upstream, None).await },
            );
        handle.ready().await.unwrap();
        let token = handle.new_task(plan("one", TaskPolicy::default()), None).await.unwrap().token;
        let browser = Rc::new(tokio::sync::Mutex::new(Some((browser_reads, browser_writes))));
        let world = World { handle, port, admin, token, browser, driving };
        tokio::time::timeout(Duration::from_secs(60), test(world)).await.unwrap();
    });
}

impl World {
    /// Sends exactly these bytes and reads until the server closes or falls silent after a whole answer.
    async fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        while let Ok(Ok(read @ 1..)) = tokio::time::timeout(SILENCE, stream.read(&mut chunk)).await {
            answer.extend_from_slice(&chunk[..read]);
            if is_whole(&answer) {
                break;
            }
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    async fn get(&self, path: &str) -> String {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port)).await
    }

    fn path(&self, rest: &str) -> String {
        format!("/t/{}{rest}", self.token.reveal())
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ").and_then(|n| n.parse::<usize>().ok())
    });
    head.starts_with("HTTP/1.1 101") || length.is_none_or(|length| body.len() >= length)
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no status in {answer:?}"))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default()
}
