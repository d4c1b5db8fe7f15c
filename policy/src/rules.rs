//! A policy: rules without order, of which the strictest that matches holds, and a default that denies.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::address::Address;
use crate::channels::{ChannelName, Unenforceable};
use crate::date::Date;
use crate::decision::Decision;
use crate::layer::{Circumstances, Layer};
use crate::limits::Limits;
use crate::lint::Lint;
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
    /// Whether that is `allow`: at http, https, ws and wss.
    pub(crate) default_allows: bool,
    /// Whether the file as a whole changes nothing, and is only logged.
    pub(crate) monitor: bool,
    pub(crate) rules: Vec<Rule>,
    pub(crate) limits: Limits,
    pub(crate) read_dirs: Vec<PathBuf>,
    pub(crate) write_dirs: Vec<PathBuf>,
    pub(crate) unenforceable: BTreeMap<ChannelName, Unenforceable>,
    pub(crate) tests: Vec<Test>,
    /// What was found while reading, each at its place.
    pub(crate) findings: Vec<Lint>,
    /// Made of the hosts that were named when a task was made.
    pub(crate) only_narrows: bool,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) rule: Arc<RuleRef>,
    pub(crate) column: u32,
    pub(crate) effect: Verdict,
    pub(crate) verbs: Verbs,
    pub(crate) to: To,
    /// Where it does not hold after all.
    pub(crate) except: Vec<Exception>,
    pub(crate) schemes: Schemes,
    pub(crate) ports: Ports,
    /// Empty: all.
    pub(crate) paths: Vec<PathPattern>,
    /// Empty: all.
    pub(crate) methods: Vec<String>,
    /// Of `when`: the documents on whose behalf it has to happen.
    pub(crate) initiator: Option<To>,
    /// It changes nothing, and is only logged.
    pub(crate) monitor: bool,
    /// The last day on which it holds.
    pub(crate) expires: Option<Date>,
    /// It is meant to reach this machine and the private network.
    pub(crate) local: bool,
    pub(crate) reason: String,
}

#[derive(Clone, Debug)]
pub(crate) enum To {
    Anywhere,
    Hosts(Vec<HostPattern>),
}

#[derive(Debug)]
pub(crate) struct Exception {
    pub(crate) to: To,
    /// Empty: all.
    pub(crate) paths: Vec<PathPattern>,
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
    pub(crate) from: Option<String>,
    pub(crate) method: Option<String>,
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
    /// Reads a policy file that includes no others. `file` is how messages call it.
    pub fn parse(text: &str, file: &str) -> Result<Policy, file::PolicyError> {
        file::parse(text, file, &mut |_| Err("this policy is not read from a directory".to_owned()))
    }

    /// Reads a policy file. This crate reads no files: `include` gives, for a pattern such as `sets/*.toml`, every file of
    /// that name below the policy's directory with its text, or says why it cannot.
    pub fn parse_with(
        text: &str,
        file: &str,
        include: &mut dyn FnMut(&str) -> Result<Vec<Included>, String>,
    ) -> Result<Policy, file::PolicyError> {
        file::parse(text, file, include)
    }

    /// `policies/default.toml`, compiled in. A test parses it; if it could not be parsed, nothing would be allowed.
    pub fn built_in() -> Policy {
        Policy::parse(BUILT_IN, "default.toml").unwrap_or_else(|error| {
            let default = RuleRef { id: "default".to_owned(), file: error.file, line: error.line };
            Policy::without_rules("default", default)
        })
    }

    /// Denies everything.
    pub(crate) fn without_rules(name: &str, default: RuleRef) -> Policy {
        Policy {
            name: name.to_owned(),
            default: Arc::new(default),
            default_allows: false,
            monitor: false,
            rules: Vec::new(),
            limits: Limits::default(),
            read_dirs: Vec::new(),
            write_dirs: Vec::new(),
            unenforceable: BTreeMap::new(),
            tests: Vec::new(),
            findings: Vec::new(),
            only_narrows: false,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// As messages call it.
    pub fn file(&self) -> &str {
        &self.default.file
    }

    /// Runs the file's own `[[test]]`s and returns those that failed. A file in monitor mode is tested as if it were
    /// enforced, and no rule has expired, so that tests do not turn with the calendar.
    pub fn run_tests(&self) -> Vec<TestFailure> {
        self.tests.iter().filter_map(|test| self.run_test(test)).collect()
    }

    /// How many `[[test]]`s the file has.
    pub fn test_count(&self) -> usize {
        self.tests.len()
    }

    fn run_test(&self, test: &Test) -> Option<TestFailure> {
        let question = Question::new(test.verb, &test.url)
            .created_by(test.creator.as_deref())
            .on_behalf_of(test.from.as_deref())
            .with_method(test.method.as_deref().or(test.verb.usual_method()));
        let decision = self.judge(&question);
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

    /// This file alone, enforced, with no rule expired.
    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let layer = Layer::new(LayerKind::Task, vec![self]);
        let circumstances = Circumstances::of(question, Date::EARLIEST);
        layer.judge_on_trial(question, &Address::read(question.url), &circumstances)
    }
}

/// A file that a policy includes, for its sets.
#[derive(Clone, Debug)]
pub struct Included {
    /// As messages call it.
    pub file: String,
    pub text: String,
}
