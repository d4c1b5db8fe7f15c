//! One `[[rule]]`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use toml::de::DeValue;

use super::hosts::{self, Sets};
use super::read::{elements, mode};
use super::table::{Keys, Table, Value, full_array, mistyped, suggestion, table, text};
use super::{Result, Source};
use crate::address::is_normal_path;
use crate::pattern::PathPattern;
use crate::rules::{Exception, Ports, Rule, Schemes, To};
use crate::verb::Verbs;
use crate::{Date, RuleRef, Severity, Verb, Verdict};

const RULE: Keys = Keys {
    what: "a rule",
    known: &[
        "id", "effect", "verbs", "to", "except", "schemes", "ports", "paths", "methods", "when", "mode", "expires",
        "local", "reason",
    ],
    later: &[],
};
const WHEN: Keys = Keys { what: "`when`", known: &["initiator"], later: &[] };

pub(super) fn rules<'a>(
    source: Source<'a>,
    value: Option<&'a Value<'a>>,
    sets: &Sets,
    monitor: bool,
) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    let mut lines: HashMap<String, u32> = HashMap::new();
    for value in elements(source, value, "rule")? {
        let (rule, id_span) = rule(source, value, sets, monitor)?;
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

fn rule<'a>(source: Source<'a>, value: &'a Value<'a>, sets: &Sets, monitor: bool) -> Result<(Rule, Range<usize>)> {
    let fields = Table::read(source, table(source, value, "rule")?, value.span(), &RULE)?;
    let (id, id_span) = fields.need_text("id", "id = \"read-desk\"")?;
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        let message = format!("`{id}` is not an id: use letters, digits, `-`, `_` and `.`");
        return Err(source.error(id_span, message));
    }
    let (effect, effect_span) = fields.need_text("effect", "effect = \"allow\"")?;
    let effect = verdict(source, effect, effect_span, "effect")?;
    let (line, column) = source.place(id_span.start);
    let rule = Rule {
        rule: Arc::new(RuleRef { id: id.to_owned(), file: source.file.to_owned(), line }),
        column,
        effect,
        verbs: verbs(source, fields.need("verbs", "verbs = [\"view\"]")?)?,
        to: hosts::to(source, fields.need("to", "to = { host = \"example.com\" }")?, "to", sets)?,
        except: except(source, fields.get("except"), sets)?,
        schemes: schemes(source, fields.get("schemes"), effect)?,
        ports: ports(source, fields.get("ports"), effect)?,
        paths: paths(source, fields.get("paths"))?,
        methods: methods(source, fields.get("methods"))?,
        initiator: when(source, fields.get("when"), sets)?,
        monitor: mode(source, fields.get("mode"))? || monitor,
        expires: expires(source, fields.get("expires"))?,
        local: fields.flag("local")?,
        reason: fields.text("reason")?.unwrap_or_default().to_owned(),
    };
    Ok((rule, id_span))
}

pub(super) fn verdict(source: Source<'_>, text: &str, span: Range<usize>, key: &str) -> Result<Verdict> {
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

fn verbs(source: Source<'_>, value: &Value<'_>) -> Result<Verbs> {
    let mut verbs = Verbs::default();
    let values = full_array(source, value, "verbs", "\"*\"")?;
    for value in values {
        let (name, span) = text(source, value, "verbs")?;
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
    if verbs == Verbs::from(&[Verb::Adopt][..]) {
        let message = "the rule never matters: this version has no way to take over a person's tab";
        source.find(value.span(), Severity::Warning, message);
    }
    Ok(verbs)
}

/// `except = ["@set", "/path/**", { host = "...", paths = [...] }]`
fn except(source: Source<'_>, value: Option<&Value<'_>>, sets: &Sets) -> Result<Vec<Exception>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let values = full_array(source, value, "except", "leave the key out")?;
    values.iter().map(|value| exception(source, value, sets)).collect()
}

fn exception(source: Source<'_>, value: &Value<'_>, sets: &Sets) -> Result<Exception> {
    match value.get_ref() {
        DeValue::String(text) if text.starts_with(['/', '*']) => {
            Ok(Exception { to: To::Anywhere, paths: vec![path(source, text, value.span())?] })
        }
        DeValue::Table(fields) => {
            let paths = paths(source, fields.get("paths"))?;
            let to = match fields.get("to") {
                Some(to) => {
                    Table::read(source, fields, value.span(), &hosts::EXCEPTION)?;
                    hosts::to(source, to, "to", sets)?
                }
                None => To::Hosts(vec![hosts::one(source, value, &hosts::HOST_EXCEPTION)?]),
            };
            Ok(Exception { to, paths })
        }
        _ => Ok(Exception { to: hosts::to(source, value, "except", sets)?, paths: Vec::new() }),
    }
}

fn when(source: Source<'_>, value: Option<&Value<'_>>, sets: &Sets) -> Result<Option<To>> {
    let Some(value) = value else { return Ok(None) };
    let fields = Table::read(source, table(source, value, "when")?, value.span(), &WHEN)?;
    let initiator = fields.need("initiator", "when = { initiator = { host = \"example.com\" } }")?;
    hosts::to(source, initiator, "initiator", sets).map(Some)
}

fn methods(source: Source<'_>, value: Option<&Value<'_>>) -> Result<Vec<String>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let mut methods = Vec::new();
    for value in full_array(source, value, "methods", "leave the key out for all")? {
        let (method, span) = text(source, value, "methods")?;
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
            let message = format!("`{method}` is not a method of HTTP: write it in upper case, as in \"GET\"");
            return Err(source.error(span, message));
        }
        methods.push(method.to_owned());
    }
    Ok(methods)
}

/// `expires = 2027-01-31`, a date and no time of day.
fn expires(source: Source<'_>, value: Option<&Value<'_>>) -> Result<Option<Date>> {
    let Some(value) = value else { return Ok(None) };
    let wanted = "a date without quotes, as in `expires = 2027-01-31`";
    let DeValue::Datetime(found) = value.get_ref() else {
        return Err(mistyped(source, value, "expires", wanted, value.get_ref()));
    };
    match (found.date, found.time) {
        (Some(date), None) => match Date::new(date.year, date.month, date.day) {
            Some(date) => Ok(Some(date)),
            None => Err(source.error(value.span(), format!("the calendar has no day {found}"))),
        },
        _ => Err(source.error(value.span(), format!("`expires` has to be {wanted}: the rule holds through that day"))),
    }
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
        paths.push(path(source, glob, span)?);
    }
    Ok(paths)
}

fn path(source: Source<'_>, glob: &str, span: Range<usize>) -> Result<PathPattern> {
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
    if !is_normal_path(glob) {
        let message = format!(
            "the path `{glob}` is not normalised, so no rule that allows could match it: write it without empty segments, `.`, `..`, `\\`, `%2F` and `%5C`"
        );
        source.find(span, Severity::Error, message);
    }
    Ok(PathPattern::new(glob))
}
