//! The loop between sockets and engine: read a batch, handle it, write once to each that got something.
//!
//! The browser's frames go first: they hold the targets that wait for us, the person's among them.

mod file_work;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ownership::id::{ClientId, TaskId};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

use file_work::Done;

use super::audit::Auditor;
use super::inbox::{Arrival, ClientChannel, Inbox};
use super::policies::Applied;
use super::record::Recorder;
use super::registry::{Entry, Phase, Registry};
use super::socket::Utf8Bytes;
use super::task_files::TaskFiles;
use super::token::TokenHash;
use super::upstream::{self, MAX_TO_BROWSER, SendQueue, Upstream, UpstreamReader};
use crate::engine::Engine;
use crate::engine::io::{
    AdminCommand, AdminError, AdminReply, AdminRequest, CloseCode, Input, Output, Record, RecordKind,
};

/// Messages of clients are left where they are while so much waits for the browser.
const MAX_BACKLOG: usize = 16 << 20;

/// So many messages of clients are handled before the browser's turn comes again.
const CLIENT_BATCH: usize = 512;

/// The engine gets so long to let everything go, and then clients to take their last messages.
const DRAIN_PATIENCE: Duration = Duration::from_secs(3);

/// A browser that stays takes its last commands in this time.
const PARTING_PATIENCE: Duration = Duration::from_secs(1);

/// What the driver needs of the engine, so that tests of the server can do without a browser.
pub trait Core {
    fn start(&mut self, now: Instant);
    fn handle(&mut self, now: Instant, input: Input<'_>);
    fn poll_output(&mut self) -> Option<Output>;
    fn poll_timeout(&self) -> Option<Instant>;
}

impl Core for Engine {
    fn start(&mut self, now: Instant) {
        Engine::start(self, now);
    }
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        Engine::handle(self, now, input);
    }
    fn poll_output(&mut self) -> Option<Output> {
        Engine::poll_output(self)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        Engine::poll_timeout(self)
    }
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// As asked for.
    Drained,
    BrowserLost(String),
    /// The browser cannot be served safely.
    Fatal(String),
}

/// What the HTTP side and the owner of the server want; it overtakes the messages of clients.
pub enum Command {
    /// `new`: of the task that is to be made.
    Admin {
        command: AdminCommand,
        new: Option<Box<Newborn>>,
        reply: oneshot::Sender<Result<AdminReply, AdminError>>,
    },
    Drain,
}

/// What the engine does not know of a new task.
pub struct Newborn {
    pub token: TokenHash,
    pub policy: Applied,
}

struct Client {
    channel: Rc<ClientChannel>,
    task: TaskId,
    /// Something is queued that its socket has not been told of.
    dirty: bool,
    /// Paths of its that are looked for; what it says meanwhile comes after them.
    looking: usize,
    later: VecDeque<Utf8Bytes>,
}

enum Waiting {
    Http {
        new: Option<Box<Newborn>>,
        reply: oneshot::Sender<Result<AdminReply, AdminError>>,
    },
    /// Our own question after [`Output::Ready`].
    Version,
}

pub struct Driver {
    core: Box<dyn Core>,
    registry: Arc<Registry>,
    commands: UnboundedReceiver<Command>,
    inbox: Rc<Inbox>,
    queue: Rc<SendQueue>,
    recorder: Recorder,
    auditor: Auditor,
    files: Arc<TaskFiles>,
    /// From the threads that move files.
    done: UnboundedReceiver<Done>,
    to_done: UnboundedSender<Done>,
    clients: FxHashMap<ClientId, Client>,
    dirty: Vec<ClientId>,
    waiting: FxHashMap<u64, Waiting>,
    next_request: u64,
    task_names: FxHashMap<TaskId, String>,
    outcome: Option<Outcome>,
    /// Set when draining: it ends then at the latest.
    deadline: Option<Instant>,
}

