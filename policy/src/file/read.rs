//! From a parsed document to a policy.

use toml::de::DeValue;

use super::hosts;
use super::rule::{rules, verdict};
use super::settings;
use super::table::{Keys, Table, Value, mistyped, suggestion, table};
use super::{Includes, Result, Source};
use crate::rules::Test;
use crate::{Policy, RuleRef, Severity, Verb};

const POLICY: Keys = Keys {
    what: "a policy",
    known: &[
        "policy",
        "name",
        "default",
        "allow_default",
        "mode",
        "include",
        "sets",
        "rule",
        "limits",
        "files",
        "unenforceable",
        "test",
    ],
    later: &["hardening"],
};
const TEST: Keys =
    Keys { what: "a test", known: &["verb", "url", "creator", "from", "method", "expect", "rule"], later: &[] };

pub(super) fn policy<'a>(
    source: Source<'a>,
    document: &'a toml::de::DeTable<'a>,
    includes: &mut Includes<'_>,
) -> Result<Policy> {
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
    let monitor = mode(source, fields.get("mode"))?;
    let (default, default_allows) = default(source, &fields, monitor)?;
    let sets = hosts::sets(source, fields.get("sets"), fields.get("include"), includes)?;
    let (read_dirs, write_dirs) = settings::files(source, fields.get("files"))?;
    Ok(Policy {
        default_allows,
        monitor,
        rules: rules(source, fields.get("rule"), &sets, monitor)?,
        limits: settings::limits(source, fields.get("limits"))?,
        read_dirs,
        write_dirs,
        unenforceable: settings::unenforceable(source, fields.get("unenforceable"))?,
        tests: elements(source, fields.get("test"), "test")?.map(|value| test(source, value)).collect::<Result<_>>()?,
        ..Policy::without_rules(name, default)
    })
}

/// `mode = "enforce" | "monitor"`, of a file or a rule.
pub(super) fn mode(source: Source<'_>, value: Option<&Value<'_>>) -> Result<bool> {
    let Some(value) = value else { return Ok(false) };
    let (mode, span) = super::table::text(source, value, "mode")?;
    match mode {
        "enforce" => Ok(false),
        "monitor" => Ok(true),
        other => {
            Err(source.error(span, format!("unknown mode `{other}`{}", suggestion(other, &["enforce", "monitor"]))))
        }
    }
}

fn default(source: Source<'_>, fields: &Table<'_>, monitor: bool) -> Result<(RuleRef, bool)> {
    let (default, span) = fields.need_text("default", "default = \"deny\"")?;
    let understood = match fields.get("allow_default") {
        Some(value) => match super::table::text(source, value, "allow_default")? {
            ("i-understand", _) => true,
            (other, span) => {
                let message = format!("`allow_default` can only be \"i-understand\", not \"{other}\"");
                return Err(source.error(span, message));
            }
        },
        None => false,
    };
    let rule = RuleRef { id: "default".to_owned(), file: source.file.to_owned(), line: source.line(span.clone()) };
    match default {
        "deny" => Ok((rule, false)),
        "allow" if monitor || understood => {
            if !monitor {
                let message = "whatever no rule speaks about is allowed: a host that nobody thought of is open";
                source.find(span, Severity::Warning, message);
            }
            Ok((rule, true))
        }
        "allow" => {
            let message = "`default` can only be \"deny\", not \"allow\": allow by rules what may happen, or add \
                           `allow_default = \"i-understand\"`";
            Err(source.error(span, message))
        }
        other => {
            let message = format!("`default` can only be \"deny\", not \"{other}\": allow by rules what may happen");
            Err(source.error(span, message))
        }
    }
}

pub(super) fn check_version(source: Source<'_>, value: &Value<'_>) -> Result<()> {
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
pub(super) fn elements<'a>(
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
        from: fields.text("from")?.map(str::to_owned),
        method: fields.text("method")?.map(str::to_owned),
        expect: verdict(source, expect, span, "expect")?,
        rule: fields.text("rule")?.map(str::to_owned),
        line,
    })
}
