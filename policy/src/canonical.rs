//! One form for all spellings of a set of policies, and its hash: what is logged beside a decision.

use std::fmt::Write;

use ring::digest;

use crate::layer::Layer;
use crate::pattern::HostPattern;
use crate::rules::{Ports, Rule, Schemes, To};
use crate::{Policy, Verb};

/// Of layers, files and rules in sorted order. Paths and lines are left out, since they decide nothing.
pub(crate) fn hash(layers: &[Layer]) -> String {
    let text = sorted(layers.iter().map(|layer| format!("{}{{{}}}", layer.kind(), sorted(layer.files().map(file)))));
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().fold("sha256:".to_owned(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn sorted(parts: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<String> = parts.collect();
    parts.sort();
    parts.dedup();
    parts.join("\n")
}

fn file(file: &Policy) -> String {
    format!("{:?}{{{}}}", file.name, sorted(file.rules.iter().map(rule)))
}

fn rule(rule: &Rule) -> String {
    let verbs = sorted(Verb::ALL.iter().filter(|verb| rule.verbs.contains(**verb)).map(ToString::to_string));
    let to = match &rule.to {
        To::Anywhere => "*".to_owned(),
        To::Hosts(hosts) => sorted(hosts.iter().map(host)),
    };
    let schemes = match &rule.schemes {
        Schemes::Any => "*".to_owned(),
        Schemes::Named(schemes) => sorted(schemes.iter().cloned()),
    };
    let ports = match &rule.ports {
        Ports::Any => "*".to_owned(),
        Ports::Default => "default".to_owned(),
        Ports::Named(ports) => sorted(ports.iter().map(ToString::to_string)),
    };
    let paths = sorted(rule.paths.iter().map(|path| path.to_string()));
    format!("{}[{}]{verbs:?}{to:?}{schemes:?}{ports:?}{paths:?}{:?}", rule.rule.id, rule.effect.as_str(), rule.reason)
}

fn host(host: &HostPattern) -> String {
    host.to_string()
}
