//! The spellings of URLs that were bypasses, through the engine: what a client's command and a page's request get is what
//! `policy explain` says of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ownership::id::{ClientId, TaskId};
use policy::{Policies, Policy};
use router::engine::Engine;
use router::engine::io::{AdminCommand, AdminRequest, BrowserOrigin, Input, Output, TaskContext, TaskSpec};
use serde_json::{Value, json};
use tabwarden_tests::trace::{config, counter};

const PAGE: &str = "0000000000000000000000000000AAAA";

/// An engine, and a browser that has one page and says yes to everything.
struct Live {
    engine: Engine,
    now: Instant,
    /// To the browser, as method and parameters.
    sent: Vec<(String, Value)>,
    to_client: Vec<Value>,
    /// Verdict and rule of what was refused.
    audited: Vec<(String, String)>,
}

impl Live {
    fn new(policies: Arc<Policies>) -> Live {
        let now = Instant::now();
        let engine = Engine::new(config(BrowserOrigin::Launched), now, counter());
        let mut live = Live { engine, now, sent: Vec::new(), to_client: Vec::new(), audited: Vec::new() };
        live.engine.start(now);
        live.drain();
        let (labels, name) = (BTreeMap::new(), Some("t".to_owned()));
        let spec =
            TaskSpec { name, context: TaskContext::Isolated, policy: policies, idle_ttl: None, labels, open: None };
        live.input(Input::Admin { request: AdminRequest(1), command: AdminCommand::TaskNew(spec) });
        live.input(Input::ClientJoined { client: ClientId(1), task: TaskId(1), user_agent: "test".to_owned() });
        live.client(r#"{"id":1,"method":"Target.setAutoAttach","params":{"autoAttach":true,"waitForDebuggerOnStart":false,"flatten":true}}"#);
        live
    }

    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input);
        self.drain();
    }

    fn client(&mut self, text: &str) {
        self.input(Input::ClientFrame { client: ClientId(1), text });
    }

    fn browser(&mut self, frame: &Value) {
        self.input(Input::BrowserFrame { text: &frame.to_string() });
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::ToBrowser { text, .. } => self.answer(&text),
                Output::ToClient { text, .. } => self.to_client.push(serde_json::from_str(&text).expect("JSON")),
                Output::Audit(audit) => {
                    self.audited.push((audit.verdict.as_str().to_owned(), audit.rule.id.clone()));
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, text: &str) {
        let frame: Value = serde_json::from_str(text).expect("JSON");
        let method = frame["method"].as_str().expect("a method").to_owned();
        let attached = |session: &str| {
            json!({"method": "Target.attachedToTarget", "params": {"sessionId": session, "waitingForDebugger": false,
                "targetInfo": {"targetId": PAGE, "type": "page", "title": "", "url": "about:blank", "attached": true,
                    "canAccessOpener": false, "browserContextId": "C1"}}})
        };
        let result = match method.as_str() {
            "Target.getBrowserContexts" => json!({"browserContextIds": [], "defaultBrowserContextId": "PROFILE"}),
            "Target.createBrowserContext" => json!({"browserContextId": "C1"}),
            "Target.createTarget" => {
                self.browser(&attached("GUARD"));
                json!({"targetId": PAGE})
            }
            "Target.attachToTarget" => {
                self.browser(&attached("CLIENT"));
                json!({"sessionId": "CLIENT"})
            }
            _ => json!({}),
        };
        let mut answer = json!({"id": frame["id"], "result": result});
        if frame["sessionId"].is_string() {
            answer["sessionId"] = frame["sessionId"].clone();
        }
        self.sent.push((method, frame["params"].clone()));
        self.browser(&answer);
    }

    fn session(&self) -> String {
        let attached = self.to_client.iter().find(|frame| frame["method"] == "Target.attachedToTarget");
        attached.and_then(|frame| frame["params"]["sessionId"].as_str()).expect("a session").to_owned()
    }

    /// What becomes of it: `("allow", "")`, or the verdict and the rule that stopped it. `url`: as in a JSON string.
    fn verdict(&mut self, verb: &str, url: &str) -> (String, String) {
        self.sent.clear();
        self.audited.clear();
        let passed = match verb {
            "navigate" => {
                let session = self.session();
                self.client(&format!(
                    r#"{{"id":2,"method":"Page.navigate","params":{{"url":"{url}"}},"sessionId":"{session}"}}"#
                ));
                "Page.navigate"
            }
            _ => {
                self.input(Input::BrowserFrame {
                    text: &format!(
                        r#"{{"method":"Fetch.requestPaused","sessionId":"GUARD","params":{{"requestId":"J","frameId":"{PAGE}","resourceType":"Image","request":{{"url":"{url}","method":"GET","headers":{{}}}}}}}}"#
                    ),
                });
                "Fetch.continueRequest"
            }
        };
        let went = self.sent.iter().any(|(method, _)| method == passed);
        match self.audited.first() {
            Some(refused) => {
                assert!(!went, "{verb} {url}: refused, and sent all the same");
                refused.clone()
            }
            None if went => ("allow".to_owned(), String::new()),
            // Chromium's own words for what is no URL at all.
            None => ("deny".to_owned(), "default".to_owned()),
        }
    }
}

#[test]
fn the_live_path_says_what_the_vectors_say() {
    let text = include_str!("../../policy/tests/url-vectors.toml");
    let policy = Policy::parse(text, "url-vectors.toml").expect("the policy");
    let mut live = Live::new(Arc::new(Policies::from(Arc::new(policy))));
    let (mut tried, mut failures) = (0, Vec::new());
    let lines = include_str!("../../policy/tests/url-vectors.tsv").lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let [verb, url, verdict, rule, _note] = fields[..] else { panic!("{line}") };
        // What a document inlines is nobody else's; its document is what is judged.
        let is_inline = verb == "subresource" && (url.starts_with("data:") || url.starts_with("blob:"));
        if !matches!(verb, "navigate" | "subresource") || is_inline {
            continue;
        }
        tried += 1;
        let (got, by) = live.verdict(verb, url);
        let same_rule = verdict == "allow" || by == rule;
        if got != verdict || !same_rule {
            failures.push(format!("{verb} {url}: {got} by {by}, and the line says {verdict} by {rule}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(tried >= 250, "{tried}");
}
