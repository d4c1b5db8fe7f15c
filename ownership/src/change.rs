//! What can happen to ownership. The engine is the only writer, and these are the only words it has.

use crate::id::{ContextId, DownloadId, FrameId, TargetId, TaskId, WindowId};

/// What a target is, as far as ownership cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A top-level page.
    Page,
    /// A service worker of a browser context that a task owns.
    ServiceWorker,
    /// An out-of-process iframe of an owned page. Its target id is its frame id.
    Frame,
    /// A dedicated worker of an owned page.
    Worker,
}

/// Why a page is a task's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lineage {
    /// The task's client (or Tabwarden for it) created it.
    Created,
    /// It was opened by this page of the task's (`window.open`, `_blank`, forms, from OOPIFs too).
    OpenedBy(TargetId),
    /// A ctrl-, shift- or middle-click in this page: Chromium names no opener, the order of events does.
    ClickedIn(TargetId),
    /// It lives in a browser context that only this task has.
    InContext,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A browser context that this task made and nobody else is in.
    ContextCreated {
        context: ContextId,
        task: TaskId,
    },
    ContextGone {
        context: ContextId,
    },
    /// A target of somebody's was seen; says nothing about who owns it.
    TargetSeen {
        target: TargetId,
    },
    /// A page or service worker is this task's from now on.
    Claimed {
        target: TargetId,
        task: TaskId,
        kind: TargetKind,
        context: ContextId,
        lineage: Lineage,
    },
    /// An OOPIF or worker of an owned page.
    ChildAttached {
        target: TargetId,
        page: TargetId,
        kind: TargetKind,
    },
    /// The target does not exist any more.
    Gone {
        target: TargetId,
    },
    /// The page is let go: it stays open and is nobody's.
    Released {
        target: TargetId,
    },
    FrameAttached {
        frame: FrameId,
        page: TargetId,
    },
    FrameDetached {
        frame: FrameId,
    },
    WindowSeen {
        window: WindowId,
        page: TargetId,
    },
    DownloadBegun {
        download: DownloadId,
        task: TaskId,
    },
    DownloadEnded {
        download: DownloadId,
    },
    TaskEnded {
        task: TaskId,
    },
}
