//! The server as its owner holds it: bind, make tasks, drive a browser, end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use dashmap::DashMap;
use ownership::id::{ClientId, TaskId};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{Notify, oneshot};
use tracing::warn;

use super::audit::{Auditor, Trail};
use super::client_socket::{self, Newcomer};
use super::driver::{Command, Core, Driver, Newborn, Outcome};
use super::inbox::Inbox;
use super::policies::{Store, TaskPolicy};
use super::record::Recorder;
use super::refusal::Refusal;
use super::registry::{Phase, Registry};
use super::task_files::TaskFiles;
use super::token::{Token, Tokens};
use super::{Settings, Upstream, http, reload, routes};
use crate::engine::Engine;
use crate::engine::io::{
    AdminCommand, AdminError, AdminErrorKind, AdminReply, BrowserOrigin, StatusInfo, TaskContext, TaskInfo, TaskSpec,
};

/// What a launched browser is told at the end. The id is one that nothing else uses any more.
const CLOSE_BROWSER: &str = r#"{"id":2147483647,"method":"Browser.close"}"#;

/// What the handlers of HTTP requests and the owner of the server share.
pub(in crate::server) struct Shared {
    pub settings: Settings,
    pub registry: Arc<Registry>,
    pub files: Arc<TaskFiles>,
    pub trail: Arc<Trail>,
    pub policies: Arc<Store>,
    /// To the driver.
    commands: UnboundedSender<Command>,
    /// To where client sockets are served.
    newcomers: UnboundedSender<Newcomer>,
    pub local: SocketAddr,
    /// The last part of discovery's WebSocket URL; any other works too.
    pub browser_id: String,
    next_client: AtomicU64,
    /// Open client sockets, for the orderly end and the limits.
    pub open: DashMap<ClientId, TaskId>,
    pub closed: Notify,
    /// See [`Handle::close_deadline`].
    close_deadline: OnceLock<Instant>,
}

pub struct Server {
    shared: Arc<Shared>,
    commands: UnboundedReceiver<Command>,
    inbox: Rc<Inbox>,
    recorder: Recorder,
    auditor: Auditor,
}

/// For whoever makes tasks and ends it all; cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
}

/// A task that is to be made.
#[derive(Clone, Debug)]
pub struct TaskPlan {
    /// `None`: the engine names it.
    pub name: Option<String>,
    pub context: TaskContext,
    pub policy: TaskPolicy,
    /// Time without a client after which the task ends; `None`: never.
    pub idle_ttl: Option<Duration>,
    pub labels: BTreeMap<String, String>,
    /// A page to open at once, in the background.
    pub open: Option<String>,
}

pub struct NewTask {
    pub info: TaskInfo,
    pub token: Token,
}

/// Where a task is reached. Holds its token.
pub struct TaskAddress {
    pub http_url: String,
    pub ws_url: String,
}

