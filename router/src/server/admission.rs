//! Who may come in: Host, Origin and the token of every request, judged before any route runs.
//!
//! Host and Origin keep web pages out (a page can reach loopback under its own name by DNS rebinding, and every browser
//! sends an Origin with a cross-site WebSocket); the token keeps other local processes out. Being local proves nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri};

use super::refusal::Refusal;

/// `--allow-host` and `--allow-origin`.
#[derive(Clone, Debug, Default)]
pub struct Doors {
    /// Lower-case names without a port.
    pub hosts: Vec<String>,
    /// Exactly as browsers send them, e.g. `https://app.example`.
    pub origins: Vec<String>,
}

/// How the token travelled, so that discovery can answer in kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Path,
    Bearer,
}

/// A request that passed Host and Origin; what it asks for is not judged yet. Not `Debug`, as it holds a secret.
#[derive(Clone)]
pub struct Visitor {
    /// The validated Host, with its port: the only one that may be echoed.
    pub host: String,
    pub token: Option<(String, Carrier)>,
    /// The path behind `/t/<token>`, or the whole path; begins with `/` or is empty.
    pub path: String,
}

pub fn admit(doors: &Doors, uri: &Uri, headers: &HeaderMap) -> Result<Visitor, Refusal> {
    if uri.scheme().is_some() || uri.authority().is_some() {
        return Err(forbidden(
            "host_refused",
            "A request line with a whole URL is refused, as this is no forward proxy; send the path only.",
        ));
    }
    let host = only(headers, HOST).and_then(|host| allowed_host(doors, host).then_some(host)).ok_or_else(|| {
        forbidden(
            "host_refused",
            "This Host header is refused, to keep web pages out that reach this port under a name of their own; use \
                an IP address or localhost, or start with --allow-host NAME.",
        )
    })?;
    if headers.contains_key(ORIGIN)
        && !only(headers, ORIGIN).is_some_and(|origin| doors.origins.iter().any(|o| o == origin))
    {
        return Err(forbidden(
            "origin_refused",
            "Requests of web pages are refused, with a valid token too; connect from outside a page, or start with \
                --allow-origin ORIGIN.",
        ));
    }
    let (in_path, path) = split_token(uri.path());
    let bearer = bearer(headers)?;
    let token = match (in_path, bearer) {
        (Some(path), Some(bearer)) if path != bearer => {
            return Err(Refusal::new(
                StatusCode::UNAUTHORIZED,
                "two_tokens",
                "The path and the Authorization header carry different tokens, so it is not clear who is meant; send \
                    one of them.",
            ));
        }
        (Some(token), _) => Some((token.to_owned(), Carrier::Path)),
        (None, Some(token)) => Some((token.to_owned(), Carrier::Bearer)),
        (None, None) => None,
    };
    Ok(Visitor { host: host.to_owned(), token, path: path.to_owned() })
}

fn forbidden(code: &'static str, message: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, code, message)
}

/// The value when the header stands exactly once: of two, a proxy before us may have checked the other.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn split_token(path: &str) -> (Option<&str>, &str) {
    let Some(rest) = path.strip_prefix("/t/") else { return (None, path) };
    let end = rest.find('/').unwrap_or(rest.len());
    (Some(&rest[..end]), &rest[end..])
}

fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    if !headers.contains_key(AUTHORIZATION) {
        return Ok(None);
    }
    // Another scheme is not for us: a path may carry the token then.
    match only(headers, AUTHORIZATION) {
        None => Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            "two_tokens",
            "There must be one Authorization header at most, in ASCII; send `Authorization: Bearer TOKEN` once.",
        )),
        Some(value) => Ok(value
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim())),
    }
}

fn allowed_host(doors: &Doors, host: &str) -> bool {
    let Some(name) = without_port(host) else { return false };
    if let Some(inner) = name.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok());
    }
    name.parse::<Ipv4Addr>().is_ok()
        || name == "localhost"
        || name.strip_suffix(".localhost").is_some_and(|labels| labels.split('.').all(is_label))
        || doors.hosts.iter().any(|allowed| allowed == name)
}

/// `None` when what stands behind the last colon is no port.
fn without_port(host: &str) -> Option<&str> {
    let colon = match host.rfind(']') {
        Some(bracket) => host[bracket..].find(':').map(|at| bracket + at),
        None => host.find(':'),
    };
    let Some(colon) = colon else { return Some(host) };
    let port = &host[colon + 1..];
    (port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()).then_some(&host[..colon])
}

fn is_label(label: &str) -> bool {
    !label.is_empty() && label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doors() -> Doors {
        Doors { hosts: vec!["tabs.example".into()], origins: vec!["https://app.example".into()] }
    }

    fn try_host(host: &str) -> bool {
        allowed_host(&doors(), host)
    }

    #[test]
    fn ip_literals_localhost_and_given_names_are_hosts() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9333",
            "10.1.2.3:1",
            "[::1]",
            "[::1]:9333",
            "localhost",
            "localhost:80",
            "a.localhost",
            "a.b-c.localhost:1",
            "tabs.example",
            "tabs.example:443",
        ] {
            assert!(try_host(host), "{host}");
        }
    }

    #[test]
    fn every_other_host_is_refused() {
        for host in [
            "",
            ":9333",
            "evil.test",
            "evil.test:9333",
            "127.0.0.1.evil.test",
            "localhost.evil.test",
            "evil-localhost",
            "localhost.",
            "localhost.:80",
            "127.0.0.1.",
            "LOCALHOST",
            "EVIL.TEST:9333",
            ".localhost",
            "a..localhost",
            "0x7f.1",
            "127.1",
            "2130706433",
            "::1",
            "[::1",
            "[::1]x",
            "[fe80::1%25lo]",
            "localhost:",
            "localhost:99999",
            "localhost:+80",
            "localhost:80:80",
            "user@localhost",
            "localhost/x",
            "tabs.example.",
            "x.tabs.example",
            "127.0.0.1, evil.test",
        ] {
            assert!(!try_host(host), "{host}");
        }
    }

    #[test]
    fn the_token_is_cut_out_of_the_path() {
        assert_eq!(split_token("/t/abc/json/version/"), (Some("abc"), "/json/version/"));
        assert_eq!(split_token("/t/abc"), (Some("abc"), ""));
        assert_eq!(split_token("/t/"), (Some(""), ""));
        assert_eq!(split_token("/json"), (None, "/json"));
    }
}
