//! Which cookies are a task's. In a browser context of its own all of them, in the person's profile those that are sent to
//! hosts where its pages have been; and of these the ones that its policy allows.

use ownership::id::{ContextId, TaskId};
use policy::{Decision, Verb};
use rustc_hash::FxHashMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Engine;
use super::audit::Judgement;
use super::calls::{Purpose, ReplyTo};
use super::io::{Record, RecordKind};
use super::refusal::Refusal;
use crate::wire::{Outcome, value_of};

/// Where a task's cookies are.
#[derive(Clone, Copy, Debug)]
pub struct Jar {
    pub task: TaskId,
    pub context: Option<ContextId>,
    /// The context is the task's, so everything in it is.
    pub own_context: bool,
}

/// A `clearCookies` under way: Chromium's own would clear the profile.
#[derive(Clone, Debug)]
pub struct Clearing {
    pub to: ReplyTo,
    pub jar: Jar,
    /// What is still to be deleted, the one in flight first; `None` while the cookies are being looked for.
    pub left: Option<Vec<Value>>,
}

/// How a cookie is named when there is something to say of it.
fn describe(cookie: &Value) -> String {
    let text = |key: &str| cookie[key].as_str().unwrap_or_default().replace(char::is_control, " ");
    format!("cookie {:?} of {}", text("name"), text("domain"))
}

impl Jar {
    /// With the browser context that it is in named, for a command of the root.
    pub fn params(&self, mut params: Value) -> Value {
        if let (Some(context), Some(params)) = (self.context, params.as_object_mut()) {
            params.insert("browserContextId".into(), json!(context.as_str()));
        }
        params
    }
}

impl Engine {
    /// Whether a cookie, as Chromium tells it, is sent to a host where the task has been.
    pub(super) fn is_sent_to_task(&self, task: TaskId, cookie: &Value) -> bool {
        let Some(sites) = self.sites_of(task) else { return false };
        cookie["domain"].as_str().is_some_and(|domain| sites.is_sent(domain))
            && sites.has_partition(&cookie["partitionKey"])
            && cookie["partitionKeyOpaque"] != json!(true)
    }

    fn is_of_jar(&self, jar: Jar, cookie: &Value) -> bool {
        jar.own_context || self.is_sent_to_task(jar.task, cookie)
    }

    /// The cookies of a jar that the policy leaves to its task. What the policy takes away is recorded, once for each host.
    fn permitted_cookies(&mut self, jar: Jar, verb: Verb, cookies: Vec<Value>) -> Vec<Value> {
        let mut hosts: FxHashMap<String, bool> = FxHashMap::default();
        let mut permitted = Vec::new();
        for cookie in cookies {
            let Some(domain) = cookie["domain"].as_str().filter(|_| self.is_of_jar(jar, &cookie)) else { continue };
            let host = domain.trim_start_matches('.').to_owned();
            let allowed = match hosts.get(&host) {
                Some(allowed) => *allowed,
                None => {
                    let decision = self.judge_host(jar.task, verb, &host);
                    let allowed = decision.is_ok();
                    if let Err(decision) = decision {
                        self.note_kept_back(jar.task, verb, &host, decision);
                    }
                    hosts.insert(host, allowed);
                    allowed
                }
            };
            if allowed {
                permitted.push(cookie);
            }
        }
        permitted
    }

    fn note_kept_back(&mut self, task: TaskId, verb: Verb, host: &str, decision: Decision) {
        let judged = Judgement { decision, verb: Some(verb), object: format!("https://{host}/") };
        let id = self.audit(task, None, "", &judged);
        let message = format!("{} [{id}]", judged.sentence());
        self.record(Record { task: Some(task), client: None, kind: RecordKind::Blocked, message });
    }

    pub(super) fn answer_cookies(&mut self, to: ReplyTo, own_context: bool, result: &RawValue) {
        let Some(task) = self.task_of(to.client) else { return };
        let jar = Jar { task, context: None, own_context };
        let cookies = cookies_in(value_of(Some(result)));
        let cookies = self.permitted_cookies(jar, Verb::CookiesRead, cookies);
        self.result(to, &json!({"cookies": cookies}).to_string());
    }

    /// Looks for the cookies and then deletes them one by one, by setting each anew with a time that is over: that is what
    /// the root can do, whether or not the task has a page.
    pub(super) fn start_clearing(&mut self, to: ReplyTo, jar: Jar) {
        let purpose = Purpose::ClearCookies(Box::new(Clearing { to, jar, left: None }));
        self.own(None, "Storage.getCookies", &jar.params(json!({})), purpose);
    }

    pub(super) fn go_on_clearing(&mut self, mut clearing: Clearing, outcome: Outcome<'_>) {
        if let Outcome::Error(error) = outcome {
            let what = clearing.left.as_ref().and_then(|left| left.first()).map(describe);
            let message = format!(
                "clearing cookies stopped at {}: {}; those before it are gone",
                what.as_deref().unwrap_or("the list of them"),
                error.get()
            );
            return self.refuse(clearing.to, &Refusal::ours(message));
        }
        let mut left = match clearing.left.take() {
            None => {
                let cookies = cookies_in(outcome.result());
                self.permitted_cookies(clearing.jar, Verb::CookiesWrite, cookies)
            }
            Some(done) => done.into_iter().skip(1).collect(),
        };
        let Some(cookie) = left.first_mut() else {
            return self.result(clearing.to, "{}");
        };
        let over = expired(cookie);
        let params = clearing.jar.params(json!({"cookies": [over]}));
        clearing.left = Some(left);
        self.own(None, "Storage.setCookies", &params, Purpose::ClearCookies(Box::new(clearing)));
    }
}

fn cookies_in(mut result: Value) -> Vec<Value> {
    match result["cookies"].take() {
        Value::Array(cookies) => cookies,
        _ => Vec::new(),
    }
}

/// The same cookie, over since 1970. Everything by which Chromium tells cookies apart is kept, and what it insists on:
/// prefixes of names need `secure`, and a cookie needs a name or a value.
fn expired(cookie: &Value) -> Value {
    let mut over = json!({"expires": 1});
    for key in [
        "name",
        "value",
        "domain",
        "path",
        "secure",
        "httpOnly",
        "sameSite",
        "sourceScheme",
        "sourcePort",
        "partitionKey",
    ] {
        if !cookie[key].is_null() {
            over[key] = cookie[key].clone();
        }
    }
    over
}