impl Server {
    /// Binds and begins to answer: until a browser is driven, discovery says that it is not there yet. Must run inside a
    /// `LocalSet`. `admin` is the token of the API.
    pub async fn bind(settings: Settings, admin: &Token) -> Result<Server, String> {
        let recorder = match &settings.record_upstream {
            Some(path) => Recorder::create(path)?,
            None => Recorder::default(),
        };
        let launched = settings.engine.origin == BrowserOrigin::Launched;
        let policies = Arc::new(Store::open(settings.policies.clone(), launched)?);
        let auditor = Auditor::open(&settings.audit)?;
        let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
            format!(
                "{} cannot be listened on ({error}); free it or choose another with --listen ADDR:PORT.",
                settings.listen
            )
        })?;
        let local = listener
            .local_addr()
            .map_err(|error| format!("The listening socket has no address ({error}); try another --listen."))?;
        if !local.ip().is_loopback() {
            warn!(
                "Listening on {local}, which other machines may reach; tokens then travel unencrypted unless a proxy \
                    with TLS stands before it."
            );
        }
        let registry = Arc::new(Registry::new(Tokens::new()?, admin));
        let browser_id = Token::draw(&SystemRandom::new())?.reveal().to_owned();
        let (to_driver, commands) = mpsc::unbounded_channel();
        let (to_sockets, newcomers) = mpsc::unbounded_channel();
        let files = Arc::new(TaskFiles::new(settings.engine.tasks_dir.clone()));
        let shared = Arc::new(Shared {
            settings,
            files,
            registry,
            trail: auditor.trail(),
            policies,
            commands: to_driver,
            newcomers: to_sockets,
            local,
            browser_id: uuid(&browser_id),
            next_client: AtomicU64::new(1),
            open: DashMap::new(),
            closed: Notify::new(),
            close_deadline: OnceLock::new(),
        });
        let inbox = Rc::<Inbox>::default();
        tokio::task::spawn_local(client_socket::welcome(newcomers, inbox.clone()));
        let server = Server { shared, commands, inbox, recorder, auditor };
        tokio::task::spawn_local(http::accept(listener, routes::all(&server.handle())));
        tokio::task::spawn_local(reload::watch(server.handle()));
        Ok(server)
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local
    }

    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// Serves this browser until it is lost or [`Handle::drain`] was called.
    pub async fn drive(self, upstream: Upstream) -> Outcome {
        let config = self.shared.settings.engine.clone();
        // The person's browser is never told to close.
        let last_words = (config.origin == BrowserOrigin::Launched).then_some(CLOSE_BROWSER);
        let random = SystemRandom::new();
        let draw = Box::new(move || {
            let mut bytes = [0; 16];
            if random.fill(&mut bytes).is_err() {
                // Session ids that could be guessed would open other tasks' pages: better to end at once.
                std::process::abort();
            }
            bytes
        });
        let engine = Engine::new(config, Instant::now(), draw);
        self.drive_core(Box::new(engine), upstream, last_words).await
    }

    pub(super) async fn drive_core(self, core: Box<dyn Core>, upstream: Upstream, last_words: Option<&str>) -> Outcome {
        let Server { shared, commands, inbox, recorder, auditor } = self;
        let driver =
            Driver::new(core, shared.registry.clone(), commands, inbox, recorder, auditor, shared.files.clone());
        let (outcome, close_deadline) = driver.run(upstream, last_words).await;
        if let Some(deadline) = close_deadline {
            // One server drives one browser, so it is set once.
            let _ = shared.close_deadline.set(deadline);
        }
        outcome
    }
}

impl Handle {
    /// What discovery and the API answer until the browser is there.
    pub fn set_waiting(&self, sentence: &str) {
        self.shared.registry.set_phase(Phase::Waiting(sentence.to_owned()));
    }

    /// The token of a task that will be made when the browser is there: until then its clients are told to wait.
    pub fn expect(&self, token: &Token) {
        self.shared.registry.expect(self.shared.registry.tokens.hash(token));
    }

    /// The tasks that were expected have been made.
    pub fn expect_no_more(&self) {
        self.shared.registry.expect_no_more();
    }

    /// Resolves when tasks may come; `Err` is the sentence that says why they never will.
    pub async fn ready(&self) -> Result<(), String> {
        let mut phases = self.shared.registry.watch_phase();
        let over = "Tabwarden has ended.".to_owned();
        match phases.wait_for(|phase| !matches!(phase, Phase::Waiting(_))).await.map(|phase| phase.clone()) {
            Ok(Phase::Ready(_)) => Ok(()),
            Ok(Phase::Over(why)) => Err(why),
            Ok(Phase::Waiting(_)) | Err(_) => Err(over),
        }
    }

    pub async fn ask(&self, command: AdminCommand) -> Result<AdminReply, AdminError> {
        self.send(command, None).await
    }

    /// With this token, or with a new one.
    pub async fn new_task(&self, plan: TaskPlan, token: Option<Token>) -> Result<NewTask, AdminError> {
        let token = match token {
            Some(token) => token,
            None => self.shared.registry.tokens.draw().map_err(unavailable)?,
        };
        let hash = self.shared.registry.tokens.hash(&token);
        if self.shared.registry.is_taken(&token) {
            return Err(AdminError {
                kind: AdminErrorKind::Conflict,
                message: "This token belongs to another task already; give each task a token file of its own.".into(),
            });
        }
        let TaskPlan { name, context, policy, idle_ttl, labels, open } = plan;
        let policy = self.read_policy(policy, context).await?;
        let spec = TaskSpec { name, context, policy: policy.policies.clone(), idle_ttl, labels, open };
        match self.send(AdminCommand::TaskNew(spec), Some(Box::new(Newborn { token: hash, policy }))).await? {
            AdminReply::Task(info) => {
                if let Err(message) = self.catch_up().await {
                    // It has what held before, and cannot have what holds now.
                    self.ask(AdminCommand::TaskEnd { name: info.name, keep_pages: false }).await?;
                    return Err(AdminError { kind: AdminErrorKind::Conflict, message });
                }
                Ok(NewTask { info, token })
            }
            other => Err(unavailable(format!(
                "The engine answered a new task with {other:?}; report this as a bug of Tabwarden."
            ))),
        }
    }

