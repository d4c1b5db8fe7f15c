//! The hosts that were named when a task was made, as a layer of its own.

use std::sync::Arc;

use crate::file::{self, PolicyError};
use crate::pattern::HostPattern;
use crate::rules::{Ports, Rule, Schemes, To};
use crate::verb::Verbs;
use crate::{Policy, RuleRef, Verb, Verdict};

impl Policy {
    /// A layer that allows everything at `hosts` (exactly these), and at `sites` and below, and nothing elsewhere. `file` is
    /// how messages call it, for example "task new". It has to be a layer by itself: beside the rules of a file it would add
    /// to what these allow.
    pub fn narrowing(hosts: &[String], sites: &[String], file: &str) -> Result<Policy, PolicyError> {
        let mut patterns = Vec::with_capacity(hosts.len() + sites.len());
        for host in hosts {
            patterns.push(file::bare_host(host, file)?);
        }
        for site in sites {
            match file::bare_host(site, file)? {
                HostPattern::Exact(name) if is_public_suffix(&name) => {
                    let message = format!(
                        "`{site}` is a public suffix, below which anybody can have a name: allow a site below it, for example `example.{name}`"
                    );
                    return Err(PolicyError::without_place(file, message));
                }
                HostPattern::Exact(name) => patterns.push(HostPattern::WithSubdomains(name)),
                // An address has nothing below it.
                other => patterns.push(other),
            }
        }
        if patterns.is_empty() {
            return Err(PolicyError::without_place(file, "no host is named: name those that the task needs"));
        }
        // A file's rules cannot have ids with a colon.
        let reference = |id: &str| Arc::new(RuleRef { id: id.to_owned(), file: file.to_owned(), line: 0 });
        let rule = Rule {
            rule: reference("task:hosts"),
            column: 0,
            effect: Verdict::Allow,
            verbs: Verbs::from(Verb::ALL),
            to: To::Hosts(patterns),
            except: Vec::new(),
            schemes: Schemes::Named(["http", "https", "ws", "wss"].map(str::to_owned).to_vec()),
            ports: Ports::Any,
            paths: Vec::new(),
            methods: Vec::new(),
            initiator: None,
            monitor: false,
            expires: None,
            local: true,
            reason: String::new(),
        };
        let default = RuleRef { id: "task:hosts".to_owned(), file: file.to_owned(), line: 0 };
        Ok(Policy { rules: vec![rule], only_narrows: true, ..Policy::without_rules("task-hosts", default) })
    }
}

/// A name under which different people can have names: `com`, `co.uk`, `github.io`.
pub(crate) fn is_public_suffix(name: &str) -> bool {
    psl::suffix(name.as_bytes()).is_some_and(|suffix| suffix.is_known() && suffix == name)
}
