//! What is wrong with a policy file that can be read: rules that open more than they seem to, and rules that do nothing.

use std::fmt;

use crate::date::Date;
use crate::names;
use crate::narrowing::is_public_suffix;
use crate::pattern::HostPattern;
use crate::rules::{Rule, Schemes, To};
use crate::{Policy, Question, Verb, Verdict};

mod overlap;
#[cfg(test)]
mod tests;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file is not to be used.
    Error,
    Warning,
}

/// A finding, and where. Line and column are one-based.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    pub severity: Severity,
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}:{}: {severity}: {}", self.file, self.line, self.column, self.message)
    }
}

impl Policy {
    /// In the order of the file.
    pub fn lints(&self, today: Date) -> Vec<Lint> {
        let mut lints = self.findings.clone();
        for rule in &self.rules {
            let findings = [
                public_suffix(rule),
                local(self, rule),
                cookies_everywhere(rule),
                script(self, rule),
                never_matches(rule),
                methods(rule),
                shadowed(self, rule),
                expired(rule, today),
                confirm(rule),
            ];
            lints.extend(findings.into_iter().flatten().map(|(severity, message)| Lint {
                severity,
                file: rule.rule.file.clone(),
                line: rule.rule.line,
                column: rule.column,
                message: format!("rule {}: {message}", rule.rule.id),
            }));
        }
        lints.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        lints
    }
}

type Finding = Option<(Severity, String)>;

fn error(message: String) -> Finding {
    Some((Severity::Error, message))
}

fn warning(message: String) -> Finding {
    Some((Severity::Warning, message))
}

fn hosts(to: &To) -> &[HostPattern] {
    match to {
        To::Anywhere => &[],
        To::Hosts(hosts) => hosts,
    }
}

/// Denying a whole suffix is fine; allowing it allows everybody.
fn public_suffix(rule: &Rule) -> Finding {
    if rule.effect == Verdict::Deny {
        return None;
    }
    let suffix = hosts(&rule.to).iter().find_map(|host| match host {
        HostPattern::WithSubdomains(name) | HostPattern::SubdomainsOnly(name) => is_public_suffix(name).then_some(name),
        HostPattern::Exact(_) | HostPattern::Network { .. } => None,
    })?;
    error(format!(
        "`{suffix}` is a public suffix, and `subdomains` there opens the pages of everybody who has a name below it: name the sites that are meant, as in {{ host = \"example.{suffix}\", subdomains = true }}"
    ))
}

fn local(policy: &Policy, rule: &Rule) -> Finding {
    if rule.effect != Verdict::Allow || rule.local {
        return None;
    }
    let near = hosts(&rule.to).iter().find(|host| match host {
        HostPattern::Network { address, prefix } => {
            overlap::LOCAL.iter().any(|(near, bits)| {
                overlap::hosts_meet(host, &HostPattern::Network { address: *near, prefix: *bits }) && *prefix > 0
            }) || names::is_local(*address)
        }
        HostPattern::Exact(name) | HostPattern::WithSubdomains(name) | HostPattern::SubdomainsOnly(name) => {
            names::may_resolve_to(name, names::is_local)
        }
    });
    if let Some(host) = near {
        return error(format!(
            "`{host}` leads to this machine or the private network: add `local = true` if that is meant"
        ));
    }
    let verb = Verb::ALL.iter().find(|verb| rule.names(**verb))?;
    let scheme = match &rule.schemes {
        Schemes::Any => "https",
        Schemes::Named(schemes) => {
            schemes.iter().find(|scheme| matches!(scheme.as_str(), "http" | "https" | "ws" | "wss"))?
        }
    };
    let open = ["127.0.0.1", "10.0.0.1", "192.168.0.1", "169.254.169.254", "[::1]"].into_iter().find(|host| {
        let url = format!("{scheme}://{host}/");
        let decision = policy.judge(&Question::new(*verb, &url).with_method(verb.usual_method()));
        matches!(rule.to, To::Anywhere) && decision.allowed() && decision.rule == rule.rule
    })?;
    warning(format!(
        "it also opens this machine and the private network ({scheme}://{open}/): add `local = true` if that is meant, or a rule that denies these addresses"
    ))
}

