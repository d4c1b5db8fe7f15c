//! Targets and sessions come and go. Holds are serial: whoever is to attach to a target and hold it waits until the one
//! before has let it go.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{Browser, Session, Target, TargetKind};
use crate::sim::truth::{ClientNo, Id, Kind, Owner};

/// First match decides, no match excludes; without a filter everything but `browser` and `tab`.
pub fn includes(filter: Option<&Value>, kind: &str) -> bool {
    let Some(entries) = filter.and_then(Value::as_array) else { return true };
    entries
        .iter()
        .find(|entry| entry.get("type").is_none_or(|entry| entry == kind))
        .is_some_and(|entry| entry["exclude"] != json!(true))
}

/// The page and the frame that open another one.
pub struct Opener<'a> {
    pub page: &'a Id,
    pub frame: &'a Id,
    pub can_access: bool,
}

impl Browser {
    // --- made ---------------------------------------------------------------------------------------------------

    /// A top-level page with a window of its own, or in that of `window`. Root auto-attach holds it.
    pub fn make_page(
        &mut self,
        context: &Id,
        owner: Owner,
        opener: Option<&Opener<'_>>,
        url: &str,
        window: Option<i64>,
    ) -> Id {
        let id = self.truth.make(&mut self.rng, Kind::Target, owner);
        let window = window.unwrap_or_else(|| self.number() as i64);
        self.insert(id.clone(), TargetKind::Page, context, url);
        if let Some(target) = self.targets.get_mut(&id) {
            target.opener = opener.map(|opener| (opener.page.clone(), opener.frame.clone()));
            target.can_access_opener = opener.is_some_and(|opener| opener.can_access);
            target.window = window;
            target.attachers.push_back(None);
        }
        self.announce(&id);
        self.serve(&id);
        id
    }

    pub fn insert(&mut self, id: Id, kind: TargetKind, context: &Id, url: &str) {
        self.targets.insert(
            id,
            Target {
                kind,
                context: context.clone(),
                url: url.to_owned(),
                title: String::new(),
                opener: None,
                can_access_opener: false,
                parent: None,
                frames: Vec::new(),
                window: 0,
                sessions: Vec::new(),
                held_by: None,
                attachers: VecDeque::new(),
                navigating: false,
                first_url: None,
                secret: false,
                closing: false,
                extension: false,
                worlds: Vec::new(),
            },
        );
    }

    pub fn owner(&self, id: &str) -> Owner {
        self.truth.get(id).map_or(Owner::Person, |thing| thing.owner)
    }

    /// The page at the top.
    pub fn page_of(&self, id: &Id) -> Id {
        let mut id = id.clone();
        while let Some(parent) = self.targets.get(&id).and_then(|target| target.parent.clone()) {
            id = parent;
        }
        id
    }

    pub fn info(&self, id: &Id) -> Value {
        let Some(target) = self.targets.get(id) else { return json!({}) };
        let mut info = json!({
            "targetId": &**id, "type": target.kind.name(), "title": target.title, "url": target.url,
            "attached": !target.sessions.is_empty(), "canAccessOpener": target.can_access_opener,
            "browserContextId": &*target.context,
        });
        if let Some((page, frame)) = &target.opener {
            info["openerId"] = json!(&**page);
            info["openerFrameId"] = json!(&**frame);
        }
        if let (TargetKind::Iframe, Some(parent)) = (target.kind, &target.parent) {
            info["parentId"] = json!(&**parent);
            info["parentFrameId"] = json!(&**parent);
        }
        info
    }

    /// Dedicated workers are known only to the sessions that attach to them.
    pub fn announce(&mut self, id: &Id) {
        let discovered = self.targets.get(id).is_some_and(|target| target.kind != TargetKind::Worker);
        if self.root.discover && discovered {
            let info = self.info(id);
            self.event(None, "Target.targetCreated", json!({"targetInfo": info}));
        }
    }

