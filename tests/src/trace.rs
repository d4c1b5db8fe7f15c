//! Readable traces: a scripted browser and scripted clients on both sides of the engine, one claim a file.
//!
//! A trace is a list of inputs, one a line; below each stand, indented, the outputs that it led to. `TRACES=update` writes
//! the outputs anew (read the difference before you commit it). Ids of calls are left out, since they mean nothing:
//! `b> reply METHOD` answers the oldest unanswered command of that method.
//!
//! ```text
//! # comment
//! start [headed]                          the root gates are put up and answered
//! task NAME isolated|shared [deny=HOST] [download_mib=N] [ttl=SECONDS]
//! join c1 NAME      leave c1      end NAME [keep]      after SECONDS      lost
//! page P1 [context=CTX] [opener=P0] [url=URL]    a page appears (guard session G-P1) and takes its gates
//! attached P1 R1                          the oldest attachToTarget for P1 is answered, with the session R1
//! kept GUID PATH [c1=PATH|c2=!WHY]        a download is in the task's directory, and at these places   kept GUID !WHY
//! found PATH[>LINKED] !WHY                where the paths are that are looked for, and where links in them lead
//! c1> ID METHOD JSON [@SESSION]           c1>> RAW TEXT
//! b> event METHOD JSON [@SESSION]         b> reply METHOD JSON         b> error METHOD CODE TEXT      b>> RAW TEXT
//!   b< METHOD JSON [@SESSION] [for c1]    c1< ID result JSON           c1< ID error CODE TEXT         c1< event METHOD JSON
//! ```
//!
//! Sessions that the engine makes up are shown as `S1`, `S2`, … in the order of their making.

mod files;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ownership::id::{ClientId, TaskId};
use policy::{Policies, Policy};
use router::engine::Engine;
use router::engine::io::{
    AdminCommand, AdminReply, AdminRequest, BrowserOrigin, EngineConfig, Input, Output, RecordKind, TaskContext,
    TaskSpec,
};
use serde_json::{Value, json};

pub fn config(origin: BrowserOrigin) -> EngineConfig {
    EngineConfig {
        origin,
        max_tasks: 3,
        read_dirs: vec![PathBuf::from("/granted")],
        reads_by_default: true,
        write_dirs: Vec::new(),
        tasks_dir: PathBuf::from("/tasks"),
        temp_dir: PathBuf::from("/tmp"),
        return_focus: true,
        audit_prefix: "t".to_owned(),
        born_unix_ms: 1_700_000_000_000,
    }
}

/// 128 bits that count, so that traces are the same at each run.
pub fn counter() -> Box<dyn FnMut() -> [u8; 16]> {
    let mut n: u128 = 0;
    Box::new(move || {
        n += 1;
        n.to_be_bytes()
    })
}

/// The policy of a trace: everything on http(s) but these hosts.
pub fn policy_without(hosts: &[&str]) -> Arc<Policies> {
    policy_with(hosts, "")
}

