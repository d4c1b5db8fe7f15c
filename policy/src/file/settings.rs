//! `[limits]`, `[files]` and `[unenforceable]`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use toml::de::DeValue;

use super::table::{Keys, Table, Value, array, mistyped, suggestion, table, text};
use super::{Result, Source};
use crate::RuleRef;
use crate::channels::{ChannelName, Unenforceable};
use crate::limits::{Limit, Limits};

const LIMITS: Keys =
    Keys { what: "limits", known: &["tabs", "navigations_per_min", "download_mib"], later: &["idle_release"] };
const FILES: Keys = Keys { what: "files", known: &["read", "write"], later: &[] };
const UNENFORCEABLE: Keys = Keys {
    what: "unenforceable",
    known: &["websocket", "webrtc", "speculation", "sw-update", "shared-worker", "browser-requests", "resolved-ip"],
    later: &[],
};

pub(super) fn limits(source: Source<'_>, value: Option<&Value<'_>>) -> Result<Limits> {
    let Some(value) = value else { return Ok(Limits::default()) };
    let fields = Table::read(source, table(source, value, "limits")?, value.span(), &LIMITS)?;
    Ok(Limits {
        tabs: limit(source, &fields, "tabs")?,
        navigations_per_min: limit(source, &fields, "navigations_per_min")?,
        download_mib: limit(source, &fields, "download_mib")?,
    })
}

fn limit(source: Source<'_>, fields: &Table<'_>, key: &str) -> Result<Option<Limit>> {
    let Some(value) = fields.get(key) else { return Ok(None) };
    let DeValue::Integer(number) = value.get_ref() else {
        return Err(mistyped(source, value, key, "a whole number", value.get_ref()));
    };
    match u32::from_str_radix(number.as_str(), number.radix()) {
        Ok(value) if value > 0 => {
            let line = source.line(fields.get(key).map(|value| value.span()).unwrap_or_default());
            let rule = RuleRef { id: format!("limits.{key}"), file: source.file.to_owned(), line };
            Ok(Some(Limit { value, rule: Arc::new(rule) }))
        }
        _ => {
            let message = format!("`{key}` cannot be {number}: write a number from 1 to {}, or leave it out", u32::MAX);
            Err(source.error(value.span(), message))
        }
    }
}

/// The directories for reading and for writing.
pub(super) fn files(source: Source<'_>, value: Option<&Value<'_>>) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let Some(value) = value else { return Ok((Vec::new(), Vec::new())) };
    let fields = Table::read(source, table(source, value, "files")?, value.span(), &FILES)?;
    Ok((dirs(source, fields.get("read"), "read")?, dirs(source, fields.get("write"), "write")?))
}

fn dirs(source: Source<'_>, value: Option<&Value<'_>>, key: &str) -> Result<Vec<PathBuf>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let values = array(source, value, key)?;
    if values.is_empty() {
        let message = format!("`{key}` is empty: to grant nothing, deny the verb upload or download by a rule");
        return Err(source.error(value.span(), message));
    }
    values.iter().map(|value| dir(source, value, key)).collect()
}

fn dir(source: Source<'_>, value: &Value<'_>, key: &str) -> Result<PathBuf> {
    let (dir, span) = text(source, value, key)?;
    let path = Path::new(dir);
    let plain = !path.components().any(|part| matches!(part, Component::ParentDir)) && !dir.contains('\0');
    match path.is_absolute() && plain {
        true => Ok(path.to_owned()),
        false => {
            let message = format!("`{dir}` is not an absolute path without `..`: write, for example, \"/srv/uploads\"");
            Err(source.error(span, message))
        }
    }
}

pub(super) fn unenforceable(
    source: Source<'_>,
    value: Option<&Value<'_>>,
) -> Result<BTreeMap<ChannelName, Unenforceable>> {
    let mut settings = BTreeMap::new();
    let Some(value) = value else { return Ok(settings) };
    let fields = Table::read(source, table(source, value, "unenforceable")?, value.span(), &UNENFORCEABLE)?;
    for channel in ChannelName::ALL {
        let Some(value) = fields.get(channel.as_str()) else { continue };
        let (wanted, span) = text(source, value, channel.as_str())?;
        let wanted = match wanted {
            "refuse" => Unenforceable::Refuse,
            "accept" => Unenforceable::Accept,
            // Of the others nothing is told while they happen.
            "tripwire" if channel == ChannelName::WebSocket => Unenforceable::Tripwire,
            "tripwire" => {
                let message = format!(
                    "nothing tells when `{}` is used, so there is no tripwire for it: write \"refuse\" or \"accept\"",
                    channel.as_str()
                );
                return Err(source.error(span, message));
            }
            other => {
                let hint = suggestion(other, &["refuse", "tripwire", "accept"]);
                return Err(source.error(span, format!("unknown value `{other}`{hint}")));
            }
        };
        settings.insert(channel, wanted);
    }
    Ok(settings)
}
