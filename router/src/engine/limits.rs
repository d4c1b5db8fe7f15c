//! `[limits]` of a policy: pages at a time, and loads of top documents in a minute. (Those of downloads are in `downloads.rs`.)

use std::time::Duration;

use ownership::id::{ClientId, TargetId, TaskId};
use ownership::{Lineage, TargetKind};
use policy::Verb;
use serde_json::json;

use super::Engine;
use super::audit::Judgement;
use super::calls::Purpose;
use super::refusal::Refusal;

const MINUTE: Duration = Duration::from_secs(60);

impl Engine {
    fn pages_of(&self, task: TaskId) -> usize {
        self.page_ids(task).into_iter().filter(|page| self.ledger.kind(*page) == Some(TargetKind::Page)).count()
    }

    /// Before a client's `Target.createTarget`: those that are on their way count too.
    pub(super) fn refuse_another_tab(&mut self, client: ClientId, task: TaskId, url: &str) -> Result<(), Refusal> {
        let Some(limit) = self.tasks.get(&task).and_then(|task| task.policy.limits().tabs) else { return Ok(()) };
        let coming = self.calls.purposes().filter(|purpose| match purpose {
            Purpose::CreatePage { task: other, .. } | Purpose::OpenPage { task: other, .. } => *other == task,
            _ => false,
        });
        if self.pages_of(task) + coming.count() < limit.value as usize {
            return Ok(());
        }
        let decision = policy::over_tab_limit(&limit);
        let judged = Judgement { decision, verb: Some(Verb::Navigate), object: url.to_owned() };
        Err(self.denied(client, "Target.createTarget", &judged))
    }

    /// A page of the task's has opened another one, which is held: one too many is closed before it loads anything.
    pub(super) fn close_if_too_many(&mut self, task: TaskId, popup: TargetId, lineage: Lineage) {
        let opener = match lineage {
            Lineage::OpenedBy(opener) | Lineage::ClickedIn(opener) => opener,
            _ => return,
        };
        let Some(limit) = self.tasks.get(&task).and_then(|task| task.policy.limits().tabs) else { return };
        if self.pages_of(task) <= limit.value as usize {
            return;
        }
        let object = self.targets.get(&popup).map(|target| target.info.url.clone()).unwrap_or_default();
        let decision = policy::over_tab_limit(&limit);
        self.blocked(opener, &Judgement { decision, verb: Some(Verb::Popup), object });
        self.own(None, "Target.closeTarget", &json!({"targetId": popup.as_str()}), Purpose::Nothing);
    }

    /// A top document of the task's is about to load: counts it, or says why it may not.
    pub(super) fn count_navigation(&mut self, task: TaskId, url: &str) -> Option<Judgement> {
        let now = self.now;
        let task = self.tasks.get_mut(&task)?;
        let limit = task.policy.limits().navigations_per_min?;
        while task.loads.front().is_some_and(|at| now.saturating_duration_since(*at) >= MINUTE) {
            task.loads.pop_front();
        }
        if task.loads.len() < limit.value as usize {
            task.loads.push_back(now);
            return None;
        }
        let decision = policy::over_navigation_limit(&limit);
        Some(Judgement { decision, verb: Some(Verb::Navigate), object: url.to_owned() })
    }
}
