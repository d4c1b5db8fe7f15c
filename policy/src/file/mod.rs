//! The policy file: strict TOML, in which what is not understood is an error with its place, never ignored.

use std::fmt;
use std::ops::Range;

use toml::de::DeTable;

use crate::Policy;

mod hosts;
mod read;
mod table;
#[cfg(test)]
mod tests;

/// What is wrong with a policy file, and where. Line and column are one-based, the column counts characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for PolicyError {}

type Result<T> = std::result::Result<T, PolicyError>;

/// The text, for turning byte offsets into places.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
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

pub(crate) fn parse(text: &str, file: &str) -> Result<Policy> {
    let source = Source { file, text };
    if text.trim().is_empty() {
        return Err(source.error(0..0, "the file is empty: a policy begins with `policy = 1` and `default = \"deny\"`"));
    }
    let document = DeTable::parse(text)
        .map_err(|error| source.error(error.span().unwrap_or_default(), error.message().replace('\n', ", ")))?;
    read::policy(source, document.get_ref())
}
