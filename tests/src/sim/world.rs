//! One run: the engine between the model browser and the clients, one step after the other, all drawn from the seed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ownership::id::{ClientId, DownloadId, TaskId};
use policy::Policies;
use router::engine::Engine;
use router::engine::io::{
    AdminCommand, AdminError, AdminReply, AdminRequest, BrowserOrigin, FileWork, Input, Kept, Output, RealPath,
    TaskContext, TaskSpec,
};

use super::browser::{Browser, FORBIDDEN, Incoming, Said};
use super::check::{Belongs, Check, Checker, Rule, broken};
use super::client::Client;
use super::commands::Generator;
use super::log::Log;
use super::rng::Rng;
use super::tamper::{Fault, Subject};
use super::truth::{ClientNo, TaskNo};
use crate::trace;

/// Parsed once: so many runs would read the same text anew.
static POLICIES: LazyLock<[Arc<Policies>; 2]> =
    LazyLock::new(|| [trace::policy_without(&[]), trace::policy_without(&[FORBIDDEN])]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Active,
    /// Its end was asked for, or its time ran out.
    Ending,
    Gone,
}

pub struct TaskState {
    pub id: Option<TaskId>,
    pub name: String,
    pub shared: bool,
    pub phase: Phase,
    /// `--keep-pages`: what it has in the profile stays as the person's.
    pub keep: bool,
}

/// What an admin request is about.
#[derive(Clone, Copy)]
enum Asked {
    New(TaskNo),
    Other,
}

pub struct World {
    pub rng: Rng,
    pub subject: Subject,
    pub browser: Browser,
    pub clients: Vec<Client>,
    pub tasks: Vec<TaskState>,
    pub log: Log,
    checker: Checker,
    pub now: Instant,
    asked: BTreeMap<u64, Asked>,
    next_request: u64,
    /// The task for which the engine acts in what it does at the moment.
    cause: Option<TaskNo>,
    pub lost: bool,
    pub drained: usize,
    /// Downloads that the server is moving about.
    moving: Vec<DownloadId>,
    finding: Vec<(u64, Vec<PathBuf>)>,
}

impl World {
    pub fn new(seed: u64, fault: Option<Fault>, log: Log) -> World {
        let mut rng = Rng::new(seed);
        let now = Instant::now();
        let origin = if rng.chance(50) { BrowserOrigin::Launched } else { BrowserOrigin::Attached };
        World {
            rng,
            subject: Subject::new(Engine::new(trace::config(origin), now, trace::counter()), fault),
            browser: Browser::new(seed),
            clients: Vec::new(),
            tasks: Vec::new(),
            log,
            checker: Checker::default(),
            now,
            asked: BTreeMap::new(),
            next_request: 1,
            cause: None,
            lost: false,
            drained: 0,
            moving: Vec::new(),
            finding: Vec::new(),
        }
    }

    pub fn start(&mut self) -> Check {
        self.subject.engine.start(self.now);
        self.drain()?;
        self.settle()
    }

    // --- inputs -------------------------------------------------------------------------------------------------

    /// The server hands over what it has read in one go and takes the outputs after that: so do we, with up to `batch`
    /// frames at a time.
    pub fn deliver(&mut self, batch: usize) -> Check {
        if self.rng.chance(70) {
            self.files_are_moved()?;
        }
        for _ in 0..batch {
            let Some(Said { text, on_root }) = self.browser.outbox.pop_front() else { break };
            // What comes on a session that the engine has given up, it does not read.
            if on_root {
                self.browser.truth.see(&text);
            }
            self.log.frame("b>", &text);
            self.subject.handle(self.now, Input::BrowserFrame { text: &text });
        }
        self.drain()
    }

    pub fn files_are_moved(&mut self) -> Check {
        for download in std::mem::take(&mut self.moving) {
            let outcome = match self.rng.chance(80) {
                true => Ok(Kept { path: format!("/tasks/t/files/{download}").into(), placed: Vec::new() }),
                false => Err("the seed says so".to_owned()),
            };
            self.log.line(|| format!("kept {}", self.browser.truth.shorten(download.as_str())));
            self.subject.handle(self.now, Input::DownloadKept { download, outcome });
        }
        self.drain()
    }

    pub fn is_moving_files(&self) -> bool {
        !self.moving.is_empty()
    }