    /// A new token in place of the old; clients that are connected stay. `None`: no such task.
    pub fn rotate(&self, name: &str) -> Result<Option<Token>, AdminError> {
        let token = self.shared.registry.tokens.draw().map_err(unavailable)?;
        let known = self.shared.registry.rotate(name, self.shared.registry.tokens.hash(&token));
        Ok(known.then_some(token))
    }

    /// As seen from this machine.
    pub fn http_url(&self) -> String {
        self.shared.addresses(&self.local_host()).0
    }

    pub fn address(&self, token: &Token) -> TaskAddress {
        self.shared.address(&self.local_host(), token)
    }

    pub fn drain(&self) {
        // Without a driver there is nothing to let go.
        let _ = self.shared.commands.send(Command::Drain);
    }

    /// Until then a browser that was told to close may write its profile. `None`: it was lost before, or cut off.
    pub fn close_deadline(&self) -> Option<Instant> {
        self.shared.close_deadline.get().copied()
    }

    /// Ends without a browser: whoever asks is told. No client can be there, as none comes in before the browser.
    pub fn give_up(&self, sentence: &str) {
        self.shared.registry.set_phase(Phase::Over(sentence.to_owned()));
    }

    /// Until the clients took their close frames, or so long.
    pub async fn clients_gone(&self, patience: Duration) {
        let gone = async {
            while !self.shared.open.is_empty() {
                self.shared.closed.notified().await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
    }

    /// The browser that is there, or why none is.
    pub(super) fn browser(&self) -> Result<StatusInfo, Refusal> {
        match self.shared.registry.phase() {
            Phase::Ready(status) => Ok(status),
            Phase::Waiting(why) | Phase::Over(why) => {
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why))
            }
        }
    }

    async fn send(&self, command: AdminCommand, new: Option<Box<Newborn>>) -> Result<AdminReply, AdminError> {
        match self.shared.registry.phase() {
            Phase::Ready(_) => {}
            Phase::Waiting(why) | Phase::Over(why) => return Err(unavailable(why)),
        }
        let (reply, answer) = oneshot::channel();
        // Dropped unsent when the driver has ended, and then `reply` with it.
        let _ = self.shared.commands.send(Command::Admin { command, new, reply });
        answer
            .await
            .unwrap_or_else(|_| Err(unavailable("Tabwarden ended before this was done; start it again.".into())))
    }

    fn local_host(&self) -> String {
        let local = self.shared.local;
        match local.ip() {
            // An unspecified address is no destination.
            ip if ip.is_unspecified() => format!("127.0.0.1:{}", local.port()),
            _ => local.to_string(),
        }
    }
}

impl Shared {
    pub fn next_client(&self) -> ClientId {
        ClientId(self.next_client.fetch_add(1, Ordering::Relaxed))
    }

    pub fn welcome(&self, newcomer: Newcomer) -> Result<(), Refusal> {
        self.newcomers
            .send(newcomer)
            .map_err(|_| unavailable("Tabwarden is shutting down; start it again.".into()).into())
    }

    /// The bases of http and ws URLs, without a slash at the end. `host` has passed admission.
    pub fn addresses(&self, host: &str) -> (String, String) {
        let http = match &self.settings.public_url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("http://{host}"),
        };
        // http → ws, https → wss
        let ws = http.replacen("http", "ws", 1);
        (http, ws)
    }

    pub fn address(&self, host: &str, token: &Token) -> TaskAddress {
        let (http, ws) = self.addresses(host);
        let token = token.reveal();
        TaskAddress {
            http_url: format!("{http}/t/{token}"),
            ws_url: format!("{ws}/t/{token}/devtools/browser/tabwarden"),
        }
    }
}

fn unavailable(message: String) -> AdminError {
    AdminError { kind: AdminErrorKind::Unavailable, message }
}

/// Chromium writes this id with dashes.
fn uuid(hex: &str) -> String {
    let part = |range: std::ops::Range<usize>| hex.get(range).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0..8), part(8..12), part(12..16), part(16..20), part(20..32))
}