    pub fn info_changed(&mut self, id: &Id) {
        let discovered = self.targets.get(id).is_some_and(|target| target.kind != TargetKind::Worker);
        if self.root.discover && discovered {
            let info = self.info(id);
            self.event(None, "Target.targetInfoChanged", json!({"targetInfo": info}));
        }
    }

    // --- attached -----------------------------------------------------------------------------------------------

    /// A session below `parent`. The event is said by the caller, since what it says of waiting differs.
    pub fn attach(&mut self, target: &Id, parent: Option<&Id>, made_for: Option<ClientNo>) -> Id {
        let owner = self.owner(target);
        let id = self.truth.make(&mut self.rng, Kind::Session, owner);
        self.truth.with(&id, |thing| thing.made_for = made_for);
        self.sessions.insert(
            id.clone(),
            Session {
                target: target.clone(),
                parent: parent.cloned(),
                made_for,
                auto_attach: None,
                page_enabled: false,
                runtime_enabled: false,
                in_flight: VecDeque::new(),
            },
        );
        if let Some(target) = self.targets.get_mut(target) {
            target.sessions.push(id.clone());
        }
        id
    }

    pub fn say_attached(&mut self, session: &Id, target: &Id, parent: Option<&Id>, waiting: bool) {
        let mut info = self.info(target);
        info["attached"] = json!(true);
        // The first document of a new tab is under way, but the tab does not tell yet.
        if waiting && self.targets.get(target).is_some_and(|target| target.kind != TargetKind::ServiceWorker) {
            info["url"] = json!("");
        }
        let params = json!({"sessionId": &**session, "targetInfo": info, "waitingForDebugger": waiting});
        self.event(parent, "Target.attachedToTarget", params);
    }

    /// Attaches those that are next, until one holds it.
    pub fn serve(&mut self, id: &Id) {
        loop {
            let Some(target) = self.targets.get_mut(id).filter(|target| target.held_by.is_none()) else { return };
            let kind = target.kind.name();
            let Some(parent) = target.attachers.pop_front() else {
                // It runs.
                if let Some(url) = target.first_url.take() {
                    self.first_document(id, &url);
                }
                return;
            };
            let wait = match &parent {
                None => self.root.auto_attach.as_ref().filter(|filter| includes(Some(filter), kind)).map(|_| true),
                Some(parent) => self
                    .sessions
                    .get(parent)
                    .and_then(|session| session.auto_attach.as_ref())
                    .filter(|auto| includes(auto.filter.as_ref(), kind))
                    .map(|auto| auto.wait),
            };
            let Some(wait) = wait else { continue };
            let made_for = parent.as_ref().and_then(|parent| self.sessions.get(parent)).and_then(|s| s.made_for);
            let session = self.attach(id, parent.as_ref(), made_for);
            if let Some(target) = self.targets.get_mut(id).filter(|_| wait) {
                target.held_by = Some(session.clone());
            }
            self.say_attached(&session, id, parent.as_ref(), wait);
        }
    }

