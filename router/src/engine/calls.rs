//! Commands in flight to the browser. Ids to the browser stay in int32 for ever, and none is used again while an answer to
//! the call that had it could still come.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ownership::id::{ClientId, ClientSessionId, ContextId, FrameId, SessionId, TargetId, TaskId};

use super::cookies::Clearing;
use super::documents::Met;
use super::focus::FocusStep;
use super::info::Filter;
use super::io::AdminRequest;
use super::traces::TraceStep;

/// Where the response to a client's command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    pub client: ClientId,
    pub id: i32,
    pub session: Option<ClientSessionId>,
}

/// What the engine takes from a result before the client gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learn {
    Nothing,
    /// Sets a page up; a document that waits for the page's clients goes on only when these are answered.
    Setup,
    /// `executionContextId` of an isolated world in that frame.
    World {
        frame: Option<FrameId>,
    },
    /// Whether the frame goes where this `Page.navigate` sent it.
    Navigate {
        frame: Option<FrameId>,
        nth: u64,
    },
    /// A mouse press or touch, which takes the focus where there are windows.
    Press,
    /// `windowId` of this page's window.
    Window(TargetId),
    /// A browser context of this client's.
    Context {
        dispose_on_detach: bool,
    },
    ContextDisposed(ContextId),
    /// `cookies`, of which the client gets those that are its task's.
    Cookies {
        own_context: bool,
    },
}

/// Root commands by which the gates are put up, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootStep {
    Version,
    Contexts,
    Discover,
    Fetch,
    AutoAttach,
}

/// Who asked for a session on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachCall {
    pub client: ClientId,
    /// The session on whose behalf it appears; `None` for the client's root.
    pub scope: Option<ClientSessionId>,
    pub target: TargetId,
    /// An explicit `Target.attachToTarget`, which has a response of its own.
    pub reply: Option<ReplyTo>,
}

/// An answer that lists targets. Chromium tells a title that changes after the load in no event, only when it is asked.
#[derive(Clone, Debug)]
pub enum Listing {
    Targets { to: ReplyTo, filter: Filter },
    Info { to: ReplyTo, target: TargetId },
    Tasks(AdminRequest),
    Task { request: AdminRequest, task: TaskId },
}

#[derive(Clone, Debug)]
pub enum Purpose {
    /// A client's command, forwarded.
    Client {
        to: ReplyTo,
        learn: Learn,
        /// What it was judged for, where the answer has to be judged again.
        met: Option<Met>,
    },
    Root(RootStep),
    /// The browser context of an isolated task.
    TaskContext(TaskId),
    /// A page that Tabwarden opens for a task: the first blank one, or one that the API asked for.
    OpenPage {
        task: TaskId,
        context: Option<ContextId>,
    },
    /// A page that a client creates.
    CreatePage {
        to: ReplyTo,
        task: TaskId,
        context: Option<ContextId>,
    },
    /// A child that its client may not have has been resumed, and can be detached.
    LetGo {
        session: SessionId,
        parent: SessionId,
    },
    /// A service worker below a page has been resumed, and its client detaches.
    RunThenDetach {
        session: SessionId,
        to: ReplyTo,
    },
    /// One of the guard's gates on this page.
    Gate(TargetId),
    /// The frames of a page, told on the session of this target of it.
    FrameTree {
        page: TargetId,
        told_by: TargetId,
    },
    /// A client's init script, in force on the guard's session for the first document.
    Mirror(TargetId),
    /// What it is that asks for a request: a worker, or something else.
    WhoAsks(TargetId),
    Attach(AttachCall),
    /// The window of a tab that may be a click's, or of the page in which it was.
    ClickWindow {
        tab: TargetId,
        is_page: bool,
    },
    /// On the way to giving the focus back.
    Focus(FocusStep),
    /// Titles and URLs as they are now, for an answer that tells them.
    Refresh(Listing),
    /// Cookies are being looked for, or deleted one after the other.
    ClearCookies(Box<Clearing>),
    Trace(TraceStep),
    /// One step of ending a task.
    EndTask(TaskId),
    /// Nobody waits for it; an error is normal (the thing was gone already).
    Nothing,
}

#[derive(Debug)]
pub struct Call {
    /// The upstream session that it went to.
    pub session: Option<SessionId>,
    pub purpose: Purpose,
}

