//! What clients send: what real ones send, and what a hostile one would. An id is mostly one that the client was told, often
//! one of somebody else's, sometimes one that never was.

use policy::methods::{self, ParamKind};
use serde_json::{Map, Value, json};

use super::browser::FORBIDDEN;
use super::client::{Client, Known, Sent};
use super::rng::Rng;
use super::truth::{Kind, Truth};

/// Makes frames, and notes with the client what is expected of each: a response, or the error that a malformed one gets.
pub struct Generator<'a> {
    pub rng: &'a mut Rng,
    pub client: &'a mut Client,
    pub truth: &'a Truth,
}

/// Enough commands at once on one session to outlive any small reserve of ids.
const BURST: usize = 90;

#[derive(Clone, Copy)]
enum Ask {
    Connect,
    Create,
    Close,
    Attach,
    AttachBrowser,
    Detach,
    Contexts,
    Info,
    AutoAttach,
    Page,
    Window,
    Download,
    AnyMethod,
    Malformed,
    Burst,
    BrowserClose,
}

const ASKS: [(usize, Ask); 16] = [
    (8, Ask::Connect),
    (8, Ask::Create),
    (4, Ask::Close),
    (8, Ask::Attach),
    (3, Ask::AttachBrowser),
    (5, Ask::Detach),
    (5, Ask::Contexts),
    (6, Ask::Info),
    (6, Ask::AutoAttach),
    (36, Ask::Page),
    (4, Ask::Window),
    (3, Ask::Download),
    (12, Ask::AnyMethod),
    (3, Ask::Malformed),
    (1, Ask::Burst),
    (1, Ask::BrowserClose),
];