    /// Sessions on that target that attach to what is below it, in the order in which they asked.
    pub fn attachers_of(&self, target: &Id) -> VecDeque<Option<Id>> {
        let mut asking: Vec<(u64, Id)> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.target == *target)
            .filter_map(|(id, session)| Some((session.auto_attach.as_ref()?.order, id.clone())))
            .collect();
        asking.sort();
        asking.into_iter().map(|(_, id)| Some(id)).collect()
    }

    pub fn resume(&mut self, session: &Id) {
        let Some(target) = self.sessions.get(session).map(|session| session.target.clone()) else { return };
        if let Some(held) = self.targets.get_mut(&target).filter(|held| held.held_by.as_ref() == Some(session)) {
            held.held_by = None;
            self.serve(&target);
        }
    }

    // --- gone ---------------------------------------------------------------------------------------------------

    /// Ends a session; what it had in flight is never answered. A handler that ends tells nothing of what was below it.
    pub fn kill(&mut self, id: &Id, tell: bool) {
        self.end_session(id, tell, false);
    }

    /// `let_go`: the engine detaches it of its own accord. (A client that detaches what it holds has itself to thank.)
    pub fn end_session(&mut self, id: &Id, tell: bool, let_go: bool) {
        let below: Vec<Id> =
            self.sessions.iter().filter(|(_, s)| s.parent.as_ref() == Some(id)).map(|(id, _)| id.clone()).collect();
        for child in below {
            self.kill(&child, false);
        }
        let Some(session) = self.sessions.remove(id) else { return };
        self.truth.gone(id);
        if let Some(target) = self.targets.get_mut(&session.target) {
            target.sessions.retain(|other| other != id);
            let held = target.held_by.as_ref() == Some(id);
            if let_go && held && matches!(target.kind, TargetKind::Page | TargetKind::ServiceWorker) {
                self.remarks
                    .push("what is detached while it is held never runs (measured): it has to be resumed first");
            }
            if target.held_by.as_ref() == Some(id) {
                target.held_by = None;
            }
        }
        if tell {
            let params = json!({"sessionId": &**id, "targetId": &*session.target});
            self.event(session.parent.as_ref(), "Target.detachedFromTarget", params);
        }
        self.serve(&session.target);
    }

    pub fn destroy(&mut self, id: &Id) {
        self.destroy_telling(id, true);
    }

    fn destroy_telling(&mut self, id: &Id, tell: bool) {
        let children: Vec<Id> =
            self.targets.iter().filter(|(_, t)| t.parent.as_ref() == Some(id)).map(|(id, _)| id.clone()).collect();
        for child in children {
            // Whether a dying page tells of the sessions below its own is Chromium's choice.
            let tell = self.rng.chance(50);
            self.destroy_telling(&child, tell);
        }
        let Some(target) = self.targets.get_mut(id) else { return };
        target.attachers.clear();
        let sessions = target.sessions.clone();
        let told = target.kind != TargetKind::Worker;
        if self.rng.chance(30) {
            self.page_event(id, "Inspector.detached", &json!({"reason": "Render process gone."}));
        }
        for session in sessions {
            let on_root = self.sessions.get(&session).is_some_and(|session| session.parent.is_none());
            self.kill(&session, tell || on_root);
        }
        self.paused.retain(|_, navigation| navigation.target != *id);
        let Some(target) = self.targets.remove(id) else { return };
        for frame in &target.frames {
            self.truth.gone(frame);
        }
        self.truth.gone(id);
        *self.ends.entry(id.clone()).or_default() += 1;
        self.end_private_window(&target.context);
        if self.root.discover && told {
            self.event(None, "Target.targetDestroyed", json!({"targetId": &**id}));
        }
    }

    /// The person's private windows: the context goes with the last page in it.
    fn end_private_window(&mut self, context: &Id) {
        let of_person = self.contexts.get(context).is_some_and(|context| context.owner == Owner::Person);
        let used = self.targets.values().any(|target| target.context == *context);
        if of_person && !used && *context != self.profile {
            self.contexts.remove(context);
            self.truth.gone(context);
        }
    }

    /// The engine has let that page go: it and all below it are the person's. Gives their ids.
    pub fn released(&mut self, page: &Id) -> Vec<Id> {
        let mut below: Vec<Id> = self.targets.keys().filter(|id| self.page_of(id) == *page).cloned().collect();
        for id in below.clone() {
            below.extend(self.targets.get(&id).map(|target| target.frames.clone()).unwrap_or_default());
        }
        below.iter().for_each(|id| self.truth.release(id));
        below
    }

    pub fn dispose(&mut self, context: &Id) {
        let inside: Vec<Id> = self
            .targets
            .iter()
            .filter(|(_, target)| target.context == *context && target.parent.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in inside {
            self.destroy(&id);
        }
        // Its downloads end with it, without a word.
        for (guid, _) in self.downloads.extract_if(.., |(_, at)| at == context) {
            self.truth.gone(&guid);
        }
        self.contexts.remove(context);
        self.truth.gone(context);
    }
}