/// Ids count up and begin anew after 2^31, past those that are still in flight: of a session that has ended there can be
/// late answers to any number of commands, they come without the session's id, and must not meet a younger call.
#[derive(Default, Debug)]
pub struct Calls {
    in_flight: BTreeMap<i32, Call>,
    last: i32,
}

impl Calls {
    /// `None` only when 2^31 commands are in flight.
    pub fn open(&mut self, call: Call) -> Option<i32> {
        if self.in_flight.len() >= i32::MAX as usize {
            return None;
        }
        loop {
            self.last = if self.last == i32::MAX { 1 } else { self.last + 1 };
            if let Entry::Vacant(entry) = self.in_flight.entry(self.last) {
                entry.insert(call);
                return Some(self.last);
            }
        }
    }

    /// The call with that id, if its answer came from the session that it was sent to.
    pub fn close(&mut self, id: i32, session: Option<SessionId>) -> Option<Call> {
        let Entry::Occupied(entry) = self.in_flight.entry(id) else { return None };
        // Chromium answers for a dead session without its id.
        if session.is_some() && entry.get().session != session {
            return None;
        }
        Some(entry.remove())
    }

    /// Everything in flight on a session that is gone: Chromium will never answer these.
    pub fn drain_session(&mut self, session: SessionId) -> Vec<Purpose> {
        self.drain(|call| call.session == Some(session))
    }

    pub fn drain_all(&mut self) -> Vec<Purpose> {
        self.drain(|_| true)
    }

    fn drain(&mut self, matching: impl Fn(&Call) -> bool) -> Vec<Purpose> {
        let ids: Vec<i32> = self.in_flight.iter().filter(|(_, call)| matching(call)).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.in_flight.remove(id)).map(|call| call.purpose).collect()
    }

    /// Commands that make a page in that context.
    pub fn creating(&self, wanted: Option<ContextId>) -> Vec<i32> {
        let making = |call: &Call| match &call.purpose {
            Purpose::CreatePage { context, .. } | Purpose::OpenPage { context, .. } => *context == wanted,
            _ => false,
        };
        self.in_flight.iter().filter(|(_, call)| making(call)).map(|(id, _)| *id).collect()
    }

    pub fn is_in_flight(&self, id: i32) -> bool {
        self.in_flight.contains_key(&id)
    }

    pub fn purposes(&self) -> impl Iterator<Item = &Purpose> {
        self.in_flight.values().map(|call| &call.purpose)
    }

    /// Whether a session on that target has been asked for by a client, and is not there yet.
    pub fn is_attaching(&self, target: TargetId) -> bool {
        self.purposes().any(|purpose| match purpose {
            Purpose::Attach(call) => call.target == target,
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(session: Option<SessionId>) -> Call {
        Call { session, purpose: Purpose::Nothing }
    }

    #[test]
    fn an_answer_closes_its_call_once() {
        let mut calls = Calls::default();
        let id = calls.open(call(None)).unwrap();
        assert!(calls.close(id, None).is_some());
        assert!(calls.close(id, None).is_none());
        for id in [0, -1, i32::MAX, i32::MIN] {
            assert!(calls.close(id, None).is_none());
        }
    }

    #[test]
    fn an_answer_from_another_session_is_not_the_calls() {
        let mut calls = Calls::default();
        let session = SessionId::new("A");
        let id = calls.open(call(session)).unwrap();
        assert!(calls.close(id, SessionId::new("B")).is_none());
        assert!(calls.close(id, None).is_some(), "Chromium leaves the id of a dead session out");
    }

    #[test]
    fn late_answers_of_a_dead_session_meet_no_younger_call() {
        let mut calls = Calls::default();
        let session = SessionId::new("A");
        let dead: Vec<i32> = (0..1000).map(|_| calls.open(call(session)).unwrap()).collect();
        assert_eq!(calls.drain_session(session.unwrap()).len(), dead.len());
        (0..1000).for_each(|_| assert!(!dead.contains(&calls.open(call(None)).unwrap())));
        assert!(dead.iter().all(|id| calls.close(*id, None).is_none()));
    }

    #[test]
    fn ids_stay_int32_and_pass_over_those_in_flight() {
        let mut calls = Calls::default();
        let first = calls.open(call(None)).unwrap();
        calls.last = i32::MAX - 1;
        assert_eq!(calls.open(call(None)), Some(i32::MAX));
        assert_eq!(calls.open(call(None)), Some(first + 1), "the first is still in flight");
    }
}
