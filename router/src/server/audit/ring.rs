//! The last decisions of one task, for who asks the API.

use std::collections::VecDeque;

/// A task that is refused a lot has more in the file.
pub const MAX_DECISIONS: usize = 256;

#[derive(Default)]
pub struct Ring {
    lines: VecDeque<Entry>,
    /// When the newest of those was made that are here no more.
    dropped: Option<u64>,
}

struct Entry {
    id: String,
    ms: u64,
    line: String,
}

/// From where on somebody wants to know.
#[derive(Clone, Debug, PartialEq)]
pub enum Since {
    Beginning,
    /// After the decision with this id.
    Id(String),
    /// At this time or later, in milliseconds since 1970.
    Time(u64),
}

/// `gap`: there were more that are here no more; the file may have them.
#[derive(Debug, Default, PartialEq)]
pub struct Decisions {
    pub lines: Vec<String>,
    pub gap: bool,
}

impl Ring {
    pub fn push(&mut self, id: &str, ms: u64, line: String) {
        if self.lines.len() == MAX_DECISIONS {
            self.dropped = self.lines.pop_front().map(|entry| entry.ms);
        }
        self.lines.push_back(Entry { id: id.to_owned(), ms, line });
    }

    pub fn since(&self, since: &Since) -> Decisions {
        let (skip, gap) = match since {
            Since::Beginning => (0, self.dropped.is_some()),
            // The last one: what a monitored rule would have decided beside it has the same id. An id that is not here was
            // dropped, or never was: all are given, and that some may lack is said.
            Since::Id(id) => match self.lines.iter().rposition(|entry| entry.id == *id) {
                Some(at) => (at + 1, false),
                None => (0, true),
            },
            Since::Time(from) => {
                let skip = self.lines.iter().take_while(|entry| entry.ms < *from).count();
                (skip, self.dropped.is_some_and(|dropped| dropped >= *from))
            }
        };
        Decisions { lines: self.lines.iter().skip(skip).map(|entry| entry.line.clone()).collect(), gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_says_when_something_lacks() {
        let mut ring = Ring::default();
        for number in 0..MAX_DECISIONS as u64 {
            ring.push(&format!("a-{number}"), 1000 + number, number.to_string());
        }
        assert_eq!(ring.since(&Since::Beginning).lines.len(), MAX_DECISIONS);
        assert!(!ring.since(&Since::Beginning).gap);
        ring.push("a-new", 5000, "new".into());
        assert_eq!(ring.since(&Since::Beginning).lines.len(), MAX_DECISIONS);
        assert!(ring.since(&Since::Beginning).gap && ring.since(&Since::Time(1000)).gap);
        assert_eq!(ring.since(&Since::Time(1001)).lines.len(), MAX_DECISIONS);
        assert!(!ring.since(&Since::Time(1001)).gap);
        assert_eq!(ring.since(&Since::Time(5000)), Decisions { lines: vec!["new".into()], gap: false });
        assert_eq!(ring.since(&Since::Id("a-255".into())), Decisions { lines: vec!["new".into()], gap: false });
        assert_eq!(ring.since(&Since::Id("a-new".into())), Decisions::default());
        assert!(ring.since(&Since::Id("a-0".into())).gap);
    }
}
