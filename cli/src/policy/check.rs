//! `policy check` and `policy test`.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use ::policy::{Date, LayerKind, Mode, Policies, Policy, PolicyError, Severity};

use super::{Report, load};
use crate::exit::{Exit, Failure};

#[derive(Default)]
struct Counts {
    files: usize,
    tests: usize,
    unreadable: usize,
    errors: usize,
    warnings: usize,
}

/// Exit code 0: sound. 1: errors or failed tests, with `--strict` warnings too. 2: a file that is no policy.
pub fn check(paths: &[PathBuf], strict: bool, today: Date) -> Result<Report, Failure> {
    let mut text = String::new();
    let mut counts = Counts::default();
    let mut policies: Vec<Arc<Policy>> = Vec::new();
    for path in load::expand(paths)? {
        let source = load::text(&path)?;
        counts.files += 1;
        match load::parse(&path, &source) {
            Ok(policy) => {
                findings(&policy, &source, today, &mut text, &mut counts);
                failed_tests(&policy, &mut text, &mut counts);
                policies.push(Arc::new(policy));
            }
            Err(error) => {
                counts.unreadable += 1;
                let own = error.file == path.display().to_string();
                let _ = writeln!(text, "{}:{}:{}: error: {}", error.file, error.line, error.column, error.message);
                excerpt(if own { &source } else { "" }, error.line, error.column, &mut text);
            }
        }
    }
    match Policies::layered(vec![(LayerKind::Server, policies)], today) {
        Err(error) => {
            counts.errors += 1;
            let _ = writeln!(text, "{}:{}:{}: error: {}", error.file, error.line, error.column, error.message);
        }
        Ok(policies) => {
            if let Some(refused) = refused_everywhere(&policies) {
                counts.warnings += 1;
                let (file, line, column) = (refused.file, refused.line, refused.column);
                let _ = writeln!(text, "{file}:{line}:{column}: warning: no task starts with it: {}", refused.message);
            }
        }
    }
    let summary = format!(
        "{}, {}: {}, {}",
        number(counts.files, "file"),
        number(counts.tests, "test"),
        number(counts.unreadable + counts.errors, "error"),
        number(counts.warnings, "warning")
    );
    let fails = |exit| Some(Failure { exit, message: format!("The policy is not to be used as it is ({summary}).") });
    let failure = match (counts.unreadable, counts.errors) {
        (1.., _) => fails(Exit::Usage),
        (0, 1..) => fails(Exit::Failure),
        (0, 0) if strict && counts.warnings > 0 => fails(Exit::Failure),
        (0, 0) => None,
    };
    if failure.is_none() {
        let _ = writeln!(text, "{summary}");
    }
    Ok(Report { text, failure })
}

/// What `serve` would say, where it would say so however the browser is run.
fn refused_everywhere(policies: &Policies) -> Option<PolicyError> {
    let modes = [(true, true), (true, false), (false, true), (false, false)];
    let refusals = modes.map(|(launched, isolated)| policies.refuse_start(Mode { launched, isolated }));
    refusals.into_iter().collect::<Option<Vec<_>>>().and_then(|refusals| refusals.into_iter().next())
}

pub fn test(paths: &[PathBuf]) -> Result<Report, Failure> {
    let mut text = String::new();
    let mut counts = Counts::default();
    for path in load::expand(paths)? {
        failed_tests(&load::policy(&path)?, &mut text, &mut counts);
    }
    if counts.tests == 0 {
        return Err(Failure::usage("There are no tests in these files; write some as [[test]]."));
    }
    let summary = format!("{} of {} failed", counts.errors, number(counts.tests, "test"));
    let failure = (counts.errors > 0).then(|| Failure::new(format!("{summary}.")));
    if failure.is_none() {
        let _ = writeln!(text, "{summary}");
    }
    Ok(Report { text, failure })
}

fn findings(policy: &Policy, source: &str, today: Date, text: &mut String, counts: &mut Counts) {
    for lint in policy.lints(today) {
        match lint.severity {
            Severity::Error => counts.errors += 1,
            Severity::Warning => counts.warnings += 1,
        }
        let _ = writeln!(text, "{lint}");
        excerpt(if lint.file == policy.file() { source } else { "" }, lint.line, lint.column, text);
    }
}

fn failed_tests(policy: &Policy, text: &mut String, counts: &mut Counts) {
    counts.tests += policy.test_count();
    for failure in policy.run_tests() {
        counts.errors += 1;
        let _ = writeln!(text, "{}:{}: error: {}", failure.file, failure.line, failure.message);
    }
}

/// The line, and below it a mark at the column.
fn excerpt(source: &str, line: u32, column: u32, text: &mut String) {
    let (row, column) = (line as usize, column as usize);
    let Some(content) = row.checked_sub(1).and_then(|row| source.lines().nth(row)) else { return };
    // Tabs stay tabs, so that the mark stands below its place.
    let gap: String = content.chars().take(column.saturating_sub(1)).map(|c| if c == '\t' { c } else { ' ' }).collect();
    let content: String = content.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
    let _ = writeln!(text, "{row:>5} | {content}\n      | {gap}^");
}

fn number(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}
