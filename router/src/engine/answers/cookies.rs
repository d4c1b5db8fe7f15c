//! Cookies: read through a filter, written where the task has been, and cleared one by one.

use policy::Verb;
use serde_json::{Value, json};

use super::{Ask, Engine};
use crate::engine::audit::Judgement;
use crate::engine::calls::Learn;
use crate::engine::cookies::Jar;
use crate::engine::from_client::{Addressee, Forward, Judged};
use crate::engine::refusal::Refusal;
use crate::engine::sites::{host_of, is_host, not_been_there, web_url};

impl Engine {
    /// `Network` works on the context of its session, whatever else a command names; `Storage` on the one that is named.
    fn jar(&self, ask: &Ask<'_>) -> Result<Jar, Refusal> {
        let task = self.task_of(ask.to.client).ok_or_else(Refusal::not_allowed)?;
        let (context, own_context) = match ask.addressee {
            Addressee::Session(session) if is_of_session(ask) => {
                let context = self.client_session(session).and_then(|session| self.ledger.context_of(session.page));
                (context, context.is_some_and(|context| self.ledger.owner_of_context(context) == Some(task)))
            }
            _ => self.meant_context(ask)?,
        };
        if context.is_none() {
            return Err(Refusal::not_allowed());
        }
        Ok(Jar { task, context, own_context })
    }

    /// On the session that it came on, or on the root with the context named.
    fn send_to_jar(&mut self, ask: &Ask<'_>, jar: Jar, params: Value, learn: Learn) -> Result<(), Refusal> {
        let (session, params) = match ask.addressee {
            Addressee::Session(session) if is_of_session(ask) => (Some(session), params),
            _ => (None, jar.params(params)),
        };
        let judged = Judged { shared_profile: Some(!jar.own_context), ..Judged::default() };
        let params = params.to_string();
        let command = Forward { session, method: ask.row.method, params: &params };
        let permitted = self.permit_forward(ask.to, ask.row, ask.surface, &judged, command)?;
        self.forward(ask.to, permitted, learn);
        Ok(())
    }

    pub(super) fn read_cookies(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let jar = self.jar(&ask)?;
        let mut params = json!({});
        if ask.row.method == "Network.getCookies" && !ask.params["urls"].is_null() {
            let urls = ask.params["urls"].as_array().ok_or_else(|| Refusal::invalid_params("urls must be an array"))?;
            for url in urls {
                let url = url.as_str().ok_or_else(|| Refusal::invalid_params("urls must be strings"))?;
                // What has no host has no cookies: Puppeteer asks for those of `about:blank`.
                if let Some(host) = host_of(url).filter(|host| !self.is_reached(jar, host)) {
                    return Err(not_been_there(ask.row, &format!("the cookies of {host}")));
                }
            }
            params["urls"] = ask.params["urls"].take();
        }
        let learn = match jar.own_context && self.is_unlimited(jar.task, Verb::CookiesRead) {
            true => Learn::Nothing,
            false => Learn::Cookies { own_context: jar.own_context },
        };
        self.send_to_jar(&ask, jar, params, learn)
    }

    pub(super) fn set_cookies(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let jar = self.jar(&ask)?;
        let mut params = ask.params.take();
        if let Some(params) = params.as_object_mut() {
            params.remove("browserContextId");
        }
        if ask.row.method == "Network.setCookie" {
            self.check_new_cookie(&ask, jar, &mut params)?;
        } else {
            let cookies = params["cookies"].as_array_mut();
            for cookie in cookies.ok_or_else(|| Refusal::invalid_params("cookies must be an array"))? {
                self.check_new_cookie(&ask, jar, cookie)?;
            }
        }
        self.send_to_jar(&ask, jar, params, Learn::Nothing)
    }

    /// Chromium goes by `domain`, as if it were a URL's host, and by the host of `url` only where there is none. Both are
    /// brought to one spelling.
    fn check_new_cookie(&mut self, ask: &Ask<'_>, jar: Jar, cookie: &mut Value) -> Result<(), Refusal> {
        if !cookie.is_object() {
            return Err(Refusal::invalid_params("a cookie must be an object"));
        }
        if jar.own_context && self.is_unlimited(jar.task, Verb::CookiesWrite) {
            return Ok(());
        }
        let host = self.check_url(ask, jar, cookie)?;
        let domain = match optional_text(cookie, "domain")?.map(|domain| domain.to_ascii_lowercase()) {
            Some(domain) => domain,
            None => {
                host.ok_or_else(|| Refusal::invalid_params("At least one of the url or domain needs to be specified"))?
            }
        };
        let bare = domain.strip_prefix('.').unwrap_or(&domain);
        if !is_host(bare) {
            return Err(Refusal::invalid_params(&format!(
                "the domain {domain:?} is not written as browsers write a host"
            )));
        }
        let settable = jar.own_context || self.sites_of(jar.task).is_some_and(|sites| sites.may_set(&domain));
        if !settable {
            return Err(not_been_there(ask.row, &format!("a cookie of {domain}")));
        }
        self.check_partition(ask, jar, cookie)?;
        self.judge_write(ask, jar, bare)?;
        if cookie["domain"].is_string() {
            cookie["domain"] = json!(domain);
        }
        Ok(())
    }

