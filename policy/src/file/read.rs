//! From a parsed document to a policy.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use toml::de::DeValue;

use super::hosts::{self, Sets};
use super::table::{Keys, Table, Value, full_array, mistyped, suggestion, table, text};
use super::{Result, Source};
use crate::pattern::PathPattern;
use crate::rules::{Ports, Rule, Schemes, Test};
use crate::verb::Verbs;
use crate::{Policy, RuleRef, Verb, Verdict};

const POLICY: Keys = Keys {
    what: "a policy",
    known: &["policy", "name", "default", "sets", "rule", "test"],
    later: &["mode", "limits", "include", "allow_default", "unenforceable", "files", "hardening"],
};
const RULE: Keys = Keys {
    what: "a rule",
    known: &["id", "effect", "verbs", "to", "schemes", "ports", "paths", "reason"],
    later: &["when", "except", "methods", "mode", "expires", "local"],
};
const TEST: Keys =
    Keys { what: "a test", known: &["verb", "url", "creator", "expect", "rule"], later: &["from", "method"] };

pub(super) fn policy<'a>(source: Source<'a>, document: &'a toml::de::DeTable<'a>) -> Result<Policy> {
    // The version first: of a newer format no other message would be right.
    if let Some(version) = document.get("policy") {
        check_version(source, version)?;
    }
    let fields = Table::read(source, document, 0..0, &POLICY)?;
    fields.need("policy", "policy = 1")?;
    let (name, name_span) = fields.need_text("name", "name = \"support-desk\"")?;
    if name.is_empty() {
        return Err(source.error(name_span, "`name` is empty: give the policy a name"));
    }
    let (default, default_span) = fields.need_text("default", "default = \"deny\"")?;
    if default != "deny" {
        let message = format!("`default` can only be \"deny\", not \"{default}\": allow by rules what may happen");
        return Err(source.error(default_span, message));
    }
    let sets = hosts::sets(source, fields.get("sets"))?;
    let rules = rules(source, fields.get("rule"), &sets)?;
    let tests =
        elements(source, fields.get("test"), "test")?.map(|value| test(source, value)).collect::<Result<_>>()?;
    let default = RuleRef { id: "default".to_owned(), file: source.file.to_owned(), line: source.line(default_span) };
    Ok(Policy { name: name.to_owned(), default: Arc::new(default), rules, tests })
}

fn check_version(source: Source<'_>, value: &Value<'_>) -> Result<()> {
    match value.get_ref() {
        DeValue::Integer(number) if number.as_str() == "1" && number.radix() == 10 => Ok(()),
        DeValue::Integer(number) => {
            let message = format!("format version {number} is unknown: this version of Tabwarden reads `policy = 1`");
            Err(source.error(value.span(), message))
        }
        other => Err(mistyped(source, value, "policy", "the format version 1", other)),
    }
}

/// The elements of an array of tables, which may be missing.
fn elements<'a>(
    source: Source<'a>,
    value: Option<&'a Value<'a>>,
    key: &str,
) -> Result<impl Iterator<Item = &'a Value<'a>>> {
    let elements = match value {
        Some(value) => match value.get_ref() {
            DeValue::Array(array) => &array[..],
            other => return Err(mistyped(source, value, key, &format!("an array of tables (`[[{key}]]`)"), other)),
        },
        None => &[],
    };
    Ok(elements.iter())
}

fn rules<'a>(source: Source<'a>, value: Option<&'a Value<'a>>, sets: &Sets) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    let mut lines: HashMap<String, u32> = HashMap::new();
    for value in elements(source, value, "rule")? {
        let (rule, id_span) = rule(source, value, sets)?;
        let id = rule.rule.id.clone();
        if id == "default" {
            return Err(source.error(id_span, "`default` is the id of the file's default: give the rule another one"));
        }
        if let Some(line) = lines.insert(id.clone(), rule.rule.line) {
            let message = format!("the id `{id}` is already that of the rule in line {line}: give this one another");
            return Err(source.error(id_span, message));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn rule<'a>(source: Source<'a>, value: &'a Value<'a>, sets: &Sets) -> Result<(Rule, Range<usize>)> {
    let fields = Table::read(source, table(source, value, "rule")?, value.span(), &RULE)?;
    let (id, id_span) = fields.need_text("id", "id = \"read-desk\"")?;
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        let message = format!("`{id}` is not an id: use letters, digits, `-`, `_` and `.`");
        return Err(source.error(id_span, message));
    }
    let (effect, effect_span) = fields.need_text("effect", "effect = \"allow\"")?;
    let effect = verdict(source, effect, effect_span, "effect")?;
    let rule = Rule {
        rule: Arc::new(RuleRef { id: id.to_owned(), file: source.file.to_owned(), line: source.line(id_span.clone()) }),
        effect,
        verbs: verbs(source, fields.need("verbs", "verbs = [\"view\"]")?, effect)?,
        to: hosts::to(source, fields.need("to", "to = { host = \"example.com\" }")?, sets)?,
        schemes: schemes(source, fields.get("schemes"), effect)?,
        ports: ports(source, fields.get("ports"), effect)?,
        paths: paths(source, fields.get("paths"))?,
        reason: fields.text("reason")?.unwrap_or_default().to_owned(),
    };
    Ok((rule, id_span))
}

fn verdict(source: Source<'_>, text: &str, span: Range<usize>, key: &str) -> Result<Verdict> {
    match text {
        "allow" => Ok(Verdict::Allow),
        "confirm" => Ok(Verdict::Confirm),
        "deny" => Ok(Verdict::Deny),
        other => {
            let hint = suggestion(other, &["allow", "confirm", "deny"]);
            Err(source.error(span, format!("unknown {key} `{other}`{hint}")))
        }
    }
}

