//! What happens without a command: the person at the browser, and what pages do by themselves.

use serde_json::json;

use super::documents::By;
use super::life::Opener;
use super::{Audience, Browser, FORBIDDEN, Later, PRIVATE, TargetKind};
use crate::sim::truth::{Id, Kind, Owner, TaskNo};

#[derive(Clone, Copy)]
enum Act {
    PersonOpens,
    PersonNavigates,
    PersonCloses,
    PersonMovesOwned,
    Popup,
    Click,
    Frame,
    FrameGoes,
    FrameEnds,
    SwapIn,
    Worker,
    WorkerEnds,
    ServiceWorker,
    ServiceWorkerEnds,
    Moves,
    Title,
    Console,
    World,
    Download,
    Progress,
    Crash,
}

const ACTS: [(usize, Act); 21] = [
    (4, Act::PersonOpens),
    (4, Act::PersonNavigates),
    (3, Act::PersonCloses),
    (2, Act::PersonMovesOwned),
    (9, Act::Popup),
    (6, Act::Click),
    (16, Act::Frame),
    (8, Act::FrameGoes),
    (3, Act::FrameEnds),
    (3, Act::SwapIn),
    (3, Act::Worker),
    (3, Act::WorkerEnds),
    (3, Act::ServiceWorker),
    (2, Act::ServiceWorkerEnds),
    (8, Act::Moves),
    (4, Act::Title),
    (10, Act::Console),
    (4, Act::World),
    (3, Act::Download),
    (3, Act::Progress),
    (1, Act::Crash),
];

impl Browser {
    /// Something happens. Nothing, when what was drawn finds nothing to happen to.
    pub fn happening(&mut self) {
        let act = self.rng.weighted(&ACTS);
        match act {
            Act::PersonOpens => self.person_opens(),
            Act::PersonNavigates => {
                if let Some(page) = self.any(|_, owner| owner == Owner::Person) {
                    let url = format!("https://{PRIVATE}/{}", self.number());
                    self.goes(&page, &url, By::Person);
                }
            }
            Act::PersonCloses => {
                // Mostly their own tabs, now and then one of a task's.
                let of_task = self.rng.chance(40);
                if let Some(page) = self.any(|_, owner| (owner != Owner::Person) == of_task) {
                    self.destroy(&page);
                }
            }
            Act::PersonMovesOwned => {
                let url = self.document_url();
                self.owned(|browser, page| browser.goes(&page, &url, By::Person));
            }
            Act::Moves => {
                let url = self.document_url();
                self.owned(|browser, page| browser.goes(&page, &url, By::Page));
            }
            Act::Popup => self.popup(),
            Act::Click => self.click(),
            Act::Frame => self.owned_or_child(|browser, target| {
                if browser.attach_frame(&target).is_some() && browser.rng.chance(70) {
                    browser.some_frame_goes(target);
                }
            }),
            Act::FrameGoes => self.owned_or_child(Browser::some_frame_goes),
            Act::FrameEnds => self.owned_or_child(|browser, target| {
                let frames = browser.targets.get(&target).map(|target| target.frames.clone()).unwrap_or_default();
                if let Some(frame) = browser.rng.pick(&frames).cloned() {
                    browser.detach_frame(&target, &frame);
                }
            }),
            Act::SwapIn => {
                if let Some(frame) = self.any_of(TargetKind::Iframe) {
                    self.swap_in(&frame);
                }
            }
            Act::Worker => self.owned(|browser, page| browser.start_worker(&page)),
            Act::WorkerEnds => {
                if let Some(worker) = self.any_of(TargetKind::Worker) {
                    self.destroy(&worker);
                }
            }
            Act::ServiceWorker => self.service_worker(),
            Act::ServiceWorkerEnds => {
                if let Some(worker) = self.any_of(TargetKind::ServiceWorker) {
                    self.destroy(&worker);
                }
            }
            Act::Title => {
                if let Some(page) = self.any(|_, _| true) {
                    let private = if self.owner(&page) == Owner::Person { PRIVATE } else { "title" };
                    let title = format!("{private} {}", self.number());
                    if let Some(target) = self.targets.get_mut(&page) {
                        target.title = title;
                    }
                    self.info_changed(&page);
                }
            }
            Act::Console => self.owned_or_child(Browser::console),
            Act::World => self.owned(|browser, page| {
                let extension = browser.rng.chance(40);
                browser.tell_new_world(&page, extension);
            }),
            Act::Download => self.download(),
            Act::Progress => self.progress(),
            Act::Crash => self.owned(|browser, page| {
                browser.page_event(&page, "Inspector.targetCrashed", &json!({}));
                let params = json!({"targetId": &*page, "status": "crashed", "errorCode": 5});
                browser.event(None, "Target.targetCrashed", params);
            }),
        }
    }

    // --- choosing -----------------------------------------------------------------------------------------------

    fn any(&mut self, fits: impl Fn(&Browser, Owner) -> bool) -> Option<Id> {
        let pages: Vec<Id> = self
            .targets
            .iter()
            .filter(|(id, target)| target.kind == TargetKind::Page && fits(self, self.owner(id)))
            .map(|(id, _)| id.clone())
            .collect();
        self.rng.pick(&pages).cloned()
    }

