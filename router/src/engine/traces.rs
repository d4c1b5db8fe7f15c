//! `Tracing` for a task: one trace at a time in the whole browser, as Chromium has it, recorded on a session of the engine's and
//! cut to the task before its client gets any of it.

use std::collections::VecDeque;

use ownership::Change;
use ownership::id::{ClientId, ClientSessionId, FrameId, SessionId, TargetId, TaskId};
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Engine;
use super::calls::{Purpose, ReplyTo};
use super::refusal::Refusal;
use super::state::TaskState;
use super::trace_filter::{Owner, SCREENSHOTS, Sieve};
use crate::wire::{Outcome, value_of};

/// Events in one `Tracing.dataCollected`.
const EVENTS_AT_ONCE: usize = 500;
/// Bytes in one answer to `IO.read`; Chromium's default is more, and a client reads until the end.
const LARGEST_READ: usize = 4 << 20;

pub struct Trace {
    pub task: TaskId,
    client: ClientId,
    /// Where its events appear.
    shown: Option<ClientSessionId>,
    /// On which it is recorded: the guard of the client's page, or the root.
    pub session: Option<SessionId>,
    as_stream: bool,
    /// The command that waits for its step.
    waiting: Option<ReplyTo>,
    /// Its client has gone: it is ended, and nobody gets it.
    abandoned: bool,
    running: bool,
    ending: bool,
    /// No page of anybody else's has been in the task's own browser contexts.
    by_process: bool,
    /// Frames of the task's that are no more, and the pages that they were in.
    gone_frames: FxHashMap<FrameId, TargetId>,
    sieve: Sieve,
}

/// A finished trace, while its client reads it.
pub struct TraceStream {
    client: ClientId,
    shown: Option<ClientSessionId>,
    left: VecDeque<String>,
}

/// What a step of a trace was sent for.
#[derive(Clone, Copy, Debug)]
pub enum TraceStep {
    Start,
    End,
}

impl Engine {
    /// `session`: the client's page, or `None` for the browser's session. `params`: already cut to what may be recorded.
    pub(super) fn start_trace(
        &mut self,
        to: ReplyTo,
        session: Option<SessionId>,
        params: &Value,
        as_stream: bool,
    ) -> Result<(), Refusal> {
        if self.trace.is_some() {
            return Err(Refusal::ours(
                "Tracing.start refused: another trace is being recorded, and Chromium records one at a time; try again when that one has ended",
            ));
        }
        let task = self.task_of(to.client).ok_or_else(Refusal::not_allowed)?;
        let guard = match session {
            Some(session) => {
                let page = self.client_session(session).and_then(|session| self.targets.get(&session.page));
                Some(page.and_then(|page| page.guard).ok_or_else(|| Refusal::ours("Tracing.start refused: this session is not on a page; send it on the session of a page, or on the browser's"))?)
            }
            None => None,
        };
        let by_process = self.is_alone_in_contexts(task);
        self.trace = Some(Trace {
            task,
            client: to.client,
            shown: to.session,
            session: guard,
            as_stream,
            waiting: Some(to),
            abandoned: false,
            running: false,
            ending: false,
            by_process,
            gone_frames: FxHashMap::default(),
            sieve: Sieve::default(),
        });
        self.own(guard, "Tracing.start", params, Purpose::Trace(TraceStep::Start));
        Ok(())
    }

    pub(super) fn end_trace(&mut self, to: ReplyTo) -> Result<(), Refusal> {
        let trace =
            self.trace.as_mut().filter(|trace| trace.client == to.client && trace.shown == to.session && !trace.ending);
        let Some(trace) = trace else {
            return Err(Refusal { code: -32000, message: "Tracing is not started".to_owned() });
        };
        trace.ending = true;
        trace.waiting = Some(to);
        let session = trace.session;
        self.own(session, "Tracing.end", &json!({}), Purpose::Trace(TraceStep::End));
        Ok(())
    }

