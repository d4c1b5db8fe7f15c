//! Cookies in events. What is not known to be the task's is taken out: in the person's profile everything that belongs to a
//! host where the task has not been, HttpOnly cookies included, and everywhere what the policy denies.

use ownership::id::{SessionId, TaskId};
use policy::Verb;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::Engine;
use super::sites::host_of;
use crate::wire::read_lossy;

/// Hosts of this many requests are remembered; with one more all are forgotten, and their cookies are not told.
const MOST_REQUESTS: usize = 1024;

/// The event that tells a response's cookies names no URL. The one before it, of the same request and told by the same source,
/// has the `Host` to which the request went: neither page nor client can make one up (measured: with a `Host` of its own a
/// request fails before it is told, and `Fetch.continueRequest` refuses the header).
#[derive(Default, Debug)]
pub struct RequestHosts(FxHashMap<String, String>);

impl RequestHosts {
    fn note(&mut self, event: &Value) {
        let Some(request) = event["requestId"].as_str() else { return };
        if self.0.len() >= MOST_REQUESTS {
            self.0.clear();
        }
        match requested_host(&event["headers"]) {
            Some(host) => self.0.insert(request.to_owned(), host),
            None => self.0.remove(request),
        };
    }
}

/// HTTP/1 has `Host`, the later ones `:authority`; with more than one that differ, none.
fn requested_host(headers: &Value) -> Option<String> {
    let names_host = |name: &str| name.eq_ignore_ascii_case("host") || name == ":authority";
    let mut hosts = headers
        .as_object()?
        .iter()
        .filter(|(name, _)| names_host(name))
        .map(|(_, value)| value.as_str().and_then(|host| host_of(&format!("https://{host}/"))));
    let first = hosts.next()??;
    hosts.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Whose cookies an event may tell.
#[derive(Clone, Copy)]
struct Audience {
    task: TaskId,
    shared: bool,
}

impl Engine {
    /// `None`: everything may be told.
    fn audience(&self, session: SessionId) -> Option<Audience> {
        let task = self.client_session(session).and_then(|session| self.task_of(session.client))?;
        let shared = self.is_shared(session);
        (shared || !self.is_unlimited(task, Verb::CookiesRead)).then_some(Audience { task, shared })
    }

    fn may_tell_host(&self, audience: Audience, host: &str) -> bool {
        let been_there = !audience.shared || self.sites_of(audience.task).is_some_and(|sites| sites.has_host(host));
        been_there && self.judge_host(audience.task, Verb::CookiesRead, host).is_ok()
    }

    fn may_tell_url(&self, audience: Audience, url: &Value) -> bool {
        url.as_str().and_then(host_of).is_some_and(|host| self.may_tell_host(audience, &host))
    }

    fn may_tell_cookie(&self, audience: Audience, cookie: &Value) -> bool {
        let Some(domain) = cookie["domain"].as_str() else { return false };
        (!audience.shared || self.is_sent_to_task(audience.task, cookie))
            && self.judge_host(audience.task, Verb::CookiesRead, domain.trim_start_matches('.')).is_ok()
    }

    /// Events of `Network` and `Fetch`. Most mention no cookies and pass as they are.
    pub(super) fn deliver_network(&mut self, session: SessionId, method: &str, raw: &str) {
        let Some(audience) = self.audience(session).filter(|_| mentions_cookies(raw)) else {
            return self.deliver(session, method, raw);
        };
        // What cannot be read cannot be cleaned, and is not told.
        if let Ok(mut event) = read_lossy(raw) {
            self.clean(session, audience, method, &mut event);
            self.deliver(session, method, &event.to_string());
        }
    }

    fn clean(&mut self, session: SessionId, audience: Audience, method: &str, event: &mut Value) {
        match method {
            "Network.requestWillBeSentExtraInfo" => {
                if let Some(session) = self.client_session_mut(session) {
                    session.request_hosts.note(event);
                }
                self.clean_sent(audience, event);
            }
            "Network.responseReceivedExtraInfo" => {
                let request = event["requestId"].as_str().unwrap_or_default();
                // Once: a response without a request of its own before it is nobody's.
                let host = self.client_session_mut(session).and_then(|session| session.request_hosts.0.remove(request));
                if !host.is_some_and(|host| self.may_tell_host(audience, &host)) {
                    without_cookies(event);
                }
            }
            "Fetch.requestPaused" | "Fetch.authRequired" => {
                if !self.may_tell_url(audience, &event["request"]["url"]) {
                    without_cookies(event);
                }
            }
            "Network.requestWillBeSent" | "Network.responseReceived" => self.clean_by_url(audience, event),
            _ => without_cookies(event),
        }
    }

    /// Each part that is of a URL of its own is judged by that one.
    fn clean_by_url(&self, audience: Audience, event: &mut Value) {
        const PARTS: [&str; 3] = ["request", "redirectResponse", "response"];
        let mut told = Vec::new();
        for part in PARTS {
            if self.may_tell_url(audience, &event[part]["url"]) {
                told.push((part, event[part].take()));
            }
        }
        without_cookies(event);
        for (part, value) in told {
            event[part] = value;
        }
    }

    /// The cookies of a request, each by its own domain, and of the header those that are told.
    fn clean_sent(&self, audience: Audience, event: &mut Value) {
        let mut associated = match event["associatedCookies"].take() {
            Value::Array(cookies) => cookies,
            _ => Vec::new(),
        };
        associated.retain(|entry| self.may_tell_cookie(audience, &entry["cookie"]));
        let told: Vec<String> = associated.iter().filter_map(|entry| pair(&entry["cookie"])).collect();
        let headers: Vec<(String, String)> = event["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.eq_ignore_ascii_case("cookie"))
            .map(|(name, value)| (name.clone(), only(value.as_str().unwrap_or_default(), &told)))
            .collect();
        let partition_is_told = self
            .sites_of(audience.task)
            .is_some_and(|sites| !audience.shared || sites.has_partition(&event["cookiePartitionKey"]));
        let partition = event["cookiePartitionKey"].take();
        without_cookies(event);
        if let Some(event) = event.as_object_mut() {
            // Whether there are cookies in somebody else's partition.
            event.remove("siteHasCookieInOtherPartition");
            event.insert("associatedCookies".into(), Value::Array(associated));
            if partition_is_told && !partition.is_null() {
                event.insert("cookiePartitionKey".into(), partition);
            }
        }
        for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
            event["headers"][name] = json!(value);
        }
    }

    /// What Chromium finds fault with in a cookie is told with the whole line that set it.
    pub(super) fn deliver_issue(&mut self, session: SessionId, method: &str, raw: &str) {
        let Some(audience) = self.audience(session).filter(|_| mentions_cookies(raw)) else {
            return self.deliver(session, method, raw);
        };
        let Ok(event) = read_lossy(raw) else { return };
        let details = &event["issue"]["details"]["cookieIssueDetails"];
        let told = match details.is_null() {
            true => event["issue"]["code"].as_str().is_some_and(|code| !code.contains("Cookie")),
            false => self.may_tell_url(audience, &details["cookieUrl"]),
        };
        if told {
            self.deliver(session, method, raw);
        }
    }
}

fn pair(cookie: &Value) -> Option<String> {
    let (name, value) = (cookie["name"].as_str()?, cookie["value"].as_str()?);
    Some(if name.is_empty() { value.to_owned() } else { format!("{name}={value}") })
}

/// Of a `Cookie` header the pairs that are listed.
fn only(header: &str, told: &[String]) -> String {
    let pairs: Vec<&str> = header.split("; ").filter(|pair| told.iter().any(|told| told == pair)).collect();
    pairs.join("; ")
}

/// In any case of letters: headers of HTTP/1 are told as the server spelt them. Read at every event, so without allocation.
fn mentions_cookies(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    let ks = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'k' | b'K')).map(|(at, _)| at);
    ks.filter_map(|at| bytes.get(at.checked_sub(3)?..at + 3)).any(|word| word.eq_ignore_ascii_case(b"cookie"))
}

