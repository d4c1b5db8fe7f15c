//! `policy diff`: which past decisions would be others.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use ::policy::{Date, Policies, Question};

use super::audit::{self, Record};
use super::{Report, load};
use crate::exit::Failure;

/// Exit code 0, whether there are differences or not: they are the answer.
pub fn diff(old: &Path, new: &Path, against: &Path, today: Date) -> Result<Report, Failure> {
    let old = load::together(&[old.to_owned()], today)?;
    let new = load::together(&[new.to_owned()], today)?;
    let mut counted: BTreeMap<Record, usize> = BTreeMap::new();
    for record in audit::read(against)? {
        *counted.entry(record).or_default() += 1;
    }
    let mut text = String::new();
    let (mut changed, mut all) = (0, 0);
    for (record, times) in &counted {
        all += times;
        let Some(verb) = record.verb() else { continue };
        // An audit keeps neither method nor initiator: both are taken as in the plainest case.
        let question = Question::new(verb, &record.url).created_by(Some("task")).with_method(verb.usual_method());
        let judge = |policies: &Policies| policies.judge(&question);
        let (before, after) = (judge(&old), judge(&new));
        if before.verdict != after.verdict {
            changed += times;
            let _ = writeln!(
                text,
                "{} {}: {} by {} -> {} by {} ({times} times)",
                record.verb,
                record.url,
                before.verdict.as_str(),
                before.rule.id,
                after.verdict.as_str(),
                after.rule.id
            );
        }
    }
    let _ = writeln!(text, "{changed} of {all} decisions would be others");
    Ok(Report::of(text))
}
