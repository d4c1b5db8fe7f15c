//! Service workers: those that could answer for a forbidden document, which `Fetch` does not see, and the holds of those that
//! are a task's own.

use ownership::id::{SessionId, TargetId};
use policy::Verb;
use serde_json::{Value, json};

use super::Engine;
use super::calls::{Learn, Purpose, ReplyTo};
use super::refusal::Refusal;
use super::state::{Cause, Wish};

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
        let is_new = self.targets.get(&page).is_some_and(|target| !target.bypasses_workers);
        if !is_new || !self.has_forbidden_workers(page) {
            return;
        }
        // A cross-site frame has a session of its own, and its loads do not go by the page's.
        for guard in self.guards_of(page) {
            self.bypass_workers(page, guard);
        }
    }

    /// Whether a worker in the page's context could answer for a document that its task may not hold.
    pub(super) fn has_forbidden_workers(&self, page: TargetId) -> bool {
        let Some((task, context)) = self.ledger.owner(page).zip(self.ledger.context_of(page)) else { return false };
        let Some(scopes) = self.worker_scopes.get(&context) else { return false };
        scopes.values().any(|scope| {
            let forbids = |verb| self.forbids(task, verb, scope, Some(Cause::Page)).is_some();
            forbids(Verb::Navigate) || forbids(Verb::Frame)
        })
    }

    /// From now on what the page, or the OOPIF whose guard that is, loads goes past service workers.
    pub(super) fn bypass_workers(&mut self, page: TargetId, guard: SessionId) {
        if let Some(target) = self.targets.get_mut(&page).filter(|target| target.guard == Some(guard)) {
            target.bypasses_workers = true;
        }
        let no_bodies = json!({"maxTotalBufferSize": 0, "maxResourceBufferSize": 0});
        self.own(Some(guard), "Network.enable", &no_bodies, Purpose::Nothing);
        self.own(Some(guard), "Network.setBypassServiceWorker", &json!({"bypass": true}), Purpose::Nothing);
    }

    // --- those of a task's own context ------------------------------------------------------------------------------

    /// A client's session on a service worker below one of its pages.
    pub(super) fn is_below_a_page(&self, session: SessionId) -> bool {
        self.client_session(session).is_some_and(|session| {
            let kind = self.targets.get(&session.target).map(|target| target.info.kind.as_str());
            session.parent.is_some() && kind == Some("service_worker")
        })
    }

    /// The hold of the root has ended: so do the holds below pages. A client that has asked on its session from the root may
    /// never ask below the page, as Playwright does not; what it did ask there is carried out.
    pub(super) fn run_below(&mut self, id: TargetId, is_worker: bool, wishes: Vec<(SessionId, Wish)>) {
        let sessions = self.targets.get(&id).filter(|_| is_worker).map(|target| target.sessions.clone());
        for session in sessions.unwrap_or_default() {
            if self.is_below_a_page(session) && !wishes.iter().any(|(asked, _)| *asked == session) {
                self.own(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}), Purpose::Nothing);
            }
        }
        for (session, wish) in wishes {
            match wish {
                Wish::Run(to) => {
                    let purpose = Purpose::Client { to, learn: Learn::Nothing, met: None };
                    self.transmit(
                        Some(session),
                        "Runtime.runIfWaitingForDebugger",
                        "{}",
                        purpose,
                        Some(to.client),
                        false,
                    );
                }
                Wish::Detach(to) => self.run_then_detach(session, to),
            }
        }
    }

    /// `Target.detachFromTarget` below a page: a service worker that is detached while it is held never starts (measured), so
    /// it is resumed first; and before that the session from the root has to be set up.
    pub(super) fn detach_below(&mut self, session: SessionId, to: ReplyTo) {
        let target = self.client_session(session).map(|session| session.target);
        match target.and_then(|target| self.targets.get_mut(&target)).filter(|target| target.hold.is_some()) {
            Some(target) => target.held_below.push((session, Wish::Detach(to))),
            None => self.run_then_detach(session, to),
        }
    }

    fn run_then_detach(&mut self, session: SessionId, to: ReplyTo) {
        let purpose = Purpose::RunThenDetach { session, to };
        self.own(Some(session), "Runtime.runIfWaitingForDebugger", &json!({}), purpose);
    }

    pub(super) fn ran_and_detaches(&mut self, session: SessionId, to: ReplyTo) {
        let Some(parent) = self.client_session(session).and_then(|session| session.parent) else {
            return self.refuse(to, &Refusal::no_such_child_session());
        };
        let params = json!({"sessionId": session.as_str()}).to_string();
        let purpose = Purpose::Client { to, learn: Learn::Nothing, met: None };
        self.transmit(Some(parent), "Target.detachFromTarget", &params, purpose, Some(to.client), false);
    }
}
