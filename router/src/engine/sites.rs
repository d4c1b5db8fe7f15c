//! Where a task has been: the origins whose documents its pages have committed. In the person's profile it reaches the
//! cookies and the storage of these and of no others.

use ownership::id::{FrameId, SessionId, TargetId, TaskId};
use policy::{Decision, Policies, Question, Verb};
use rustc_hash::FxHashMap;
use serde_json::Value;
use url::Url;

use super::Engine;
use super::refusal::Refusal;
use super::state::Task;

/// More origins than any job needs; a page with endless names of its own must not fill the memory. Past these, nothing is
/// added, so nothing more is reached.
const MOST_ORIGINS: usize = 4096;

/// Origins of http and https, in the spelling of the URL parser.
#[derive(Default, Debug)]
pub struct Sites {
    origins: FxHashMap<String, Site>,
}

#[derive(Debug)]
struct Site {
    scheme: String,
    host: String,
    /// The part of the host that somebody registered, as Chromium told it, which knows the list of public suffixes; the host
    /// itself where there is none (addresses, `localhost`).
    registrable: String,
}

impl Sites {
    pub fn insert(&mut self, url: &str, registrable: &str) {
        let Some(url) = web_url(url) else { return };
        let Some(host) = url.host_str().map(str::to_owned) else { return };
        let origin = url.origin().ascii_serialization();
        if self.origins.len() >= MOST_ORIGINS && !self.origins.contains_key(&origin) {
            return;
        }
        let registrable = match !registrable.is_empty() && is_within(&host, registrable) {
            true => registrable.to_owned(),
            false => host.clone(),
        };
        self.origins.insert(origin, Site { scheme: url.scheme().to_owned(), host, registrable });
    }

    pub fn has_origin(&self, origin: &str) -> bool {
        self.origins.contains_key(origin)
    }

    pub fn has_host(&self, host: &str) -> bool {
        self.origins.values().any(|site| site.host == host)
    }

    /// Whether a cookie of that domain is sent to one of the hosts: with a dot before it to the host and those below it,
    /// without one to that host only.
    pub fn is_sent(&self, domain: &str) -> bool {
        match domain.strip_prefix('.') {
            Some(domain) => self.origins.values().any(|site| is_within(&site.host, domain)),
            None => self.has_host(domain),
        }
    }

    /// Whether one of the hosts could set a cookie of that domain: not for a public suffix, of which Chromium would make a
    /// cookie of the suffix's own host.
    pub fn may_set(&self, domain: &str) -> bool {
        match domain.strip_prefix('.') {
            Some(domain) => {
                self.origins.values().any(|site| is_within(&site.host, domain) && is_within(domain, &site.registrable))
            }
            None => self.has_host(domain),
        }
    }

    /// A scheme and a registrable domain, as partitioned cookies and storage keys name the page at the top.
    pub fn has_site(&self, site: &str) -> bool {
        let Some((scheme, host)) = site.split_once("://") else { return false };
        self.origins.values().any(|site| site.scheme == scheme && site.registrable == host)
    }

    pub fn has_partition(&self, key: &Value) -> bool {
        key.is_null() || key["topLevelSite"].as_str().is_some_and(|site| self.has_site(site))
    }

    /// An origin with a slash; in a frame of another site, `^0` and the page's site, or `^3` and whether a frame between is of
    /// another site. Anything else is of a document that has no name.
    pub fn has_storage_key(&self, key: &str) -> bool {
        let mut parts = key.split('^');
        let origin = parts.next().and_then(|origin| origin.strip_suffix('/'));
        origin.is_some_and(|origin| self.has_origin(origin))
            && parts.all(|part| match part.strip_prefix('0') {
                Some(site) => self.has_site(site),
                None => part == "31",
            })
    }

    /// Origins of exactly that host: its ports are known from these alone.
    fn origins_of<'s>(&'s self, host: &'s str) -> impl Iterator<Item = &'s str> {
        self.origins.iter().filter(move |(_, site)| site.host == host).map(|(origin, _)| origin.as_str())
    }
}

