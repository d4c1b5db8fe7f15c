//! `URLBlocklist` and `URLAllowlist` of Chrome and Edge: `[scheme://][.]host[:port][/path][?query]`, of which the most
//! specific wins, and without any that matches everything is allowed.

use serde_json::Value;

use super::{Draft, RuleDraft, host, quote, strings};

/// One line of a list.
struct Filter {
    text: String,
    scheme: Option<String>,
    /// `None`: `*`.
    host: Option<String>,
    /// A dot before the host: this host alone.
    exact: bool,
    port: Option<u16>,
    path: String,
    query: bool,
}

pub fn import(value: &Value) -> Result<Draft, String> {
    let blocked = filters(value, "URLBlocklist")?;
    let allowed = filters(value, "URLAllowlist")?;
    if blocked.is_empty() && allowed.is_empty() {
        return Err("it has neither URLBlocklist nor URLAllowlist; export the browser's policies as JSON.".to_owned());
    }
    let mut draft = Draft::new("chrome", "Chrome's URLBlocklist and URLAllowlist");
    let closed = blocked.iter().any(|filter| filter.is_everything());
    if closed {
        draft.note("`*` is blocked: that is the default here, without a rule");
    } else {
        draft.note("Chrome allows what is in no list, and there is no such default here: this rule opens the web");
        draft.rule(&RuleDraft {
            effect: "allow",
            verbs: quote("*"),
            to: quote("*"),
            more: vec![
                "schemes = [\"http\", \"https\", \"ws\", \"wss\"]".to_owned(),
                "ports   = \"*\"".to_owned(),
                "local   = true".to_owned(),
            ],
            reason: "In neither list".to_owned(),
        });
    }
    for filter in blocked.iter().filter(|filter| !filter.is_everything()) {
        block(&mut draft, filter, &allowed);
    }
    for filter in &allowed {
        allow(&mut draft, filter);
    }
    Ok(draft)
}

fn block(draft: &mut Draft, filter: &Filter, allowed: &[Filter]) {
    let Some(to) = filter.to(draft) else { return };
    let mut more = filter.lines();
    if filter.query {
        draft.note(&format!("`{}`: queries are not judged here, so it is blocked with every query", filter.text));
    }
    // The longer one wins there and a denial here, so what is allowed within becomes an exception.
    let within: Vec<&Filter> = allowed.iter().filter(|allowed| !allowed.query && allowed.is_within(filter)).collect();
    let (sayable, lost): (Vec<&Filter>, Vec<&Filter>) =
        within.into_iter().partition(|allowed| allowed.is_exception_of(filter));
    for allowed in lost {
        draft.note(&format!(
            "`{}` stays denied by `{}`: exceptions have no scheme and no port, and without them more would be open",
            allowed.text, filter.text
        ));
    }
    let exceptions: Vec<String> = sayable.iter().filter_map(|allowed| allowed.exception()).collect();
    if !exceptions.is_empty() {
        draft.note(&format!("`{}`: entries of URLAllowlist within it are its exceptions", filter.text));
        more.push(format!("except  = [{}]", exceptions.join(", ")));
    }
    draft.rule(&RuleDraft {
        effect: "deny",
        verbs: quote("*"),
        to,
        more,
        reason: format!("URLBlocklist: {}", filter.text),
    });
}

fn allow(draft: &mut Draft, filter: &Filter) {
    if filter.query {
        draft.note(&format!(
            "`{}` is left out: queries are not judged here, and without it more would be open",
            filter.text
        ));
        return;
    }
    let Some(to) = filter.to(draft) else { return };
    let mut more = filter.lines();
    if filter.scheme.is_none() {
        more.push("schemes = [\"http\", \"https\", \"ws\", \"wss\"]".to_owned());
    }
    if filter.port.is_none() {
        more.push("ports   = \"*\"".to_owned());
    }
    draft.rule(&RuleDraft {
        effect: "allow",
        verbs: quote("*"),
        to,
        more,
        reason: format!("URLAllowlist: {}", filter.text),
    });
}

fn filters(value: &Value, key: &str) -> Result<Vec<Filter>, String> {
    let list = value.get(key).or_else(|| value.pointer(&format!("/policies/{key}"))).unwrap_or(&Value::Null);
    Ok(strings(list, key)?.iter().map(|text| Filter::read(text)).collect())
}

impl Filter {
    fn read(text: &str) -> Filter {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme != "*" => (Some(scheme.to_ascii_lowercase()), rest),
            Some((_, rest)) => (None, rest),
            None => (None, text),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, _)) => (rest, true),
            None => (rest, false),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // The colons of an IPv6 address stand in brackets.
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !port.is_empty() => {
                (name, port.parse().ok())
            }
            _ => (authority, None),
        };
        let (name, exact) = name.strip_prefix('.').map_or((name, false), |name| (name, true));
        let host = (name != "*" && !name.is_empty()).then(|| name.to_ascii_lowercase());
        Filter { text: text.to_owned(), scheme, host, exact, port, path: path.to_owned(), query }
    }

    fn is_everything(&self) -> bool {
        self.text == "*"
    }

    /// `None`, with a note, for what cannot be said here.
    fn to(&self, draft: &mut Draft) -> Option<String> {
        let Some(name) = &self.host else { return Some(quote("*")) };
        let to = host(name, !self.exact);
        if to.is_none() {
            draft.note(&format!("`{}` is left out: `{name}` is no host", self.text));
        }
        to
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(scheme) = &self.scheme {
            lines.push(format!("schemes = [{}]", quote(scheme)));
        }
        if let Some(port) = self.port {
            lines.push(format!("ports   = [{port}]"));
        }
        if let Some(glob) = self.glob() {
            lines.push(format!("paths   = [{glob}]"));
        }
        lines
    }

    /// Paths are beginnings there.
    fn glob(&self) -> Option<String> {
        let path = self.path.trim_end_matches('*');
        (!path.is_empty() && path != "/").then(|| quote(&format!("{path}**")))
    }

    fn exception(&self) -> Option<String> {
        let to = match &self.host {
            Some(name) => host(name, !self.exact)?,
            None => "{ to = \"*\" }".to_owned(),
        };
        match self.glob() {
            Some(glob) => Some(to.strip_suffix(" }").map(|to| format!("{to}, paths = [{glob}] }}")).unwrap_or(to)),
            None => Some(to),
        }
    }

    /// Whether it is the more specific of the two, so that it wins in Chrome.
    fn is_within(&self, outer: &Filter) -> bool {
        let Some(name) = &self.host else { return false };
        let host = outer.host.as_ref().is_none_or(|outer_name| {
            let below = !outer.exact && name.strip_suffix(outer_name.as_str()).is_some_and(|rest| rest.ends_with('.'));
            name == outer_name || below
        });
        let scheme = match (&outer.scheme, &self.scheme) {
            (None, _) => true,
            (Some(outer), Some(inner)) => outer == inner,
            (Some(outer), None) => matches!(outer.as_str(), "http" | "https" | "ws" | "wss" | "ftp"),
        };
        host && scheme && (self.host != outer.host || self.path.starts_with(&outer.path))
    }

    /// Whether host and path say all that it adds to `outer`.
    fn is_exception_of(&self, outer: &Filter) -> bool {
        (self.scheme.is_none() || self.scheme == outer.scheme) && (self.port.is_none() || self.port == outer.port)
    }
}
