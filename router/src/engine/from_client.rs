//! A frame from a client: resolve its session, describe it, decide, and answer, forward or refuse.

use std::borrow::Cow;

use ownership::id::{ClientId, ClientSessionId, FrameId, SessionId};
use policy::methods::{self, Action, Row};
use policy::{Permitted, Question, Request, Surface, admit, decide};
use rustc_hash::FxHashSet;
use serde_json::Value;

use super::Engine;
use super::audit::Judgement;
use super::calls::{Learn, Purpose, ReplyTo};
use super::documents::Met;
use super::io::{CloseCode, Output};
use super::refusal::Refusal;
use super::state::{Cause, Shown};
use crate::wire::{self, Command};

/// What a client may send before its task has a page: far more than any client's connecting takes.
const LARGEST_QUEUE: usize = 16 * 1024 * 1024;

/// Where a command is addressed, once its session is known to be the client's.
#[derive(Clone, Copy)]
pub enum Addressee {
    /// The root or a browser session.
    Scope(Option<ClientSessionId>),
    Session(SessionId),
}

/// A command that may be sent: the table's name of its method, its session, and its parameters as text.
pub struct Forward<'a> {
    pub session: Option<SessionId>,
    pub method: &'a str,
    pub params: &'a str,
}

impl Engine {
    pub(super) fn client_frame(&mut self, client: ClientId, text: &str) {
        let Some(state) = self.clients.get_mut(&client) else { return };
        if let Some(queue) = state.queue.as_mut() {
            state.queued_bytes += text.len();
            if state.queued_bytes > LARGEST_QUEUE {
                let reason = "too much was sent before the task had its first page".to_owned();
                self.outputs.push_back(Output::CloseClient { client, code: CloseCode::Limit, reason });
                return self.client_left(client);
            }
            queue.push(text.to_owned());
            return;
        }
        match wire::parse_command(text) {
            Ok(command) => self.client_command(client, &command),
            Err(malformed) => {
                let refusal = Refusal { code: malformed.code, message: malformed.message };
                self.send_to_client(client, wire::render_error(malformed.id, None, &refusal.render()));
            }
        }
    }

    fn client_command(&mut self, client: ClientId, command: &Command<'_>) {
        let session = command.session.as_deref();
        let Some((addressee, shown)) = self.resolve(client, session) else {
            // As Chromium says it: without the session's id. Any other code ends a Playwright client's process.
            let error = Refusal::unknown_session().render();
            return self.send_to_client(client, wire::render_error(Some(command.id), None, &error));
        };
        let to = ReplyTo { client, id: command.id, session: shown };
        if self.browser.lost {
            return self.refuse(to, &Refusal::browser_lost());
        }
        let Some(row) = methods::method(&command.method) else {
            return self.refuse(to, &Refusal::method_not_found(&command.method));
        };
        if let Err(refusal) = self.carry_out(to, addressee, row, command) {
            if let Addressee::Session(session) = addressee
                && refusal.is_noteworthy()
            {
                let raw = command.params.map_or("{}", |params| params.get());
                self.fail_refused_pause(session, row.method, raw, &refusal);
            }
            self.refuse(to, &refusal);
        }
    }

    fn resolve(&self, client: ClientId, session: Option<&str>) -> Option<(Addressee, Option<ClientSessionId>)> {
        let Some(session) = session else { return Some((Addressee::Scope(None), None)) };
        let shown = ClientSessionId::new(session)?;
        match self.clients.get(&client)?.sessions.get(&shown)? {
            Shown::Browser { .. } => Some((Addressee::Scope(Some(shown)), Some(shown))),
            Shown::Real(real) => Some((Addressee::Session(*real), Some(shown))),
        }
    }

