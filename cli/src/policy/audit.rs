//! Audit records, as `serve` writes them: one JSON object a line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use ::policy::Verb;
use serde::Deserialize;

use crate::exit::Failure;

/// What is judged again. Other fields are left alone: later versions may write more.
#[derive(Debug, Deserialize)]
struct Line {
    verb: Option<String>,
    object: String,
    verdict: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// As policy files spell it.
    pub verb: &'static str,
    pub url: String,
    pub verdict: String,
}

impl Record {
    pub fn verb(&self) -> Option<Verb> {
        Verb::parse(self.verb)
    }
}

/// Those that name a verb and a URL: others are refusals by the table of methods, which no policy changes.
pub fn read(path: &Path) -> Result<Vec<Record>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::usage(format!("The audit {} cannot be read ({error}); name a file that can.", path.display()))
    };
    let mut records = Vec::new();
    for (number, line) in BufReader::new(File::open(path).map_err(unreadable)?).lines().enumerate() {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let Line { verb, object, verdict } = serde_json::from_str(&line).map_err(|error| {
            Failure::usage(format!(
                "{}:{}: this is no audit record ({error}); name a file of audit records.",
                path.display(),
                number + 1
            ))
        })?;
        let verb = verb.as_deref().and_then(Verb::parse);
        if let (Some(verb), true) = (verb, ::policy::is_url(&object)) {
            records.push(Record { verb: verb.as_str(), url: object, verdict });
        }
    }
    Ok(records)
}
