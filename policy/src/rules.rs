//! A policy: rules without order, of which the strictest that matches holds, and a default that denies.

use std::fmt;
use std::sync::Arc;

use crate::address::Address;
use crate::decision::Decision;
use crate::pattern::{HostPattern, PathPattern};
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

    /// Whether a task may do that.
    ///
    /// Documents at `data:`, `blob:null`, `about:blank` and `about:srcdoc` have the origin of whoever made them, so they are
    /// judged as their `creator`: `"task"` for a client's own, else the URL of the document that made them. Without a
    /// creator they are denied, as is what cannot be read as a URL.
    pub fn judge(&self, question: &Question<'_>) -> Decision {
        let Question { verb, url, creator, .. } = *question;
        let address = match Address::read(url) {
            Ok(address) => address,
            Err(error) => {
                return Decision::deny(
                    &self.default,
                    error.to_string(),
                    "Give a whole URL with its scheme, for example https://example.com/.",
                );
            }
        };
        if let Some(rule) = self.strictest(verb, &address) {
            return Decision::by_rule(rule.effect, &rule.rule, &rule.reason);
        }
        match creator {
            Some("task") if address.by_creator => Decision::allow(&self.default),
            Some(creator) if address.by_creator => {
                let mut decision = self.judge(&Question { url: creator, creator: None, ..*question });
                if !decision.allowed() {
                    decision.reason = format!("a `{}:` document is judged as {creator}, which made it", address.scheme);
                }
                decision
            }
            None if address.by_creator => Decision::deny(
                &self.default,
                format!("a `{}:` document is judged as whoever made it, and nobody is known to have", address.scheme),
                "Open it from a page that the policy allows.",
            ),
            _ => self.by_default(&address),
        }
    }

    /// Whether nothing but one allow for every http, https, ws and wss URL speaks about `verb`.
    pub fn allows_everywhere(&self, verb: Verb) -> bool {
        let speaking: Vec<&Rule> = self.rules.iter().filter(|rule| rule.verbs.contains(verb)).collect();
        speaking.iter().all(|rule| rule.effect == Verdict::Allow) && speaking.iter().any(|rule| rule.is_everywhere())
    }

    fn by_default(&self, address: &Address) -> Decision {
        let reason = match address.scheme.as_str() {
            "http" | "https" | "ws" | "wss" => "no rule allows it".to_owned(),
            scheme => format!("no rule names the scheme `{scheme}`"),
        };
        let advice = format!("Use what the policy allows, or add an allow rule to {}.", self.default.file);
        Decision::deny(&self.default, reason, advice)
    }

    fn strictest(&self, verb: Verb, address: &Address) -> Option<&Rule> {
        let matching = self.rules.iter().filter(|rule| rule.matches(verb, address));
        // The first of equally strict ones, so that messages do not change when rules are added below.
        matching.min_by_key(|rule| match rule.effect {
            Verdict::Deny => 0,
            Verdict::Confirm => 1,
            Verdict::Allow => 2,
        })
    }
}

impl Rule {
    fn is_everywhere(&self) -> bool {
        let named = |scheme: &str| match &self.schemes {
            Schemes::Any => true,
            Schemes::Named(schemes) => schemes.iter().any(|known| known == scheme),
        };
        matches!(self.to, To::Anywhere)
            && matches!(self.ports, Ports::Any)
            && self.paths.is_empty()
            && ["http", "https", "ws", "wss"].into_iter().all(named)
    }

    fn matches(&self, verb: Verb, address: &Address) -> bool {
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
