//! The ledger: all changes so far, added up, and the questions that the router asks it.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::change::{Change, Lineage, TargetKind};
use crate::id::{ContextId, DownloadId, FrameId, TargetId, TaskId, WindowId};

/// How many closed targets are remembered, over all tasks. Beyond that a closed target reads as never seen, which
/// changes one error text and nothing else.
const REMEMBERED: usize = 4096;

/// How a task stands to a thing that a client named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Owned,
    /// Was the task's, and exists no more.
    Gone,
    /// Somebody else's: another task's or the person's.
    Foreign,
    /// Never heard of. Answered like `Foreign`, so that a client cannot tell them apart.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    task: TaskId,
    kind: TargetKind,
    /// The page itself for pages; the page above for children.
    page: TargetId,
    context: ContextId,
    lineage: Option<Lineage>,
}

#[derive(Default, Debug)]
pub struct Ledger {
    targets: FxHashMap<TargetId, Entry>,
    seen: FxHashSet<TargetId>,
    frames: FxHashMap<FrameId, TargetId>,
    contexts: FxHashMap<ContextId, TaskId>,
    windows: FxHashMap<WindowId, TargetId>,
    downloads: FxHashMap<DownloadId, TaskId>,
    gone: FxHashMap<TargetId, TaskId>,
    gone_order: VecDeque<TargetId>,
}

impl Ledger {
    pub fn apply(&mut self, change: &Change) {
        match *change {
            Change::ContextCreated { context, task } => {
                self.contexts.insert(context, task);
            }
            Change::ContextGone { context } => {
                self.contexts.remove(&context);
            }
            Change::TargetSeen { target } => {
                self.seen.insert(target);
            }
            Change::Claimed { target, task, kind, context, lineage } => {
                self.seen.insert(target);
                self.targets.insert(target, Entry { task, kind, page: target, context, lineage: Some(lineage) });
                if let (TargetKind::Page, Some(frame)) = (kind, FrameId::new(target.as_str())) {
                    self.frames.insert(frame, target);
                }
            }
            Change::ChildAttached { target, page, kind } => {
                let Some(above) = self.targets.get(&page).copied() else { return };
                self.seen.insert(target);
                self.targets.insert(target, Entry { kind, page, lineage: None, ..above });
                if let (TargetKind::Frame, Some(frame)) = (kind, FrameId::new(target.as_str())) {
                    self.frames.insert(frame, page);
                }
            }
            Change::Gone { target } => {
                self.seen.remove(&target);
                if let Some(entry) = self.forget(target) {
                    self.remember(target, entry.task);
                }
            }
            Change::Released { target } => {
                self.forget(target);
            }
            Change::FrameAttached { frame, page } => {
                if self.targets.contains_key(&page) {
                    self.frames.insert(frame, page);
                }
            }
            Change::FrameDetached { frame } => {
                self.frames.remove(&frame);
            }
            Change::WindowSeen { window, page } => {
                if self.targets.contains_key(&page) {
                    self.windows.insert(window, page);
                }
            }
            Change::DownloadBegun { download, task } => {
                self.downloads.insert(download, task);
            }
            Change::DownloadEnded { download } => {
                self.downloads.remove(&download);
            }
            Change::TaskEnded { task } => self.end(task),
        }
    }

    /// Drops the target, and with a page everything below it.
    fn forget(&mut self, target: TargetId) -> Option<Entry> {
        let entry = self.targets.remove(&target)?;
        if entry.page == target {
            self.targets.retain(|_, other| other.page != target);
            self.frames.retain(|_, page| *page != target);
            self.windows.retain(|_, page| *page != target);
        }
        Some(entry)
    }

    fn remember(&mut self, target: TargetId, task: TaskId) {
        if self.gone.insert(target, task).is_none() {
            self.gone_order.push_back(target);
        }
        while self.gone_order.len() > REMEMBERED {
            if let Some(oldest) = self.gone_order.pop_front() {
                self.gone.remove(&oldest);
            }
        }
    }

    fn end(&mut self, task: TaskId) {
        let pages: Vec<TargetId> = self.pages(task).collect();
        for page in pages {
            self.forget(page);
        }
        self.targets.retain(|_, entry| entry.task != task);
        self.contexts.retain(|_, owner| *owner != task);
        self.downloads.retain(|_, owner| *owner != task);
        self.gone.retain(|_, owner| *owner != task);
        let gone = &self.gone;
        self.gone_order.retain(|target| gone.contains_key(target));
    }