    pub fn join(&mut self, task: TaskNo, cooperative: bool) -> Check {
        let Some(id) = self.tasks[task].id else { return Ok(()) };
        let no = self.clients.len();
        self.log.line(|| format!("join c{no} {}", self.tasks[task].name));
        self.clients.push(Client::new(no, task, cooperative));
        self.cause = Some(task);
        let input = Input::ClientJoined { client: ClientId(no as u64), task: id, user_agent: "sim".into() };
        self.subject.handle(self.now, input);
        self.drain()?;
        if self.clients[no].connected && self.rng.chance(85) {
            let (client, truth) = (&mut self.clients[no], &self.browser.truth);
            let frames = Generator { rng: &mut self.rng, client, truth }.connect();
            self.send(no, frames)?;
        }
        Ok(())
    }

    pub fn leave(&mut self, no: ClientNo) -> Check {
        self.log.line(|| format!("leave c{no}"));
        self.clients[no].connected = false;
        self.subject.handle(self.now, Input::ClientLeft { client: ClientId(no as u64) });
        self.drain()
    }

    pub fn client_says(&mut self, no: ClientNo) -> Check {
        let mut generator = Generator { rng: &mut self.rng, client: &mut self.clients[no], truth: &self.browser.truth };
        let frames = generator.frames();
        self.send(no, frames)
    }

    /// The client goes on with what it was given.
    pub fn client_runs(&mut self, no: ClientNo) -> Check {
        let client = &mut self.clients[no];
        let Some(session) = client.next_to_run() else { return Ok(()) };
        let frames = Generator { rng: &mut self.rng, client, truth: &self.browser.truth }.run(&session);
        self.send(no, frames)
    }

    fn send(&mut self, no: ClientNo, frames: Vec<String>) -> Check {
        for text in frames {
            self.log.frame(&format!("c{no}>"), &text);
            self.subject.handle(self.now, Input::ClientFrame { client: ClientId(no as u64), text: &text });
        }
        self.drain()
    }

    pub fn new_task(&mut self, shared: bool, denies: bool) -> Check {
        let no = self.tasks.len();
        let name = format!("t{}", no % 5);
        self.log.line(|| format!("task {name} {}", if shared { "shared" } else { "isolated" }));
        if denies {
            self.browser.denying.insert(no);
        }
        let spec = TaskSpec {
            name: Some(name.clone()),
            context: if shared { TaskContext::Shared } else { TaskContext::Isolated },
            policy: POLICIES[usize::from(denies)].clone(),
            idle_ttl: self.rng.chance(30).then_some(Duration::from_secs(60)),
            labels: BTreeMap::new(),
            open: self.rng.chance(20).then(|| "https://a.test/open".to_owned()),
        };
        self.tasks.push(TaskState { id: None, name, shared, phase: Phase::Starting, keep: false });
        self.cause = Some(no);
        self.admin(AdminCommand::TaskNew(spec), Asked::New(no))
    }

    pub fn end_task(&mut self, no: TaskNo, keep_pages: bool) -> Check {
        let task = &mut self.tasks[no];
        task.keep |= keep_pages && task.phase == Phase::Active;
        if task.phase != Phase::Gone {
            task.phase = Phase::Ending;
        }
        let name = task.name.clone();
        self.log.line(|| format!("end {name} keep={keep_pages}"));
        self.admin(AdminCommand::TaskEnd { name, keep_pages }, Asked::Other)
    }

    pub fn look(&mut self) -> Check {
        let command = match (self.rng.below(3), self.rng.pick(&self.tasks)) {
            (0, Some(task)) => AdminCommand::TaskShow(task.name.clone()),
            (1, _) => AdminCommand::TaskList,
            _ => AdminCommand::Status,
        };
        self.admin(command, Asked::Other)
    }

    fn admin(&mut self, command: AdminCommand, about: Asked) -> Check {
        let request = AdminRequest(self.next_request);
        self.next_request += 1;
        self.asked.insert(request.0, about);
        self.subject.handle(self.now, Input::Admin { request, command });
        self.drain()
    }

    pub fn pass(&mut self, time: Duration) -> Check {
        self.now += time;
        if self.subject.engine.poll_timeout().is_some_and(|due| due <= self.now) {
            self.log.line(|| "tick".to_owned());
            self.subject.handle(self.now, Input::Tick);
            self.drain()?;
        }
        Ok(())
    }