impl Generator<'_> {
    pub fn frames(&mut self) -> Vec<String> {
        let ask = match self.rng.weighted(&ASKS) {
            // Without a session the next thing is to get one.
            Ask::Page | Ask::Burst | Ask::Window | Ask::AutoAttach if !self.has_page() => Ask::Attach,
            ask => ask,
        };
        match ask {
            Ask::Malformed => vec![self.malformed()],
            Ask::Burst => {
                let session = self.session(&["page"]);
                (0..BURST)
                    .map(|n| self.command("Runtime.evaluate", json!({"expression": n.to_string()}), session.as_deref()))
                    .collect()
            }
            ask => vec![self.one(ask)],
        }
    }

    /// What clients do when they have connected.
    pub fn connect(&mut self) -> Vec<String> {
        let mut frames = vec![self.command("Browser.getVersion", json!({}), None)];
        if self.rng.chance(60) {
            frames.push(self.command("Target.setDiscoverTargets", json!({"discover": true, "filter": [{}]}), None));
        }
        let wait = self.rng.chance(85);
        let params = json!({"autoAttach": true, "waitForDebuggerOnStart": wait, "flatten": true});
        frames.push(self.command("Target.setAutoAttach", params, None));
        frames
    }

    /// What clients do with a new session: set it up, then let run what waits for them.
    pub fn run(&mut self, session: &str) -> Vec<String> {
        let mut frames = Vec::new();
        if self.client.sessions.get(session).is_some_and(Known::is_browser) {
            return self.beside_the_root(session);
        }
        let fresh =
            self.client.sessions.get_mut(session).is_some_and(|known| !std::mem::replace(&mut known.set_up, true));
        if fresh && self.rng.chance(85) {
            let wait = self.rng.chance(80);
            let children = json!({"autoAttach": true, "waitForDebuggerOnStart": wait, "flatten": true});
            frames.push(self.command("Page.enable", json!({}), Some(session)));
            frames.push(self.command("Runtime.enable", json!({}), Some(session)));
            frames.push(self.command("Target.setAutoAttach", children, Some(session)));
            if self.rng.chance(30) {
                let script = json!({"source": "1"});
                frames.push(self.command("Page.addScriptToEvaluateOnNewDocument", script, Some(session)));
            }
        }
        let waiting =
            self.client.sessions.get_mut(session).is_some_and(|known| std::mem::replace(&mut known.waiting, false));
        if waiting || self.rng.chance(50) {
            frames.push(self.command("Runtime.runIfWaitingForDebugger", json!({}), Some(session)));
        }
        frames
    }

    /// A browser session sees targets of its own accord, until it ends: at once, now and then.
    fn beside_the_root(&mut self, session: &str) -> Vec<String> {
        if let Some(known) = self.client.sessions.get_mut(session) {
            known.set_up = true;
        }
        let mut frames = Vec::new();
        if self.rng.chance(50) {
            let params = json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true});
            frames.push(self.command("Target.setAutoAttach", params, Some(session)));
        }
        if self.rng.chance(20) {
            frames.push(self.command("Target.detachFromTarget", json!({"sessionId": session}), None));
        }
        frames
    }

    fn one(&mut self, ask: Ask) -> String {
        let scope = self.scope();
        let scope = scope.as_deref();
        match ask {
            Ask::Connect => {
                let (method, params) = match self.rng.below(6) {
                    0 | 1 => (
                        "Target.setAutoAttach",
                        json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}),
                    ),
                    2 => ("Target.setDiscoverTargets", json!({"discover": self.rng.chance(90), "filter": [{}]})),
                    3 => ("Target.setDiscoverTargets", json!({"discover": true})),
                    4 => ("Browser.getVersion", json!({})),
                    _ => (
                        "Browser.setDownloadBehavior",
                        json!({"behavior": "allowAndName", "downloadPath": "/tmp/playwright-artifacts-x", "eventsEnabled": true}),
                    ),
                };
                self.command(method, params, scope)
            }
            Ask::Create => {
                let mut params = json!({"url": self.url()});
                if self.rng.chance(40) {
                    params["browserContextId"] = json!(self.id(Kind::Context));
                }
                self.command("Target.createTarget", params, scope)
            }
            Ask::Close => {
                let params = json!({"targetId": self.id(Kind::Target)});
                self.command("Target.closeTarget", params, scope)
            }
            Ask::Attach => {
                let params = json!({"targetId": self.id(Kind::Target), "flatten": self.rng.chance(95)});
                self.command("Target.attachToTarget", params, scope)
            }
            Ask::AttachBrowser => self.command("Target.attachToBrowserTarget", json!({}), scope),
            Ask::Detach => {
                let on = if self.rng.chance(30) { self.session(&["page", "iframe"]) } else { scope.map(str::to_owned) };
                let params = match self.rng.chance(80) {
                    true => {
                        json!({"sessionId": self.session(&["page", "iframe", "worker", "browser", "service_worker"])})
                    }
                    false => json!({"targetId": self.id(Kind::Target)}),
                };
                self.command("Target.detachFromTarget", params, on.as_deref())
            }
            Ask::Contexts => {
                let (method, params) = match self.rng.below(4) {
                    0 | 1 => ("Target.createBrowserContext", json!({"disposeOnDetach": self.rng.chance(50)})),
                    2 => ("Target.disposeBrowserContext", json!({"browserContextId": self.id(Kind::Context)})),
                    _ => ("Target.getBrowserContexts", json!({})),
                };
                self.command(method, params, scope)
            }
            Ask::Info => match self.rng.below(3) {
                0 => self.command("Target.getTargets", json!({"filter": [{}]}), scope),
                1 => self.command("Target.getTargets", json!({}), scope),
                _ => {
                    let params = json!({"targetId": self.id(Kind::Target)});
                    self.command("Target.getTargetInfo", params, scope)
                }
            },
            Ask::AutoAttach => {
                let (on, wait) = (self.rng.chance(85), self.rng.chance(80));
                let session =
                    if self.rng.chance(20) { scope.map(str::to_owned) } else { self.session(&["page", "iframe"]) };
                let params = json!({"autoAttach": on, "waitForDebuggerOnStart": wait, "flatten": true});
                self.command("Target.setAutoAttach", params, session.as_deref())
            }
            Ask::Window => {
                let session = self.session(&["page"]);
                let (method, params) = match self.rng.below(3) {
                    0 => ("Browser.getWindowForTarget", json!({})),
                    1 => ("Browser.getWindowForTarget", json!({"targetId": self.id(Kind::Target)})),
                    _ => ("Browser.setWindowBounds", json!({"windowId": self.rng.below(400), "bounds": {"width": 5}})),
                };
                self.command(method, params, session.as_deref())
            }
            Ask::Download => {
                let params = json!({"guid": self.id(Kind::Download)});
                self.command("Browser.cancelDownload", params, scope)
            }
            Ask::BrowserClose => self.command("Browser.close", json!({}), scope),
            Ask::AnyMethod => self.any_method(),
            Ask::Page | Ask::Malformed | Ask::Burst => self.page_command(),
        }
    }

    fn page_command(&mut self) -> String {
        let session = self.session(&["page", "iframe", "worker", "service_worker"]);
        let (method, params) = match self.rng.below(14) {
            0 | 1 => ("Page.enable", json!({})),
            2 | 3 => ("Runtime.enable", json!({})),
            4 => ("Runtime.runIfWaitingForDebugger", json!({})),
            5 => ("Page.navigate", json!({"url": self.url()})),
            6 => ("Page.navigate", json!({"url": self.url(), "frameId": self.id(Kind::Frame)})),
            7 => ("Page.createIsolatedWorld", json!({"frameId": self.id(Kind::Target)})),
            8 => ("Page.addScriptToEvaluateOnNewDocument", json!({"source": "1", "runImmediately": true})),
            9 => ("Emulation.setUserAgentOverride", json!({"userAgent": "x"})),
            10 => ("Page.close", json!({})),
            // Worlds are small numbers: whoever guesses hits one.
            11 => ("Runtime.evaluate", json!({"expression": "1", "contextId": self.rng.below(400)})),
            12 => {
                let kind = *self.rng.pick(&[Kind::Target, Kind::Context, Kind::Download]).unwrap_or(&Kind::Target);
                ("Runtime.evaluate", json!({"expression": self.id(kind)}))
            }
            _ => ("Runtime.evaluate", json!({"expression": "1"})),
        };
        self.command(method, params, session.as_deref())
    }

    /// Any row of the table with somebody's ids in every place that can hold one, and one more where none belongs.
    fn any_method(&mut self) -> String {
        let mut names: Vec<&'static str> = methods::all().map(|row| row.method).collect();
        names.sort_unstable();
        let Some(row) = self.rng.pick(&names).and_then(|name| methods::method(name)) else {
            return self.page_command();
        };
        let mut params = json!({});
        for param in &row.params {
            let value = match param.kind {
                ParamKind::NonNegative => json!(0),
                ParamKind::Target => json!(self.id(Kind::Target)),
                ParamKind::Frame => json!(self.id(Kind::Frame)),
                ParamKind::Context => json!(self.id(Kind::Context)),
                ParamKind::Session => json!(self.session(&["page", "iframe"])),
                ParamKind::Download => json!(self.id(Kind::Download)),
                ParamKind::Window | ParamKind::World => json!(self.rng.below(400)),
                ParamKind::UniqueWorld => json!(format!("u.{}", self.rng.below(400))),
                ParamKind::Object => json!(format!("1.{}.1", self.rng.below(400))),
                ParamKind::Url(_) | ParamKind::Origin | ParamKind::StorageKey => json!(self.url()),
                ParamKind::ReadPaths => json!("/etc/passwd"),
                ParamKind::WritePath => json!("/tmp/playwright-artifacts-x"),
            };
            if self.rng.chance(90) {
                put(&mut params, param.path, value);
            }
        }
        if self.rng.chance(30) {
            params["surplus"] = json!({"list": [self.id(Kind::Target)]});
        }
        let session = if self.rng.chance(30) { self.scope() } else { self.session(&["page", "iframe", "worker"]) };
        self.command(row.method, params, session.as_deref())
    }

    fn malformed(&mut self) -> String {
        let id = self.next_id(None);
        let (text, id) = match self.rng.below(9) {
            0 => ("{".to_owned(), None),
            1 => ("[]".to_owned(), None),
            2 => (r#"{"method":"Page.enable"}"#.to_owned(), None),
            3 => (format!(r#"{{"id":"{id}","method":"Page.enable"}}"#), None),
            4 => (format!(r#"{{"id":{id}}}"#), Some(id)),
            5 => (format!(r#"{{"id":{id},"method":"Page.enable","params":[]}}"#), Some(id)),
            6 => (format!(r#"{{"id":{id},"method":"Page.enable","jsonrpc":"2.0"}}"#), Some(id)),
            7 => (format!(r#"{{"id":{id},"id":{id},"method":"Page.enable"}}"#), Some(id)),
            _ => (format!(r#"{{"id":{id},"method":"Page.enable","sessionId":7}}"#), Some(id)),
        };
        match id {
            Some(id) => self.client.outstanding.push(Sent::malformed(id, &text)),
            None => self.client.idless += 1,
        }
        text
    }

    fn has_page(&self) -> bool {
        self.client.sessions.values().any(|known| known.kind == "page")
    }

    // --- parts --------------------------------------------------------------------------------------------------

    /// Puppeteer 21 counts for each session, so an id can be there twice at a time, on two sessions.
    fn next_id(&mut self, session: Option<&str>) -> i64 {
        let id = self.client.next_id;
        let taken = self.client.outstanding.iter().any(|sent| sent.id == id && sent.session.as_deref() == session);
        if taken || !self.rng.chance(3) {
            self.client.next_id += 1;
        }
        self.client.next_id
    }

    fn command(&mut self, method: &str, mut params: Value, session: Option<&str>) -> String {
        let nonce = format!("n{}", self.rng.draw());
        params["nonce"] = json!(nonce);
        let id = self.next_id(session);
        let mut frame = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            frame["sessionId"] = json!(session);
        }
        let mut text = frame.to_string();
        match self.rng.below(40) {
            0 => text = escaped(&text),
            // Chromium takes the last of two; whoever looks at the first has looked at nothing.
            1 => {
                let other = self.id(Kind::Target);
                text = text.replacen(r#""params":{"#, &format!(r#""params":{{"targetId":"{other}","#), 1);
            }
            _ => {}
        }
        let (session, method) = (session.map(str::to_owned), method.to_owned());
        self.client.outstanding.push(Sent { id, session, method, nonce, text: text.clone() });
        text
    }

    /// The root, mostly, or a browser session beside it.
    fn scope(&mut self) -> Option<String> {
        let browsers: Vec<String> =
            self.client.sessions.iter().filter(|(_, known)| known.is_browser()).map(|(id, _)| id.clone()).collect();
        if self.rng.chance(25) { self.rng.pick(&browsers).cloned() } else { None }
    }

    /// One of its own sessions, mostly.
    fn session(&mut self, kinds: &[&str]) -> Option<String> {
        let own: Vec<String> = self
            .client
            .sessions
            .iter()
            .filter(|(_, known)| kinds.contains(&known.kind.as_str()))
            .map(|(id, _)| id.clone())
            .collect();
        match self.rng.below(20) {
            0 => self.rng.pick(&self.client.dead).cloned(),
            1 => self.truth.any_seen(self.rng, Kind::Session).map(|id| id.to_string()),
            2 => Some(self.rng.hex()),
            // A counter is how the engine of this test draws ids, so these are sessions of other clients.
            3 => Some(format!("{:032X}", self.rng.below(40))),
            _ => self.rng.pick(&own).cloned(),
        }
    }

    fn id(&mut self, kind: Kind) -> String {
        let told = self.client.told.get(&kind).map_or(&[][..], Vec::as_slice);
        match self.rng.below(20) {
            0..=10 => self.rng.pick(told).map(|id| id.to_string()),
            11..=17 => self.truth.any_seen(self.rng, kind).map(|id| id.to_string()),
            18 => Some(String::new()),
            _ => None,
        }
        .unwrap_or_else(|| self.rng.hex())
    }

    fn url(&mut self) -> String {
        match self.rng.below(10) {
            0..=3 => format!("https://a.test/{}", self.rng.below(1000)),
            4 => format!("https://{FORBIDDEN}/"),
            5 => "chrome://settings/".to_owned(),
            6 => "data:text/html,x".to_owned(),
            7 => "javascript:1".to_owned(),
            _ => "about:blank".to_owned(),
        }
    }
}

/// Puts a value where a path of the table says: `files[]`, `a.b`.
fn put(params: &mut Value, path: &str, value: Value) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let (name, each) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    let Some(members) = params.as_object_mut() else { return };
    if let (None, false) = (rest, each) {
        members.insert(name.to_owned(), value);
        return;
    }
    let inner = match rest {
        None => value,
        Some(rest) => {
            let mut inner = Value::Object(Map::new());
            put(&mut inner, rest, value);
            inner
        }
    };
    members.insert(name.to_owned(), if each { json!([inner]) } else { inner });
}

/// The same to every parser, and another text: the first hex letter of each id is written as an escape.
fn escaped(text: &str) -> String {
    let mut out = text.to_owned();
    let ids: std::collections::BTreeSet<&str> = super::truth::tokens(text).into_iter().collect();
    for token in ids {
        if let Some(first) = token.chars().next() {
            out = out.replace(token, &format!("\\u{:04x}{}", first as u32, &token[1..]));
        }
    }
    out
}
