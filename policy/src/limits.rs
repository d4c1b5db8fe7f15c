//! Numbers that a policy caps, and directories that it grants.

use std::path::PathBuf;
use std::sync::Arc;

use crate::RuleRef;

/// A cap, and the line that says so, for refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub value: u32,
    pub rule: Arc<RuleRef>,
}

/// `[limits]`; what is `None` has no cap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Pages of the task at one time.
    pub tabs: Option<Limit>,
    /// Loads of top documents within 60 seconds.
    pub navigations_per_min: Option<Limit>,
    /// Of one task, all downloads together, in MiB.
    pub download_mib: Option<Limit>,
}

impl Limits {
    /// The lower of each.
    pub(crate) fn lowest(self, other: &Limits) -> Limits {
        let lower = |a: Option<Limit>, b: &Option<Limit>| match (a, b) {
            (Some(a), Some(b)) if b.value < a.value => Some(b.clone()),
            (None, b) => b.clone(),
            (a, _) => a,
        };
        Limits {
            tabs: lower(self.tabs, &other.tabs),
            navigations_per_min: lower(self.navigations_per_min, &other.navigations_per_min),
            download_mib: lower(self.download_mib, &other.download_mib),
        }
    }
}

/// The directories on which all agree: of each pair, the one that lies below the other.
pub fn common_dirs(ours: Option<Vec<PathBuf>>, theirs: Vec<PathBuf>) -> Vec<PathBuf> {
    let Some(ours) = ours else { return theirs };
    let mut common: Vec<PathBuf> = Vec::new();
    for a in &ours {
        for b in &theirs {
            let deeper = if a.starts_with(b) {
                a
            } else if b.starts_with(a) {
                b
            } else {
                continue;
            };
            if !common.contains(deeper) {
                common.push(deeper.clone());
            }
        }
    }
    common
}
