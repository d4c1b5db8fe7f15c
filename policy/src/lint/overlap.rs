//! Where two rules meet, and where one covers the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Verb;
use crate::address::HostName;
use crate::pattern::HostPattern;
use crate::rules::{Ports, Rule, Schemes, To};

/// This machine, the private network and the link.
pub(super) const LOCAL: [(IpAddr, u8); 8] = [
    (IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
    (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
    (IpAddr::V4(Ipv4Addr::new(192, 168, 0, 0)), 16),
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0)), 7),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
];

/// Whether there is a host that both match.
pub(super) fn hosts_meet(a: &HostPattern, b: &HostPattern) -> bool {
    use HostPattern::{Exact, Network, SubdomainsOnly, WithSubdomains};
    let inside = |pattern: &HostPattern, name: &str| pattern.matches(&HostName::Name(name.to_owned()));
    match (a, b) {
        (Exact(name), other) | (other, Exact(name)) => inside(other, name),
        (Network { address, prefix }, Network { address: other, prefix: bits }) => {
            a.matches(&HostName::Ip(*other)) && prefix <= bits || b.matches(&HostName::Ip(*address)) && bits <= prefix
        }
        (Network { .. }, _) | (_, Network { .. }) => false,
        (WithSubdomains(one) | SubdomainsOnly(one), WithSubdomains(two) | SubdomainsOnly(two)) => {
            // One lies below the other, or they are one: then a name below both is in both.
            let below =
                |name: &str, of: &str| name == of || name.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
            below(one, two) || below(two, one)
        }
    }
}

/// Whether every host of `inner` is one of `outer`.
fn host_covers(outer: &HostPattern, inner: &HostPattern) -> bool {
    use HostPattern::{Exact, Network, SubdomainsOnly, WithSubdomains};
    let inside = |name: &str| outer.matches(&HostName::Name(name.to_owned()));
    match (outer, inner) {
        (_, Exact(name)) => inside(name),
        (Network { prefix, .. }, Network { address, prefix: bits }) => {
            prefix <= bits && outer.matches(&HostName::Ip(*address))
        }
        (WithSubdomains(_), WithSubdomains(name) | SubdomainsOnly(name)) => inside(name),
        (SubdomainsOnly(of), SubdomainsOnly(name)) => of == name || inside(name),
        (SubdomainsOnly(_), WithSubdomains(name)) => inside(name),
        _ => false,
    }
}

fn to_meets(a: &To, b: &To) -> bool {
    match (a, b) {
        (To::Hosts(a), To::Hosts(b)) => a.iter().any(|one| b.iter().any(|two| hosts_meet(one, two))),
        _ => true,
    }
}

fn to_covers(outer: &To, inner: &To) -> bool {
    match (outer, inner) {
        (To::Anywhere, _) => true,
        (To::Hosts(_), To::Anywhere) => false,
        (To::Hosts(outer), To::Hosts(inner)) => {
            inner.iter().all(|inner| outer.iter().any(|outer| host_covers(outer, inner)))
        }
    }
}

/// Whether one of them speaks about a place of which the other speaks too.
pub(super) fn rules_meet(a: &Rule, b: &Rule) -> bool {
    let excepted = |rule: &Rule, other: &Rule| {
        rule.except.iter().any(|except| except.paths.is_empty() && to_covers(&except.to, &other.to))
    };
    let schemes = match (&a.schemes, &b.schemes) {
        (Schemes::Named(a), Schemes::Named(b)) => a.iter().any(|scheme| b.contains(scheme)),
        _ => true,
    };
    to_meets(&a.to, &b.to) && schemes && !excepted(a, b) && !excepted(b, a)
}

/// Whether `outer` always matches where `inner` does.
pub(super) fn rule_covers(outer: &Rule, inner: &Rule) -> bool {
    let always = outer.paths.is_empty() && outer.methods.is_empty() && outer.initiator.is_none() && !outer.monitor;
    let verbs = Verb::ALL.iter().all(|verb| outer.names(*verb) || !inner.names(*verb));
    let schemes = match (&outer.schemes, &inner.schemes) {
        (Schemes::Any, Schemes::Any) => true,
        // What is judged by its creator is not matched by `Any`.
        (Schemes::Any, Schemes::Named(inner)) => {
            !inner.iter().any(|scheme| matches!(scheme.as_str(), "data" | "about"))
        }
        (Schemes::Named(_), Schemes::Any) => false,
        (Schemes::Named(outer), Schemes::Named(inner)) => inner.iter().all(|scheme| outer.contains(scheme)),
    };
    let ports = match (&outer.ports, &inner.ports) {
        (Ports::Any, _) | (Ports::Default, Ports::Default) => true,
        (Ports::Named(outer), Ports::Named(inner)) => inner.iter().all(|port| outer.contains(port)),
        _ => false,
    };
    always && outer.except.is_empty() && verbs && schemes && ports && to_covers(&outer.to, &inner.to)
}