impl Driver {
    pub fn new(
        core: Box<dyn Core>,
        registry: Arc<Registry>,
        commands: UnboundedReceiver<Command>,
        inbox: Rc<Inbox>,
        recorder: Recorder,
        auditor: Auditor,
        files: Arc<TaskFiles>,
    ) -> Driver {
        let (to_done, done) = mpsc::unbounded_channel();
        Driver {
            core,
            registry,
            commands,
            inbox,
            queue: Rc::default(),
            recorder,
            auditor,
            files,
            done,
            to_done,
            clients: FxHashMap::default(),
            dirty: Vec::new(),
            waiting: FxHashMap::default(),
            next_request: 0,
            task_names: FxHashMap::default(),
            outcome: None,
            deadline: None,
        }
    }

    /// Runs until the browser is lost or everything was let go. `last_words`: a frame for the browser when all is over;
    /// the instant is when its time for obeying it ends.
    pub async fn run(mut self, upstream: Upstream, last_words: Option<&str>) -> (Outcome, Option<Instant>) {
        let (mut reader, writing) = upstream::open(upstream, self.queue.clone(), self.inbox.clone());
        tokio::pin!(writing);
        self.core.start(Instant::now());
        self.dispatch();
        let timer = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(timer);
        let mut writable = true;
        while self.outcome.is_none() {
            self.flush();
            let due = [self.core.poll_timeout(), self.deadline].into_iter().flatten().min();
            if let Some(due) = due
                && timer.deadline().into_std() != due
            {
                timer.as_mut().reset(due.into());
            }
            let (mut lost, mut command) = (None, None);
            tokio::select! {
                biased;
                filled = reader.fill() => lost = filled.err(),
                Some(came) = self.commands.recv() => command = Some(came),
                Some(done) = self.done.recv() => self.files_done(done),
                () = self.inbox.woken() => {}
                () = &mut timer, if due.is_some() => self.tick(),
                reason = &mut writing, if writable => {
                    // The reader finds the end too, after what the browser said before it.
                    writable = false;
                    debug!("{reason}");
                }
            }
            self.browser_batch(&mut reader);
            if let Some(reason) = lost {
                self.core.handle(Instant::now(), Input::BrowserLost { reason: reason.clone() });
                self.outcome.get_or_insert(Outcome::BrowserLost(reason));
                self.dispatch();
            }
            self.commands(command);
            self.client_batch();
        }
        self.flush();
        let outcome = self.outcome.take().unwrap_or(Outcome::Drained);
        self.end(&outcome);
        let mut close_deadline = None;
        if !matches!(outcome, Outcome::BrowserLost(_)) {
            if let Some(words) = last_words {
                self.recorder.sent(None, None, words);
                self.recorder.flush();
                self.queue.push(words.to_owned());
            }
            self.queue.finish();
            // Read on until the end: a browser that cannot write does not close, and a connection that is dropped with
            // unread input is reset, which can undo what was written last.
            let ending = async {
                loop {
                    tokio::select! {
                        filled = reader.fill() => if filled.is_err() { break },
                        _ = &mut writing, if writable => writable = false,
                    }
                    while reader.next_frame().is_some() {}
                }
            };
            let now = Instant::now();
            close_deadline = last_words.is_some().then(|| now + super::CLOSE_PATIENCE);
            let until = close_deadline.unwrap_or(now + PARTING_PATIENCE);
            let _ = tokio::time::timeout_at(until.into(), ending).await;
        }
        (outcome, close_deadline)
    }

