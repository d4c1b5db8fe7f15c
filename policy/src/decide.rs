//! From a described command to a decision: the row's action, the profile it runs in, and everything that it names.

use std::path::{Component, Path, PathBuf};

use crate::decision::Decision;
use crate::methods::{Action, Row};
use crate::{Limit, Policies, Question, Verb, Verdict};

/// Directories that a client may name. All absolute and canonical: this crate does no I/O, so links are the caller's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    pub read_dirs: Vec<PathBuf>,
    pub write_dirs: Vec<PathBuf>,
    /// The OS temp directory, below which Playwright makes `playwright-artifacts-*` for the downloads of each connection.
    pub temp_dir: PathBuf,
}

/// The kind of session on which a command came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The browser's session.
    Root,
    /// The session of a page.
    Page,
    /// Below a page: an OOPIF or a worker.
    Child,
}

/// A command, described. Ids were resolved before, by the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub row: &'static Row,
    pub surface: Surface,
    /// Whether what it acts on lives in the person's profile, not in a browser context of the task's own.
    pub shared_profile: bool,
    /// Every URL that it names, with the verb under which it is judged.
    pub urls: &'a [(Verb, &'a str)],
    /// Files that the browser would read for it.
    pub read_paths: &'a [&'a str],
    /// Directories into which the browser would write for it.
    pub write_paths: &'a [&'a str],
}

/// A client's own `data:`, `blob:null` and `about:blank` are made by the task, which may hold them.
const TASK: &str = "task";

/// The strictest of the row's action and the verdict on every thing that is named.
pub fn decide(policies: &Policies, grants: &Grants, request: &Request<'_>) -> Decision {
    let row = request.row;
    let action = match request.surface {
        Surface::Root => row.on_root,
        Surface::Page | Surface::Child => row.on_page,
    };
    match action {
        Action::Refuse if request.surface == Surface::Root && works_on_pages(row) => {
            return Decision::deny(
                &row.rule,
                "on the browser's session it reaches beyond the pages of the task",
                "Send it with the sessionId of a page.",
            );
        }
        Action::Refuse => return refuse(row),
        Action::Absent => {
            return Decision::deny(
                &row.rule,
                "this kind of session does not have the method",
                match request.surface {
                    Surface::Root => "Send it with the sessionId of a page.",
                    Surface::Page | Surface::Child => "Leave it out.",
                },
            );
        }
        Action::OwnContext if request.shared_profile => {
            return Decision::deny(
                &row.rule,
                format!("{} This task works in the person's profile", lower_first(row.reason)),
                "Use a task with a browser context of its own (`tabwarden task new NAME --context isolated`).",
            );
        }
        _ if row.page_only && request.surface == Surface::Child => {
            return Decision::deny(&row.rule, lower_first(row.reason), "Send it with the sessionId of the page.");
        }
        Action::Forward | Action::Check | Action::OwnContext | Action::Answer => {}
    }
    let mut decision = Decision::allow(&row.rule);
    for &(verb, url) in request.urls {
        // Where a command asks for another method, the request that it makes is judged by that one at its pause.
        let question = Question::new(verb, url).created_by(Some(TASK)).with_method(verb.usual_method());
        let next = policies.judge(&question);
        match next.verdict {
            Verdict::Deny => return next,
            Verdict::Confirm => decision = next,
            Verdict::Allow if decision.allowed() => decision = next,
            Verdict::Allow => {}
        }
    }
    for path in request.read_paths {
        if !grants.may_read(path) {
            return Decision::deny(
                &row.rule,
                format!("the file {path:?} lies below no directory that this server may read for clients"),
                "Name it by its absolute path without `..`, and start the server with --grant-read DIR for a directory above it.",
            );
        }
    }
    for path in request.write_paths {
        if !grants.may_write(path) {
            return Decision::deny(
                &row.rule,
                format!("the directory {path:?} is none that this server may write downloads to"),
                "Name it by its absolute path without `..`, and start the server with --grant-write DIR for it or a directory above it.",
            );
        }
    }
    decision
}

