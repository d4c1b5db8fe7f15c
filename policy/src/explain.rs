//! Why a verdict is what it is. The verdicts and the reasons come from the functions that judge on the live path.

use std::fmt;
use std::sync::Arc;

use crate::address::{Address, HostName};
use crate::layer::Layer;
use crate::matching::{Case, Miss};
use crate::rules::{Ports, Rule, Schemes, To};
use crate::{Decision, LayerKind, Policies, Question, RuleRef, Verdict};

/// The answer to one question, and how it came about.
#[derive(Clone, Debug)]
pub struct Explanation {
    pub decision: Decision,
    /// As it was judged: without user-info, query and fragment, in its one spelling. `None` for what cannot be read.
    pub url: Option<String>,
    /// The URL whose rules hold instead, for a document that has the origin of whoever made it.
    pub judged_as: Option<String>,
    pub layers: Vec<LayerExplanation>,
}

#[derive(Clone, Debug)]
pub struct LayerExplanation {
    pub kind: LayerKind,
    pub files: Vec<String>,
    /// `None` when all its files are in monitor mode, so that it has no say.
    pub decision: Option<Decision>,
    /// Every rule that names the verb, in the order of the files.
    pub candidates: Vec<Candidate>,
}

#[derive(Clone, Debug)]
pub struct Candidate {
    pub rule: Arc<RuleRef>,
    pub effect: Verdict,
    pub matches: bool,
    /// Whether it is the one by which its layer decides.
    pub decides: bool,
    /// Why it does not match, or does not decide; empty for the one that does.
    pub why: String,
}

impl Policies {
    /// The same verdict as [`Policies::judge`], with its reasons.
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let decision = self.judge(question);
        let address = Address::read(question.url);
        let known = self.circumstances(question);
        let creator = question.creator.filter(|creator| *creator != "task");
        let judged_as = creator.filter(|_| address.as_ref().is_ok_and(|address| address.by_creator));
        let places: Vec<Address> =
            address.iter().chain(judged_as.map(Address::read).iter().flatten()).cloned().collect();
        let layers = self.layers().map(|layer| {
            let decided = layer.judge(question, &address, &known);
            let cases = places.iter().map(|address| known.case(address));
            LayerExplanation {
                kind: layer.kind(),
                files: layer.files().map(|file| file.file().to_owned()).collect(),
                candidates: candidates(layer, question, cases, decided.as_ref()),
                decision: decided,
            }
        });
        Explanation {
            decision,
            url: address.as_ref().ok().map(ToString::to_string),
            judged_as: judged_as.map(str::to_owned),
            layers: layers.collect(),
        }
    }
}

/// A rule is tried at each place, first at the URL itself, then at that of its creator.
fn candidates<'a>(
    layer: &Layer,
    question: &Question<'_>,
    cases: impl Iterator<Item = Case<'a>>,
    decision: Option<&Decision>,
) -> Vec<Candidate> {
    let cases: Vec<Case<'a>> = cases.collect();
    let rules = layer.rules().filter(|rule| rule.names(question.verb));
    rules.map(|rule| candidate(rule, &cases, decision)).collect()
}

