//! A client's own interception: what it is told of, and what it may fulfil.

use ownership::id::{FrameId, SessionId};
use policy::Verb;
use serde_json::value::RawValue;

use super::Engine;
use super::audit::Judgement;
use super::calls::ReplyTo;
use super::documents::judge_at;
use super::refusal::Refusal;
use super::requests::is_document;
use super::state::{Cause, Told};
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
}

#[derive(serde::Deserialize)]
struct RequestUrl {
    url: String,
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
            let url = told.request.map(|request| request.url).unwrap_or_default();
            let is_document = told.resource_type.is_none_or(|kind| kind == "Document");
            let frame = told.frame_id.as_deref().and_then(FrameId::new);
            session.told_requests.insert(told.request_id, Told { url, is_document, frame });
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
        if !settles {
            return Ok(());
        }
        let named =
            serde_json::from_str::<PausedRequest>(raw).map_err(|error| Refusal::invalid_params(&error.to_string()))?;
        let told = self.client_session_mut(session).and_then(|session| session.told_requests.remove(&named.request_id));
        if !matches!(method, "Fetch.fulfillRequest" | "Fetch.continueResponse") {
            return Ok(());
        }
        match told {
            Some(told) => match self.forbidden_to_make_up(to, &told) {
                Some(judged) => Err(self.denied(to.client, method, &judged)),
                None => Ok(()),
            },
            None if method == "Fetch.fulfillRequest" => Err(Refusal::unknown_paused_request()),
            None => Ok(()),
        }
    }

    /// What is made up has the origin of the URL of its pause, and runs in the document for which it was asked: the client has
    /// to be allowed to intercept there, and to script there.
    fn forbidden_to_make_up(&self, to: ReplyTo, told: &Told) -> Option<Judgement> {
        let task = self.task_of(to.client).and_then(|task| self.tasks.get(&task))?;
        let document = match told.is_document {
            true => Some(told.url.as_str()),
            false => told.frame.and_then(|frame| self.origin_document(frame)),
        };
        let limited = |verb: Verb| !Engine::is_free(task, verb);
        let at_url = limited(Verb::Intercept).then(|| judge_at(task, Verb::Intercept, &told.url)).flatten();
        let at_document =
            || document.filter(|_| limited(Verb::Script)).and_then(|url| judge_at(task, Verb::Script, url));
        at_url.or_else(at_document)
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
        let Some(judged) = self.forbids(task, verb, url, Some(Cause::Page)) else { return false };
        self.fail_request(Some(session), request);
        self.blocked(page, &judged);
        true
    }
}
