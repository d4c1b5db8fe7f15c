//! agent-browser: `allowedDomains` (exactly this host; `*.x` is x and below), and its action policy with `default`,
//! `allow`, `deny` and `confirm` over kinds of actions.

use serde_json::Value;

use super::{Draft, RuleDraft, host, quote, strings};

/// Its kinds of actions, as verbs.
const ACTIONS: [(&str, &[&str]); 14] = [
    ("navigate", &["navigate", "popup"]),
    ("click", &["input"]),
    ("fill", &["input"]),
    ("interact", &["input"]),
    ("scroll", &["input"]),
    ("snapshot", &["read"]),
    ("get", &["read"]),
    ("wait", &["read"]),
    ("eval", &["script"]),
    ("download", &["download"]),
    ("upload", &["upload"]),
    ("network", &["intercept"]),
    ("state", &["cookies.read", "cookies.write", "storage.read", "storage.write"]),
    ("emulate", &["emulate"]),
];

const SCHEMES: &str = "schemes = [\"http\", \"https\", \"ws\", \"wss\"]";
const PORTS: &str = "ports   = \"*\"";

pub fn import(value: &Value) -> Result<Draft, String> {
    let domains = value.get("allowedDomains").or_else(|| value.get("allowed_domains"));
    let actions = ["default", "allow", "deny", "confirm"].iter().any(|key| value.get(key).is_some());
    if domains.is_none() && !actions {
        return Err("it has neither allowedDomains nor an action policy; name agent-browser.json or the file of --action-policy."
            .to_owned());
    }
    let mut draft = Draft::new("agent-browser", "agent-browser's configuration");
    let hosts = match domains {
        Some(domains) => hosts(&mut draft, &strings(domains, "allowedDomains")?),
        None => {
            draft.note("no allowedDomains: there everything is allowed then, and this opens the web");
            vec!["\"*\"".to_owned()]
        }
    };
    let to = match hosts.as_slice() {
        [] => return Err("allowedDomains names no host, so nothing would be allowed; name some.".to_owned()),
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let mut more = vec![SCHEMES.to_owned(), PORTS.to_owned()];
    if to == "\"*\"" {
        more.push("local   = true".to_owned());
    }
    let allowed = allowed_verbs(&mut draft, value)?;
    draft.rule(&RuleDraft {
        effect: "allow",
        verbs: allowed,
        to,
        more,
        reason: "Allowed for agent-browser".to_owned(),
    });
    for (key, effect) in [("deny", "deny"), ("confirm", "confirm")] {
        for action in strings(value.get(key).unwrap_or(&Value::Null), key)? {
            let Some(verbs) = verbs(&action) else {
                draft.note(&format!("{key} `{action}`: there is no such verb here; nothing denies it"));
                continue;
            };
            draft.note(&format!(
                "{key} `{action}`: it held for agent-browser's own command, and holds for every client here"
            ));
            let rule = RuleDraft {
                effect,
                verbs,
                to: quote("*"),
                more: Vec::new(),
                reason: format!("agent-browser: {key} {action}"),
            };
            draft.rule(&rule);
        }
    }
    Ok(draft)
}

fn hosts(draft: &mut Draft, domains: &[String]) -> Vec<String> {
    let mut hosts = Vec::new();
    for domain in domains.iter().filter(|domain| !domain.is_empty()) {
        let (name, below) = domain.strip_prefix("*.").map_or((domain.as_str(), false), |name| (name, true));
        if below {
            draft.note(&format!("`{domain}` includes {name} itself there, and so it does here"));
        }
        match host(name, below) {
            Some(host) => hosts.push(host),
            None => draft.note(&format!("`{domain}` is left out: `{name}` is no host")),
        }
    }
    hosts
}

/// The verbs of the one rule that allows.
fn allowed_verbs(draft: &mut Draft, value: &Value) -> Result<String, String> {
    if value.get("default").and_then(Value::as_str) != Some("deny") {
        return Ok(quote("*"));
    }
    let mut allowed = vec![quote("frame"), quote("subresource"), quote("worker"), quote("websocket")];
    draft.note("what pages load is no action there, so it stays allowed");
    for action in strings(value.get("allow").unwrap_or(&Value::Null), "allow")? {
        match verbs(&action) {
            Some(verbs) => allowed.push(verbs),
            None => draft.note(&format!("allow `{action}`: there is no such verb here; it is left out")),
        }
    }
    Ok(allowed.join(", "))
}

fn verbs(action: &str) -> Option<String> {
    let (_, verbs) = ACTIONS.iter().find(|(name, _)| *name == action)?;
    Some(verbs.iter().map(|verb| quote(verb)).collect::<Vec<_>>().join(", "))
}
