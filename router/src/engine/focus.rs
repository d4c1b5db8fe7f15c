//! Giving the keyboard focus back, in a browser with windows. A mouse press, a popup and a beforeunload dialog make Chromium
//! activate the window in which they happen, though it is in the background (measured, with and without a window manager).
//! The person's tab stays visible, and gets the focus back as soon as we know: 10 to 40 ms later.
//!
//! Nobody tells which window had the focus. There is one candidate when the person has one window: then its active tab gets
//! it. With more windows we do not guess.

use ownership::Change;
use ownership::id::{TargetId, WindowId};
use serde_json::{Value, json};

use super::Engine;
use super::calls::Purpose;
use crate::wire::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FocusStep {
    /// The window of a page of ours, which is not the person's.
    OwnWindow(TargetId),
    /// All tabs, of which some are the active ones of their windows.
    Tabs,
    /// The window of an active tab.
    WindowOf(TargetId),
}

#[derive(Default)]
pub struct Focus {
    running: bool,
    /// It was taken again meanwhile.
    again: bool,
    missing: usize,
    candidates: Vec<TargetId>,
}

impl Engine {
    fn has_windows(&self) -> bool {
        self.config.return_focus && !self.browser.user_agent.contains("Headless")
    }

    pub(super) fn learn_own_window(&mut self, page: TargetId) {
        if self.has_windows() {
            let params = json!({"targetId": page.as_str()});
            self.own(None, "Browser.getWindowForTarget", &params, Purpose::Focus(FocusStep::OwnWindow(page)));
        }
    }

    /// Something of ours has just taken it.
    pub(super) fn give_focus_back(&mut self) {
        if !self.has_windows() {
            return;
        }
        if self.focus.running {
            self.focus.again = true;
            return;
        }
        self.focus = Focus { running: true, ..Focus::default() };
        self.own(None, "Target.getTargets", &json!({"filter": [{"type": "tab"}]}), Purpose::Focus(FocusStep::Tabs));
    }

    pub(super) fn focus_answered(&mut self, step: FocusStep, outcome: Outcome<'_>) {
        let result = outcome.result();
        let window = result["windowId"].as_i64().map(WindowId);
        match step {
            FocusStep::OwnWindow(page) => {
                if let Some(window) = window {
                    self.change(Change::WindowSeen { window, page });
                }
                return;
            }
            FocusStep::Tabs => self.look_at_active_tabs(&result),
            FocusStep::WindowOf(tab) => {
                self.focus.missing = self.focus.missing.saturating_sub(1);
                if window.is_some_and(|window| !self.ledger.is_owned_window(window)) {
                    self.focus.candidates.push(tab);
                }
            }
        }
        if self.focus.missing == 0 {
            self.decide_focus();
        }
    }

    fn look_at_active_tabs(&mut self, result: &Value) {
        let active: Vec<TargetId> = result["targetInfos"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|info| info["embedderData"]["tabActive"] == true)
            // Contexts of tasks have windows of their own.
            .filter(|info| {
                info["browserContextId"].as_str() == self.browser.default_context.as_ref().map(|c| c.as_str())
            })
            .filter_map(|info| info["targetId"].as_str().and_then(TargetId::new))
            .collect();
        self.focus.missing = active.len();
        for tab in active {
            let params = json!({"targetId": tab.as_str()});
            self.own(None, "Browser.getWindowForTarget", &params, Purpose::Focus(FocusStep::WindowOf(tab)));
        }
    }

    fn decide_focus(&mut self) {
        let Focus { again, candidates, .. } = std::mem::take(&mut self.focus);
        match candidates[..] {
            [tab] => self.own_first(None, "Target.activateTarget", &json!({"targetId": tab.as_str()})),
            [] => {}
            _ => self.odd(
                "focus",
                "an agent's click or popup took the focus, and the person has several windows: which one had it cannot be known".to_owned(),
            ),
        }
        if again {
            self.give_focus_back();
        }
    }
}