    pub fn lose(&mut self) -> Check {
        self.log.line(|| "lost".to_owned());
        self.lost = true;
        self.subject.handle(self.now, Input::BrowserLost { reason: "the seed says so".into() });
        self.drain()
    }

    pub fn shut_down(&mut self) -> Check {
        self.log.line(|| "drain".to_owned());
        self.subject.handle(self.now, Input::Drain);
        self.drain()
    }

    // --- outputs ------------------------------------------------------------------------------------------------

    fn drain(&mut self) -> Check {
        self.checker.batch_begins();
        loop {
            while let Some(output) = self.subject.poll_output(&self.browser) {
                self.output(output)?;
            }
            // The server keeps the client's later commands back meanwhile, as if it had the answer at once.
            let Some((request, paths)) = self.finding.pop() else { break };
            let found = paths.into_iter().map(|path| Ok(RealPath { path, links_to: Vec::new() })).collect();
            self.subject.handle(self.now, Input::PathsFound { request, found });
        }
        self.cause = None;
        match self.browser.remarks.first() {
            Some(remark) => broken(Rule::Gates, *remark),
            None => Ok(()),
        }
    }

    pub fn belongs(&self, task: TaskNo) -> Belongs {
        Belongs { task, shared: self.tasks[task].shared }
    }

    fn output(&mut self, output: Output) -> Check {
        match output {
            Output::ToClient { client, text } => {
                let no = client.0 as usize;
                self.log.frame(&format!("  c{no}<"), &text);
                let Some(task) = self.clients.get(no).map(|client| client.task) else { return Ok(()) };
                let who = self.belongs(task);
                self.checker.delivery(&mut self.clients[no], who, &text, &self.browser)?;
                self.browser.truth.see(&text);
            }
            Output::ToBrowser { text, on_behalf } => {
                self.log.command(&text, on_behalf);
                let who = on_behalf.map(|client| client.0 as usize);
                let belongs = who.map(|no| (no, self.belongs(self.clients[no].task)));
                self.checker.sending(&text, belongs, &mut self.browser)?;
                let cause = belongs.map(|(_, belongs)| belongs.task).or(self.cause);
                self.browser.inbox.push_back(Incoming { text, on_behalf: who, cause });
            }
            Output::CloseClient { client, code, reason } => {
                let no = client.0 as usize;
                self.log.line(|| format!("  close c{no} {} {reason}", code.number()));
                if let Some(client) = self.clients.get_mut(no) {
                    client.connected = false;
                }
            }
            Output::AdminReply { request, reply } => self.replied(request, reply)?,
            Output::TaskEnded { task, name } => {
                self.log.line(|| format!("  gone {name}"));
                if let Some(no) = self.tasks.iter().position(|state| state.id == Some(task)) {
                    self.tasks[no].phase = Phase::Gone;
                    self.browser.let_downloads_go(no);
                }
            }
            Output::Files(FileWork::Keep(work)) => self.moving.push(work.download),
            Output::Files(FileWork::FindPaths { request, paths, .. }) => {
                self.finding.push((request, paths));
            }
            Output::Files(_) => {}
            Output::Drained => self.drained += 1,
            Output::Fatal { reason } => return broken(Rule::Gates, format!("fatal: {reason}")),
            Output::Ready | Output::Audit(_) => {}
            Output::Record(record) => self.log.line(|| format!("  note {:?} {}", record.kind, record.message)),
        }
        Ok(())
    }

    fn replied(&mut self, request: AdminRequest, reply: Result<AdminReply, AdminError>) -> Check {
        self.log.line(|| match &reply {
            Ok(reply) => format!("  api {} ok {}", request.0, matches!(reply, AdminReply::Ended)),
            Err(error) => format!("  api {} {}", request.0, error.message),
        });
        let Some(about) = self.asked.remove(&request.0) else {
            return broken(Rule::AdminAnswered, format!("request {} is answered twice", request.0));
        };
        if let Asked::New(no) = about {
            let state = &mut self.tasks[no];
            match reply {
                Ok(AdminReply::Task(info)) => {
                    state.id = Some(info.id);
                    if state.phase == Phase::Starting {
                        state.phase = Phase::Active;
                    }
                }
                _ => state.phase = Phase::Gone,
            }
        }
        Ok(())
    }

    pub fn unanswered_requests(&self) -> usize {
        self.asked.len()
    }
}