/// The refusal of a file that lies below a granted directory by its name, and not by where its links lead: that is not told.
pub fn leads_out(row: &Row, path: &str) -> Decision {
    Decision::deny(
        &row.rule,
        format!("{path:?} leads by a link to where this server may read nothing for clients"),
        "Name files that are there themselves, or start the server with --grant-read DIR for where the link leads.",
    )
}

/// The refusal of a command whose reach no rule can narrow. `why` continues a sentence, `advice` is one.
pub fn beyond_rules(row: &Row, why: &'static str, advice: &'static str) -> Decision {
    Decision::deny(&row.rule, why, advice)
}

/// One page more than the policy's `tabs`.
pub fn over_tab_limit(limit: &Limit) -> Decision {
    Decision::deny(
        &limit.rule,
        format!("the task has as many pages as tabs = {} allows", limit.value),
        "Close one of its pages first, or ask whoever keeps the policy file for a higher limit.",
    )
}

/// One load of a top document more than the policy's `navigations_per_min`.
pub fn over_navigation_limit(limit: &Limit) -> Decision {
    Decision::deny(
        &limit.rule,
        format!(
            "the task has loaded as many documents in the last minute as navigations_per_min = {} allows",
            limit.value
        ),
        "Wait a minute, or ask whoever keeps the policy file for a higher limit.",
    )
}

/// The refusal of a download that is one too many, or too large.
pub fn over_download_limit(limit: &Limit) -> Decision {
    Decision::deny(
        &limit.rule,
        format!("the downloads of this task are larger than download_mib = {} allows", limit.value),
        "End the task and go on in another one, or ask whoever keeps the policy file for a higher limit.",
    )
}

fn refuse(row: &'static Row) -> Decision {
    match row.reason.split_once(". ") {
        Some((why, advice)) => Decision::deny(&row.rule, lower_first(why), advice),
        None => Decision::deny(&row.rule, lower_first(row.reason), ""),
    }
}

fn works_on_pages(row: &Row) -> bool {
    !matches!(row.on_page, Action::Refuse | Action::Absent)
}

/// A row's reason begins a sentence; in an error it continues one. Names keep their capital.
fn lower_first(text: &str) -> String {
    const NAMES: [&str; 2] = ["Chromium", "Autofill"];
    let word = text.split(' ').next().unwrap_or_default();
    let mut letters = word.chars();
    match letters.next() {
        Some(first) if !NAMES.contains(&word) && letters.all(|letter| letter.is_ascii_lowercase()) => {
            format!("{}{}", first.to_ascii_lowercase(), &text[first.len_utf8()..])
        }
        _ => text.to_owned(),
    }
}

impl Grants {
    pub fn may_read(&self, path: &str) -> bool {
        plain_absolute(path).is_some_and(|path| is_below(path, &self.read_dirs))
    }

    pub fn may_write(&self, path: &str) -> bool {
        plain_absolute(path).is_some_and(|path| is_below(path, &self.write_dirs) || self.is_playwright_artifacts(path))
    }

    fn is_playwright_artifacts(&self, path: &Path) -> bool {
        if !self.temp_dir.is_absolute() {
            return false;
        }
        let Ok(below) = path.strip_prefix(&self.temp_dir) else { return false };
        let first = below.components().next().and_then(|first| first.as_os_str().to_str());
        first.is_some_and(|name| name.starts_with("playwright-artifacts-"))
    }
}

fn is_below(path: &Path, dirs: &[PathBuf]) -> bool {
    // An empty directory would be a prefix of every path.
    dirs.iter().any(|dir| dir.is_absolute() && path.starts_with(dir))
}

/// An absolute path in which every component means what it says. `..` is not resolved here: after a link it means
/// something else to the browser than to us.
fn plain_absolute(path: &str) -> Option<&Path> {
    if path.contains('\0') {
        return None;
    }
    let path = Path::new(path);
    let plain = path.is_absolute() && !path.components().any(|part| matches!(part, Component::ParentDir));
    plain.then_some(path)
}