    fn carry_out(
        &mut self,
        to: ReplyTo,
        addressee: Addressee,
        row: &'static Row,
        command: &Command<'_>,
    ) -> Result<(), Refusal> {
        let (action, surface) = match addressee {
            Addressee::Scope(_) => (row.on_root, Surface::Root),
            Addressee::Session(session) => {
                let child = self.client_session(session).is_some_and(|session| session.target != session.page);
                (row.on_page, if child { Surface::Child } else { Surface::Page })
            }
        };
        let raw = command.params.map_or("{}", |params| params.get());
        if action == Action::Absent {
            return Err(Refusal::method_not_found(row.method));
        }
        if action == Action::Forward {
            let session = match addressee {
                Addressee::Session(session) => session,
                // The table gives the root no such rows; if it did, the answer is no.
                Addressee::Scope(_) => return Err(Refusal::method_not_found(row.method)),
            };
            self.settle_paused(to, session, row.method, raw)?;
            self.refuse_what_kills(session, row.method)?;
            self.refuse_hidden_scripts(session, raw)?;
            self.refuse_lasting_script(session, row, raw)?;
            self.refuse_unread_body(to, session, row, raw)?;
            let permitted = self.permit_forward(
                to,
                row,
                surface,
                &Judged::default(),
                Forward { session: Some(session), method: row.method, params: raw },
            )?;
            self.note_navigation(session, row.method);
            self.note_log(session, row.method);
            let learn = if is_press(row.method, raw) { Learn::Press } else { learn_from(row.method) };
            let met = self.meets(session, row);
            self.forward_meeting(to, met, permitted, learn);
            return Ok(());
        }
        // What is judged is what is sent: parsed once, and rendered again from the parsed value.
        let mut params: Value = wire::read_lossy(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        if action == Action::Answer {
            self.touch_deadline();
            return self.answer(to, addressee, row, surface, &mut params);
        }
        let Addressee::Session(session) = addressee else {
            // `Refuse` on the root ends in `permit`; nothing else is sent from here.
            let judged = Judged::default();
            self.permit(to, row, surface, &judged, ())?;
            return Err(Refusal::method_not_found(row.method));
        };
        self.settle_paused(to, session, row.method, raw)?;
        self.refuse_hidden_scripts(session, raw)?;
        self.refuse_lasting_script(session, row, raw)?;
        let mut judged = self.check_params(to, Some(session), row, &params)?;
        self.refuse_dropped_address(session, row, &params)?;
        if self.bind_to_document(session, row, &mut params)? {
            let target = self.client_session(session).map(|session| session.target);
            judged.frame = judged.frame.or(target.and_then(|target| FrameId::new(target.as_str())));
        }
        if row.method == "Page.navigate" && !judged.urls.iter().all(|(_, url)| policy::is_url(url)) {
            return Err(Refusal::invalid_url());
        }
        if !judged.read_paths.is_empty() {
            return self.ask_where_files_are(to, session, row, surface, judged, params);
        }
        self.send_checked(to, session, row, surface, &judged, &params)
    }

    /// What its parameters name has been looked at, and is judged here.
    pub(super) fn send_checked(
        &mut self,
        to: ReplyTo,
        session: SessionId,
        row: &'static Row,
        surface: Surface,
        judged: &Judged,
        params: &Value,
    ) -> Result<(), Refusal> {
        let params = params.to_string();
        let permitted = self.permit_forward(
            to,
            row,
            surface,
            judged,
            Forward { session: Some(session), method: row.method, params: &params },
        )?;
        self.note_navigation(session, row.method);
        let learn = match row.method {
            "Page.createIsolatedWorld" => Learn::World { frame: judged.frame },
            "Page.navigate" => self.goes_by_command(session, judged),
            method => learn_from(method),
        };
        let met = self.meets(session, row);
        self.forward_meeting(to, met, permitted, learn);
        Ok(())
    }

    fn goes_by_command(&mut self, session: SessionId, judged: &Judged) -> Learn {
        let page = self.client_session(session).map(|session| session.page);
        let frame = judged.frame.or_else(|| page.and_then(|page| FrameId::new(page.as_str())));
        self.navigations += 1;
        let nth = self.navigations;
        if let (Some(frame), Some((_, url))) = (frame, judged.urls.first()) {
            self.frame_goes_to(frame, url, Some(nth));
        }
        Learn::Navigate { frame, nth }
    }

    /// Decides, and turns a command into one that may be sent.
    pub(super) fn permit<T>(
        &mut self,
        to: ReplyTo,
        row: &'static Row,
        surface: Surface,
        judged: &Judged,
        thing: T,
    ) -> Result<Permitted<T>, Refusal> {
        let task = self.task_of(to.client).and_then(|task| self.tasks.get(&task));
        let Some(task) = task else {
            return Err(Refusal::ours("the task of this connection has ended; connect to another one"));
        };
        self.refuse_unbounded(to.client, row)?;
        if let Some(session) = self.session_of(to)
            && let Some(judged) = self.forbidden_at_document(session, row, judged.frame)
        {
            return Err(self.denied(to.client, row.method, &judged));
        }
        let urls: Vec<_> = judged.urls.iter().map(|(verb, url)| (*verb, url.as_str())).collect();
        let read_paths: Vec<_> = judged.read_paths.iter().map(String::as_str).collect();
        let write_paths: Vec<_> = judged.write_paths.iter().map(String::as_str).collect();
        let request = Request {
            row,
            surface,
            shared_profile: judged.shared_profile.unwrap_or(task.shared()),
            urls: &urls,
            read_paths: &read_paths,
            write_paths: &write_paths,
        };
        let grants = match judged.read_paths.is_empty() && judged.write_paths.is_empty() {
            true => self.grants.clone(),
            false => self.grants_of(self.task_of(to.client)),
        };
        let decision = decide(&task.policy, &grants, &request);
        if decision.allowed() && task.policy.has_trial() {
            for (verb, url) in &judged.urls {
                task.judge(&Question::new(*verb, url).created_by(Some("task")).with_method(verb.usual_method()));
            }
        }
        match admit(&decision, thing) {
            Some(permitted) => Ok(permitted),
            None => {
                let (verb, object) = match judged.urls.first() {
                    Some((verb, url)) => (Some(*verb), url.clone()),
                    None => (None, row.method.to_owned()),
                };
                Err(self.denied(to.client, row.method, &Judgement { decision, verb, object }))
            }
        }
    }

    /// The session of Chromium's on which a client is answered.
    pub(super) fn session_of(&self, to: ReplyTo) -> Option<SessionId> {
        match self.clients.get(&to.client)?.sessions.get(&to.session?)? {
            Shown::Real(session) => Some(*session),
            Shown::Browser { .. } => None,
        }
    }

    /// As `permit`, for a command that goes on with the client's own parameters: no foreign id leaves in it, wherever it
    /// stands. (After the checks of the table, whose answers do not tell a foreign thing from one that never existed.)
    pub(super) fn permit_forward<'a>(
        &mut self,
        to: ReplyTo,
        row: &'static Row,
        surface: Surface,
        judged: &Judged,
        command: Forward<'a>,
    ) -> Result<Permitted<Forward<'a>>, Refusal> {
        self.refuse_foreign_ids(to.client, command.params)?;
        self.permit(to, row, surface, judged, command)
    }

    /// Every frame to the browser that carries out a client's command is rendered here, from what was permitted.
    pub(super) fn forward(&mut self, to: ReplyTo, command: Permitted<Forward<'_>>, learn: Learn) {
        self.forward_meeting(to, None, command, learn);
    }

    /// The same, for a command whose answer is judged again if it comes from another document.
    fn forward_meeting(&mut self, to: ReplyTo, met: Option<Met>, command: Permitted<Forward<'_>>, learn: Learn) {
        let Forward { session, method, params } = command.into_inner();
        let learn = self.learn_target(session, learn);
        if learn == Learn::Setup
            && let Some(session) = session.and_then(|session| self.client_session_mut(session))
        {
            session.setup_in_flight += 1;
        }
        let params = match session {
            Some(session) => self.mirror(session, method, params),
            None => Cow::Borrowed(params),
        };
        self.transmit(session, method, &params, Purpose::Client { to, learn, met }, Some(to.client), false);
    }

    /// The door for commands of clients to the browser: what was permitted, and nothing else.
    pub(super) fn send_permitted(&mut self, to: ReplyTo, command: Permitted<Forward<'_>>, purpose: Purpose) {
        let Forward { session, method, params } = command.into_inner();
        self.transmit(session, method, params, purpose, Some(to.client), false);
    }

    fn learn_target(&self, session: Option<SessionId>, learn: Learn) -> Learn {
        match (learn, session.and_then(|session| self.client_session(session))) {
            // The page that the window belongs to is the session's, whatever the row said.
            (Learn::Window(_), Some(session)) => Learn::Window(session.page),
            (learn, _) => learn,
        }
    }

    /// The source of an extension's script is none of a client's business, and its id can be guessed.
    fn refuse_hidden_scripts(&self, session: SessionId, raw: &str) -> Result<(), Refusal> {
        let hidden =
            self.client_session(session).map(|session| &session.hidden_scripts).filter(|scripts| !scripts.is_empty());
        let Some(hidden) = hidden.filter(|_| raw.contains("cript")) else { return Ok(()) };
        let params = wire::read_lossy(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        match names_script(&params, hidden) {
            Some(script) => Err(Refusal::no_script(script)),
            None => Ok(()),
        }
    }

    /// Printing a page whose renderer is gone ends the whole browser (measured, a crash of Chromium 156).
    fn refuse_what_kills(&self, session: SessionId, method: &str) -> Result<(), Refusal> {
        let target = self.client_session(session).and_then(|session| self.targets.get(&session.page));
        match method == "Page.printToPDF" && target.is_some_and(|target| target.crashed) {
            true => Err(Refusal::ours("Page.printToPDF refused: the page has crashed; load it again first")),
            false => Ok(()),
        }
    }

    /// Whether what is blocked is to be told to this session.
    fn note_log(&mut self, session: SessionId, method: &str) {
        let hears = match method {
            "Log.enable" => true,
            "Log.disable" => false,
            _ => return,
        };
        if let Some(session) = self.client_session_mut(session) {
            session.hears_log = hears;
        }
    }

    /// Who moves the page next, as far as we know: the person moves it when nobody else has said so.
    fn note_navigation(&mut self, session: SessionId, method: &str) {
        if !matches!(method, "Page.navigate" | "Page.reload" | "Page.navigateToHistoryEntry") {
            return;
        }
        let page = self.client_session(session).map(|session| session.page);
        if let Some(target) = page.and_then(|page| self.targets.get_mut(&page)) {
            target.asks(Cause::Client);
        }
    }

    /// The client asks for the page to run. It does when the others that are waited for have asked too. (What this client
    /// sent before is before the guard's resumption on the one connection, as it would be before its own.)
    pub(super) fn asked_to_run(&mut self, session: SessionId) {
        let Some(asking) = self.client_session(session) else { return };
        let (target, client, scope) = (asking.target, asking.client, asking.scope);
        self.no_longer_awaited(target, client, Some(scope));
    }
}

