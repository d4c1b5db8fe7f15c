//! `policy import`: what other programs use, as a policy file; what means something else here is noted above the rule.

mod agent_browser;
mod chrome;

use std::fmt::Write;
use std::path::Path;

use serde_json::Value;

use super::args::ImportFrom;
use super::{Report, load};
use crate::exit::Failure;

pub fn import(from: ImportFrom, file: &Path) -> Result<Report, Failure> {
    let text = load::text(file)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("{} is no JSON ({error}); name the file that the other program reads.", file.display()))
    })?;
    let draft = match from {
        ImportFrom::Chrome => chrome::import(&value),
        ImportFrom::AgentBrowser => agent_browser::import(&value),
    };
    draft.map(|draft| Report::of(draft.text)).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))
}

/// A policy file that grows.
struct Draft {
    text: String,
    rules: usize,
    prefix: &'static str,
}

struct RuleDraft {
    effect: &'static str,
    verbs: String,
    to: String,
    /// Further lines, each whole.
    more: Vec<String>,
    reason: String,
}

impl Draft {
    fn new(prefix: &'static str, about: &str) -> Draft {
        let text = format!(
            "# Imported from {about}. Each line with `note:` means something else here: go over them, then run\n\
             # `tabwarden policy check`.\n\npolicy  = 1\nname    = \"imported\"\ndefault = \"deny\"\n"
        );
        Draft { text, rules: 0, prefix }
    }

    fn note(&mut self, note: &str) {
        // What stands in the other file must not end the comment.
        let note: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let _ = write!(self.text, "\n# note: {note}");
    }

    fn rule(&mut self, rule: &RuleDraft) {
        self.rules += 1;
        let _ = write!(
            self.text,
            "\n[[rule]]\nid      = \"{}-{}\"\neffect  = \"{}\"\nverbs   = [{}]\nto      = {}\n",
            self.prefix, self.rules, rule.effect, rule.verbs, rule.to
        );
        for line in &rule.more {
            let _ = writeln!(self.text, "{line}");
        }
        let _ = writeln!(self.text, "reason  = {}", quote(&rule.reason));
    }
}

/// A TOML string, whatever is in it.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `{ host = … }` or `{ ip = … }`. `None` for what is neither.
fn host(name: &str, subdomains: bool) -> Option<String> {
    match url::Host::parse(name).ok()? {
        // The parser of URLs lets stars pass.
        url::Host::Domain(name) if name.contains('*') || name.split('.').any(str::is_empty) => None,
        url::Host::Domain(name) => {
            let subdomains = if subdomains { ", subdomains = true" } else { "" };
            Some(format!("{{ host = {}{subdomains} }}", quote(&name)))
        }
        url::Host::Ipv4(ip) => Some(format!("{{ ip = \"{ip}\" }}")),
        url::Host::Ipv6(ip) => Some(format!("{{ ip = \"{}\" }}", std::net::IpAddr::from(ip).to_canonical())),
    }
}

/// The strings of an array, or of one string with commas.
fn strings(value: &Value, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{key}` is no list of strings; write it as the other program reads it.");
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => Ok(text.split(',').map(|part| part.trim().to_owned()).collect()),
        Value::Array(values) => {
            values.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}