    fn any_of(&mut self, kind: TargetKind) -> Option<Id> {
        let found: Vec<Id> =
            self.targets.iter().filter(|(_, target)| target.kind == kind).map(|(id, _)| id.clone()).collect();
        self.rng.pick(&found).cloned()
    }

    fn owned(&mut self, act: impl FnOnce(&mut Browser, Id)) {
        if let Some(page) = self.any(|_, owner| owner != Owner::Person) {
            act(self, page);
        }
    }

    fn owned_or_child(&mut self, act: impl FnOnce(&mut Browser, Id)) {
        let found: Vec<Id> = self
            .targets
            .iter()
            .filter(|(id, target)| {
                matches!(target.kind, TargetKind::Page | TargetKind::Iframe)
                    && target.held_by.is_none()
                    && self.owner(id) != Owner::Person
            })
            .map(|(id, _)| id.clone())
            .collect();
        if let Some(target) = self.rng.pick(&found).cloned() {
            act(self, target);
        }
    }

    fn document_url(&mut self) -> String {
        let n = self.number();
        match self.rng.below(12) {
            0..=4 => format!("https://a.test/{n}"),
            5..=7 => format!("https://{FORBIDDEN}/{n}"),
            8 => "chrome://settings/".to_owned(),
            9 => "mailto:someone@a.test".to_owned(),
            10 => "data:text/html,x".to_owned(),
            _ => "about:blank".to_owned(),
        }
    }

    // --- the person ---------------------------------------------------------------------------------------------

    fn person_opens(&mut self) {
        let n = self.number();
        let (profile, window) = (self.profile.clone(), Some(0));
        match self.rng.below(4) {
            0 => {
                self.make_page(&profile, Owner::Person, None, "chrome://newtab/", window);
            }
            // Blank, as those that are being made for a task.
            1 => {
                self.make_page(&profile, Owner::Person, None, "about:blank", window);
            }
            2 => {
                if let Some(opener) = self.any(|_, owner| owner == Owner::Person) {
                    let context = self.targets.get(&opener).map_or(profile, |target| target.context.clone());
                    let by = Opener { page: &opener, frame: &opener, can_access: true };
                    let page = self.make_page(&context, Owner::Person, Some(&by), "", window);
                    self.first_document(&page, &format!("https://{PRIVATE}/popup/{n}"));
                }
            }
            _ => {
                let context = match self.rng.chance(30) {
                    true => {
                        let private = self.truth.make(&mut self.rng, Kind::Context, Owner::Person);
                        self.contexts.insert(private.clone(), super::Context { owner: Owner::Person });
                        private
                    }
                    false => profile,
                };
                let url = format!("https://{PRIVATE}/{n}");
                let page = self.make_page(&context, Owner::Person, None, &url, window);
                self.first_document(&page, &url);
            }
        }
    }

    // --- pages --------------------------------------------------------------------------------------------------

    /// `window.open`, with an opener that it may access or without. Held before its first request.
    fn popup(&mut self) {
        self.owned_or_child(|browser, frame| {
            let page = browser.page_of(&frame);
            let Some(target) = browser.targets.get(&page) else { return };
            let (context, window, owner) = (target.context.clone(), target.window, browser.owner(&page));
            let url = browser.document_url();
            let can_access = browser.rng.chance(60);
            browser.page_event(&frame, "Page.windowOpen", &json!({"url": url, "windowName": "", "userGesture": true}));
            let by = Opener { page: &page, frame: &frame, can_access };
            let popup = browser.make_page(&context, owner, Some(&by), "", Some(window));
            match browser.targets.get_mut(&popup) {
                Some(target) if target.held_by.is_some() => target.first_url = Some(url),
                _ => browser.first_document(&popup, &url),
            }
        });
    }

    /// A modified click: the event on the clicker's sessions, then a tab that names no opener. Each goes to an URL of its
    /// own: that the engine cannot tell two tasks' clicks on the same one apart is known, and has a trace.
    fn click(&mut self) {
        let Some(page) = self.any(|_, _| true) else { return };
        let Some(target) = self.targets.get(&page).filter(|target| target.held_by.is_none()) else { return };
        let (context, window) = (target.context.clone(), target.window);
        // From a page that was released in a task's own context the new tab is that task's: it alone is in there.
        let owner = match self.owner(&page) {
            Owner::Person => self.contexts.get(&context).map_or(Owner::Person, |context| context.owner),
            owner => owner,
        };
        let host = match owner {
            Owner::Person => PRIVATE,
            Owner::Task(_) if self.rng.chance(20) => FORBIDDEN,
            Owner::Task(_) => "click.test",
        };
        let url = format!("https://{host}/click/{}", self.number());
        let params = json!({"frameId": &*page, "reason": "anchorClick", "url": url, "disposition": "newTab"});
        self.page_event(&page, "Page.frameRequestedNavigation", &params);
        // Sometimes no tab comes of it.
        if self.rng.chance(85) {
            self.later.push(Later::Tab { url, context, owner, window });
        }
    }

