//! Reading a TOML table strictly: every key is known, and every value has the type that its key wants.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Result, Source};

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// A table whose keys were all found to be known.
pub(super) struct Table<'a> {
    pub(super) source: Source<'a>,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    /// How messages call it: "a rule".
    what: &'static str,
}

/// The keys of one kind of table.
pub(super) struct Keys {
    pub(super) what: &'static str,
    pub(super) known: &'static [&'static str],
    /// Keys of the format that this version does not do. They are refused by name, since a limit that is read and not
    /// applied is worse than none.
    pub(super) later: &'static [&'static str],
}

impl<'a> Table<'a> {
    pub(super) fn read(
        source: Source<'a>,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        keys: &Keys,
    ) -> Result<Table<'a>> {
        // In the order of the file, so that the first mistake is reported first.
        let mut found: Vec<_> = table.keys().collect();
        found.sort_by_key(|key| key.span().start);
        for key in found {
            let name = key.get_ref().as_ref();
            if keys.later.contains(&name) {
                let message = format!("`{name}` is not supported by this version of Tabwarden: remove it");
                return Err(source.error(key.span(), message));
            }
            if !keys.known.contains(&name) {
                let message = format!("unknown key `{name}` in {}{}", keys.what, suggestion(name, keys.known));
                return Err(source.error(key.span(), message));
            }
        }
        Ok(Table { source, table, span, what: keys.what })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Value<'a>> {
        self.table.get(key)
    }

    pub(super) fn need(&self, key: &str, example: &str) -> Result<&'a Value<'a>> {
        self.get(key).ok_or_else(|| {
            self.source.error(self.span.clone(), format!("{} needs `{key}`, for example `{example}`", self.what))
        })
    }

    /// Text that must be there.
    pub(super) fn need_text(&self, key: &str, example: &str) -> Result<(&'a str, Range<usize>)> {
        text(self.source, self.need(key, example)?, key)
    }

    /// True or false, and false when left out.
    pub(super) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key).map(|value| (value, value.get_ref())) {
            None => Ok(false),
            Some((_, DeValue::Boolean(flag))) => Ok(*flag),
            Some((value, other)) => Err(mistyped(self.source, value, key, "true or false", other)),
        }
    }

    /// Text that may be left out.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.get(key).map(|value| text(self.source, value, key).map(|(text, _)| text)).transpose()
    }
}

pub(super) fn text<'a>(source: Source<'_>, value: &'a Value<'_>, key: &str) -> Result<(&'a str, Range<usize>)> {
    match value.get_ref() {
        DeValue::String(text) => Ok((text, value.span())),
        other => Err(mistyped(source, value, key, "a string in quotes", other)),
    }
}

pub(super) fn array<'a>(source: Source<'_>, value: &'a Value<'a>, key: &str) -> Result<&'a [Value<'a>]> {
    match value.get_ref() {
        DeValue::Array(array) => Ok(array),
        other => Err(mistyped(source, value, key, "an array", other)),
    }
}

/// An array with something in it: an empty one would make a rule that never matches, or, read otherwise, always.
pub(super) fn full_array<'a>(
    source: Source<'_>,
    value: &'a Value<'a>,
    key: &str,
    all: &str,
) -> Result<&'a [Value<'a>]> {
    match array(source, value, key)? {
        [] => {
            Err(source
                .error(value.span(), format!("`{key}` is empty, so the rule could never match: name some, or {all}")))
        }
        values => Ok(values),
    }
}

pub(super) fn table<'a>(source: Source<'_>, value: &'a Value<'a>, key: &str) -> Result<&'a DeTable<'a>> {
    match value.get_ref() {
        DeValue::Table(table) => Ok(table),
        other => Err(mistyped(source, value, key, "a table", other)),
    }
}

pub(super) fn mistyped(
    source: Source<'_>,
    value: &Value<'_>,
    key: &str,
    wanted: &str,
    found: &DeValue<'_>,
) -> super::PolicyError {
    source.error(value.span(), format!("`{key}` has to be {wanted}, not {}", kind(found)))
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// `: did you mean ...?` when something is near, else the whole list.
pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|known| (distance(name, known), known)).min();
    match near {
        Some((distance, known)) if distance <= 2.max(known.len() / 3) => format!(": did you mean `{known}`?"),
        _ => format!(": the known ones are {}", known.join(", ")),
    }
}

/// Levenshtein's, with a swap of neighbours counted as one. Long names are far from everything.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
