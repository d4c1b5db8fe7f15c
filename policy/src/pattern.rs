//! What a rule's hosts and paths match.

use std::fmt;
use std::net::IpAddr;

use crate::address::{HostName, Path, decode};
use crate::names;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern {
    /// This host and nothing else.
    Exact(String),
    /// It and everything below.
    WithSubdomains(String),
    /// Everything below, but not it.
    SubdomainsOnly(String),
    /// Address literals whose first `prefix` bits are those of `address`.
    Network { address: IpAddr, prefix: u8 },
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::WithSubdomains(name) => write!(f, "{name} and below"),
            HostPattern::SubdomainsOnly(name) => write!(f, "below {name}"),
            HostPattern::Network { address, prefix } => write!(f, "{address}/{prefix}"),
        }
    }
}

impl HostPattern {
    pub(crate) fn matches(&self, host: &HostName) -> bool {
        match (self, host) {
            (HostPattern::Exact(pattern), HostName::Name(name)) => name == pattern,
            (HostPattern::WithSubdomains(pattern), HostName::Name(name)) => name == pattern || is_below(name, pattern),
            (HostPattern::SubdomainsOnly(pattern), HostName::Name(name)) => is_below(name, pattern),
            (HostPattern::Network { address, prefix }, HostName::Ip(ip)) => same_prefix(*address, *ip, *prefix),
            _ => false,
        }
    }
}

impl HostPattern {
    /// Whether it matches, or a connection to the host may end where it does: for denying.
    pub(crate) fn may_match(&self, host: &HostName) -> bool {
        match (self, host) {
            (HostPattern::Network { address, prefix }, HostName::Name(name)) => {
                names::may_resolve_to(name, |ip| same_prefix(*address, ip, *prefix))
            }
            (HostPattern::Network { address, prefix }, HostName::Ip(ip)) => {
                names::leads_to(*ip, |ip| same_prefix(*address, ip, *prefix))
            }
            _ => self.matches(host),
        }
    }
}

fn is_below(name: &str, pattern: &str) -> bool {
    name.strip_suffix(pattern).is_some_and(|rest| rest.ends_with('.'))
}

/// Whether two addresses of one family agree in their first bits.
fn same_prefix(a: IpAddr, b: IpAddr, prefix: u8) -> bool {
    let (a, b, bits) = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let ignored = bits - u32::from(prefix).min(bits);
    // A shift by all 128 bits would be an overflow, hence `checked_shr`.
    (a ^ b).checked_shr(ignored).unwrap_or(0) == 0
}

/// A glob on the path: `*` stops at `/`, `**` does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathPattern {
    glob: String,
    elements: Vec<Element>,
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.glob)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Byte(u8),
    Star,
    DoubleStar,
}

impl PathPattern {
    pub(crate) fn new(glob: &str) -> PathPattern {
        let decoded = decode(glob.as_bytes(), false);
        let mut elements = Vec::with_capacity(decoded.len());
        let mut rest = decoded.as_slice();
        while let [first, tail @ ..] = rest {
            let (element, after) = match (first, tail) {
                (b'*', [b'*', after @ ..]) => (Element::DoubleStar, after),
                (b'*', after) => (Element::Star, after),
                (byte, after) => (Element::Byte(*byte), after),
            };
            elements.push(element);
            rest = after;
        }
        PathPattern { glob: glob.to_owned(), elements }
    }

    /// Whether *every* reading matches: for allowing.
    pub(crate) fn matches_all(&self, path: &Path) -> bool {
        self.matches(&path.plain) && path.folded.as_ref().is_none_or(|folded| self.matches(folded))
    }

    /// Whether *some* reading matches: for denying.
    pub(crate) fn matches_any(&self, path: &Path) -> bool {
        self.matches(&path.plain) || path.folded.as_ref().is_some_and(|folded| self.matches(folded))
    }

    /// All positions in the pattern at once, so that no pattern takes more than its length times the path's.
    fn matches(&self, path: &[u8]) -> bool {
        let elements = &self.elements;
        let mut here = vec![false; elements.len() + 1];
        here[0] = true;
        skip_stars(elements, &mut here);
        for &byte in path {
            let mut next = vec![false; elements.len() + 1];
            for (i, element) in elements.iter().enumerate().filter(|&(i, _)| here[i]) {
                match element {
                    Element::Byte(wanted) if *wanted == byte => next[i + 1] = true,
                    Element::Star if byte != b'/' => next[i] = true,
                    Element::DoubleStar => next[i] = true,
                    Element::Byte(_) | Element::Star => {}
                }
            }
            skip_stars(elements, &mut next);
            here = next;
        }
        here[elements.len()]
    }
}

/// A star also stands for nothing.
fn skip_stars(elements: &[Element], positions: &mut [bool]) {
    for (i, element) in elements.iter().enumerate() {
        if positions[i] && matches!(element, Element::Star | Element::DoubleStar) {
            positions[i + 1] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        PathPattern::new(glob).matches(path.as_bytes())
    }

    #[test]
    fn one_star_stops_at_a_slash() {
        for path in ["/a/b", "/a/", "/a/bcd"] {
            assert!(matches("/a/*", path), "{path}");
        }
        for path in ["/a", "/a/b/", "/a/b/c", "/b/a/"] {
            assert!(!matches("/a/*", path), "{path}");
        }
        assert!(matches("/*/c.*", "/b/c.js"));
        assert!(!matches("/*/c.*", "/b/b/c.js"));
    }

    #[test]
    fn two_stars_do_not() {
        assert!(matches("/a/**", "/a/") && matches("/a/**", "/a/b/c"));
        assert!(!matches("/a/**", "/a") && !matches("/a/**", "/ab/c"));
        assert!(matches("**.js", "/a/b.js") && matches("/**/c", "/a/b/c") && !matches("/**/c", "/c"));
        assert!(matches("/", "/") && !matches("/", "/a") && matches("**", ""));
    }

    #[test]
    fn a_pattern_of_stars_takes_no_exponential_time() {
        assert!(!matches(&"/**a".repeat(60), &"/aaaaaaaaaa".repeat(59)));
    }

    #[test]
    fn networks_are_prefixes() {
        let same = |a: &str, b: &str, prefix| same_prefix(a.parse().unwrap(), b.parse().unwrap(), prefix);
        assert!(same("10.20.0.0", "10.20.255.255", 16) && !same("10.20.0.0", "10.21.0.0", 16));
        assert!(same("0.0.0.0", "255.1.2.3", 0) && same("::", "ffff::", 0));
        assert!(same("::1", "::1", 128) && !same("::1", "::2", 128) && !same("0.0.0.0", "::", 0));
    }
}
