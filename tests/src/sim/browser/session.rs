//! Commands on sessions. `Target` and holds are the browser process's and done at once; the rest is the renderer's, which
//! answers when it gets to it, or never.

use serde_json::{Value, json};

use super::documents::By;
use super::{AutoAttach, Browser, Later, Pending, TargetKind, error, result};
use crate::sim::truth::{Id, Kind};

/// Gates that a dying or odd page may refuse.
const MAY_FAIL: [&str; 2] = ["Page.enable", "Emulation.setFocusEmulationEnabled"];

impl Browser {
    /// `own`: of the engine's own accord, not for a client.
    pub fn session_command(&mut self, id: i64, session: &Id, method: &str, params: &Value, own: bool) {
        let Some((target, made_for)) = self.sessions.get(session).map(|s| (s.target.clone(), s.made_for)) else {
            return;
        };
        let done = result(params, json!({}));
        let is_worker = self
            .targets
            .get(&target)
            .is_some_and(|target| matches!(target.kind, TargetKind::Worker | TargetKind::ServiceWorker));
        let answer = match method {
            _ if is_worker && method.starts_with("Page.") => error(-32601, &format!("'{method}' wasn't found")),
            "Target.setAutoAttach" => {
                self.session_auto_attach(session, &target, params);
                return self.answer(id, Some(session), &done);
            }
            "Target.detachFromTarget" => {
                let answer = self.detach(Some(session), params, own);
                return self.answer(id, Some(session), &answer);
            }
            "Runtime.runIfWaitingForDebugger" => {
                // On a page this ends whoever's hold it is (measured); on a child each session ends its own.
                let held = self.targets.get(&target).and_then(|target| target.held_by.clone());
                let is_page = self.targets.get(&target).is_some_and(|target| target.kind == TargetKind::Page);
                match held {
                    Some(by) if is_page && by != *session && made_for.is_some() => {
                        self.remarks.push("a client's command has ended the guard's hold of a page");
                        self.resume(&by);
                    }
                    _ => self.resume(session),
                }
                return self.answer(id, Some(session), &done);
            }
            _ if made_for.is_none() && self.faults && MAY_FAIL.contains(&method) && self.rng.chance(1) => {
                // At once: a gate that fails after the page has run is more than the engine is made for.
                return self.answer(id, Some(session), &error(-32000, "Internal error"));
            }
            "Tracing.end" => {
                self.answer(id, Some(session), &done);
                return self.event(Some(session), "Tracing.tracingComplete", json!({"dataLossOccurred": false}));
            }
            "Page.enable" => {
                self.sessions.entry(session.clone()).and_modify(|session| session.page_enabled = true);
                done
            }
            "Runtime.enable" => {
                self.enable_runtime(session, &target);
                done
            }
            "Page.getFrameTree" => self.frame_tree(&target, params),
            "Page.createIsolatedWorld" => {
                let world = self.new_world(&target, false);
                result(params, json!({"executionContextId": world}))
            }
            "Page.addScriptToEvaluateOnNewDocument" => result(params, json!({"identifier": self.number().to_string()})),
            "Page.navigate" => {
                let url = params["url"].as_str().unwrap_or_default().to_owned();
                let frame = params["frameId"].as_str().filter(|frame| **frame != *target).map(Id::from);
                match frame {
                    Some(frame) => self.frame_goes(&target, &frame, &url),
                    None => self.goes(&self.page_of(&target), &url, By::Client),
                }
                result(params, json!({"frameId": &*target, "loaderId": "L"}))
            }
            "Page.close" => {
                let page = self.page_of(&target);
                self.later.push(Later::Destroy(page));
                done
            }
            "Runtime.evaluate" => {
                self.may_evaluate(&target, params);
                result(params, json!({"result": {"type": "undefined"}}))
            }
            _ => done,
        };
        let stuck = matches!(method, "Runtime.evaluate" | "Page.crash") && self.rng.chance(8);
        if let (true, Some(nonce)) = (stuck, params["nonce"].as_str()) {
            self.stuck.insert(nonce.to_owned());
        }
        if let Some(session) = self.sessions.get_mut(session) {
            session.in_flight.push_back(Pending { id, answer, stuck });
        }
    }

