//! A client's own interception: what it is told of, and what it may fulfil.

use ownership::id::{FrameId, SessionId};
use policy::{Question, Verb};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::Engine;
use super::audit::Judgement;
use super::calls::ReplyTo;
use super::documents::judge_at;
use super::refusal::Refusal;
use super::requests::{http_method, is_document, judge_load};
use super::sites::{host_of, not_been_there};
use super::state::Told;
use crate::wire::value_of;

/// The one parameter of interception that matters here; a duplicate of it is an error.
#[derive(serde::Deserialize)]
struct PausedRequest {
    #[serde(rename = "requestId")]
    request_id: String,
    /// In events only, as is the rest.
    request: Option<RequestUrl>,
    #[serde(rename = "frameId")]
    frame_id: Option<String>,
    #[serde(rename = "resourceType")]
    resource_type: Option<String>,
    /// In commands only: what is asked for instead.
    url: Option<String>,
}

#[derive(serde::Deserialize)]
struct RequestUrl {
    url: String,
    method: Option<String>,
}

/// The headers that a client makes up; in `binaryResponseHeaders` anything can be.
#[derive(serde::Deserialize)]
struct MadeUp {
    #[serde(rename = "responseHeaders")]
    headers: Option<Vec<HeaderName>>,
    #[serde(rename = "binaryResponseHeaders")]
    binary: Option<IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct HeaderName {
    name: String,
}

impl MadeUp {
    fn sets_cookies(&self) -> bool {
        let is_cookie = |header: &HeaderName| header.name.eq_ignore_ascii_case("set-cookie");
        self.binary.is_some() || self.headers.iter().flatten().any(is_cookie)
    }
}

impl Engine {
    /// A pause of a client's own interception. What the client makes up for a forbidden document would have that document's
    /// origin, cookies and storage, and the root's `Fetch` never sees a request that is fulfilled: failed before it is told.
    pub(super) fn client_request_paused(&mut self, session: SessionId, params: Option<&RawValue>, raw: &str) {
        if raw.contains("\"Document\"") && self.fail_forbidden_document(session, params) {
            return;
        }
        let told = params.and_then(|params| serde_json::from_str::<PausedRequest>(params.get()).ok());
        if let (Some(told), Some(session)) = (told, self.client_session_mut(session)) {
            let (url, method) = told.request.map(|request| (request.url, request.method)).unwrap_or_default();
            let frame = told.frame_id.as_deref().and_then(FrameId::new);
            session
                .told_requests
                .insert(told.request_id, Told { url, method, resource_type: told.resource_type, frame });
        }
        self.deliver_network(session, "Fetch.requestPaused", raw);
    }

