//! Which running browsers could be meant by `--auto`, found without disturbing anybody: a file is read and a TCP port
//! tried, but no WebSocket opened, since each of those asks the person.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use url::Url;

use crate::browsers;

/// The port that a browser takes when debugging is allowed in it or given without another.
const USUAL_PORT: u16 = 9222;

const PROBE_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// For the list that the person chooses from.
    pub name: String,
    pub url: Url,
}

#[derive(Debug, Default)]
pub struct Found {
    pub listening: Vec<Candidate>,
    /// Profiles that say that their browser listens, while nothing does: it has ended.
    pub stale: Vec<PathBuf>,
}

pub async fn find(home: &Path) -> Found {
    let mut found = Found::default();
    for (name, dir) in browsers::user_data_dirs(home) {
        let file = dir.join("DevToolsActivePort");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let Some((port, path)) = parse(&text) else { continue };
        let Ok(url) = Url::parse(&format!("ws://127.0.0.1:{port}{path}")) else { continue };
        if listens(port).await {
            found.listening.push(Candidate { name: format!("{name} ({})", dir.display()), url });
        } else {
            found.stale.push(dir);
        }
    }
    if !found.listening.iter().any(|one| one.url.port() == Some(USUAL_PORT))
        && let Ok(base) = Url::parse(&format!("http://127.0.0.1:{USUAL_PORT}"))
        && let Some(candidate) = from_version(&base).await
    {
        found.listening.push(candidate);
    }
    found
}

/// What the debugging port of a browser tells about itself.
async fn from_version(base: &Url) -> Option<Candidate> {
    let answer = tokio::time::timeout(PROBE_PATIENCE, super::version(base)).await.ok()?.ok()?;
    let version: Value = serde_json::from_str(&answer.body).ok()?;
    let url = Url::parse(version["webSocketDebuggerUrl"].as_str()?).ok()?;
    Some(Candidate { name: format!("{} (port {USUAL_PORT})", version["Browser"].as_str().unwrap_or("a browser")), url })
}

async fn listens(port: u16) -> bool {
    matches!(tokio::time::timeout(PROBE_PATIENCE, TcpStream::connect(("127.0.0.1", port))).await, Ok(Ok(_)))
}

/// Two lines: the port, and the path of the browser's WebSocket.
fn parse(text: &str) -> Option<(u16, &str)> {
    let mut lines = text.lines();
    let port = lines.next()?.trim().parse().ok().filter(|port| *port > 0)?;
    let path = lines.next()?.trim();
    path.starts_with("/devtools/browser").then_some((port, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_file_has_two_lines() {
        assert_eq!(parse("9222\n/devtools/browser/abc"), Some((9222, "/devtools/browser/abc")));
        assert_eq!(parse("41234\r\n/devtools/browser/abc\r\n"), Some((41234, "/devtools/browser/abc")));
        for bad in [
            "",
            "9222",
            "0\n/devtools/browser/a",
            "99999\n/devtools/browser/a",
            "x\n/devtools/browser/a",
            "9222\n@evil.test/",
            "9222\n/json",
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_listening_profile_is_found_and_one_whose_browser_ended_is_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone_port = gone.local_addr().unwrap().port();
        drop(gone);
        let write = |dir: &Path, port: u16| {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(dir.join("DevToolsActivePort"), format!("{port}\n/devtools/browser/x")).unwrap();
        };
        let dirs: Vec<PathBuf> = browsers::user_data_dirs(home.path()).map(|(_, dir)| dir).collect();
        write(&dirs[0], port);
        write(&dirs[1], gone_port);
        let found = find(home.path()).await;
        assert!(
            found.listening.iter().any(|one| one.url.as_str() == format!("ws://127.0.0.1:{port}/devtools/browser/x"))
        );
        assert_eq!(found.stale, [dirs[1].clone()]);
    }
}
