//! The policy file: strict TOML, in which what is not understood is an error with its place, never ignored.

use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use crate::pattern::HostPattern;
use crate::rules::Included;
use crate::{Lint, Policy, Severity};

mod hosts;
mod read;
mod rule;
mod settings;
mod table;
#[cfg(test)]
mod tests;

/// What is wrong with a policy file, and where. Line and column are one-based, the column counts characters; the line is 0
/// for what stands in no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message),
        }
    }
}

impl std::error::Error for PolicyError {}

impl PolicyError {
    pub(crate) fn without_place(file: &str, message: impl Into<String>) -> PolicyError {
        PolicyError { file: file.to_owned(), line: 0, column: 0, message: message.into() }
    }
}

type Result<T> = std::result::Result<T, PolicyError>;

/// The text, for turning byte offsets into places.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
    findings: &'a RefCell<Vec<Lint>>,
}

/// Gives the files of a pattern. See [`Policy::parse_with`].
type Includes<'a> = dyn FnMut(&str) -> std::result::Result<Vec<Included>, String> + 'a;

impl<'a> Source<'a> {
    fn document(self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text)
            .map_err(|error| self.error(error.span().unwrap_or_default(), error.message().replace('\n', ", ")))
    }

    /// Something for `policy check`.
    fn find(self, span: Range<usize>, severity: Severity, message: impl Into<String>) {
        let (line, column) = self.place(span.start);
        let finding = Lint { severity, file: self.file.to_owned(), line, column, message: message.into() };
        self.findings.borrow_mut().push(finding);
    }

    fn error(self, span: Range<usize>, message: impl Into<String>) -> PolicyError {
        let (line, column) = self.place(span.start);
        PolicyError { file: self.file.to_owned(), line, column, message: message.into() }
    }

    fn line(self, span: Range<usize>) -> u32 {
        self.place(span.start).0
    }

    fn place(self, offset: usize) -> (u32, u32) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() as u32 + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        (line, before[start..].chars().count() as u32 + 1)
    }
}

/// A host or an address that was named outside of a file.
pub(crate) fn bare_host(text: &str, file: &str) -> Result<HostPattern> {
    let findings = RefCell::default();
    let source = Source { file, text, findings: &findings };
    let placed = match text.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => hosts::network(source, &ip.to_canonical().to_string(), 0..0),
        Err(_) => hosts::host_name(source, text, 0..0).map(HostPattern::Exact),
    };
    placed.map_err(|error| PolicyError::without_place(file, error.message))
}

pub(crate) fn parse(text: &str, file: &str, includes: &mut Includes<'_>) -> Result<Policy> {
    let findings = RefCell::default();
    let source = Source { file, text, findings: &findings };
    if text.trim().is_empty() {
        return Err(source.error(0..0, "the file is empty: a policy begins with `policy = 1` and `default = \"deny\"`"));
    }
    let document = source.document()?;
    let policy = read::policy(source, document.get_ref(), includes)?;
    Ok(Policy { findings: findings.take(), ..policy })
}
