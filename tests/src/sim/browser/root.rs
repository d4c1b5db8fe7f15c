//! Commands on the root session, which the browser process carries out in the order in which they came.

use serde_json::{Value, json};

use super::life::includes;
use super::{Browser, Context, Incoming, Later, TargetKind, error, result};
use crate::sim::truth::{Id, Kind, Owner};

const NO_TARGET: &str = "No target with given id found";

impl Browser {
    pub fn root_command(&mut self, id: i64, method: &str, params: &Value, incoming: &Incoming) {
        let done = result(params, json!({}));
        let answer = match method {
            "Browser.getVersion" => result(
                params,
                json!({"product": "Chrome/156", "userAgent": "UA", "protocolVersion": "1.3", "revision": "r", "jsVersion": "v"}),
            ),
            "Target.getBrowserContexts" => {
                result(params, json!({"browserContextIds": [], "defaultBrowserContextId": &*self.profile}))
            }
            "Target.setDiscoverTargets" => {
                self.root.discover = true;
                for target in self.targets.keys().cloned().collect::<Vec<_>>() {
                    self.announce(&target);
                }
                done
            }
            "Fetch.enable" => {
                self.root.fetch = true;
                done
            }
            "Target.setAutoAttach" => {
                self.root_auto_attach(&params["filter"]);
                done
            }
            "Target.getTargets" => {
                let known = self.targets.iter().filter(|(_, target)| target.kind != TargetKind::Worker);
                let infos: Vec<Value> = known.map(|(id, _)| self.info(id)).collect();
                result(params, json!({"targetInfos": infos}))
            }
            "Target.createBrowserContext" => self.create_context(params, incoming),
            "Target.disposeBrowserContext" => {
                let context = Id::from(params["browserContextId"].as_str().unwrap_or_default());
                if context == self.profile || !self.contexts.contains_key(&context) {
                    error(-32000, "Failed to find browser context with id")
                } else {
                    self.dispose(&context);
                    done
                }
            }
            "Target.createTarget" => return self.create_target(id, params, incoming),
            "Target.attachToTarget" => return self.attach_to_target(id, params, incoming),
            "Target.detachFromTarget" => self.detach(None, params, incoming.on_behalf.is_none()),
            "Target.closeTarget" => self.close_target(params),
            "Tracing.end" => {
                self.answer(id, None, &done);
                return self.event(None, "Tracing.tracingComplete", json!({"dataLossOccurred": false}));
            }
            "Browser.getWindowForTarget" => {
                match params["targetId"].as_str().and_then(|target| self.targets.get(target)) {
                    Some(target) => result(params, json!({"windowId": target.window, "bounds": {}})),
                    None => error(-32000, NO_TARGET),
                }
            }
            "Browser.setDownloadBehavior" => {
                let context = params["browserContextId"].as_str().map_or(self.profile.clone(), Id::from);
                match params["eventsEnabled"] == json!(true) {
                    true => self.root.downloads.insert(context),
                    false => self.root.downloads.remove(&context),
                };
                done
            }
            "Fetch.continueRequest" | "Fetch.failRequest" => {
                let request = params["requestId"].as_str().unwrap_or_default();
                match self.paused.remove(request) {
                    Some(navigation) if method == "Fetch.continueRequest" => self.goes_on(navigation),
                    Some(navigation) => self.fails(navigation),
                    None => return self.answer(id, None, &error(-32602, "Invalid InterceptionId.")),
                }
                done
            }
            _ => done,
        };
        self.answer(id, None, &answer);
    }

    fn root_auto_attach(&mut self, filter: &Value) {
        self.root.auto_attach = Some(filter.clone());
        let top: Vec<Id> = self
            .targets
            .iter()
            .filter(|(_, target)| target.parent.is_none() && includes(Some(filter), target.kind.name()))
            .map(|(id, _)| id.clone())
            .collect();
        for target in top {
            let session = self.attach(&target, None, None);
            self.say_attached(&session, &target, None, false);
        }
    }

    fn create_context(&mut self, params: &Value, incoming: &Incoming) -> Value {
        if self.faults && self.rng.chance(3) {
            return error(-32000, "Failed to create browser context.");
        }
        let owner = incoming.cause.map_or(Owner::Person, Owner::Task);
        let context = self.truth.make(&mut self.rng, Kind::Context, owner);
        self.contexts.insert(context.clone(), Context { owner });
        result(params, json!({"browserContextId": &*context}))
    }

    fn create_target(&mut self, id: i64, params: &Value, incoming: &Incoming) {
        let context = params["browserContextId"].as_str().map_or(self.profile.clone(), Id::from);
        let Some(owner) = self.contexts.get(&context).map(|context| context.owner) else {
            return self.answer(id, None, &error(-32000, "Failed to find browser context with id"));
        };
        if self.faults && self.rng.chance(2) {
            return self.answer(id, None, &error(-32000, "Failed to open a new tab"));
        }
        // In the profile's context it is whose command made it; elsewhere it can only be the context's owner's.
        let owner = match owner {
            Owner::Task(_) => owner,
            Owner::Person => incoming.cause.map_or(Owner::Person, Owner::Task),
        };
        let url = params["url"].as_str().unwrap_or("about:blank").to_owned();
        let page = self.make_page(&context, owner, None, &url, None);
        // Its first document is under way at once, held or not; the answer comes before its pause or after it.
        let early = self.rng.chance(50);
        if early {
            self.first_document(&page, &url);
        }
        self.answer(id, None, &result(params, json!({"targetId": &*page})));
        if !early {
            self.first_document(&page, &url);
        }
        // The person closes it at once: it can be gone before anybody knows whose it was.
        if self.rng.chance(2) {
            self.later.push(Later::Destroy(page));
        }
    }

    fn attach_to_target(&mut self, id: i64, params: &Value, incoming: &Incoming) {
        let target = Id::from(params["targetId"].as_str().unwrap_or_default());
        let Some(known) = self.targets.get(&target) else {
            return self.answer(id, None, &error(-32602, NO_TARGET));
        };
        // Workers have no guard of their own.
        let guarded = matches!(known.kind, TargetKind::Worker | TargetKind::ServiceWorker)
            || known.sessions.iter().any(|session| self.sessions.get(session).is_some_and(|s| s.made_for.is_none()));
        if !guarded {
            self.remarks.push("a client was attached to a target that has no guard session");
        }
        let session = self.attach(&target, None, incoming.on_behalf);
        self.say_attached(&session, &target, None, false);
        self.answer(id, None, &result(params, json!({"sessionId": &*session})));
    }

    pub fn detach(&mut self, parent: Option<&Id>, params: &Value, own: bool) -> Value {
        let session = Id::from(params["sessionId"].as_str().unwrap_or_default());
        match self.sessions.get(&session) {
            Some(known) if known.parent.as_ref() == parent => {
                self.end_session(&session, true, own);
                result(params, json!({}))
            }
            _ => error(-32602, "No session with given id"),
        }
    }

    fn close_target(&mut self, params: &Value) -> Value {
        let target = Id::from(params["targetId"].as_str().unwrap_or_default());
        match self.targets.get_mut(&target) {
            Some(known) => {
                // The answer is there before it is closed.
                if !std::mem::replace(&mut known.closing, true) {
                    self.later.push(Later::Destroy(target));
                }
                result(params, json!({"success": true}))
            }
            None => error(-32602, NO_TARGET),
        }
    }
}