/// Everything in a command that the policy looks at.
#[derive(Default)]
pub struct Judged {
    pub urls: Vec<(policy::Verb, String)>,
    pub read_paths: Vec<String>,
    pub write_paths: Vec<String>,
    /// The frame that it names, by its id or by an execution context in it.
    pub frame: Option<FrameId>,
    /// Set where the command names a context: whether that one is the profile's.
    pub shared_profile: Option<bool>,
}

/// A `scriptId` among these, at any depth: breakpoints and locations name scripts too.
fn names_script<'p>(params: &'p Value, hidden: &FxHashSet<String>) -> Option<&'p str> {
    match params {
        Value::Object(map) => map.iter().find_map(|(key, value)| match value.as_str().filter(|_| key == "scriptId") {
            Some(script) => hidden.contains(script).then_some(script),
            None => names_script(value, hidden),
        }),
        Value::Array(values) => values.iter().find_map(|value| names_script(value, hidden)),
        _ => None,
    }
}

fn learn_from(method: &str) -> Learn {
    match method {
        method if is_setup(method) => Learn::Setup,
        _ => Learn::Nothing,
    }
}

/// Input that makes Chromium activate the window of the page (measured).
fn is_press(method: &str, params: &str) -> bool {
    match method {
        "Input.dispatchMouseEvent" | "Input.emulateTouchFromMouseEvent" => params.contains("mousePressed"),
        "Input.dispatchTouchEvent" => params.contains("touchStart"),
        "Input.synthesizeTapGesture" => true,
        _ => false,
    }
}

/// Commands by which clients prepare a page before they let it run. Not `Runtime.evaluate`: it may wait for the page.
fn is_setup(method: &str) -> bool {
    let Some((domain, command)) = method.split_once('.') else { return false };
    command == "enable"
        || (matches!(domain, "Emulation" | "Network" | "Page") && command.starts_with("set"))
        || matches!(method, "Page.addScriptToEvaluateOnNewDocument" | "Runtime.addBinding" | "Target.setAutoAttach")
}
