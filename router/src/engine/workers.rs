//! Service workers that could answer for a forbidden document: `Fetch` does not see what they answer.

use ownership::id::TargetId;
use policy::Verb;
use serde_json::{Value, json};

use super::Engine;
use super::calls::Purpose;
use super::state::Cause;

impl Engine {
    /// Whether a service worker's scope covers that URL: it may answer for the document, and `Fetch` does not see that.
    pub(super) fn has_service_worker(&self, page: TargetId, url: &str) -> bool {
        if self.targets.get(&page).is_some_and(|target| target.bypasses_workers) {
            return false;
        }
        let context = self.ledger.context_of(page);
        let scopes = context.and_then(|context| self.worker_scopes.get(&context));
        scopes.is_some_and(|scopes| scopes.values().any(|scope| url.starts_with(scope)))
    }

    pub(super) fn worker_registrations_updated(&mut self, page: TargetId, params: &Value) {
        let Some(context) = self.ledger.context_of(page) else { return };
        let scopes = self.worker_scopes.entry(context).or_default();
        for registration in params["registrations"].as_array().into_iter().flatten() {
            let (id, scope) = (registration["registrationId"].as_str(), registration["scopeURL"].as_str());
            let (Some(id), Some(scope)) = (id, scope) else { continue };
            match registration["isDeleted"].as_bool() {
                Some(true) => scopes.remove(id),
                _ => scopes.insert(id.to_owned(), scope.to_owned()),
            };
        }
        self.bypass_forbidden_workers(page);
    }

    /// Where a worker of a forbidden site could answer for a document, the page goes past workers, so that `Fetch` sees the
    /// load and can fail it. (It needs the guard's Network domain, and stays off where nobody has such a worker: pages that
    /// bypass their own workers are not quite themselves.)
    fn bypass_forbidden_workers(&mut self, page: TargetId) {
        let Some((task, context)) = self.ledger.owner(page).zip(self.ledger.context_of(page)) else { return };
        let Some(scopes) = self.worker_scopes.get(&context) else { return };
        let forbidden = scopes.values().any(|scope| {
            let forbids = |verb| self.forbids(task, verb, scope, Some(Cause::Page)).is_some();
            forbids(Verb::Navigate) || forbids(Verb::Frame)
        });
        let Some(target) = self.targets.get_mut(&page).filter(|target| forbidden && !target.bypasses_workers) else {
            return;
        };
        target.bypasses_workers = true;
        let guard = target.guard;
        let no_bodies = json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0});
        self.own(guard, "Network.enable", &no_bodies, Purpose::Nothing);
        self.own(guard, "Network.setBypassServiceWorker", &json!({"bypass": true}), Purpose::Nothing);
    }
}