fn policy_with(hosts: &[&str], more: &str) -> Arc<Policies> {
    let mut text = include_str!("../../policies/default.toml").to_owned();
    text.push_str(more);
    for (n, host) in hosts.iter().enumerate() {
        let _ = write!(
            text,
            "\n[[rule]]\nid = \"no-{n}\"\neffect = \"deny\"\nverbs = [\"*\"]\nto = {{ host = \"{host}\" }}\nschemes = [\"http\", \"https\"]\nports = \"*\"\nreason = \"a trace says so\"\n"
        );
    }
    let policy = Policy::parse(&text, "trace.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    Arc::new(Policies::from(Arc::new(policy)))
}

struct Unanswered {
    id: i64,
    method: String,
    session: Option<String>,
    params: Value,
}

pub struct Runner {
    engine: Engine,
    now: Instant,
    unanswered: Vec<Unanswered>,
    tasks: BTreeMap<String, TaskId>,
    requests: u64,
    output: Vec<String>,
    /// Requests for paths that wait for `found`.
    looking: VecDeque<u64>,
}

fn client(name: &str) -> ClientId {
    ClientId(name.trim_start_matches('c').parse().unwrap_or_else(|_| panic!("{name} is not a client")))
}

/// Trailing `@SESSION` taken off.
fn session_of(rest: &str) -> (&str, Option<&str>) {
    match rest.rsplit_once(" @") {
        Some((rest, session)) if !session.contains(' ') && !session.contains('"') => (rest, Some(session)),
        _ => (rest, None),
    }
}

fn to_real(text: &str) -> String {
    // S1 → the id that the engine drew first.
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\"S") {
        let digits: String = rest[at + 2..].chars().take_while(char::is_ascii_digit).collect();
        let end = at + 2 + digits.len();
        if !digits.is_empty() && rest[end..].starts_with('"') {
            let n: u128 = digits.parse().unwrap_or_default();
            let _ = write!(out, "{}\"{n:032X}\"", &rest[..at]);
            rest = &rest[end + 1..];
        } else {
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

fn shown(text: &str) -> String {
    let mut out = text.to_owned();
    for n in (1..60u128).rev() {
        out = out.replace(&format!("{n:032X}"), &format!("S{n}"));
    }
    out
}

impl Runner {
    pub fn new(origin: BrowserOrigin) -> Runner {
        let now = Instant::now();
        Runner {
            engine: Engine::new(config(origin), now, counter()),
            now,
            unanswered: Vec::new(),
            tasks: BTreeMap::new(),
            requests: 0,
            output: Vec::new(),
            looking: VecDeque::new(),
        }
    }

    /// The whole trace, with its outputs as they are now.
    pub fn run(text: &str) -> String {
        let origin = if text.lines().any(|line| line.trim() == "attached-browser") {
            BrowserOrigin::Attached
        } else {
            BrowserOrigin::Launched
        };
        let mut runner = Runner::new(origin);
        let mut rendered = String::new();
        for line in text.lines() {
            if line.starts_with("  ") {
                continue;
            }
            rendered.push_str(line);
            rendered.push('\n');
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line == "attached-browser" {
                continue;
            }
            runner.step(line);
            for output in runner.output.drain(..) {
                let _ = writeln!(rendered, "  {output}");
            }
        }
        rendered
    }

    fn step(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "start" => self.start(if rest == "headed" { "UA" } else { "Headless UA" }),
            "task" => self.task(rest),
            "join" => {
                let (name, task) = rest.split_once(' ').expect("join CLIENT TASK");
                let task = self.tasks[task];
                self.input(Input::ClientJoined { client: client(name), task, user_agent: "trace".into() });
            }
            "leave" => self.input(Input::ClientLeft { client: client(rest) }),
            "end" => {
                let (name, keep) = rest.split_once(' ').unwrap_or((rest, ""));
                let command = AdminCommand::TaskEnd { name: name.into(), keep_pages: keep == "keep" };
                self.admin(command);
            }
            "show" => self.admin(AdminCommand::TaskShow(rest.into())),
            "after" => {
                self.now += Duration::from_secs(rest.parse().expect("seconds"));
                self.input(Input::Tick);
            }
            "lost" => self.input(Input::BrowserLost { reason: "the trace says so".into() }),
            "drain" => self.input(Input::Drain),
            "kept" => self.kept(rest),
            "found" => self.found(rest),
            "page" => self.page(rest),
            "attached" => self.attached(rest),
            "b>>" => self.input(Input::BrowserFrame { text: rest }),
            "b>" => self.browser(rest),
            word if word.ends_with(">>") => {
                self.input(Input::ClientFrame { client: client(&word[..word.len() - 2]), text: rest });
            }
            word if word.ends_with('>') => self.client(&word[..word.len() - 1], rest),
            _ => panic!("not a line of a trace: {line}"),
        }
    }

    fn admin(&mut self, command: AdminCommand) {
        self.requests += 1;
        self.input(Input::Admin { request: AdminRequest(self.requests), command });
    }

    fn start(&mut self, user_agent: &str) {
        self.engine.start(self.now);
        self.drain();
        self.output.clear();
        for (method, result) in [
            ("Browser.getVersion", json!({"product": "Chrome/156", "userAgent": user_agent, "protocolVersion": "1.3"})),
            ("Target.getBrowserContexts", json!({"browserContextIds": [], "defaultBrowserContextId": "PROFILE"})),
            ("Target.setDiscoverTargets", json!({})),
            ("Fetch.enable", json!({})),
            ("Target.setAutoAttach", json!({})),
        ] {
            self.reply(method, None, &result);
        }
        assert_eq!(self.output.pop().as_deref(), Some("ready"));
        self.output.clear();
    }

    fn task(&mut self, rest: &str) {
        let mut words = rest.split(' ');
        let name = words.next().expect("a name").to_owned();
        let shared = words.next() == Some("shared");
        let (mut policy, mut idle_ttl) = (policy_without(&[]), None);
        for option in words {
            match option.split_once('=') {
                Some(("deny", host)) => policy = policy_without(&[host]),
                Some(("download_mib", n)) => policy = policy_with(&[], &format!("\n[limits]\ndownload_mib = {n}\n")),
                Some(("ttl", seconds)) => idle_ttl = Some(Duration::from_secs(seconds.parse().expect("seconds"))),
                _ => panic!("not an option of a task: {option}"),
            }
        }
        let spec = TaskSpec {
            name: Some(name.clone()),
            context: if shared { TaskContext::Shared } else { TaskContext::Isolated },
            policy,
            idle_ttl,
            labels: BTreeMap::new(),
            open: None,
        };
        self.admin(AdminCommand::TaskNew(spec));
        if !shared && self.unanswered.iter().any(|call| call.method == "Target.createBrowserContext") {
            self.reply("Target.createBrowserContext", None, &json!({"browserContextId": format!("CTX-{name}")}));
        }
    }

    /// Events and answers for a page that appears, as Chromium sends them.
    fn page(&mut self, rest: &str) {
        let mut words = rest.split(' ');
        let id = words.next().expect("a target");
        let asked =
            self.unanswered.iter().find(|call| call.method == "Target.createTarget").map(|call| call.params.clone());
        let mut info = json!({"targetId": id, "type": "page", "title": "", "attached": true, "canAccessOpener": false});
        let from_call = asked.as_ref();
        info["url"] = from_call.map_or(json!(""), |params| params["url"].clone());
        info["browserContextId"] =
            from_call.and_then(|params| params.get("browserContextId").cloned()).unwrap_or_else(|| json!("PROFILE"));
        for option in words {
            match option.split_once('=') {
                Some(("context", context)) => info["browserContextId"] = json!(context),
                Some(("url", url)) => info["url"] = json!(url),
                Some(("opener", opener)) => {
                    info["openerId"] = json!(opener);
                    info["openerFrameId"] = json!(opener);
                }
                Some(("type", kind)) => info["type"] = json!(kind),
                Some(("subtype", kind)) => info["subtype"] = json!(kind),
                _ => panic!("not an option of a page: {option}"),
            }
        }
        let guard = format!("G-{id}");
        self.event("Target.targetCreated", None, &json!({"targetInfo": info}));
        let params = json!({"sessionId": guard, "targetInfo": info, "waitingForDebugger": true});
        self.event("Target.attachedToTarget", None, &params);
        if asked.is_some() {
            self.reply("Target.createTarget", None, &json!({"targetId": id}));
        }
        for method in ["Target.setAutoAttach", "Page.enable", "Emulation.setFocusEmulationEnabled"] {
            if self.has_unanswered(method, &guard) {
                self.reply(method, Some(&guard), &json!({}));
            }
        }
        if self.has_unanswered("Page.getFrameTree", &guard) {
            self.reply("Page.getFrameTree", Some(&guard), &json!({"frameTree": {"frame": {"id": id}}}));
        }
    }

    fn has_unanswered(&self, method: &str, session: &str) -> bool {
        self.unanswered.iter().any(|call| call.method == method && call.session.as_deref() == Some(session))
    }

    fn attached(&mut self, rest: &str) {
        let (target, session) = rest.split_once(' ').expect("attached TARGET SESSION");
        let index = self
            .unanswered
            .iter()
            .position(|call| call.method == "Target.attachToTarget" && call.params["targetId"] == target)
            .unwrap_or_else(|| panic!("no attachToTarget for {target} is unanswered"));
        let info = json!({"targetId": target, "type": "page", "title": "", "url": "about:blank", "attached": true,
            "canAccessOpener": false, "browserContextId": "X"});
        let params = json!({"sessionId": session, "targetInfo": info, "waitingForDebugger": false});
        let call = self.unanswered.remove(index);
        self.event("Target.attachedToTarget", None, &params);
        self.input(Input::BrowserFrame { text: &json!({"id": call.id, "result": {"sessionId": session}}).to_string() });
    }

    fn browser(&mut self, rest: &str) {
        let (kind, rest) = rest.split_once(' ').expect("event, reply or error");
        let (rest, session) = session_of(rest);
        let (method, rest) = rest.split_once(' ').unwrap_or((rest, "{}"));
        match kind {
            "event" => {
                let params: Value = serde_json::from_str(rest).unwrap_or_else(|error| panic!("{error}: {rest}"));
                self.event(method, session, &params);
            }
            "reply" => {
                let result: Value = serde_json::from_str(rest).unwrap_or_else(|error| panic!("{error}: {rest}"));
                self.reply(method, session, &result);
            }
            "error" => {
                let (code, message) = rest.split_once(' ').expect("CODE TEXT");
                let call = self.take(method, session);
                let code: i64 = code.parse().expect("a number");
                let mut text = json!({"id": call.id, "error": {"code": code, "message": message}});
                if let Some(session) = call.session {
                    text["sessionId"] = json!(session);
                }
                self.input(Input::BrowserFrame { text: &text.to_string() });
            }
            _ => panic!("not a frame of the browser's: {kind}"),
        }
    }

    fn event(&mut self, method: &str, session: Option<&str>, params: &Value) {
        let mut text = json!({"method": method, "params": params});
        if let Some(session) = session {
            text["sessionId"] = json!(session);
        }
        self.input(Input::BrowserFrame { text: &text.to_string() });
    }

    fn take(&mut self, method: &str, session: Option<&str>) -> Unanswered {
        let index = self
            .unanswered
            .iter()
            .position(|call| call.method == method && (session.is_none() || call.session.as_deref() == session))
            .unwrap_or_else(|| panic!("no {method} is unanswered"));
        self.unanswered.remove(index)
    }

    fn reply(&mut self, method: &str, session: Option<&str>, result: &Value) {
        let call = self.take(method, session);
        let mut text = json!({"id": call.id, "result": result});
        if let Some(session) = call.session {
            text["sessionId"] = json!(session);
        }
        self.input(Input::BrowserFrame { text: &text.to_string() });
    }

    fn client(&mut self, name: &str, rest: &str) {
        let (rest, session) = session_of(rest);
        let (id, rest) = rest.split_once(' ').expect("ID METHOD");
        let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
        let session = session.map(|session| format!(r#","sessionId":"{session}""#)).unwrap_or_default();
        let text = to_real(&format!(r#"{{"id":{id},"method":"{method}","params":{params}{session}}}"#));
        self.input(Input::ClientFrame { client: client(name), text: &text });
    }

    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            if let Some(line) = self.render(output) {
                self.output.push(shown(&line));
            }
        }
    }

    fn render(&mut self, output: Output) -> Option<String> {
        Some(match output {
            Output::ToBrowser { text, on_behalf } => {
                let frame: Value = serde_json::from_str(&text).expect("the engine writes JSON");
                let session = frame["sessionId"].as_str().map(str::to_owned);
                let method = frame["method"].as_str().expect("a method").to_owned();
                let mut line = format!("b< {method} {}", frame["params"]);
                if let Some(session) = &session {
                    let _ = write!(line, " @{session}");
                }
                if let Some(ClientId(client)) = on_behalf {
                    let _ = write!(line, " for c{client}");
                }
                let id = frame["id"].as_i64().expect("an id");
                self.unanswered.push(Unanswered { id, method, session, params: frame["params"].clone() });
                line
            }
            Output::ToClient { client, text } => {
                let frame: Value = serde_json::from_str(&text).expect("the engine writes JSON");
                let mut line = format!("c{client}< ");
                match (&frame["id"], &frame["method"]) {
                    (Value::Null, Value::String(method)) => {
                        let _ = write!(line, "event {method} {}", frame["params"]);
                    }
                    (id, _) if frame.get("error").is_some() => {
                        let error = &frame["error"];
                        let _ = write!(
                            line,
                            "{id} error {} {}",
                            error["code"],
                            error["message"].as_str().unwrap_or_default()
                        );
                    }
                    (id, _) => {
                        let _ = write!(line, "{id} result {}", frame["result"]);
                    }
                }
                if let Some(session) = frame["sessionId"].as_str() {
                    let _ = write!(line, " @{session}");
                }
                line
            }
            Output::CloseClient { client, code, reason } => format!("close c{client} {} {reason}", code.number()),
            Output::AdminReply { reply, .. } => match reply {
                Ok(AdminReply::Task(info)) => {
                    self.tasks.insert(info.name.clone(), info.id);
                    let pages: Vec<String> = info.pages.into_iter().map(|page| page.target_id).collect();
                    format!("task {} {} pages={pages:?}", info.name, info.state)
                }
                Ok(AdminReply::Ended) => "ended".to_owned(),
                Ok(other) => format!("{other:?}"),
                Err(error) => format!("refused {:?}: {}", error.kind, error.message),
            },
            Output::Ready => "ready".to_owned(),
            Output::TaskEnded { name, .. } => format!("gone {name}"),
            Output::Fatal { reason } => format!("fatal {reason}"),
            Output::Drained => "drained".to_owned(),
            Output::Files(work) => self.file_work(work),
            Output::Audit(_) => return None,
            Output::Record(record) => match record.kind {
                RecordKind::Released | RecordKind::Blocked | RecordKind::Odd => format!("note {}", record.message),
                RecordKind::Claimed | RecordKind::Refused => return None,
            },
        })
    }
}