    pub(super) fn trace_answered(&mut self, step: TraceStep, outcome: Outcome<'_>) {
        let Some(trace) = self.trace.as_mut() else { return };
        let waiting = trace.waiting.take();
        match outcome {
            Outcome::Result(_) => {
                trace.running = true;
                if trace.abandoned && matches!(step, TraceStep::Start) {
                    return self.abandon_trace();
                }
                if let Some(to) = waiting {
                    self.result(to, "{}");
                }
            }
            Outcome::Error(error) => {
                self.trace = None;
                if let Some(to) = waiting {
                    self.error(to, error.get());
                }
            }
        }
    }

    /// On the root or on a guard, whichever it is recorded on.
    pub(super) fn trace_event(&mut self, session: Option<SessionId>, method: &str, params: Option<&RawValue>) {
        let Some(mut trace) = self.trace.take_if(|trace| trace.session == session) else { return };
        match method {
            "Tracing.dataCollected" => {
                if let Some(params) = params.filter(|_| !trace.abandoned) {
                    self.sift(&mut trace, params);
                }
                self.trace = Some(trace);
            }
            "Tracing.tracingComplete" if trace.abandoned => {}
            "Tracing.tracingComplete" => {
                let lost = value_of(params)["dataLossOccurred"].as_bool().unwrap_or(true);
                self.deliver_trace(trace, lost);
            }
            _ => self.trace = Some(trace),
        }
    }

    fn sift(&self, trace: &mut Trace, params: &RawValue) {
        let gone = &trace.gone_frames;
        let is_own_frame = |frame: &str| {
            FrameId::new(frame).is_some_and(|frame| {
                let page = self.ledger.page_of_frame(frame);
                page.and_then(|page| self.ledger.owner(page)) == Some(trace.task)
                    || (page.is_none() && gone.contains_key(&frame))
            })
        };
        let names_foreign = |text: &str| self.names_foreign(trace.task, text);
        let owner = Owner { is_own_frame: &is_own_frame, names_foreign: &names_foreign };
        trace.sieve.take(params, &owner, trace.by_process);
    }

    fn deliver_trace(&mut self, trace: Trace, lost: bool) {
        if let Some(to) = trace.waiting {
            self.result(to, "{}");
        }
        let by_process = trace.by_process && self.is_alone_in_contexts(trace.task);
        let (events, more_lost) = trace.sieve.finish(by_process);
        let mut complete = json!({"dataLossOccurred": lost || more_lost});
        if trace.as_stream {
            let handle = format!("tabwarden-trace-{}", self.draw_session().as_str());
            complete["stream"] = json!(handle);
            complete["traceFormat"] = json!("json");
            complete["streamCompression"] = json!("none");
            let left = pieces(&events);
            self.trace_streams.insert(handle, TraceStream { client: trace.client, shown: trace.shown, left });
        } else {
            for events in events.chunks(EVENTS_AT_ONCE) {
                let params = format!("{{\"value\":[{}]}}", events.join(","));
                self.event(trace.client, trace.shown, "Tracing.dataCollected", &params);
            }
        }
        self.event(trace.client, trace.shown, "Tracing.tracingComplete", &complete.to_string());
    }

    /// `None`: no such stream of this client's on this session.
    pub(super) fn read_trace(&mut self, to: ReplyTo, handle: &str) -> Option<Value> {
        let stream = self
            .trace_streams
            .get_mut(handle)
            .filter(|stream| stream.client == to.client && stream.shown == to.session)?;
        let data = stream.left.pop_front().unwrap_or_default();
        Some(json!({"data": data, "eof": stream.left.is_empty(), "base64Encoded": false}))
    }

    pub(super) fn close_trace(&mut self, to: ReplyTo, handle: &str) -> bool {
        let is_own = self
            .trace_streams
            .get(handle)
            .is_some_and(|stream| stream.client == to.client && stream.shown == to.session);
        if is_own {
            self.trace_streams.remove(handle);
        }
        is_own
    }

    // --- what happens meanwhile ------------------------------------------------------------------------------------