/// Nothing of any cookie, wherever it stands. Header lists are objects in `Network` and arrays of name and value in `Fetch`;
/// raw header texts go as a whole.
fn without_cookies(value: &mut Value) {
    let is_cookie = |name: &str| name.eq_ignore_ascii_case("cookie") || name.eq_ignore_ascii_case("set-cookie");
    match value {
        Value::Object(map) => {
            map.retain(|name, _| {
                !is_cookie(name) && !name.ends_with("eadersText") && !name.starts_with("cookiePartitionKey")
            });
            for (name, value) in map.iter_mut() {
                match name.ends_with("Cookies") && value.is_array() {
                    true => *value = Value::Array(Vec::new()),
                    false => without_cookies(value),
                }
            }
        }
        Value::Array(values) => {
            values.retain(|value| !value["name"].as_str().is_some_and(is_cookie));
            values.iter_mut().for_each(without_cookies);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_seen_in_any_case_of_letters() {
        for raw in ["cookie", r#"{"name":"sEt-cOoKiE","value":"a=b"}"#, r#"{"associatedCookies":[]}"#, "kCOOKIE"] {
            assert!(mentions_cookies(raw), "{raw}");
        }
        for raw in ["", "k", "ook", "cooki", "{\"name\":\"Kcoo\"}"] {
            assert!(!mentions_cookies(raw), "{raw}");
        }
    }

    #[test]
    fn events_lose_every_cookie() {
        let mut event = json!({
            "requestId": "1", "headers": {"Cookie": "a=b", "SET-COOKIE": "c=d", "Accept": "*/*"},
            "associatedCookies": [{"cookie": {"value": "b"}}], "blockedCookies": [1], "headersText": "Set-Cookie: c=d",
            "request": {"headers": {"cookie": "a=b"}}, "responseHeaders": [{"name": "Set-Cookie", "value": "c=d"}, {"name": "X", "value": "y"}],
            "response": {"requestHeadersText": "Cookie: a=b"},
        });
        without_cookies(&mut event);
        assert_eq!(
            event,
            json!({"requestId": "1", "headers": {"Accept": "*/*"}, "associatedCookies": [], "blockedCookies": [],
                "request": {"headers": {}}, "responseHeaders": [{"name": "X", "value": "y"}], "response": {}})
        );
    }

    #[test]
    fn the_host_of_a_request_is_read_from_what_was_sent() {
        let host = |headers: Value| requested_host(&headers);
        assert_eq!(host(json!({"Host": "a.test:8080", "Accept": "*/*"})).as_deref(), Some("a.test"));
        assert_eq!(host(json!({":authority": "a.test"})).as_deref(), Some("a.test"));
        assert_eq!(host(json!({":authority": "a.test", "host": "a.test:443"})).as_deref(), Some("a.test"));
        for headers in [json!({}), json!({"Host": ""}), json!({":authority": "a.test", "host": "b.test"}), Value::Null]
        {
            assert_eq!(host(headers), None);
        }
    }

    #[test]
    fn a_header_keeps_the_pairs_that_are_told() {
        let told = ["a=1".to_owned(), "bare".to_owned(), "c=x=y".to_owned()];
        assert_eq!(only("a=1; b=2; bare; c=x=y; a=11", &told), "a=1; bare; c=x=y");
        assert_eq!(only("b=2", &told), "");
    }

    #[test]
    fn hosts_of_too_many_requests_are_forgotten() {
        let mut hosts = RequestHosts::default();
        for n in 0..=MOST_REQUESTS {
            hosts.note(&json!({"requestId": n.to_string(), "headers": {"Host": "a.test"}}));
        }
        assert_eq!(hosts.0.len(), 1);
        hosts.note(&json!({"requestId": MOST_REQUESTS.to_string(), "headers": {}}));
        assert_eq!(hosts.0.len(), 0);
    }
}
