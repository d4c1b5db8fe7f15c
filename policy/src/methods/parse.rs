//! From the text of the tables to rows. The texts are compiled in, so everything borrows from them.

use std::sync::Arc;

use super::{Action, Delivery, EventRow, Param, ParamKind, Row};
use crate::{RuleRef, Verb};

/// The rows that could be read, and a message for each line that could not.
pub(super) fn methods(text: &'static str) -> (Vec<Row>, Vec<String>) {
    read(text, "methods.tsv", method_row)
}

pub(super) fn events(text: &'static str) -> (Vec<EventRow>, Vec<String>) {
    read(text, "events.tsv", event_row)
}

fn read<R>(
    text: &'static str,
    file: &str,
    row: fn(&[&'static str], u32) -> Result<R, String>,
) -> (Vec<R>, Vec<String>) {
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let columns: Vec<_> = line.split('\t').collect();
        match row(&columns, number) {
            Ok(row) => rows.push(row),
            Err(message) => errors.push(format!("{file}:{number}: {message}")),
        }
    }
    (rows, errors)
}

fn method_row(columns: &[&'static str], line: u32) -> Result<Row, String> {
    let &[method, on_page, on_root, params, verbs, reason] = columns else {
        return Err(format!("{} columns instead of 6", columns.len()));
    };
    let (params, _free) = parse_params(params)?;
    let page_only = on_page.ends_with("/page");
    let row = Row {
        method,
        on_page: action(on_page.trim_end_matches("/page"))?,
        page_only,
        on_root: action(on_root)?,
        params,
        verbs: list(verbs, ',').map(verb).collect::<Result<_, _>>()?,
        reason: sentence(reason)?,
        line,
        rule: Arc::new(RuleRef { id: method.to_owned(), file: "methods.tsv".to_owned(), line }),
        #[cfg(test)]
        free: _free,
    };
    let actions = [row.on_page, row.on_root];
    if actions.contains(&Action::Forward) && !row.params.is_empty() {
        return Err(format!("{method} is forwarded as received, but has params to check"));
    }
    if row.on_page == Action::Check && row.params.is_empty() {
        return Err(format!("{method} has nothing to check"));
    }
    Ok(row)
}

fn event_row(columns: &[&'static str], line: u32) -> Result<EventRow, String> {
    let &[event, delivery, params, reason] = columns else {
        return Err(format!("{} columns instead of 4", columns.len()));
    };
    let own_context = delivery == "own-context";
    let delivery = match delivery {
        "deliver" => Delivery::Deliver,
        "filter" | "own-context" => Delivery::Filter,
        "drop" => Delivery::Drop,
        other => return Err(format!("unknown delivery `{other}`")),
    };
    let (params, _) = parse_params(params)?;
    if delivery != Delivery::Filter && !params.is_empty() {
        return Err(format!("{event} has params, but nobody looks at them"));
    }
    Ok(EventRow { event, delivery, own_context, params, reason: sentence(reason)?, line })
}

/// The elements of a column; `-` stands for none.
fn list(column: &'static str, separator: char) -> impl Iterator<Item = &'static str> {
    column.split(separator).filter(move |_| column != "-")
}

fn action(text: &str) -> Result<Action, String> {
    Ok(match text {
        "forward" => Action::Forward,
        "check" => Action::Check,
        "own-context" => Action::OwnContext,
        "answer" => Action::Answer,
        "refuse" => Action::Refuse,
        "absent" => Action::Absent,
        other => return Err(format!("unknown action `{other}`")),
    })
}

fn verb(text: &str) -> Result<Verb, String> {
    Verb::parse(text).ok_or_else(|| format!("unknown verb `{text}`"))
}

fn sentence(text: &'static str) -> Result<&'static str, String> {
    match text.ends_with('.') {
        true => Ok(text),
        false => Err("the reason is not a sentence".to_owned()),
    }
}

/// The params to check, and the paths that review found to name nothing owned.
fn parse_params(column: &'static str) -> Result<(Vec<Param>, Vec<&'static str>), String> {
    let (mut params, mut free) = (Vec::new(), Vec::new());
    for param in list(column, ' ') {
        let (path, kind) = param.split_once(':').ok_or_else(|| format!("`{param}` is not path:kind"))?;
        match kind {
            "free" => free.push(path),
            kind => params.push(Param { path, kind: param_kind(kind)? }),
        }
    }
    Ok((params, free))
}

fn param_kind(text: &str) -> Result<ParamKind, String> {
    Ok(match text {
        "target" => ParamKind::Target,
        "frame" => ParamKind::Frame,
        "context" => ParamKind::Context,
        "session" => ParamKind::Session,
        "window" => ParamKind::Window,
        "download" => ParamKind::Download,
        "world" => ParamKind::World,
        "unique-world" => ParamKind::UniqueWorld,
        "object" => ParamKind::Object,
        "origin" => ParamKind::Origin,
        "storage-key" => ParamKind::StorageKey,
        "non-negative" => ParamKind::NonNegative,
        "read-paths" => ParamKind::ReadPaths,
        "write-path" => ParamKind::WritePath,
        other => match other.strip_prefix("url(").and_then(|rest| rest.strip_suffix(')')) {
            Some(name) => ParamKind::Url(verb(name)?),
            None => return Err(format!("unknown kind `{other}`")),
        },
    })
}
