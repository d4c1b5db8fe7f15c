//! The reviewed table of every command and event of the protocol: what is done with it, and what its parameters name.
//!
//! `policy/table/methods.tsv` and `events.tsv` are compiled in and parsed once. A row that cannot be parsed is left out,
//! so that its method is unknown and refused; a test makes sure that there is none.

use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;

use crate::{RuleRef, Verb};

mod parse;
#[cfg(test)]
mod tests;

/// What is done with a command on one kind of session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sent as received; it names nothing that is not the session's own.
    Forward,
    /// Forward after the params listed in the row were checked and re-rendered.
    Check,
    /// Like `Check`, but only in a task with a browser context of its own; refused in a shared profile.
    OwnContext,
    /// The engine has its own code for it.
    Answer,
    /// An error with the row's reason.
    Refuse,
    /// -32601, as Chromium says it where the method does not exist on that surface.
    Absent,
}

/// What a parameter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    Target,
    Frame,
    Context,
    Session,
    Window,
    Download,
    /// An integer that names an execution context.
    World,
    UniqueWorld,
    /// A remote object or a call frame: `<isolate>.<execution context>.<number>`. Whoever guesses the handle of an object
    /// in an extension's world runs code there, so the middle number is judged like a [`ParamKind::World`].
    Object,
    /// A number that must not be negative: Chromium dies of one that is.
    NonNegative,
    Url(Verb),
    /// An origin, or a storage key, which begins with one: judged under the verbs of the row, and in the person's profile only
    /// where the task's pages have been.
    Origin,
    StorageKey,
    ReadPaths,
    WritePath,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// `frameId`, `cookies[].url`, `files[]`: members after a dot, `[]` for each element.
    pub path: &'static str,
    pub kind: ParamKind,
}

/// One command.
#[derive(Debug)]
pub struct Row {
    pub method: &'static str,
    /// On the session of a page, or of an OOPIF or worker below one.
    pub on_page: Action,
    /// `on_page` holds for the page's own session only; on those of its OOPIFs and workers it is refused.
    pub page_only: bool,
    /// On the browser's session.
    pub on_root: Action,
    pub params: Vec<Param>,
    /// What the policy has to allow; empty for the bookkeeping that every client needs.
    pub verbs: Vec<Verb>,
    /// Why; for a refusal also what to do instead.
    pub reason: &'static str,
    /// Of the method in `methods.tsv`, one-based.
    pub line: u32,
    pub(crate) rule: Arc<RuleRef>,
    #[cfg(test)]
    free: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To the client that owns the session on which it came.
    Deliver,
    /// The engine looks at it first.
    Filter,
    Drop,
}

/// One event.
#[derive(Debug)]
pub struct EventRow {
    pub event: &'static str,
    pub delivery: Delivery,
    /// Only where the page has a browser context of its own; kept back in a shared profile. Always with `Filter`.
    pub own_context: bool,
    /// What decides whose it is: when one of them is there and not the task's, the event is not for the task.
    pub params: Vec<Param>,
    pub reason: &'static str,
    /// Of the event in `events.tsv`, one-based.
    pub line: u32,
}

const METHODS: &str = include_str!("../../table/methods.tsv");
const EVENTS: &str = include_str!("../../table/events.tsv");

static METHOD_TABLE: LazyLock<FxHashMap<&'static str, Row>> =
    LazyLock::new(|| parse::methods(METHODS).0.into_iter().map(|row| (row.method, row)).collect());
static EVENT_TABLE: LazyLock<FxHashMap<&'static str, EventRow>> =
    LazyLock::new(|| parse::events(EVENTS).0.into_iter().map(|row| (row.event, row)).collect());

/// The row of a command; `None` means that it is unknown and refused.
pub fn method(name: &str) -> Option<&'static Row> {
    METHOD_TABLE.get(name)
}

/// The row of an event; `None` means that it is unknown and dropped.
pub fn event(name: &str) -> Option<&'static EventRow> {
    EVENT_TABLE.get(name)
}

/// Every command, in no particular order.
pub fn all() -> impl Iterator<Item = &'static Row> {
    METHOD_TABLE.values()
}

/// Every event, in no particular order.
pub fn all_events() -> impl Iterator<Item = &'static EventRow> {
    EVENT_TABLE.values()
}