/// `host` is `domain` or below it.
fn is_within(host: &str, domain: &str) -> bool {
    !domain.is_empty() && host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

pub(super) fn web_url(url: &str) -> Option<Url> {
    Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// The host of a request's URL.
pub(super) fn host_of(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https" | "ws" | "wss"))?;
    url.host_str().map(str::to_owned)
}

/// A host as the URL parser writes it, so that Chromium cannot read another one from it.
pub(super) fn is_host(text: &str) -> bool {
    web_url(&format!("https://{text}/")).is_some_and(|url| url.host_str() == Some(text))
}

impl Engine {
    /// A document has committed in one of the page's frames. Error pages say in `unreachableUrl` what they stand for.
    pub(super) fn note_document(&mut self, page: TargetId, frame: &Value) {
        let Some(url) = frame["url"].as_str().filter(|_| !frame["unreachableUrl"].is_string()) else { return };
        let Some(task) = self.ledger.owner(page) else { return };
        let verb = if frame["id"].as_str() == Some(page.as_str()) { Verb::Navigate } else { Verb::Frame };
        let frame_id = frame["id"].as_str().and_then(FrameId::new);
        let question = Question::new(verb, url).created_by(Some("task")).with_method(verb.usual_method());
        let question = question.on_behalf_of(frame_id.and_then(|frame| self.initiator_of_document(frame)));
        if self.forbids_question(task, &question).is_some() {
            return;
        }
        if let Some(task) = self.tasks.get_mut(&task) {
            task.sites.insert(url, frame["domainAndRegistry"].as_str().unwrap_or_default());
        }
    }

    /// Whether the policy lets the task use cookies of that host. They know neither scheme nor port, so one of both schemes,
    /// or one of the host's origins that the task has been to, is enough.
    pub(super) fn judge_host(&self, task: TaskId, verb: Verb, host: &str) -> Result<(), Decision> {
        let Some(task) = self.tasks.get(&task) else {
            return Err(Policies::built_in().judge(&Question::new(verb, "")));
        };
        if task.policy.allows_everywhere(verb) {
            return Ok(());
        }
        let judge = |url: &str| task.policy.judge(&Question::new(verb, url));
        let decision = task.judge(&Question::new(verb, &format!("https://{host}/")));
        let allowed = decision.allowed()
            || judge(&format!("http://{host}/")).allowed()
            || task.sites.origins_of(host).any(|origin| judge(&format!("{origin}/")).allowed());
        if allowed { Ok(()) } else { Err(decision) }
    }

    pub(super) fn is_unlimited(&self, task: TaskId, verb: Verb) -> bool {
        self.tasks.get(&task).is_some_and(|task| task.policy.allows_everywhere(verb))
    }

    pub(super) fn sites_of(&self, task: TaskId) -> Option<&Sites> {
        self.tasks.get(&task).map(|task: &Task| &task.sites)
    }
}

impl Engine {
    /// A page that does not want what is dropped on it has the browser open it in a new tab, which carries no opener and in the
    /// person's profile would be the person's.
    pub(super) fn refuse_dropped_address(
        &self,
        session: SessionId,
        row: &policy::methods::Row,
        params: &Value,
    ) -> Result<(), Refusal> {
        if row.method != "Input.dispatchDragEvent" || !self.is_shared(session) {
            return Ok(());
        }
        let leads_away = |item: &Value| {
            let kind = item["mimeType"].as_str().unwrap_or_default().to_ascii_lowercase();
            let data = item["data"].as_str().unwrap_or_default();
            matches!(kind.as_str(), "text/uri-list" | "text/x-moz-url")
                || data.lines().any(|line| Url::parse(line.trim()).is_ok_and(|url| url.has_authority()))
        };
        let items = params["data"]["items"].as_array();
        match items.into_iter().flatten().any(leads_away) {
            true => Err(Refusal::ours(
                "Input.dispatchDragEvent refused: this task shares the person's profile, and an address that the page does not \
                 take would open in a tab of the person's; navigate to it, or use a task with a browser context of its own \
                 (`tabwarden task new NAME --context isolated`)",
            )),
            false => Ok(()),
        }
    }
}

/// In the person's profile, `what` of a place where the task has not been.
pub(super) fn not_been_there(row: &policy::methods::Row, what: &str) -> Refusal {
    Refusal::ours(format!(
        "{method} denied by rule {method} (methods.tsv:{line}): it names {what}, this task shares the person's profile, and none of its pages has loaded a document from there. Open a page there first, or use a task with a browser context of its own (`tabwarden task new NAME --context isolated`).",
        method = row.method,
        line = row.line,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sites() -> Sites {
        let mut sites = Sites::default();
        sites.insert("https://app.example.co.uk/x?y#z", "example.co.uk");
        sites.insert("http://127.0.0.1:3000/", "");
        sites.insert("https://alice.github.io/", "alice.github.io");
        for url in ["about:blank", "chrome-error://chromewebdata/", "data:text/html,x", "", "file:///etc/passwd"] {
            sites.insert(url, "");
        }
        sites
    }

    #[test]
    fn a_cookie_is_the_hosts_when_it_is_sent_there() {
        for domain in ["app.example.co.uk", ".app.example.co.uk", ".example.co.uk", "127.0.0.1", "alice.github.io"] {
            assert!(sites().is_sent(domain), "{domain}");
        }
        // Host-only cookies of the parent are not sent below it.
        for domain in
            ["example.co.uk", "other.example.co.uk", ".other.example.co.uk", ".pp.example.co.uk", "", ".", "uk"]
        {
            assert!(!sites().is_sent(domain), "{domain}");
        }
    }

    #[test]
    fn no_cookie_is_set_for_a_public_suffix() {
        for domain in [".example.co.uk", ".app.example.co.uk", "app.example.co.uk", "127.0.0.1", ".alice.github.io"] {
            assert!(sites().may_set(domain), "{domain}");
        }
        for domain in [".co.uk", ".uk", ".github.io", "github.io", "co.uk", "example.co.uk", ".0.0.1", "", "."] {
            assert!(!sites().may_set(domain), "{domain}");
        }
    }

    #[test]
    fn a_registrable_domain_that_is_not_the_hosts_is_not_believed() {
        let mut sites = Sites::default();
        sites.insert("https://a.test/", "b.test");
        assert!(sites.may_set(".a.test") && !sites.may_set(".test") && !sites.has_site("https://b.test"));
    }

    #[test]
    fn partitions_are_of_sites_where_the_task_was() {
        let key = |site: &str| json!({"topLevelSite": site, "hasCrossSiteAncestor": true});
        assert!(sites().has_partition(&Value::Null));
        assert!(sites().has_partition(&key("https://example.co.uk")));
        for site in ["http://example.co.uk", "https://bank.test", "", "example.co.uk"] {
            assert!(!sites().has_partition(&key(site)), "{site}");
        }
        assert!(!sites().has_partition(&json!("https://example.co.uk")));
    }

    #[test]
    fn storage_keys_are_read_to_their_end() {
        let good = [
            "https://app.example.co.uk/",
            "http://127.0.0.1:3000/^0https://example.co.uk",
            "https://app.example.co.uk/^31",
        ];
        for key in good {
            assert!(sites().has_storage_key(key), "{key}");
        }
        let bad = [
            "",
            "https://app.example.co.uk",
            "https://bank.test/",
            "https://app.example.co.uk/^0https://bank.test",
            "https://app.example.co.uk/^11^22",
            "https://app.example.co.uk/^41^52^6https://x.test",
            "http://127.0.0.1/",
        ];
        for key in bad {
            assert!(!sites().has_storage_key(key), "{key}");
        }
    }

    #[test]
    fn hosts_are_taken_in_one_spelling_only() {
        for host in ["a.test", "127.0.0.1", "[::1]", "a.test.", "xn--bcher-kva.example"] {
            assert!(is_host(host), "{host}");
        }
        for host in
            ["A.test", "127.1", "%61.test", "a.test:80", "x@a.test", "a.test/x", " a.test", "", "b\u{fc}cher.example"]
        {
            assert!(!is_host(host), "{host}");
        }
    }

    #[test]
    fn a_page_with_endless_names_does_not_fill_the_memory() {
        let mut sites = Sites::default();
        (0..MOST_ORIGINS + 10).for_each(|n| sites.insert(&format!("https://h{n}.test/"), ""));
        assert_eq!(sites.origins.len(), MOST_ORIGINS);
    }
}