fn cookies_everywhere(rule: &Rule) -> Finding {
    let everywhere = rule.effect == Verdict::Allow && matches!(rule.to, To::Anywhere);
    // Who writes "*" has said that everything is meant.
    let named = rule.names(Verb::CookiesRead) && !Verb::ALL.iter().all(|verb| rule.names(*verb));
    match everywhere && named {
        true => error("it hands out the cookies of every host: name the hosts whose cookies are needed".to_owned()),
        false => None,
    }
}

fn script(policy: &Policy, rule: &Rule) -> Finding {
    if rule.effect != Verdict::Allow || !rule.names(Verb::Script) || rule.monitor {
        return None;
    }
    const REACHED: [(Verb, &str); 5] = [
        (Verb::Input, "submit forms and press buttons"),
        (Verb::CookiesRead, "read cookies (document.cookie)"),
        (Verb::CookiesWrite, "set cookies (document.cookie)"),
        (Verb::StorageRead, "read localStorage and IndexedDB"),
        (Verb::StorageWrite, "write localStorage and IndexedDB"),
    ];
    REACHED.iter().find_map(|(verb, still)| {
        let denial = policy.rules.iter().find(|other| {
            // Where it denies `script` too, nothing is left to get around it with.
            let evaded = other.names(*verb) && !other.names(Verb::Script);
            other.effect != Verdict::Allow && !other.monitor && evaded && overlap::rules_meet(rule, other)
        })?;
        error(format!(
            "it allows `script` where rule {} (line {}) denies `{verb}`, and a script can still {still}: deny `script` there too, or give up that denial",
            denial.rule.id, denial.rule.line
        ))
    })
}

fn never_matches(rule: &Rule) -> Finding {
    let Schemes::Named(schemes) = &rule.schemes else { return None };
    let hostless = |scheme: &String| matches!(scheme.as_str(), "data" | "about" | "javascript");
    match matches!(rule.to, To::Hosts(_)) && schemes.iter().all(hostless) {
        true => warning(format!("it can never match: {} URLs have no host; write `to = \"*\"`", schemes.join(" and "))),
        false => None,
    }
}

fn methods(rule: &Rule) -> Finding {
    if rule.methods.is_empty() {
        return None;
    }
    let verb = Verb::ALL.iter().find(|verb| rule.names(**verb) && verb.usual_method().is_none())?;
    match rule.effect {
        Verdict::Allow => warning(format!("it never allows `{verb}`, which is no HTTP request and so has no method")),
        Verdict::Confirm | Verdict::Deny => {
            warning(format!("it always holds for `{verb}`, which is no HTTP request and so has no method"))
        }
    }
}

fn shadowed(policy: &Policy, rule: &Rule) -> Finding {
    if rule.effect == Verdict::Deny {
        return None;
    }
    let denial =
        policy.rules.iter().find(|other| other.effect == Verdict::Deny && overlap::rule_covers(other, rule))?;
    warning(format!("it never matters: rule {} (line {}) denies all of it", denial.rule.id, denial.rule.line))
}

fn expired(rule: &Rule, today: Date) -> Finding {
    let last = rule.expires.filter(|_| rule.has_expired(today))?;
    match rule.effect {
        Verdict::Deny => warning(format!(
            "it expired on {last} and still denies, since denials do not lapse: remove it, or the date"
        )),
        Verdict::Allow | Verdict::Confirm => {
            warning(format!("it expired on {last} and has no effect: remove it, or set another date"))
        }
    }
}

fn confirm(rule: &Rule) -> Finding {
    match rule.effect {
        Verdict::Confirm => {
            warning("it asks for a confirmation, and this version has nobody to ask: until then it denies".to_owned())
        }
        Verdict::Allow | Verdict::Deny => None,
    }
}