    pub fn target(&self, task: TaskId, target: TargetId) -> Relation {
        match self.targets.get(&target) {
            Some(entry) if entry.task == task => Relation::Owned,
            Some(_) => Relation::Foreign,
            None if self.gone.get(&target) == Some(&task) => Relation::Gone,
            None if self.seen.contains(&target) || self.gone.contains_key(&target) => Relation::Foreign,
            None => Relation::Unknown,
        }
    }

    /// A frame counts only for its own page: a session reaches no other, and neither may a command on it.
    pub fn frame(&self, page: TargetId, frame: FrameId) -> Relation {
        match self.frames.get(&frame) {
            Some(owner) if *owner == page => Relation::Owned,
            Some(_) => Relation::Foreign,
            None => Relation::Unknown,
        }
    }

    pub fn context(&self, task: TaskId, context: ContextId) -> Relation {
        match self.contexts.get(&context) {
            Some(owner) if *owner == task => Relation::Owned,
            Some(_) => Relation::Foreign,
            None => Relation::Unknown,
        }
    }

    pub fn window(&self, task: TaskId, window: WindowId) -> Relation {
        match self.windows.get(&window) {
            Some(page) => self.target(task, *page),
            None => Relation::Unknown,
        }
    }

    /// Whether a page of any task's is in that window.
    pub fn is_owned_window(&self, window: WindowId) -> bool {
        self.windows.contains_key(&window)
    }

    pub fn download(&self, task: TaskId, download: DownloadId) -> Relation {
        match self.downloads.get(&download) {
            Some(owner) if *owner == task => Relation::Owned,
            Some(_) => Relation::Foreign,
            None => Relation::Unknown,
        }
    }

    pub fn owner(&self, target: TargetId) -> Option<TaskId> {
        self.targets.get(&target).map(|entry| entry.task)
    }

    pub fn owner_of_context(&self, context: ContextId) -> Option<TaskId> {
        self.contexts.get(&context).copied()
    }

    pub fn owner_of_download(&self, download: DownloadId) -> Option<TaskId> {
        self.downloads.get(&download).copied()
    }

    /// The page above an owned target (itself, for a page).
    pub fn page_of(&self, target: TargetId) -> Option<TargetId> {
        self.targets.get(&target).map(|entry| entry.page)
    }

    pub fn page_of_frame(&self, frame: FrameId) -> Option<TargetId> {
        self.frames.get(&frame).copied()
    }

