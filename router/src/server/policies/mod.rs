//! Which policy files hold for a task: the administrator's, which are always read, the server's, and the task's own.
//!
//! The API takes names only. A path from there would let whoever holds the admin token read any file by its errors.

mod reading;
mod store;
mod trusted;
mod watched;

use std::path::{Path, PathBuf};

use serde::Deserialize;
pub use store::{Applied, Due, LastReload, Store, Trigger};

pub const DEFAULT_NAME: &str = "default";

/// The administrator's files. A constant: whatever could lead elsewhere, a flag, a variable or a key, would be a way around
/// them.
#[cfg(not(any(target_os = "macos", windows)))]
pub const ADMIN_DIR: &str = "/etc/tabwarden/policies";
#[cfg(target_os = "macos")]
pub const ADMIN_DIR: &str = "/Library/Application Support/Tabwarden/policies";
#[cfg(windows)]
pub const ADMIN_DIR: &str = r"C:\ProgramData\Tabwarden\policies";

/// Where the files are, as the operator said.
#[derive(Clone, Debug)]
pub struct PolicyFiles {
    admin_dir: PathBuf,
    /// For all tasks of this server.
    pub server: Vec<PathBuf>,
    /// Where tasks find policies by name, as NAME.toml.
    pub named: Option<PathBuf>,
}

impl PolicyFiles {
    pub fn new(server: Vec<PathBuf>, named: Option<PathBuf>) -> PolicyFiles {
        PolicyFiles { admin_dir: ADMIN_DIR.into(), server, named }
    }

    #[cfg(test)]
    pub fn with_admin_dir(self, admin_dir: &Path) -> PolicyFiles {
        PolicyFiles { admin_dir: admin_dir.to_owned(), ..self }
    }

    pub fn admin_dir(&self) -> &Path {
        &self.admin_dir
    }
}

/// Where a task's own layer comes from; kept, so that it can be read anew.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPolicy {
    pub source: Source,
    /// A further layer, which only narrows.
    pub allow: Option<Allow>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// In the policy directory, or the built-in `default`.
    Named(String),
    /// A file that the operator named.
    File(PathBuf),
}

/// The hosts that a task was made for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Exactly these.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// These and everything below.
    #[serde(default)]
    pub sites: Vec<String>,
}

impl Default for TaskPolicy {
    fn default() -> TaskPolicy {
        TaskPolicy { source: Source::Named(DEFAULT_NAME.into()), allow: None }
    }
}

pub fn is_policy_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_name_and_never_a_path() {
        for bad in
            ["", "..", "../default", "/etc/passwd", "a/b", "Default", "default.toml", "a\0", "é", &"a".repeat(65)]
        {
            assert!(!is_policy_name(bad), "{bad}");
        }
        assert!(is_policy_name("read-only-2"));
    }

    #[test]
    fn the_system_directory_is_no_choice() {
        assert_eq!(PolicyFiles::new(vec!["x".into()], Some("y".into())).admin_dir(), Path::new(ADMIN_DIR));
    }
}