fn candidate(rule: &Rule, cases: &[Case<'_>], decision: Option<&Decision>) -> Candidate {
    // Of several places, what the last one says: an earlier one has no host that a rule could match.
    let results: Vec<Result<(), (Miss, &Case<'_>)>> =
        cases.iter().map(|case| rule.check(case).map_err(|miss| (miss, case))).collect();
    let matches = results.iter().any(Result::is_ok);
    let decides = matches && !rule.monitor && decision.is_some_and(|decision| decision.rule == rule.rule);
    let why = match results.last() {
        _ if decides => String::new(),
        _ if matches && rule.monitor => "matches, but is in monitor mode, which changes nothing".to_owned(),
        _ if matches => match decision {
            Some(decision) => loses(rule.effect, decision),
            None => "matches, but its layer is in monitor mode".to_owned(),
        },
        Some(Err((miss, case))) => misses(rule, *miss, case),
        _ => "the URL cannot be read".to_owned(),
    };
    Candidate { rule: rule.rule.clone(), effect: rule.effect, matches, decides, why }
}

fn loses(effect: Verdict, winner: &Decision) -> String {
    match (effect, winner.verdict) {
        (mine, theirs) if mine == theirs => format!("matches, but {} says the same and comes first", winner.rule.id),
        (mine, theirs) => {
            format!("matches, but {} beats {} ({})", theirs.as_str(), mine.as_str(), winner.rule.id)
        }
    }
}

fn misses(rule: &Rule, miss: Miss, case: &Case<'_>) -> String {
    let address = case.address;
    match miss {
        Miss::Expired(last) => format!("expired on {last}"),
        Miss::Scheme if address.by_creator => {
            format!("a `{}:` document is not judged by its own URL", address.scheme)
        }
        Miss::Scheme => format!("scheme {} is not one of: {}", address.scheme, schemes(&rule.schemes)),
        Miss::Host => match &address.host {
            Some(host) => format!("host {host} is not one of: {}", hosts(&rule.to)),
            None => format!("the URL has no host; the rule is for: {}", hosts(&rule.to)),
        },
        Miss::Port => {
            let port = address.port.map_or("none".to_owned(), |port| port.to_string());
            format!("port {port} is not one of: {}", ports(&rule.ports))
        }
        Miss::Path => {
            let globs: Vec<String> = rule.paths.iter().map(ToString::to_string).collect();
            let every = if address.path.folded.is_some() { " in every way a server may read it" } else { "" };
            format!("path {} is not{every} one of: {}", address.path, globs.join(", "))
        }
        Miss::Method => match case.method {
            Some(method) => format!("method {method} is not one of: {}", rule.methods.join(", ")),
            None => format!("no method is known; the rule is for: {}", rule.methods.join(", ")),
        },
        Miss::Initiator => {
            let wanted = rule.initiator.as_ref().map(hosts).unwrap_or_default();
            match case.initiator {
                Some(host) => format!("the initiator {host} is not one of: {wanted}"),
                None => format!("no initiator is known; the rule is for documents of: {wanted}"),
            }
        }
        Miss::Exception => "one of its exceptions holds".to_owned(),
    }
}

fn schemes(schemes: &Schemes) -> String {
    match schemes {
        Schemes::Any => "those with a host".to_owned(),
        Schemes::Named(names) => names.join(", "),
    }
}

fn hosts(to: &To) -> String {
    match to {
        To::Anywhere => "*".to_owned(),
        To::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn ports(ports: &Ports) -> String {
    match ports {
        Ports::Any => "*".to_owned(),
        Ports::Default => "the scheme's own".to_owned(),
        Ports::Named(ports) => ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostName::Name(name) => f.write_str(name),
            HostName::Ip(ip) => ip.fmt(f),
        }
    }
}

/// Verdict first, for scripts that read one line.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.decision.verdict.as_str())?;
        match &self.url {
            Some(url) => writeln!(f, "url      {url}")?,
            None => writeln!(f, "url      cannot be read")?,
        }
        if let Some(creator) = &self.judged_as {
            writeln!(f, "made by  {creator}, as which it is judged")?;
        }
        writeln!(f, "by       {}", self.decision.rule)?;
        if !self.decision.reason.is_empty() {
            writeln!(f, "because  {}", self.decision.reason)?;
        }
        if let Some(would) = &self.decision.would {
            writeln!(f, "would be {} by {}, which is in monitor mode", would.verdict.as_str(), would.rule)?;
        }
        self.layers.iter().try_for_each(|layer| layer.fmt(f))
    }
}

impl fmt::Display for LayerExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match &self.decision {
            Some(decision) => format!("{} by {}", decision.verdict.as_str(), decision.rule),
            None => "no say, in monitor mode".to_owned(),
        };
        writeln!(f, "\nlayer {} ({}): {verdict}", self.kind, self.files.join(", "))?;
        if self.candidates.is_empty() {
            writeln!(f, "  no rule names the verb")?;
        }
        for candidate in &self.candidates {
            let why = if candidate.decides { "decides" } else { &candidate.why };
            writeln!(f, "  {:7} {}: {why}", candidate.effect.as_str(), candidate.rule)?;
        }
        Ok(())
    }
}