    pub(super) fn delete_cookies(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let jar = self.jar(&ask)?;
        let mut params = ask.params.take();
        if !(jar.own_context && self.is_unlimited(jar.task, Verb::CookiesWrite)) {
            let host = self.check_url(&ask, jar, &mut params)?;
            // Compared by Chromium with the domains of cookies as it stands.
            let domain = match optional_text(&params, "domain")?.map(str::to_owned) {
                Some(domain) => domain,
                None => host.ok_or_else(|| {
                    Refusal::invalid_params("At least one of the url and domain needs to be specified")
                })?,
            };
            let sent = jar.own_context || self.sites_of(jar.task).is_some_and(|sites| sites.is_sent(&domain));
            if !sent {
                return Err(not_been_there(ask.row, &format!("a cookie of {:?}", domain.escape_debug().to_string())));
            }
            self.check_partition(&ask, jar, &params)?;
            self.judge_write(&ask, jar, domain.trim_start_matches('.'))?;
        }
        self.send_to_jar(&ask, jar, params, Learn::Nothing)
    }

    pub(super) fn clear_cookies(&mut self, ask: Ask<'_>) -> Result<(), Refusal> {
        let jar = self.jar(&ask)?;
        if jar.own_context && self.is_unlimited(jar.task, Verb::CookiesWrite) {
            return self.send_to_jar(&ask, jar, json!({}), Learn::Nothing);
        }
        let judged = Judged { shared_profile: Some(!jar.own_context), ..Judged::default() };
        self.permit(ask.to, ask.row, ask.surface, &judged, ())?;
        self.start_clearing(ask.to, jar);
        Ok(())
    }

    /// The host of `url`, which is written anew as it was read.
    fn check_url(&self, ask: &Ask<'_>, jar: Jar, cookie: &mut Value) -> Result<Option<String>, Refusal> {
        let Some(text) = optional_text(cookie, "url")? else { return Ok(None) };
        let url = web_url(text).ok_or_else(|| Refusal::invalid_params("url must be one of http or https"))?;
        let Some(host) = url.host_str().map(str::to_owned) else { return Ok(None) };
        if !self.is_reached(jar, &host) {
            return Err(not_been_there(ask.row, &format!("a cookie of {host}")));
        }
        cookie["url"] = json!(url.as_str());
        Ok(Some(host))
    }

    fn check_partition(&self, ask: &Ask<'_>, jar: Jar, cookie: &Value) -> Result<(), Refusal> {
        let key = &cookie["partitionKey"];
        let known = jar.own_context || self.sites_of(jar.task).is_some_and(|sites| sites.has_partition(key));
        match known {
            true => Ok(()),
            false => Err(not_been_there(ask.row, "a partition of cookies")),
        }
    }

    fn is_reached(&self, jar: Jar, host: &str) -> bool {
        jar.own_context || self.sites_of(jar.task).is_some_and(|sites| sites.has_host(host))
    }

    fn judge_write(&mut self, ask: &Ask<'_>, jar: Jar, host: &str) -> Result<(), Refusal> {
        self.judge_host(jar.task, Verb::CookiesWrite, host).map_err(|decision| {
            let judged = Judgement { decision, verb: Some(Verb::CookiesWrite), object: format!("https://{host}/") };
            self.denied(ask.to.client, ask.row.method, &judged)
        })
    }
}

fn is_of_session(ask: &Ask<'_>) -> bool {
    ask.row.method.starts_with("Network.")
}

/// A text that is not empty; Chromium takes an empty one as none.
fn optional_text<'v>(params: &'v Value, key: &str) -> Result<Option<&'v str>, Refusal> {
    match &params[key] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        _ => Err(Refusal::invalid_params(&format!("{key} must be a string"))),
    }
}
