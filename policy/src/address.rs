//! A URL as it is judged: parsed as browsers parse it, with every spelling of one place brought to one form.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

/// Where a URL leads, without user-info, query and fragment.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) scheme: String,
    pub(crate) host: Option<HostName>,
    /// With the scheme's default filled in.
    pub(crate) port: Option<u16>,
    pub(crate) default_port: bool,
    pub(crate) path: Path,
    /// A document at this URL has the origin of whoever made it.
    pub(crate) by_creator: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostName {
    /// Lower-case A-labels without a trailing dot.
    Name(String),
    /// IPv4-mapped IPv6 is unwrapped to IPv4.
    Ip(IpAddr),
}

/// A path as servers may read it. Some decode `%2F` and fold `//`, others do not: an allow has to match both readings,
/// and a deny needs to match only one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Decoded, but for `%2F` and `%5C`.
    pub(crate) plain: Vec<u8>,
    /// Decoded throughout, `\` read as `/`, empty and dot segments resolved. `None` when it is the same.
    pub(crate) folded: Option<Vec<u8>>,
}

/// Why a URL cannot be judged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Syntax(url::ParseError),
    /// Two trailing dots, or an empty label: browsers and resolvers disagree about what it names.
    EmptyLabel,
    /// A `blob:` within a `blob:`.
    NestedBlob,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Syntax(error) => write!(f, "it cannot be read as a URL ({error})"),
            Unreadable::EmptyLabel => f.write_str("its host has an empty label (two dots in a row)"),
            Unreadable::NestedBlob => f.write_str("it is a blob: URL within a blob: URL"),
        }
    }
}

impl Address {
    pub(crate) fn read(text: &str) -> Result<Address, Unreadable> {
        let url = Url::parse(text).map_err(Unreadable::Syntax)?;
        match url.scheme() {
            "blob" => Address::of_blob(url.path()),
            "about" => {
                // `about:settings` and its like lead to `chrome:` pages; only these two are documents of their creator.
                let by_creator = matches!(url.path(), "blank" | "srcdoc");
                Ok(Address { by_creator, ..Address::of(&url)? })
            }
            "data" => Ok(Address { by_creator: true, ..Address::of(&url)? }),
            _ => Address::of(&url),
        }
    }

    /// The origin stands inside; the rest is a random name.
    fn of_blob(inner: &str) -> Result<Address, Unreadable> {
        if inner == "null" || inner.starts_with("null/") {
            return Ok(Address {
                scheme: "blob".to_owned(),
                host: None,
                port: None,
                default_port: true,
                path: Path::read("/"),
                by_creator: true,
            });
        }
        // Not `Url::origin`, which calls itself for each `blob:` inside and so lets a long URL exhaust the stack.
        let url = Url::parse(inner).map_err(Unreadable::Syntax)?;
        if url.scheme() == "blob" {
            return Err(Unreadable::NestedBlob);
        }
        Ok(Address { path: Path::read("/"), ..Address::of(&url)? })
    }

    fn of(url: &Url) -> Result<Address, Unreadable> {
        let host = match url.host() {
            None => None,
            Some(Host::Domain(name)) => Some(HostName::name(name).ok_or(Unreadable::EmptyLabel)?),
            Some(Host::Ipv4(ip)) => Some(HostName::Ip(ip.into())),
            Some(Host::Ipv6(ip)) => Some(HostName::Ip(IpAddr::from(ip).to_canonical())),
        };
        Ok(Address {
            scheme: url.scheme().to_owned(),
            host,
            port: url.port_or_known_default(),
            default_port: url.port().is_none(),
            path: Path::read(url.path()),
            by_creator: false,
        })
    }
}

/// In its one spelling; the path as far as all servers agree on it.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(host) = &self.host else { return write!(f, "{}:{}", self.scheme, self.path) };
        write!(f, "{}://", self.scheme)?;
        match host {
            HostName::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]")?,
            host => write!(f, "{host}")?,
        }
        match self.port {
            Some(port) if !self.default_port => write!(f, ":{port}{}", self.path),
            _ => write!(f, "{}", self.path),
        }
    }
}

/// Without characters that a terminal would act on.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy(&self.plain);
        text.chars().try_for_each(|c| match c.is_control() {
            true => write!(f, "%{:02X}", u32::from(c)),
            false => write!(f, "{c}"),
        })
    }
}

impl HostName {
    /// `example.com.` is `example.com`: the parser keeps the dot. (The hosts of unknown schemes come as written, hence the
    /// case.) `None` for an empty label.
    fn name(text: &str) -> Option<HostName> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let sound = name.split('.').all(|label| !label.is_empty());
        sound.then(|| HostName::Name(name.to_ascii_lowercase()))
    }
}

impl Path {
    fn read(path: &str) -> Path {
        let plain = decode(path.as_bytes(), false);
        let folded = fold(&decode(path.as_bytes(), true));
        let folded = (folded != plain).then_some(folded);
        Path { plain, folded }
    }
}

/// Whether a pattern for paths is spelt as an unambiguous path is: for those, both readings are one.
pub(crate) fn is_normal_path(glob: &str) -> bool {
    let slash = if glob.starts_with('/') { "" } else { "/" };
    Path::read(&format!("{slash}{glob}")).folded.is_none()
}

/// Percent-decoded once. The separators are decoded only when asked for; else their digits are brought to upper case.
pub(crate) fn decode(path: &[u8], separators: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if let (b'%', [high, low, after @ ..]) = (first, tail)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            rest = after;
            match high << 4 | low {
                b'/' if !separators => out.extend_from_slice(b"%2F"),
                b'\\' if !separators => out.extend_from_slice(b"%5C"),
                byte => out.push(byte),
            }
        } else {
            out.push(*first);
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn fold(path: &[u8]) -> Vec<u8> {
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut parts = path.split(|byte| matches!(byte, b'/' | b'\\')).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match part {
            b".." => {
                segments.pop();
            }
            b"." | b"" => {}
            part => {
                segments.push(part);
                continue;
            }
        }
        // `/a/`, `/a/.` and `/a/b/..` end in a slash.
        if last {
            segments.push(b"");
        }
    }
    let mut out = Vec::with_capacity(path.len());
    for segment in segments {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if out.is_empty() {
        out.push(b'/');
    }
    out
}