    /// Ids of paused requests can be guessed (`interception-job-3.0`), and one that was not told may be of a forbidden
    /// document: only what was told can be fulfilled, and only once.
    pub(super) fn settle_paused(
        &mut self,
        to: ReplyTo,
        session: SessionId,
        method: &str,
        raw: &str,
    ) -> Result<(), Refusal> {
        let settles = matches!(
            method,
            "Fetch.fulfillRequest" | "Fetch.continueRequest" | "Fetch.failRequest" | "Fetch.continueResponse"
        );
        let reads = matches!(method, "Fetch.getResponseBody" | "Fetch.takeResponseBodyAsStream");
        if !settles && !reads {
            return Ok(());
        }
        let named =
            serde_json::from_str::<PausedRequest>(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        if reads {
            return self.may_read_paused(to, session, method, &named.request_id);
        }
        let told = self.client_session_mut(session).and_then(|session| session.told_requests.remove(&named.request_id));
        if let Some(url) = named.url.filter(|_| method == "Fetch.continueRequest") {
            let told = told.as_ref().ok_or_else(Refusal::unknown_paused_request)?;
            return if url == told.url { Ok(()) } else { self.may_lead_elsewhere(to, told, &url) };
        }
        if !matches!(method, "Fetch.fulfillRequest" | "Fetch.continueResponse") {
            return Ok(());
        }
        match told {
            Some(told) => {
                if let Some(judged) = self.forbidden_to_make_up(to, &told) {
                    return Err(self.denied(to.client, method, &judged));
                }
                let made: MadeUp =
                    serde_json::from_str(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
                match made.sets_cookies() {
                    true => self.may_make_up_cookies(to, session, method, &told),
                    false => Ok(()),
                }
            }
            None => Err(Refusal::unknown_paused_request()),
        }
    }

    /// The body of a response is the content of its URL, whatever document comes of it.
    fn may_read_paused(&mut self, to: ReplyTo, session: SessionId, method: &str, id: &str) -> Result<(), Refusal> {
        let told = self.client_session(session).and_then(|session| session.told_requests.get(id));
        let url = told.map(|told| told.url.clone()).ok_or_else(Refusal::unknown_paused_request)?;
        match self.judge_for(to, Verb::Read, &url) {
            Some(judged) => Err(self.denied(to.client, method, &judged)),
            None => Ok(()),
        }
    }

    /// What is fetched from another URL has the origin of the one that was paused: whoever may read and script that one reads
    /// it, so that has to be allowed at the other one too. (The load itself is judged at its own pause, by its own verb.)
    fn may_lead_elsewhere(&mut self, to: ReplyTo, told: &Told, url: &str) -> Result<(), Refusal> {
        let script = || told.is_document().then(|| self.judge_for(to, Verb::Script, url)).flatten();
        match self.judge_for(to, Verb::Read, url).or_else(script) {
            Some(judged) => Err(self.denied(to.client, "Fetch.continueRequest", &judged)),
            None => Ok(()),
        }
    }

    fn judge_for(&self, to: ReplyTo, verb: Verb, url: &str) -> Option<Judgement> {
        let task = self.task_of(to.client).and_then(|task| self.tasks.get(&task))?;
        judge_at(task, verb, url)
    }

    /// A client whose answer to a pause was refused takes the request for answered: it fails, or it would wait for ever.
    /// (Playwright does not show errors of these commands, hence the log.)
    pub(super) fn fail_refused_pause(&mut self, session: SessionId, method: &str, raw: &str, refusal: &Refusal) {
        if !matches!(method, "Fetch.fulfillRequest" | "Fetch.continueRequest" | "Fetch.continueResponse") {
            return;
        }
        if let Ok(named) = serde_json::from_str::<PausedRequest>(raw) {
            self.fail_request(Some(session), &named.request_id);
            if let Some(page) = self.client_session(session).map(|session| session.page) {
                self.tell_log(page, "", &refusal.message);
            }
        }
    }

    /// What is made up has the origin of the URL of its pause, and runs in the document for which it was asked: the client has
    /// to be allowed to intercept there, and to script there.
    fn forbidden_to_make_up(&self, to: ReplyTo, told: &Told) -> Option<Judgement> {
        let task = self.task_of(to.client).and_then(|task| self.tasks.get(&task))?;
        let document = match told.is_document() {
            true => Some(told.url.as_str()),
            false => told.frame.and_then(|frame| self.origin_document(frame)),
        };
        // (A document's own URL was judged before its pause was told.)
        let load = || match told.is_document() {
            true => None,
            false => {
                let kind = told.resource_type.as_deref().unwrap_or_default();
                judge_load(|question| task.judge(question), &told.url, kind, told.method.as_deref(), document)
            }
        };
        judge_at(task, Verb::Intercept, &told.url)
            .or_else(load)
            .or_else(|| document.and_then(|url| judge_at(task, Verb::Script, url)))
    }

    /// Chromium stores the cookies of a made-up response as if the host had sent them (measured), so they are judged as those
    /// that a client sets by command. A host whose document this is will have been visited.
    fn may_make_up_cookies(
        &mut self,
        to: ReplyTo,
        session: SessionId,
        method: &str,
        told: &Told,
    ) -> Result<(), Refusal> {
        let Some(task) = self.task_of(to.client) else { return Err(Refusal::not_allowed()) };
        let Some(host) = host_of(&told.url) else { return Ok(()) };
        let visited = || told.is_document() || self.sites_of(task).is_some_and(|sites| sites.has_host(&host));
        if self.is_shared(session) && !visited() {
            let row = policy::methods::method(method).ok_or_else(|| Refusal::method_not_found(method))?;
            return Err(not_been_there(row, &format!("cookies of {host} in a response that it makes up")));
        }
        self.judge_host(task, Verb::CookiesWrite, &host).map_err(|decision| {
            let judged = Judgement { decision, verb: Some(Verb::CookiesWrite), object: format!("https://{host}/") };
            self.denied(to.client, method, &judged)
        })
    }

    fn fail_forbidden_document(&mut self, session: SessionId, params: Option<&RawValue>) -> bool {
        let params = value_of(params);
        let Some(page) = self.client_session(session).map(|session| session.page) else { return true };
        let Some(task) = self.ledger.owner(page) else { return true };
        let (request, url) = (params["requestId"].as_str(), params["request"]["url"].as_str());
        let (Some(request), Some(url)) = (request, url) else { return true };
        let verb = if self.is_main_frame(page, &params) { Verb::Navigate } else { Verb::Frame };
        if !is_document(&params) {
            return false;
        }
        let initiator =
            params["frameId"].as_str().and_then(FrameId::new).and_then(|frame| self.initiator_of_document(frame));
        let question = Question::new(verb, url).created_by(Some("task")).with_method(http_method(&params));
        let Some(judged) = self.forbids_question(task, &question.on_behalf_of(initiator)) else { return false };
        self.fail_request(Some(session), request);
        self.blocked(page, &judged);
        true
    }
}
