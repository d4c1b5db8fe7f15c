//! Documents: who asks for one, where it is paused, and how it commits.

use serde_json::json;

use super::{Browser, FORBIDDEN, Later, TargetKind};
use crate::sim::truth::{Id, Kind, Owner};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Client,
    Page,
    Person,
}

#[derive(Clone, Debug)]
pub struct Navigation {
    /// The target on whose sessions it is told.
    pub target: Id,
    /// A frame of it; `None` for the target's own.
    pub frame: Option<Id>,
    pub url: String,
    pub redirected: bool,
}

enum Load {
    /// Root `Fetch` pauses it.
    Network,
    /// Commits without a pause.
    Local,
    /// Goes to another program: nothing commits.
    External,
}

fn load(url: &str) -> Load {
    match url.split(':').next() {
        Some("http" | "https" | "file") => Load::Network,
        Some("mailto") => Load::External,
        _ => Load::Local,
    }
}

impl Browser {
    /// Whether a client of its task may not see that document.
    fn is_secret(&self, target: &Id, url: &str) -> bool {
        match self.owner(target) {
            Owner::Person => true,
            Owner::Task(task) => {
                ["chrome:", "file:", "chrome-extension:", "view-source:"].iter().any(|scheme| url.starts_with(scheme))
                    || (self.denying.contains(&task) && url.contains(FORBIDDEN))
            }
        }
    }

    /// A top document, asked for in its own page.
    pub fn goes(&mut self, page: &Id, url: &str, by: By) {
        let Some(target) = self.targets.get_mut(page).filter(|target| !target.navigating && target.held_by.is_none())
        else {
            return;
        };
        target.navigating = true;
        if by == By::Page {
            let params =
                json!({"frameId": &**page, "reason": "scriptInitiated", "url": url, "disposition": "currentTab"});
            self.page_event(page, "Page.frameRequestedNavigation", &params);
        }
        self.starts(page, page, url);
        let navigation = Navigation { target: page.clone(), frame: None, url: url.to_owned(), redirected: false };
        match load(url) {
            Load::Network => self.pause(navigation),
            Load::Local => self.later.push(Later::Commit(navigation)),
            Load::External => {
                if let Some(target) = self.targets.get_mut(page) {
                    target.navigating = false;
                }
                self.page_event(page, "Page.frameStoppedLoading", &json!({"frameId": &**page}));
            }
        }
    }

    /// The first document of a new page, which is asked for elsewhere. A blank one is there from the start.
    pub fn first_document(&mut self, page: &Id, url: &str) {
        let Some(target) = self.targets.get_mut(page) else { return };
        if url.is_empty() || url == "about:blank" {
            return;
        }
        target.navigating = true;
        self.starts(page, page, url);
        let navigation = Navigation { target: page.clone(), frame: None, url: url.to_owned(), redirected: false };
        match load(url) {
            Load::Network => self.pause(navigation),
            _ => self.later.push(Later::Commit(navigation)),
        }
    }

    fn starts(&mut self, target: &Id, frame: &Id, url: &str) {
        let params = json!({"frameId": &**frame, "url": url, "loaderId": "L", "navigationType": "differentDocument"});
        self.page_event(target, "Page.frameStartedNavigating", &params);
    }

    fn pause(&mut self, navigation: Navigation) {
        if !self.root.fetch {
            return self.later.push(Later::Commit(navigation));
        }
        let request = format!("interception-job-{}.0", self.number());
        let frame = navigation.frame.as_ref().unwrap_or(&navigation.target);
        let params = json!({
            "requestId": request, "frameId": &**frame, "resourceType": "Document",
            "request": {"url": navigation.url, "method": "GET"},
        });
        self.paused.insert(request, navigation);
        self.event(None, "Fetch.requestPaused", params);
    }

    pub fn goes_on(&mut self, mut navigation: Navigation) {
        if !navigation.redirected && self.rng.chance(15) {
            navigation.redirected = true;
            let host = if self.rng.chance(40) { FORBIDDEN } else { "b.test" };
            navigation.url = format!("https://{host}/redirected");
            return self.pause(navigation);
        }
        self.later.push(match navigation.frame {
            Some(frame) => Later::Swap { page: navigation.target, frame, url: navigation.url, extension: false },
            None => Later::Commit(navigation),
        });
    }

    /// The error page: its own URL says so, the target's reads as the one that failed.
    pub fn fails(&mut self, navigation: Navigation) {
        if navigation.frame.is_some() {
            return;
        }
        let page = navigation.target;
        let Some(target) = self.targets.get_mut(&page) else { return };
        target.navigating = false;
        target.secret = false;
        target.url.clone_from(&navigation.url);
        let frame = json!({"id": &*page, "url": "chrome-error://chromewebdata/", "unreachableUrl": navigation.url, "loaderId": "L"});
        self.page_event(&page, "Page.frameNavigated", &json!({"frame": frame, "type": "Navigation"}));
        self.info_changed(&page);
    }

