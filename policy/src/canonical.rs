//! One form for all spellings of a set of policies, and its hash: what is logged beside a decision.

use std::fmt::Write;
use std::path::PathBuf;

use ring::digest;

use crate::layer::Layer;
use crate::pattern::PathPattern;
use crate::rules::{Ports, Rule, Schemes, To};
use crate::{Policy, Verb};

/// Of layers, files and rules in sorted order. Paths and lines are left out, since they decide nothing.
pub(crate) fn hash<'a>(layers: impl Iterator<Item = &'a Layer>) -> String {
    let text = sorted(layers.map(|layer| format!("{}{{{}}}", layer.kind(), sorted(layer.files().map(file)))));
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
    let limits = [&file.limits.tabs, &file.limits.navigations_per_min, &file.limits.download_mib]
        .map(|limit| limit.as_ref().map(|limit| limit.value));
    let unenforceable =
        sorted(file.unenforceable.iter().map(|(channel, wanted)| format!("{}={}", channel.as_str(), wanted.as_str())));
    let dirs = |dirs: &[PathBuf]| sorted(dirs.iter().map(|dir| dir.display().to_string()));
    format!(
        "{:?} {} {} {limits:?} {unenforceable:?} {:?} {:?}{{{}}}",
        file.name,
        file.default_allows,
        file.monitor,
        dirs(&file.read_dirs),
        dirs(&file.write_dirs),
        sorted(file.rules.iter().map(rule))
    )
}

fn rule(rule: &Rule) -> String {
    let verbs = sorted(Verb::ALL.iter().filter(|verb| rule.names(**verb)).map(ToString::to_string));
    let schemes = match &rule.schemes {
        Schemes::Any => "*".to_owned(),
        Schemes::Named(schemes) => sorted(schemes.iter().cloned()),
    };
    let ports = match &rule.ports {
        Ports::Any => "*".to_owned(),
        Ports::Default => "default".to_owned(),
        Ports::Named(ports) => sorted(ports.iter().map(ToString::to_string)),
    };
    let except = sorted(rule.except.iter().map(|except| format!("{:?}{:?}", to(&except.to), paths(&except.paths))));
    format!(
        "{} {} {verbs:?} {:?} {except:?} {schemes:?} {ports:?} {:?} {:?} {:?} {} {:?} {:?}",
        rule.rule.id,
        rule.effect.as_str(),
        to(&rule.to),
        paths(&rule.paths),
        sorted(rule.methods.iter().cloned()),
        rule.initiator.as_ref().map(to),
        rule.monitor,
        rule.expires.map(|date| date.to_string()),
        rule.reason
    )
}

fn to(to: &To) -> String {
    match to {
        To::Anywhere => "*".to_owned(),
        To::Hosts(hosts) => sorted(hosts.iter().map(ToString::to_string)),
    }
}

fn paths(paths: &[PathPattern]) -> String {
    sorted(paths.iter().map(ToString::to_string))
}
