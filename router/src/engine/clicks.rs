//! Ctrl-, shift- and middle-clicks: their tabs carry no opener. In a task's own browser context the tab is the task's. In the
//! person's profile the event of the click and the URL are not enough: a script can make such an event without any tab
//! following (the popup blocker), and wait for the person to open that address. So there a tab needs two witnesses, and is
//! held until they have spoken: its request names a document of the clicking page as its referrer, and a tab by ctrl- or
//! middle-click is in the clicking page's window. In doubt it is nobody's.

use std::time::{Duration, Instant};

use ownership::Lineage;
use ownership::id::{ContextId, TargetId, TaskId};
use serde_json::{Value, json};

use super::Engine;
use super::calls::Purpose;
use super::info::TargetInfo;
use super::io::{Record, RecordKind};
use crate::wire::Outcome;

/// A click's tab appears within milliseconds; on a busy machine it may take seconds. After this long a tab with that URL is
/// somebody else's.
const CLICK_TO_TAB: Duration = Duration::from_secs(5);

/// A tab that is held for its witnesses is let go after this. (Its paused request is one, and comes at once.)
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// A new tab that an owned page's frame has asked for and that has not appeared yet.
#[derive(Clone)]
pub struct Expected {
    task: TaskId,
    pub page: TargetId,
    context: Option<ContextId>,
    url: String,
    /// By ctrl- or middle-click it stands beside the page; by shift-click it has a window of its own.
    in_same_window: bool,
    at: Instant,
}

/// A tab that may be a click's, and what its witnesses have said.
pub struct Click {
    expected: Expected,
    pub since: Instant,
    window: Option<i64>,
    page_window: Option<i64>,
    /// The origin of the request's referrer; `Some(None)`: it has none.
    referrer: Option<Option<String>>,
}

/// Scheme, host and port; `None` where a URL has none.
pub fn origin(url: &str) -> Option<&str> {
    let after = url.find("://")? + 3;
    let end = url[after..].find(['/', '?', '#']).map_or(url.len(), |end| after + end);
    Some(&url[..end])
}

impl Engine {
    pub(super) fn new_tab_requested(&mut self, page: TargetId, url: &str, in_same_window: bool) {
        let Some(task) = self.ledger.owner(page) else { return };
        // What loads without a request has no witness.
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return;
        }
        let (context, now) = (self.ledger.context_of(page), self.now);
        self.expected.retain(|expected| now < expected.at + CLICK_TO_TAB && expected.page != page);
        self.expected.push(Expected { task, page, context, url: url.to_owned(), in_same_window, at: now });
    }

    /// A tab without an opener that fits a click: its, if the context is the task's own; else a candidate.
    pub(super) fn attribute_click(&mut self, info: &TargetInfo) -> (Option<(TaskId, Lineage)>, Option<Click>) {
        if info.kind != "page" || info.opener.is_some() || info.url.is_empty() {
            return (None, None);
        }
        let now = self.now;
        self.expected.retain(|expected| now < expected.at + CLICK_TO_TAB);
        let fits = |expected: &Expected| expected.url == info.url && expected.context == info.context;
        let Some(first) = self.expected.iter().position(fits) else { return (None, None) };
        let task = self.expected[first].task;
        if self.expected.iter().any(|expected| fits(expected) && expected.task != task) {
            let message = format!("a new tab {} was expected by two tasks at once and given to neither", info.id);
            self.record(Record { task: None, client: None, kind: RecordKind::Odd, message });
            return (None, None);
        }
        let expected = self.expected.remove(first);
        let own_context = info.context.is_some_and(|context| self.ledger.owner_of_context(context) == Some(task));
        match own_context {
            true => (Some((task, Lineage::ClickedIn(expected.page))), None),
            false => {
                let click = Click { expected, since: now, window: None, page_window: None, referrer: None };
                (None, Some(click))
            }
        }
    }

    /// The tab is held now: asks for the windows. The referrer comes with its paused document.
    pub(super) fn ask_witnesses(&mut self, tab: TargetId) {
        let Some(click) = self.targets.get(&tab).and_then(|target| target.click.as_ref()) else { return };
        if click.expected.in_same_window {
            for (of, is_page) in [(tab, false), (click.expected.page, true)] {
                let params = json!({"targetId": of.as_str()});
                self.own(None, "Browser.getWindowForTarget", &params, Purpose::ClickWindow { tab, is_page });
            }
        }
    }

    pub(super) fn window_witnessed(&mut self, tab: TargetId, is_page: bool, outcome: Outcome<'_>) {
        let window = outcome.result()["windowId"].as_i64();
        let Some(click) = self.targets.get_mut(&tab).and_then(|target| target.click.as_mut()) else { return };
        // A window that is not told is none that could agree.
        match is_page {
            true => click.page_window = Some(window.unwrap_or(-1)),
            false => click.window = Some(window.unwrap_or(-2)),
        }
        self.decide_click(tab);
    }

    pub(super) fn referrer_witnessed(&mut self, tab: TargetId, request: &Value) {
        let headers = request["headers"].as_object();
        let referrer = headers
            .and_then(|headers| headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("referer")))
            .and_then(|(_, value)| value.as_str())
            .and_then(origin)
            .map(str::to_owned);
        let Some(click) = self.targets.get_mut(&tab).and_then(|target| target.click.as_mut()) else { return };
        click.referrer = Some(referrer);
        self.decide_click(tab);
    }

    fn decide_click(&mut self, tab: TargetId) {
        // A page that is being made in that context may still turn out to be this one; its response has the first word.
        let waits = self.undecided.iter().any(|undecided| undecided.target == tab && !undecided.made_by.is_empty());
        let Some(verdict) = self.click_verdict(tab).filter(|_| !waits) else { return };
        self.settle_undecided(tab, verdict);
    }

    /// `None`: a witness has not spoken yet. `Some(None)`: nobody's.
    pub(super) fn click_verdict(&self, tab: TargetId) -> Option<Option<(TaskId, Lineage)>> {
        let click = self.targets.get(&tab)?.click.as_ref()?;
        let referrer = click.referrer.as_ref()?;
        let Expected { task, page, in_same_window, .. } = click.expected;
        if in_same_window && (click.window? != click.page_window?) {
            return Some(None);
        }
        let named = referrer
            .as_deref()
            .is_some_and(|referrer| self.targets.get(&page).is_some_and(|target| target.origins.contains(referrer)));
        let living = self.ledger.owner(page) == Some(task);
        Some((named && living).then_some((task, Lineage::ClickedIn(page))))
    }

    pub(super) fn click_deadlines(&self) -> impl Iterator<Item = Instant> + '_ {
        self.undecided
            .iter()
            .filter_map(|undecided| self.targets.get(&undecided.target)?.click.as_ref())
            .map(|click| click.since + LONGEST_SILENCE)
    }

    /// A tab whose witnesses stay silent is nobody's.
    pub(super) fn let_silent_clicks_go(&mut self) {
        let now = self.now;
        let silent: Vec<TargetId> = self
            .undecided
            .iter()
            .map(|undecided| undecided.target)
            .filter(|tab| {
                let click = self.targets.get(tab).and_then(|target| target.click.as_ref());
                click.is_some_and(|click| now >= click.since + LONGEST_SILENCE)
            })
            .collect();
        for tab in silent {
            self.settle_undecided(tab, None);
        }
    }
}