    pub fn commit(&mut self, navigation: &Navigation) {
        let page = &navigation.target;
        let secret = self.is_secret(page, &navigation.url);
        let Some(target) = self.targets.get_mut(page) else { return };
        target.navigating = false;
        target.url.clone_from(&navigation.url);
        target.secret = secret;
        target.worlds.clear();
        let frames = std::mem::take(&mut target.frames);
        for frame in frames {
            self.page_event(page, "Page.frameDetached", &json!({"frameId": &*frame, "reason": "remove"}));
            self.truth.gone(&frame);
        }
        let children: Vec<Id> =
            self.targets.iter().filter(|(_, t)| t.parent.as_ref() == Some(page)).map(|(id, _)| id.clone()).collect();
        children.iter().for_each(|child| self.destroy(child));
        self.page_event(page, "Runtime.executionContextsCleared", &json!({}));
        let frame = json!({"id": &**page, "url": navigation.url, "loaderId": "L"});
        self.page_event(page, "Page.frameNavigated", &json!({"frame": frame, "type": "Navigation"}));
        self.info_changed(page);
        self.tell_new_world(page, false);
    }

    pub fn tell_new_world(&mut self, target: &Id, extension: bool) {
        let world = self.new_world(target, extension);
        let sessions = self.targets.get(target).map(|target| target.sessions.clone()).unwrap_or_default();
        for session in sessions {
            if self.sessions.get(&session).is_some_and(|session| session.runtime_enabled) {
                self.say_world(&session, world, extension);
            }
        }
    }

    // --- frames -------------------------------------------------------------------------------------------------

    pub fn attach_frame(&mut self, target: &Id) -> Option<Id> {
        let owner = self.owner(target);
        self.targets.get(target).filter(|target| target.held_by.is_none())?;
        let frame = self.truth.make(&mut self.rng, Kind::Frame, owner);
        self.targets.get_mut(target)?.frames.push(frame.clone());
        self.page_event(target, "Page.frameAttached", &json!({"frameId": &*frame, "parentFrameId": &**target}));
        Some(frame)
    }

    pub fn detach_frame(&mut self, target: &Id, frame: &Id) {
        let Some(known) = self.targets.get_mut(target) else { return };
        known.frames.retain(|other| other != frame);
        self.truth.gone(frame);
        self.page_event(target, "Page.frameDetached", &json!({"frameId": &**frame, "reason": "remove"}));
    }

    /// A document for a frame. One of another site (they all are, here) gets a process and a target of its own.
    pub fn frame_goes(&mut self, target: &Id, frame: &Id, url: &str) {
        let known = self.targets.get(target).is_some_and(|target| target.frames.contains(frame));
        let swaps = |later: &Later| matches!(later, Later::Swap { frame: other, .. } if other == frame);
        let on_its_way = self.paused.values().any(|navigation| navigation.frame.as_ref() == Some(frame))
            || self.later.iter().any(swaps);
        if !known || on_its_way {
            return;
        }
        self.starts(target, frame, url);
        match load(url) {
            Load::Network => self.pause(Navigation {
                target: target.clone(),
                frame: Some(frame.clone()),
                url: url.to_owned(),
                redirected: false,
            }),
            Load::Local => self.later.push(Later::Swap {
                page: target.clone(),
                frame: frame.clone(),
                url: url.to_owned(),
                extension: url.starts_with("chrome-extension:"),
            }),
            Load::External => {}
        }
    }

    /// In-process frame to OOPIF: its target appears with the frame's id, then the frame leaves its old process.
    pub fn swap_out(&mut self, parent: &Id, frame: &Id, url: &str, extension: bool) {
        let Some(above) = self.targets.get_mut(parent).filter(|above| above.frames.contains(frame)) else { return };
        above.frames.retain(|other| other != frame);
        let context = above.context.clone();
        let secret = self.is_secret(parent, url);
        self.insert(frame.clone(), TargetKind::Iframe, &context, "");
        let attachers = self.attachers_of(parent);
        if let Some(target) = self.targets.get_mut(frame) {
            target.parent = Some(parent.clone());
            target.attachers = attachers;
            target.secret = secret;
            target.extension = extension;
        }
        self.announce(frame);
        self.serve(frame);
        self.page_event(parent, "Page.frameDetached", &json!({"frameId": &**frame, "reason": "swap"}));
        if let Some(target) = self.targets.get_mut(frame) {
            url.clone_into(&mut target.url);
        }
        let document = json!({"id": &**frame, "parentId": &**parent, "url": url, "loaderId": "L"});
        self.page_event(frame, "Page.frameNavigated", &json!({"frame": document, "type": "Navigation"}));
        self.info_changed(frame);
    }

    /// OOPIF to in-process frame: its sessions end, the frame lives on.
    pub fn swap_in(&mut self, frame: &Id) {
        let Some(parent) = self.targets.get(frame).and_then(|target| target.parent.clone()) else { return };
        self.destroy(frame);
        self.truth.with(frame, |thing| thing.alive = true);
        if let Some(above) = self.targets.get_mut(&parent) {
            above.frames.push(frame.clone());
        }
        self.page_event(&parent, "Page.frameAttached", &json!({"frameId": &**frame, "parentFrameId": &*parent}));
        let document = json!({"id": &**frame, "parentId": &*parent, "url": "https://a.test/", "loaderId": "L"});
        self.page_event(&parent, "Page.frameNavigated", &json!({"frame": document, "type": "Navigation"}));
    }
}