    fn session_auto_attach(&mut self, session: &Id, target: &Id, params: &Value) {
        let order = self.number();
        let on = params["autoAttach"] == json!(true);
        let auto = on.then(|| AutoAttach {
            wait: params["waitForDebuggerOnStart"] == json!(true),
            filter: params.get("filter").filter(|filter| !filter.is_null()).cloned(),
            order,
        });
        let was_on = self.sessions.get(session).is_some_and(|session| session.auto_attach.is_some());
        if let Some(session) = self.sessions.get_mut(session) {
            session.auto_attach = auto;
        }
        if !on {
            let below: Vec<Id> = self
                .sessions
                .iter()
                .filter(|(_, s)| s.parent.as_ref() == Some(session))
                .map(|(id, _)| id.clone())
                .collect();
            for child in below {
                self.kill(&child, true);
            }
        } else if !was_on {
            // What runs already is attached without a hold; what is held waits for those before.
            let children: Vec<Id> = self
                .targets
                .iter()
                .filter(|(_, t)| t.parent.as_ref() == Some(target))
                .map(|(id, _)| id.clone())
                .collect();
            for child in children {
                let Some(known) = self.targets.get_mut(&child) else { continue };
                known.attachers.push_back(Some(session.clone()));
                if known.held_by.is_none() {
                    let wait = self.sessions.get(session).and_then(|s| s.auto_attach.as_ref()).is_some_and(|a| a.wait);
                    self.set_wait(session, false);
                    self.serve(&child);
                    self.set_wait(session, wait);
                }
            }
        }
    }

    fn set_wait(&mut self, session: &Id, wait: bool) {
        if let Some(auto) = self.sessions.get_mut(session).and_then(|session| session.auto_attach.as_mut()) {
            auto.wait = wait;
        }
    }

    fn frame_tree(&self, target: &Id, params: &Value) -> Value {
        let frames: &[Id] = self.targets.get(target).map_or(&[], |target| &target.frames);
        let children: Vec<Value> = frames.iter().map(|frame| json!({"frame": {"id": &**frame}})).collect();
        result(params, json!({"frameTree": {"frame": {"id": &**target}, "childFrames": children}}))
    }

    // --- execution contexts -------------------------------------------------------------------------------------

    pub fn new_world(&mut self, target: &Id, extension: bool) -> i64 {
        let world = self.number() as i64;
        if let Some(target) = self.targets.get_mut(target) {
            target.worlds.push((world, extension));
        }
        world
    }

    fn enable_runtime(&mut self, session: &Id, target: &Id) {
        self.sessions.entry(session.clone()).and_modify(|session| session.runtime_enabled = true);
        let worlds = self.targets.get(target).map(|target| target.worlds.clone()).unwrap_or_default();
        for (world, extension) in worlds {
            self.say_world(session, world, extension);
        }
    }

    pub fn say_world(&mut self, session: &Id, world: i64, extension: bool) {
        let origin = if extension { "chrome-extension://abc" } else { "https://a.test" };
        let context = json!({"id": world, "origin": origin, "name": "", "uniqueId": format!("u.{world}")});
        match extension {
            true => self.event_for_nobody(session, "Runtime.executionContextCreated", json!({"context": context})),
            false => self.event(Some(session), "Runtime.executionContextCreated", json!({"context": context})),
        }
    }

    pub fn event_for_nobody(&mut self, session: &Id, method: &str, mut params: Value) {
        params["marker"] = json!(self.mark(super::Audience::Nobody, Some(session.clone())));
        self.say(&json!({"method": method, "params": params, "sessionId": &**session}));
    }

    fn may_evaluate(&mut self, target: &Id, params: &Value) {
        let Some(world) = params["contextId"].as_i64() else { return };
        let hidden = self.targets.get(target).is_some_and(|target| target.worlds.contains(&(world, true)));
        if hidden {
            self.remarks.push("a client has evaluated in an extension's world");
        }
    }

    // --- small happenings below a page --------------------------------------------------------------------------

    pub fn start_worker(&mut self, page: &Id) {
        let owner = self.owner(page);
        let Some(context) = self.targets.get(page).map(|page| page.context.clone()) else { return };
        let id = self.truth.make(&mut self.rng, Kind::Target, owner);
        self.insert(id.clone(), TargetKind::Worker, &context, "https://a.test/worker.js");
        let attachers = self.attachers_of(page);
        if let Some(worker) = self.targets.get_mut(&id) {
            worker.parent = Some(page.clone());
            worker.attachers = attachers;
        }
        self.serve(&id);
    }
}
