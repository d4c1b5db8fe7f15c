//! A policy: rules without order, of which the strictest that matches holds, and a default that denies.

use std::fmt;
use std::sync::Arc;

use crate::address::Address;
use crate::date::Date;
use crate::decision::Decision;
use crate::layer::Layer;
use crate::pattern::{HostPattern, PathPattern};
use crate::policies::LayerKind;
use crate::verb::Verbs;
use crate::{Question, RuleRef, Verb, Verdict, file};

/// One policy file. Immutable; shared as `Arc<Policy>`.
#[derive(Debug)]
pub struct Policy {
    pub(crate) name: String,
    /// The line of `default =`, for what no rule speaks about.
    pub(crate) default: Arc<RuleRef>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) tests: Vec<Test>,
    /// Made of the hosts that were named when a task was made.
    pub(crate) only_narrows: bool,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) rule: Arc<RuleRef>,
    pub(crate) effect: Verdict,
    pub(crate) verbs: Verbs,
    pub(crate) to: To,
    pub(crate) schemes: Schemes,
    pub(crate) ports: Ports,
    /// Empty: all.
    pub(crate) paths: Vec<PathPattern>,
    pub(crate) reason: String,
}

#[derive(Debug)]
pub(crate) enum To {
    Anywhere,
    Hosts(Vec<HostPattern>),
}

#[derive(Debug)]
pub(crate) enum Schemes {
    /// Whatever has a host: for rules that deny and name no scheme.
    Any,
    Named(Vec<String>),
}

#[derive(Debug)]
pub(crate) enum Ports {
    /// The scheme's own.
    Default,
    Any,
    Named(Vec<u16>),
}

/// A `[[test]]` of the file.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) verb: Verb,
    pub(crate) url: String,
    pub(crate) creator: Option<String>,
    pub(crate) expect: Verdict,
    pub(crate) rule: Option<String>,
    pub(crate) line: u32,
}

/// A `[[test]]` that came out otherwise than the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestFailure {
    pub file: String,
    pub line: u32,
    pub message: String,
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

const BUILT_IN: &str = include_str!("../../policies/default.toml");

impl AsRef<Policy> for Policy {
    fn as_ref(&self) -> &Policy {
        self
    }
}

impl Policy {
    /// Reads a policy file. `file` is how messages call it.
    pub fn parse(text: &str, file: &str) -> Result<Policy, file::PolicyError> {
        file::parse(text, file)
    }

    /// `policies/default.toml`, compiled in. A test parses it; if it could not be parsed, nothing would be allowed.
    pub fn built_in() -> Policy {
        Policy::parse(BUILT_IN, "default.toml").unwrap_or_else(|error| Policy {
            name: "default".to_owned(),
            default: Arc::new(RuleRef { id: "default".to_owned(), file: error.file, line: error.line }),
            rules: Vec::new(),
            tests: Vec::new(),
            only_narrows: false,
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the file's own `[[test]]`s and returns those that failed.
    pub fn run_tests(&self) -> Vec<TestFailure> {
        self.tests.iter().filter_map(|test| self.run_test(test)).collect()
    }

    /// How many `[[test]]`s the file has.
    pub fn test_count(&self) -> usize {
        self.tests.len()
    }

    fn run_test(&self, test: &Test) -> Option<TestFailure> {
        let decision = self.judge(&Question::new(test.verb, &test.url).created_by(test.creator.as_deref()));
        let rule_differs = test.rule.as_ref().is_some_and(|rule| *rule != decision.rule.id);
        if decision.verdict == test.expect && !rule_differs {
            return None;
        }
        let wanted = match &test.rule {
            Some(rule) => format!("{} by rule {rule}", test.expect.as_str()),
            None => test.expect.as_str().to_owned(),
        };
        let message = format!(
            "{} {} was expected to be {wanted}, but is {} by rule {}",
            test.verb,
            test.url,
            decision.verdict.as_str(),
            decision.rule
        );
        Some(TestFailure { file: self.default.file.clone(), line: test.line, message })
    }

    /// This file alone, with no rule expired.
    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let layer = Layer::new(LayerKind::Task, vec![self]);
        layer.judge(question, &Address::read(question.url), Date::EARLIEST)
    }
}

impl Rule {
    pub(crate) fn is_everywhere(&self) -> bool {
        let named = |scheme: &str| match &self.schemes {
            Schemes::Any => true,
            Schemes::Named(schemes) => schemes.iter().any(|known| known == scheme),
        };
        matches!(self.to, To::Anywhere)
            && matches!(self.ports, Ports::Any)
            && self.paths.is_empty()
            && ["http", "https", "ws", "wss"].into_iter().all(named)
    }

    pub(crate) fn matches(&self, verb: Verb, address: &Address) -> bool {
        self.verbs.contains(verb)
            && self.matches_scheme(address)
            && self.matches_host(address)
            && self.matches_port(address)
            && self.matches_path(address)
    }

    fn matches_scheme(&self, address: &Address) -> bool {
        match &self.schemes {
            // What is judged by its creator has no host; `default` judges the creator.
            Schemes::Any => !address.by_creator,
            Schemes::Named(schemes) => schemes.contains(&address.scheme),
        }
    }

    fn matches_host(&self, address: &Address) -> bool {
        match (&self.to, &address.host) {
            (To::Anywhere, _) => true,
            (To::Hosts(hosts), Some(host)) => hosts.iter().any(|pattern| pattern.matches(host)),
            (To::Hosts(_), None) => false,
        }
    }

    fn matches_port(&self, address: &Address) -> bool {
        match &self.ports {
            Ports::Any => true,
            Ports::Default => address.default_port,
            Ports::Named(ports) => address.port.is_some_and(|port| ports.contains(&port)),
        }
    }

    fn matches_path(&self, address: &Address) -> bool {
        self.paths.is_empty()
            || match self.effect {
                Verdict::Allow => self.paths.iter().any(|pattern| pattern.matches_all(&address.path)),
                Verdict::Confirm | Verdict::Deny => self.paths.iter().any(|pattern| pattern.matches_any(&address.path)),
            }
    }
}