/// A rule that denies what nothing enforces yet would promise what does not hold, so it is an error.
const ENFORCED: [Verb; 7] = [
    Verb::Navigate,
    Verb::Frame,
    Verb::CookiesRead,
    Verb::CookiesWrite,
    Verb::StorageRead,
    Verb::StorageWrite,
    Verb::Permissions,
];

fn verbs(source: Source<'_>, value: &Value<'_>, effect: Verdict) -> Result<Verbs> {
    let mut verbs = Verbs::default();
    for value in full_array(source, value, "verbs", "\"*\"")? {
        let (name, span) = text(source, value, "verbs")?;
        let named: Vec<Verb> =
            Verb::parse(name).into_iter().chain(Verb::group(name).into_iter().flatten().copied()).collect();
        let idle =
            named.iter().find(|verb| !ENFORCED.contains(verb)).filter(|_| name != "*" && effect != Verdict::Allow);
        if let Some(verb) = idle {
            let message = format!(
                "`{}` cannot be denied yet: this version enforces `navigate`, `frame`, `cookies.*`, `storage.*` and `permissions`; name these, or \"*\" to keep a host's documents away altogether",
                verb.as_str()
            );
            return Err(source.error(span, message));
        }
        match (Verb::parse(name), Verb::group(name)) {
            (Some(verb), _) => verbs.insert(verb),
            (None, Some(group)) => group.iter().for_each(|verb| verbs.insert(*verb)),
            (None, None) => {
                let mut known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
                known.extend(["view", "use", "*"]);
                return Err(source.error(span, format!("unknown verb `{name}`{}", suggestion(name, &known))));
            }
        }
    }
    Ok(verbs)
}

fn schemes(source: Source<'_>, value: Option<&Value<'_>>, effect: Verdict) -> Result<Schemes> {
    let Some(value) = value else {
        return Ok(match effect {
            Verdict::Allow => Schemes::Named(vec!["https".to_owned()]),
            // A denial that http: gets around would be none.
            Verdict::Confirm | Verdict::Deny => Schemes::Any,
        });
    };
    let mut schemes = Vec::new();
    for value in full_array(source, value, "schemes", "leave the key out for https")? {
        let (scheme, span) = text(source, value, "schemes")?;
        schemes.push(checked_scheme(source, scheme, span)?);
    }
    Ok(Schemes::Named(schemes))
}

fn checked_scheme(source: Source<'_>, scheme: &str, span: Range<usize>) -> Result<String> {
    if scheme == "blob" {
        let message = "a `blob:` URL is judged by the origin inside it: name that origin's scheme";
        return Err(source.error(span, message));
    }
    let bytes = scheme.as_bytes();
    let sound = bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(byte));
    match sound {
        true => Ok(scheme.to_owned()),
        false => {
            let message =
                format!("`{scheme}` is not a scheme: write it in lower case and without a colon, as in \"https\"");
            Err(source.error(span, message))
        }
    }
}

fn ports(source: Source<'_>, value: Option<&Value<'_>>, effect: Verdict) -> Result<Ports> {
    let Some(value) = value else {
        return Ok(match effect {
            Verdict::Allow => Ports::Default,
            Verdict::Confirm | Verdict::Deny => Ports::Any,
        });
    };
    if matches!(value.get_ref(), DeValue::String(text) if text == "*") {
        return Ok(Ports::Any);
    }
    let mut ports = Vec::new();
    for value in full_array(source, value, "ports", "leave the key out for the scheme's own")? {
        match value.get_ref() {
            DeValue::Integer(number) => match u16::from_str_radix(number.as_str(), number.radix()) {
                Ok(port) if port > 0 => ports.push(port),
                _ => {
                    let message = format!("{number} is not a port: write a number from 1 to 65535");
                    return Err(source.error(value.span(), message));
                }
            },
            other => return Err(mistyped(source, value, "ports", "\"*\" or an array of numbers", other)),
        }
    }
    Ok(Ports::Named(ports))
}

fn paths(source: Source<'_>, value: Option<&Value<'_>>) -> Result<Vec<PathPattern>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for value in full_array(source, value, "paths", "leave the key out for all")? {
        let (glob, span) = text(source, value, "paths")?;
        if !glob.starts_with('/') && !glob.starts_with("**") {
            let message = format!("the path `{glob}` has to begin with `/`, or with `**` for any beginning");
            return Err(source.error(span, message));
        }
        if glob.contains(['?', '#']) {
            let message = format!("`{glob}` holds a query or fragment, which are not judged: write the path alone");
            return Err(source.error(span, message));
        }
        if glob.contains("***") {
            return Err(source.error(span, format!("`{glob}` has three stars: `*` stops at `/`, `**` does not")));
        }
        paths.push(PathPattern::new(glob));
    }
    Ok(paths)
}

fn test<'a>(source: Source<'a>, value: &'a Value<'a>) -> Result<Test> {
    let fields = Table::read(source, table(source, value, "test")?, value.span(), &TEST)?;
    let (name, span) = fields.need_text("verb", "verb = \"navigate\"")?;
    let line = source.line(span.clone());
    let Some(verb) = Verb::parse(name) else {
        let known: Vec<&str> = Verb::ALL.iter().map(|verb| verb.as_str()).collect();
        return Err(source.error(span, format!("unknown verb `{name}`{}", suggestion(name, &known))));
    };
    let (expect, span) = fields.need_text("expect", "expect = \"allow\"")?;
    Ok(Test {
        verb,
        url: fields.need_text("url", "url = \"https://example.com/\"")?.0.to_owned(),
        creator: fields.text("creator")?.map(str::to_owned),
        expect: verdict(source, expect, span, "expect")?,
        rule: fields.text("rule")?.map(str::to_owned),
        line,
    })
}