    fn tick(&mut self) {
        let now = Instant::now();
        self.core.handle(now, Input::Tick);
        self.dispatch();
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            warn!("Not everything was let go within {} s; ending all the same.", DRAIN_PATIENCE.as_secs());
            self.outcome.get_or_insert(Outcome::Drained);
        }
    }

    /// Outputs are taken after the whole batch, so that the release of a held target does not wait behind other work.
    fn browser_batch(&mut self, reader: &mut UpstreamReader) {
        let now = Instant::now();
        while let Some(frame) = reader.next_frame() {
            self.recorder.received(frame.text());
            self.core.handle(now, Input::BrowserFrame { text: frame.text() });
        }
        self.dispatch();
    }

    fn commands(&mut self, mut first: Option<Command>) {
        while let Some(command) = first.take().or_else(|| self.commands.try_recv().ok()) {
            match command {
                Command::Admin { command, new, reply } => self.ask(command, Waiting::Http { new, reply }),
                Command::Drain if self.deadline.is_none() => {
                    let now = Instant::now();
                    self.deadline = Some(now + DRAIN_PATIENCE);
                    self.registry.set_phase(Phase::Over("Tabwarden is shutting down; start it again.".into()));
                    self.core.handle(now, Input::Drain);
                    self.dispatch();
                }
                Command::Drain => {}
            }
        }
    }

    fn ask(&mut self, command: AdminCommand, waiting: Waiting) {
        let request = AdminRequest(self.next_request);
        self.next_request += 1;
        self.waiting.insert(request.0, waiting);
        self.core.handle(Instant::now(), Input::Admin { request, command });
        self.dispatch();
    }

    fn client_batch(&mut self) {
        let now = Instant::now();
        for _ in 0..CLIENT_BATCH {
            if self.queue.backlog() > MAX_BACKLOG {
                // The writer wakes us when there is room.
                return;
            }
            let Some(arrival) = self.inbox.next_arrival() else { return };
            match arrival {
                Arrival::Joined { channel, task, user_agent } => {
                    let client = channel.id;
                    self.clients
                        .insert(client, Client { channel, task, dirty: false, looking: 0, later: VecDeque::new() });
                    self.core.handle(now, Input::ClientJoined { client, task, user_agent });
                }
                Arrival::Frame { client, text } => {
                    // A client that was closed meanwhile is not heard any more.
                    let Some(known) = self.clients.get_mut(&client) else { continue };
                    if known.looking > 0 {
                        // Not `taken`: its socket is not read when this grows.
                        known.later.push_back(text);
                        continue;
                    }
                    known.channel.taken(text.len());
                    self.core.handle(now, Input::ClientFrame { client, text: &text });
                }
                Arrival::Left { client } => {
                    if self.clients.remove(&client).is_some() {
                        self.core.handle(now, Input::ClientLeft { client });
                    }
                }
            }
            self.dispatch();
        }
        self.inbox.wake();
    }

    /// Carries out what the engine wants.
    fn dispatch(&mut self) {
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::ToClient { client, text } => self.deliver(client, text),
                Output::ToBrowser { text, on_behalf } => self.transmit(text, on_behalf),
                Output::CloseClient { client, code, reason } => {
                    if let Some(gone) = self.clients.remove(&client) {
                        gone.channel.close(code.number(), reason);
                    }
                }
                Output::AdminReply { request, reply } => self.reply(request, reply),
                Output::Ready => self.ask_version(),
                Output::TaskEnded { task, name } => {
                    info!("The task {name} has ended.");
                    self.registry.remove(task);
                    self.task_names.remove(&task);
                    if let Some(dir) = self.files.forget(&name) {
                        tokio::task::spawn_blocking(move || std::fs::remove_dir_all(dir));
                    }
                    self.auditor.trail().forget(task);
                }
                Output::Fatal { reason } => {
                    self.outcome.get_or_insert(Outcome::Fatal(reason));
                }
                Output::Drained => {
                    self.outcome.get_or_insert(Outcome::Drained);
                }
                Output::Record(record) => self.log(&record),
                Output::Files(work) => self.file_work(work),
                Output::Audit(audit) => self.auditor.take(&audit),
            }
        }
    }

    fn deliver(&mut self, client: ClientId, text: String) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        if known.channel.queue(text) {
            if !known.dirty {
                known.dirty = true;
                self.dirty.push(client);
            }
        } else {
            self.over_limit(
                client,
                "Too much is waiting for this client, which does not read; read faster or ask for less.",
            );
        }
    }

    fn transmit(&mut self, text: String, on_behalf: Option<ClientId>) {
        if text.len() > MAX_TO_BROWSER {
            match on_behalf {
                Some(client) => self.over_limit(client, "A command was too long for the browser; send less at once."),
                None => warn!(
                    "A frame of {} bytes was not sent, as it is too long for the browser; report this as a bug of \
                        Tabwarden.",
                    text.len()
                ),
            }
            return;
        }
        let task =
            on_behalf.and_then(|client| self.clients.get(&client)).and_then(|client| self.task_names.get(&client.task));
        self.recorder.sent(on_behalf, task.map(String::as_str), &text);
        self.queue.push(text);
    }

    /// Its outputs follow in the running [`Self::dispatch`].
    fn over_limit(&mut self, client: ClientId, reason: &str) {
        if let Some(gone) = self.clients.remove(&client) {
            gone.channel.discard_and_close(CloseCode::Limit.number(), reason.to_owned());
            self.core.handle(Instant::now(), Input::ClientLeft { client });
        }
    }

    fn ask_version(&mut self) {
        let request = AdminRequest(self.next_request);
        self.next_request += 1;
        self.waiting.insert(request.0, Waiting::Version);
        self.core.handle(Instant::now(), Input::Admin { request, command: AdminCommand::Status });
    }

    fn reply(&mut self, request: AdminRequest, reply: Result<AdminReply, AdminError>) {
        match self.waiting.remove(&request.0) {
            Some(Waiting::Http { new, reply: to }) => {
                // Known before anything else happens: the task may end with the next output.
                if let (Ok(AdminReply::Task(task)), Some(new)) = (&reply, new) {
                    let Newborn { token, policy } = *new;
                    let entry = Entry { hash: token, name: task.name.clone(), policy };
                    self.registry.insert(task.id, entry);
                    self.task_names.insert(task.id, task.name.clone());
                    info!("The task {} is there.", task.name);
                }
                // The one who asked may have hung up.
                let _ = to.send(reply);
            }
            Some(Waiting::Version) => match reply {
                Ok(AdminReply::Status(status)) => self.registry.set_phase(Phase::Ready(status)),
                Ok(_) => {
                    self.outcome.get_or_insert(Outcome::Fatal(
                        "the engine gave no status; report this as a bug of Tabwarden".into(),
                    ));
                }
                Err(error) => {
                    self.outcome.get_or_insert(Outcome::Fatal(error.message));
                }
            },
            None => debug!("An answer to no question: {}", request.0),
        }
    }

    fn log(&self, record: &Record) {
        let span = record.client.and_then(|client| self.clients.get(&client)).map(|client| client.channel.span.clone());
        let task = record.task.and_then(|task| self.task_names.get(&task)).map(String::as_str);
        span.unwrap_or_else(tracing::Span::none).in_scope(|| match record.kind {
            RecordKind::Odd => warn!(task, "{}", record.message),
            kind => info!(task, ?kind, "{}", record.message),
        });
    }

    /// One write for each that got something.
    fn flush(&mut self) {
        self.recorder.flush();
        self.auditor.flush();
        self.queue.flush();
        for client in self.dirty.drain(..) {
            if let Some(client) = self.clients.get_mut(&client) {
                client.dirty = false;
                client.channel.flush();
            }
        }
    }

    /// Whoever the engine has not closed is closed here, and whoever waits is told by the dropped channel.
    fn end(&mut self, outcome: &Outcome) {
        let (code, reason, phase) = match outcome {
            Outcome::Drained => (CloseCode::Shutdown, "Tabwarden is shutting down; start it again.".to_owned(), None),
            Outcome::BrowserLost(reason) => {
                (CloseCode::BrowserGone, reason.clone(), Some(format!("{reason} Start Tabwarden again.")))
            }
            Outcome::Fatal(reason) => {
                (CloseCode::BrowserGone, reason.clone(), Some(format!("This browser cannot be served: {reason}.")))
            }
        };
        if let Some(phase) = phase {
            self.registry.set_phase(Phase::Over(phase));
        }
        for (_, client) in self.clients.drain() {
            client.channel.close(code.number(), reason.clone());
        }
        self.waiting.clear();
        self.commands.close();
        while self.commands.try_recv().is_ok() {}
        self.inbox.shut(code.number(), &reason);
    }
}
