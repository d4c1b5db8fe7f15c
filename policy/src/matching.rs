//! Whether a rule matches, and if not, why: the one function behind the live path and `explain`.
//!
//! What is not known for certain (the method of a request that was not made yet, the document on whose behalf it happens,
//! the address behind a name) makes a rule match when it denies or asks, and not when it allows.

use crate::address::{Address, HostName};
use crate::date::Date;
use crate::pattern::PathPattern;
use crate::rules::{Exception, Ports, Rule, Schemes, To};
use crate::{Verb, Verdict};

/// One question, read. The verb was compared before: rules that do not name it are no candidates.
pub(crate) struct Case<'a> {
    pub(crate) address: &'a Address,
    /// `None`: not known.
    pub(crate) initiator: Option<&'a HostName>,
    /// `None`: not known, or no request.
    pub(crate) method: Option<&'a str>,
    pub(crate) today: Date,
}

/// Why a rule that names the verb does not match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Expired(Date),
    Scheme,
    Host,
    Port,
    Path,
    Method,
    Initiator,
    Exception,
}

impl Rule {
    /// Whether nothing is left to ask: it speaks about every http, https, ws and wss URL, always.
    pub(crate) fn is_everywhere(&self, today: Date) -> bool {
        let named = |scheme: &str| match &self.schemes {
            Schemes::Any => true,
            Schemes::Named(schemes) => schemes.iter().any(|known| known == scheme),
        };
        matches!(self.to, To::Anywhere)
            && matches!(self.ports, Ports::Any)
            && self.paths.is_empty()
            && self.methods.is_empty()
            && self.except.is_empty()
            && self.initiator.is_none()
            && !self.has_lapsed(today)
            && ["http", "https", "ws", "wss"].into_iter().all(named)
    }

    /// A denial does not lapse: the day after, something would be open that somebody had closed.
    pub(crate) fn has_lapsed(&self, today: Date) -> bool {
        self.effect != Verdict::Deny && self.has_expired(today)
    }

    pub(crate) fn has_expired(&self, today: Date) -> bool {
        self.expires.is_some_and(|last| last < today)
    }

    pub(crate) fn names(&self, verb: Verb) -> bool {
        self.verbs.contains(verb)
    }

    pub(crate) fn check(&self, case: &Case<'_>) -> Result<(), Miss> {
        let lenient = self.effect == Verdict::Allow;
        let or = |matches: bool, miss: Miss| if matches { Ok(()) } else { Err(miss) };
        if let Some(last) = self.expires.filter(|_| self.has_lapsed(case.today)) {
            return Err(Miss::Expired(last));
        }
        or(self.matches_scheme(case.address), Miss::Scheme)?;
        or(self.to.matches(case.address.host.as_ref(), lenient), Miss::Host)?;
        or(self.matches_port(case.address), Miss::Port)?;
        or(matches_path(&self.paths, case.address, lenient), Miss::Path)?;
        or(self.matches_method(case.method), Miss::Method)?;
        or(self.matches_initiator(case.initiator), Miss::Initiator)?;
        // An exception to a denial allows, so it has to be certain.
        or(!self.except.iter().any(|except| except.matches(case.address, !lenient)), Miss::Exception)
    }

    fn matches_scheme(&self, address: &Address) -> bool {
        match &self.schemes {
            // What is judged by its creator has no host; `default` judges the creator.
            Schemes::Any => !address.by_creator,
            Schemes::Named(schemes) => schemes.contains(&address.scheme),
        }
    }

    fn matches_port(&self, address: &Address) -> bool {
        match &self.ports {
            Ports::Any => true,
            Ports::Default => address.default_port,
            Ports::Named(ports) => address.port.is_some_and(|port| ports.contains(&port)),
        }
    }

    fn matches_method(&self, method: Option<&str>) -> bool {
        self.methods.is_empty()
            || match method {
                Some(method) => self.methods.iter().any(|known| known == method),
                None => self.effect != Verdict::Allow,
            }
    }

    fn matches_initiator(&self, initiator: Option<&HostName>) -> bool {
        let lenient = self.effect == Verdict::Allow;
        match (&self.initiator, initiator) {
            (None, _) => true,
            (Some(wanted), Some(host)) => wanted.matches(Some(host), lenient),
            (Some(_), None) => !lenient,
        }
    }
}

impl To {
    /// `certainly`: for allowing, when only what is certain counts.
    fn matches(&self, host: Option<&HostName>, certainly: bool) -> bool {
        match (self, host) {
            (To::Anywhere, _) => true,
            (To::Hosts(hosts), Some(host)) => match certainly {
                true => hosts.iter().any(|pattern| pattern.matches(host)),
                false => hosts.iter().any(|pattern| pattern.may_match(host)),
            },
            (To::Hosts(_), None) => false,
        }
    }
}

impl Exception {
    fn matches(&self, address: &Address, certainly: bool) -> bool {
        self.to.matches(address.host.as_ref(), certainly) && matches_path(&self.paths, address, certainly)
    }
}

fn matches_path(paths: &[PathPattern], address: &Address, certainly: bool) -> bool {
    paths.is_empty()
        || match certainly {
            true => paths.iter().any(|pattern| pattern.matches_all(&address.path)),
            false => paths.iter().any(|pattern| pattern.matches_any(&address.path)),
        }
}
