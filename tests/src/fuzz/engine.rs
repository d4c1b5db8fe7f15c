//! The whole engine under inputs that no client and no browser would send. It has to survive them, and to write JSON.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ownership::id::{ClientId, TaskId};
use policy::{Policies, methods};
use router::engine::Engine;
use router::engine::io::{AdminCommand, AdminRequest, BrowserOrigin, Input, Output, TaskContext, TaskSpec};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::trace::{config, counter};

static POLICY: LazyLock<Arc<Policies>> = LazyLock::new(|| Arc::new(Policies::built_in()));
static NAMES: LazyLock<[Vec<&'static str>; 2]> = LazyLock::new(|| {
    let mut commands: Vec<_> = methods::all().map(|row| row.method).collect();
    let mut events: Vec<_> = methods::all_events().map(|row| row.event).collect();
    commands.sort_unstable();
    events.sort_unstable();
    [commands, events]
});

/// So few that they meet again: a script that names a new thing each time reaches nothing.
const IDS: [&str; 10] = [
    "T1",
    "T2",
    "T3",
    "C1",
    "R1",
    "R2",
    "F1",
    "00000000000000000000000000000002",
    "00000000000000000000000000000003",
    "0123456789ABCDEF0123456789ABCDEF",
];
const KEYS: [&str; 26] = [
    "targetId",
    "sessionId",
    "browserContextId",
    "frameId",
    "url",
    "targetInfo",
    "type",
    "openerId",
    "subtype",
    "waitingForDebugger",
    "flatten",
    "autoAttach",
    "waitForDebuggerOnStart",
    "discover",
    "filter",
    "requestId",
    "request",
    "frameTree",
    "frame",
    "id",
    "windowId",
    "guid",
    "state",
    "disposition",
    "executionContextId",
    "context",
];
const TEXTS: [&str; 9] =
    ["page", "iframe", "worker", "service_worker", "https://a.test/", "chrome://settings/", "newTab", "é\u{0}\"", ""];

