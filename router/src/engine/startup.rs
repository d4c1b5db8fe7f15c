//! The root gates: put up once, in order, before any task or client may come. A browser that refuses one of them is not
//! served at all.

use serde_json::json;

use ownership::id::{ContextId, TargetId};

use super::calls::{Purpose, RootStep};
use super::io::Output;
use super::requests::every_document;
use super::{Engine, Value};
use crate::wire::{Outcome, value_of};

impl Engine {
    pub fn start(&mut self, now: std::time::Instant) {
        self.now = now;
        self.browser.target = Some(TargetId::from_bytes((self.draw)()));
        self.root_step(RootStep::Version);
    }

    fn root_step(&mut self, step: RootStep) {
        let (method, params) = match step {
            RootStep::Version => ("Browser.getVersion", json!({})),
            RootStep::Contexts => ("Target.getBrowserContexts", json!({})),
            // `tab`, `browser` and `browser_ui` targets are nobody's business here; the rest is needed to attribute new
            // tabs (a ctrl-click's URL is told by targetCreated only) and to know the state of owned pages.
            RootStep::Discover => (
                "Target.setDiscoverTargets",
                json!({"discover": true, "filter": [
                    {"type": "browser", "exclude": true}, {"type": "tab", "exclude": true},
                    {"type": "browser_ui", "exclude": true}, {}]}),
            ),
            RootStep::Fetch => ("Fetch.enable", every_document()),
            // The only thing that holds a popup before its first request. Pages only: a service worker whose hold ends by
            // detaching never starts (measured), and that would be the person's.
            RootStep::AutoAttach => (
                "Target.setAutoAttach",
                json!({"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": [{"type": "page"}]}),
            ),
        };
        self.own(None, method, &params, Purpose::Root(step));
    }

    pub(super) fn root_answered(&mut self, step: RootStep, outcome: Outcome<'_>) {
        let result: Value = match outcome {
            Outcome::Result(result) => value_of(Some(result)),
            // Without the name of the profile's own context there are no shared tasks.
            Outcome::Error(_) if step == RootStep::Contexts => Value::Null,
            Outcome::Error(error) => {
                let reason = format!(
                    "the browser refused {step:?}, on which the isolation of tasks rests ({}); use Chromium 140 or newer",
                    error.get()
                );
                self.outputs.push_back(Output::Fatal { reason });
                return;
            }
        };
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        match step {
            RootStep::Version => {
                self.browser.version = result.to_string();
                self.browser.product = text("product");
                self.browser.user_agent = text("userAgent");
                self.browser.protocol_version = text("protocolVersion");
                self.browser.revision = text("revision");
                self.browser.js_version = text("jsVersion");
                self.root_step(RootStep::Contexts);
            }
            RootStep::Contexts => {
                self.browser.default_context = ContextId::new(&text("defaultBrowserContextId"));
                self.root_step(RootStep::Discover);
            }
            RootStep::Discover => self.root_step(RootStep::Fetch),
            RootStep::Fetch => self.root_step(RootStep::AutoAttach),
            RootStep::AutoAttach => {
                self.browser.ready = true;
                self.outputs.push_back(Output::Ready);
            }
        }
    }
}