    /// Its URL is told when it is created and not when it is attached; its request is under way, held or not.
    pub fn clicked_tab(&mut self, url: &str, context: &Id, owner: Owner, window: i64) {
        if !self.contexts.contains_key(context) {
            return;
        }
        let page = self.make_page(context, owner, None, url, Some(window));
        self.first_document(&page, url);
    }

    fn some_frame_goes(&mut self, target: Id) {
        let frames = self.targets.get(&target).map(|target| target.frames.clone()).unwrap_or_default();
        let Some(frame) = self.rng.pick(&frames).cloned() else { return };
        let n = self.number();
        let url = match self.rng.below(6) {
            0 => format!("https://{FORBIDDEN}/frame/{n}"),
            1 => "chrome-extension://abc/page.html".to_owned(),
            _ => format!("https://frame.test/{n}"),
        };
        self.frame_goes(&target, &frame, &url);
    }

    fn console(&mut self, target: Id) {
        let worlds = self.targets.get(&target).map(|target| target.worlds.clone()).unwrap_or_default();
        let Some(&(world, extension)) = self.rng.pick(&worlds) else { return };
        let method = if self.rng.chance(50) { "Runtime.consoleAPICalled" } else { "Runtime.bindingCalled" };
        let sessions = self.targets.get(&target).map(|target| target.sessions.clone()).unwrap_or_default();
        for session in sessions {
            if self.sessions.get(&session).is_none_or(|session| !session.runtime_enabled) {
                continue;
            }
            let params = json!({"executionContextId": world, "type": "log"});
            match extension {
                true => self.event_for_nobody(&session, method, params),
                false => self.event(Some(&session), method, params),
            }
        }
    }

    fn service_worker(&mut self) {
        let contexts: Vec<Id> = self.contexts.keys().cloned().collect();
        let Some(context) = self.rng.pick(&contexts).cloned() else { return };
        let owner = self.contexts.get(&context).map_or(Owner::Person, |context| context.owner);
        let id = self.truth.make(&mut self.rng, Kind::Target, owner);
        self.insert(id.clone(), TargetKind::ServiceWorker, &context, "https://sw.test/sw.js");
        // The root first, then pages of its origin.
        let pages: Vec<Id> = self
            .targets
            .iter()
            .filter(|(_, target)| target.kind == TargetKind::Page && target.context == context)
            .map(|(id, _)| id.clone())
            .collect();
        let mut attachers = std::collections::VecDeque::from([None]);
        if let Some(page) = self.rng.pick(&pages) {
            attachers.extend(self.attachers_of(page));
        }
        if let Some(target) = self.targets.get_mut(&id) {
            target.attachers = attachers;
        }
        self.announce(&id);
        self.serve(&id);
    }

    // --- downloads ----------------------------------------------------------------------------------------------

    fn download(&mut self) {
        let Some(page) = self.any(|_, _| true) else { return };
        let Some(context) = self.targets.get(&page).map(|page| page.context.clone()) else { return };
        if !self.root.downloads.contains(&context) {
            return;
        }
        // In a page that is about to be closed, as its task has ended, it is nobody's.
        let owner = match self.owner(&page) {
            Owner::Task(task) if self.ended_tasks.contains(&task) => Owner::Person,
            owner => owner,
        };
        let guid = self.truth.make(&mut self.rng, Kind::Download, owner);
        self.downloads.push((guid.clone(), context));
        let marker = self.download_marker(owner);
        let params = json!({"frameId": &*page, "guid": &*guid, "url": "https://a.test/f", "suggestedFilename": "f", "marker": marker});
        self.say(&json!({"method": "Browser.downloadWillBegin", "params": params}));
    }

    fn progress(&mut self) {
        let Some((guid, _)) = self.rng.pick(&self.downloads).cloned() else { return };
        let owner = self.owner(&guid);
        let done = self.rng.chance(50);
        if done {
            self.downloads.retain(|(other, _)| *other != guid);
            self.truth.gone(&guid);
        }
        let marker = self.download_marker(owner);
        let state = if done { "completed" } else { "inProgress" };
        let params = json!({"guid": &*guid, "state": state, "totalBytes": 9, "receivedBytes": 9, "marker": marker});
        self.say(&json!({"method": "Browser.downloadProgress", "params": params}));
    }

    /// Their task has ended: what goes on is the person's, told to nobody and remembered by nobody.
    pub fn let_downloads_go(&mut self, task: TaskNo) {
        self.ended_tasks.insert(task);
        let ids: Vec<Id> = self.downloads.iter().map(|(guid, _)| guid.clone()).collect();
        for guid in ids {
            if self.owner(&guid) == Owner::Task(task) {
                self.truth.release(&guid);
                self.truth.gone(&guid);
            }
        }
    }

    fn download_marker(&mut self, owner: Owner) -> String {
        let audience = match owner {
            Owner::Person => Audience::Nobody,
            Owner::Task(task) => Audience::Task(task),
        };
        self.mark(audience, None)
    }
}