/// Decisions, taken from the bytes of the fuzzer until there are none left.
struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        usize::from(*first)
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        let at = self.byte() | (self.byte() << 8);
        from[at % from.len()]
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.byte() % 12 {
            0 => Value::Null,
            1 => json!(self.byte().is_multiple_of(2)),
            2 => json!(self.byte() as i64 - 100),
            3 => json!(9e300),
            4 | 5 => json!(self.pick(&TEXTS)),
            6..=8 => json!(self.pick(&IDS)),
            9 if depth > 0 => json!([self.value(depth - 1), self.value(depth - 1)]),
            _ if depth > 0 => self.object(depth - 1),
            _ => json!({}),
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut members = Map::new();
        for _ in 0..self.byte() % 6 {
            let key = self.pick(&KEYS);
            let value = self.value(depth);
            members.insert(key.to_owned(), value);
        }
        Value::Object(members)
    }

    /// As Chromium would describe a target, but for a slip now and then.
    fn target_info(&mut self) -> Value {
        let mut info = json!({
            "targetId": self.pick(&IDS[..3]), "type": self.pick(&TEXTS[..4]), "title": "", "url": self.pick(&TEXTS),
            "attached": true, "canAccessOpener": false, "browserContextId": self.pick(&["C1", "PROFILE"]),
        });
        match self.byte() % 6 {
            0 => info["openerId"] = json!(self.pick(&IDS[..3])),
            1 => {
                let (key, value) = (self.pick(&KEYS), self.value(2));
                info[key] = value;
            }
            _ => {}
        }
        info
    }

    fn session(&mut self, frame: &mut Value) {
        if !self.byte().is_multiple_of(3) {
            frame["sessionId"] = json!(self.pick(&IDS[4..]));
        }
    }

    fn command(&mut self) -> String {
        let mut frame = json!({"id": self.byte(), "method": self.pick(&NAMES[0]), "params": self.object(3)});
        self.session(&mut frame);
        frame.to_string()
    }

    fn target_command(&mut self) -> String {
        let methods = [
            "Target.setAutoAttach",
            "Target.setDiscoverTargets",
            "Target.attachToTarget",
            "Target.createTarget",
            "Target.detachFromTarget",
            "Target.closeTarget",
            "Runtime.runIfWaitingForDebugger",
            "Browser.close",
            "Target.createBrowserContext",
            "Target.attachToBrowserTarget",
            "Page.navigate",
        ];
        let mut frame = json!({"id": self.byte(), "method": self.pick(&methods), "params": {
            "targetId": self.pick(&IDS), "sessionId": self.pick(&IDS), "url": self.pick(&TEXTS), "discover": true,
            "autoAttach": !self.byte().is_multiple_of(4), "waitForDebuggerOnStart": true, "flatten": true,
        }});
        self.session(&mut frame);
        frame.to_string()
    }

    fn response(&mut self) -> String {
        let id = self.byte();
        let mut frame = match self.byte() % 5 {
            0 => json!({"id": id, "error": {"code": -32000, "message": "no"}}),
            1 => json!({"id": id, "result": self.object(3)}),
            _ => json!({"id": id, "result": {
                "targetId": self.pick(&IDS[..3]), "sessionId": self.pick(&IDS[4..6]), "browserContextId": "C1",
                "executionContextId": 1, "windowId": 1, "frameTree": {"frame": {"id": self.pick(&IDS)}},
            }}),
        };
        if self.byte().is_multiple_of(4) {
            frame["sessionId"] = json!(self.pick(&IDS[4..6]));
        }
        frame.to_string()
    }

    fn event(&mut self) -> String {
        let mut frame = match self.byte() % 4 {
            0 => json!({"method": self.pick(&NAMES[1]), "params": self.object(3)}),
            1 => {
                let methods = ["Target.targetCreated", "Target.targetInfoChanged"];
                json!({"method": self.pick(&methods), "params": {"targetInfo": self.target_info()}})
            }
            2 => json!({"method": "Target.attachedToTarget", "params": {
                "sessionId": self.pick(&IDS[4..6]), "targetInfo": self.target_info(), "waitingForDebugger": true}}),
            _ => {
                let methods = [
                    "Target.detachedFromTarget",
                    "Target.targetDestroyed",
                    "Fetch.requestPaused",
                    "Page.frameNavigated",
                    "Page.frameStartedNavigating",
                    "Page.frameAttached",
                    "Page.frameRequestedNavigation",
                ];
                json!({"method": self.pick(&methods), "params": {
                    "sessionId": self.pick(&IDS[4..6]), "targetId": self.pick(&IDS), "frameId": self.pick(&IDS),
                    "requestId": "J1", "request": {"url": self.pick(&TEXTS)}, "url": self.pick(&TEXTS),
                    "disposition": "newTab", "frame": {"id": self.pick(&IDS), "url": self.pick(&TEXTS)},
                }})
            }
        };
        self.session(&mut frame);
        frame.to_string()
    }

    /// The rest, as it is: no frame at all, most likely.
    fn raw(&mut self) -> String {
        let length = self.byte().min(self.bytes.len());
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

fn drain(engine: &mut Engine) {
    while let Some(output) = engine.poll_output() {
        if let Output::ToClient { text, .. } | Output::ToBrowser { text, .. } = output {
            serde_json::from_str::<IgnoredAny>(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
    }
}

/// One run, decided by these bytes.
pub fn engine(bytes: &[u8]) {
    let mut script = Script { bytes };
    let mut now = Instant::now();
    let mut engine = Engine::new(config(BrowserOrigin::Attached), now, counter());
    engine.start(now);
    drain(&mut engine);
    // The root gates: ids count from one.
    for id in 1..=5 {
        let text = json!({"id": id, "result": {"defaultBrowserContextId": "PROFILE", "product": "C"}}).to_string();
        engine.handle(now, Input::BrowserFrame { text: &text });
        drain(&mut engine);
    }
    for (n, context) in [TaskContext::Isolated, TaskContext::Shared].into_iter().enumerate() {
        let spec = TaskSpec {
            name: Some(format!("t{n}")),
            context,
            policy: POLICY.clone(),
            idle_ttl: Some(Duration::from_secs(5)),
            labels: BTreeMap::new(),
            open: None,
        };
        let request = AdminRequest(n as u64);
        engine.handle(now, Input::Admin { request, command: AdminCommand::TaskNew(spec) });
    }
    while !script.bytes.is_empty() {
        step(&mut engine, &mut script, &mut now);
        drain(&mut engine);
    }
}

fn step(engine: &mut Engine, script: &mut Script<'_>, now: &mut Instant) {
    let client = ClientId(script.byte() as u64 % 3);
    match script.byte() % 24 {
        choice @ 0..=8 => {
            let text = match choice {
                0..=4 => script.target_command(),
                5..=7 => script.command(),
                _ => script.raw(),
            };
            engine.handle(*now, Input::ClientFrame { client, text: &text });
        }
        choice @ 9..=17 => {
            let text = match choice {
                9..=12 => script.event(),
                13..=16 => script.response(),
                _ => script.raw(),
            };
            engine.handle(*now, Input::BrowserFrame { text: &text });
        }
        18 => engine.handle(*now, Input::ClientLeft { client }),
        19 | 20 => {
            let task = TaskId(1 + script.byte() as u32 % 2);
            engine.handle(*now, Input::ClientJoined { client, task, user_agent: String::new() });
        }
        21 => {
            *now += Duration::from_secs(script.byte() as u64);
            engine.handle(*now, Input::Tick);
        }
        22 => {
            let name = format!("t{}", script.byte() % 2);
            let command = match script.byte() % 4 {
                0 => AdminCommand::TaskEnd { name, keep_pages: script.byte().is_multiple_of(2) },
                1 => AdminCommand::TaskShow(name),
                2 => AdminCommand::TaskList,
                _ => AdminCommand::Status,
            };
            engine.handle(*now, Input::Admin { request: AdminRequest(99), command });
        }
        _ => match script.byte() % 8 {
            0 => engine.handle(*now, Input::BrowserLost { reason: String::new() }),
            1 => engine.handle(*now, Input::Drain),
            _ => {}
        },
    }
}