    /// Every renderer of the contexts that are the task's own shows only pages that are the task's.
    fn is_alone_in_contexts(&self, task: TaskId) -> bool {
        let isolated = self.tasks.get(&task).is_some_and(|task| !task.shared() && task.state != TaskState::Ending);
        isolated
            && self.targets.values().all(|target| {
                let own_context =
                    target.info.context.and_then(|context| self.ledger.owner_of_context(context)) == Some(task);
                !own_context || target.info.kind != "page" || self.ledger.owner(target.info.id) == Some(task)
            })
    }

    /// Before the ledger forgets it.
    pub(super) fn note_change_for_trace(&mut self, change: &Change) {
        let Some(trace) = self.trace.as_mut() else { return };
        let is_own = |page: TargetId| self.ledger.owner(page) == Some(trace.task);
        match change {
            Change::FrameAttached { frame, page } if is_own(*page) => {
                trace.gone_frames.insert(*frame, *page);
            }
            Change::FrameDetached { frame } => {
                if let Some(page) = self.ledger.page_of_frame(*frame).filter(|page| is_own(*page)) {
                    trace.gone_frames.insert(*frame, page);
                }
            }
            Change::Gone { target } if is_own(*target) => {
                if let Some(frame) = FrameId::new(target.as_str()) {
                    trace.gone_frames.insert(frame, *target);
                }
            }
            // The person's from now on, with what it has done before.
            Change::Released { target } => {
                trace.gone_frames.retain(|_, page| page != target);
                trace.by_process &= !is_own(*target);
            }
            _ => {}
        }
    }

    pub(super) fn client_left_trace(&mut self, client: ClientId) {
        self.trace_streams.retain(|_, stream| stream.client != client);
        if self.trace.as_ref().is_some_and(|trace| trace.client == client) {
            self.abandon_trace();
        }
    }

    fn abandon_trace(&mut self) {
        let Some(trace) = self.trace.as_mut() else { return };
        trace.abandoned = true;
        trace.sieve = Sieve::default();
        if trace.running && !trace.ending {
            trace.ending = true;
            let session = trace.session;
            self.own(session, "Tracing.end", &json!({}), Purpose::Trace(TraceStep::End));
        }
    }

    /// The session on which it was started has ended, and its streams end with it.
    pub(super) fn session_gone_in_trace(&mut self, client: ClientId, shown: ClientSessionId) {
        self.trace_streams.retain(|_, stream| stream.client != client || stream.shown != Some(shown));
        let is_its = |trace: &&mut Trace| trace.client == client && trace.shown == Some(shown);
        if let Some(trace) = self.trace.as_mut().filter(is_its) {
            let waiting = trace.waiting.take();
            self.abandon_trace();
            if let Some(to) = waiting {
                self.refuse(to, &Refusal::unknown_session());
            }
        }
    }

    /// Chromium ends a trace with the session that it is recorded on.
    pub(super) fn guard_gone_in_trace(&mut self, guard: SessionId) {
        if self.trace.as_ref().is_some_and(|trace| trace.session == Some(guard)) {
            self.trace_lost(&Refusal::unknown_session());
        }
    }

    pub(super) fn trace_lost(&mut self, why: &Refusal) {
        if let Some(to) = self.trace.take().and_then(|trace| trace.waiting) {
            self.refuse(to, why);
        }
    }
}

/// Of the patterns of categories those that may be recorded: no pictures, which show more than the task.
pub(super) fn without_pictures(included: &mut Vec<String>) {
    let may_match =
        |pattern: &str| pattern.contains("screenshot") || (pattern.starts_with("disabled") && pattern.contains('*'));
    included.retain(|pattern| !may_match(pattern) && pattern != SCREENSHOTS);
}

/// The text of a trace file, in pieces that are sent one by one.
fn pieces(events: &[String]) -> VecDeque<String> {
    let mut pieces = VecDeque::new();
    let mut piece = "{\"traceEvents\":[".to_owned();
    for (n, event) in events.iter().enumerate() {
        if n > 0 {
            piece.push(',');
        }
        if piece.len() + event.len() > LARGEST_READ {
            pieces.push_back(std::mem::take(&mut piece));
        }
        piece.push_str(event);
    }
    piece.push_str("]}");
    pieces.push_back(piece);
    pieces
}