    pub fn frames_of(&self, page: TargetId) -> impl Iterator<Item = FrameId> + '_ {
        self.frames.iter().filter(move |(_, owner)| **owner == page).map(|(frame, _)| *frame)
    }

    /// OOPIFs and workers.
    pub fn targets_below(&self, page: TargetId) -> impl Iterator<Item = TargetId> + '_ {
        self.targets.iter().filter(move |(id, entry)| entry.page == page && **id != page).map(|(id, _)| *id)
    }

    pub fn kind(&self, target: TargetId) -> Option<TargetKind> {
        self.targets.get(&target).map(|entry| entry.kind)
    }

    pub fn context_of(&self, target: TargetId) -> Option<ContextId> {
        self.targets.get(&target).map(|entry| entry.context)
    }

    pub fn lineage(&self, target: TargetId) -> Option<Lineage> {
        self.targets.get(&target).and_then(|entry| entry.lineage)
    }

    /// The task's top-level targets: pages and service workers.
    pub fn pages(&self, task: TaskId) -> impl Iterator<Item = TargetId> + '_ {
        self.targets.iter().filter(move |(id, entry)| entry.task == task && entry.page == **id).map(|(id, _)| *id)
    }

    pub fn contexts(&self, task: TaskId) -> impl Iterator<Item = ContextId> + '_ {
        self.contexts.iter().filter(move |(_, owner)| **owner == task).map(|(context, _)| *context)
    }

    /// Whether this text, wherever it stands in a command, is the id of something that exists and is not this task's.
    /// (Frames of pages that nobody owns are not known to us, and so cannot have come from us either.)
    pub fn names_foreign(&self, task: TaskId, text: &str) -> bool {
        let foreign = |relation: Relation| relation == Relation::Foreign;
        TargetId::new(text).is_some_and(|id| foreign(self.target(task, id)))
            || ContextId::new(text).is_some_and(|id| foreign(self.context(task, id)))
            || DownloadId::new(text).is_some_and(|id| foreign(self.download(task, id)))
            || FrameId::new(text)
                .and_then(|frame| self.frames.get(&frame))
                .is_some_and(|page| self.owner(*page) != Some(task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: TaskId = TaskId(1);
    const TWO: TaskId = TaskId(2);

    fn target(n: u8) -> TargetId {
        TargetId::from_bytes([n; 16])
    }

    fn frame(n: u8) -> FrameId {
        FrameId::from_bytes([n; 16])
    }

    fn context(n: u8) -> ContextId {
        ContextId::from_bytes([n; 16])
    }

    fn claimed(n: u8, task: TaskId) -> Change {
        Change::Claimed {
            target: target(n),
            task,
            kind: TargetKind::Page,
            context: context(0xc0),
            lineage: Lineage::Created,
        }
    }

    fn ledger(changes: &[Change]) -> Ledger {
        let mut ledger = Ledger::default();
        changes.iter().for_each(|change| ledger.apply(change));
        ledger
    }

    #[test]
    fn a_claimed_page_is_its_tasks_and_foreign_to_others() {
        let ledger = ledger(&[claimed(1, ONE), Change::TargetSeen { target: target(9) }]);
        assert_eq!(ledger.target(ONE, target(1)), Relation::Owned);
        assert_eq!(ledger.target(TWO, target(1)), Relation::Foreign);
        assert_eq!(ledger.target(ONE, target(9)), Relation::Foreign, "the person's");
        assert_eq!(ledger.target(ONE, target(7)), Relation::Unknown);
    }

    #[test]
    fn a_closed_page_is_gone_for_its_task_only() {
        let ledger = ledger(&[claimed(1, ONE), Change::Gone { target: target(1) }]);
        assert_eq!(ledger.target(ONE, target(1)), Relation::Gone);
        assert_eq!(ledger.target(TWO, target(1)), Relation::Foreign);
    }

    #[test]
    fn a_released_page_takes_its_children_and_frames_with_it() {
        let ledger = ledger(&[
            claimed(1, ONE),
            Change::ChildAttached { target: target(2), page: target(1), kind: TargetKind::Frame },
            Change::FrameAttached { frame: frame(3), page: target(1) },
            Change::Released { target: target(1) },
        ]);
        assert_eq!(ledger.target(ONE, target(1)), Relation::Foreign);
        assert_eq!(ledger.target(ONE, target(2)), Relation::Foreign);
        assert_eq!(ledger.frame(target(1), frame(3)), Relation::Unknown);
    }

    #[test]
    fn frames_count_for_their_own_page_only() {
        let ledger =
            ledger(&[claimed(1, ONE), claimed(2, ONE), Change::FrameAttached { frame: frame(3), page: target(1) }]);
        assert_eq!(ledger.frame(target(1), frame(3)), Relation::Owned);
        assert_eq!(ledger.frame(target(2), frame(3)), Relation::Foreign);
        assert_eq!(ledger.frame(target(1), frame(1)), Relation::Owned, "the main frame has its page's id");
    }

    #[test]
    fn windows_follow_their_page() {
        let ledger = ledger(&[claimed(1, ONE), Change::WindowSeen { window: WindowId(5), page: target(1) }]);
        assert_eq!(ledger.window(ONE, WindowId(5)), Relation::Owned);
        assert_eq!(ledger.window(TWO, WindowId(5)), Relation::Foreign);
        assert_eq!(ledger.window(ONE, WindowId(6)), Relation::Unknown);
    }

    #[test]
    fn the_end_of_a_task_leaves_nothing_of_it() {
        let ledger = ledger(&[
            Change::ContextCreated { context: context(7), task: ONE },
            claimed(1, ONE),
            Change::ChildAttached { target: target(2), page: target(1), kind: TargetKind::Worker },
            claimed(3, TWO),
            Change::TaskEnded { task: ONE },
        ]);
        assert_eq!(ledger.pages(ONE).count(), 0);
        assert_eq!(ledger.context(ONE, context(7)), Relation::Unknown);
        assert_eq!(ledger.target(TWO, target(3)), Relation::Owned);
    }

    #[test]
    fn any_text_can_be_asked_for_foreignness() {
        let ledger = ledger(&[claimed(1, ONE), claimed(2, TWO), Change::TargetSeen { target: target(9) }]);
        assert!(!ledger.names_foreign(ONE, target(1).as_str()));
        assert!(ledger.names_foreign(ONE, target(2).as_str()));
        assert!(ledger.names_foreign(ONE, target(9).as_str()));
        assert!(!ledger.names_foreign(ONE, "hello"));
    }

    #[test]
    fn the_memory_of_closed_pages_is_bounded() {
        let mut ledger = Ledger::default();
        for n in 0..(REMEMBERED as u32 + 10) {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            let target = TargetId::from_bytes(bytes);
            ledger.apply(&Change::Claimed {
                target,
                task: ONE,
                kind: TargetKind::Page,
                context: context(1),
                lineage: Lineage::Created,
            });
            ledger.apply(&Change::Gone { target });
        }
        assert_eq!(ledger.gone.len(), REMEMBERED);
    }
}
