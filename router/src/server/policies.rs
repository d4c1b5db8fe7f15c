//! Policies by name: a file `NAME.toml` of the policy directory, or the built-in `default`.
//!
//! The API takes names only. A path from there would let whoever holds the admin token read any file by its errors.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{Policies, Policy};

use crate::engine::io::{AdminError, AdminErrorKind};

const DEFAULT: &str = include_str!("../../../policies/default.toml");

pub const DEFAULT_NAME: &str = "default";

#[derive(Clone, Debug, Default)]
pub struct PolicyDir(pub Option<PathBuf>);

impl PolicyDir {
    pub fn load(&self, name: &str) -> Result<Arc<Policies>, AdminError> {
        if !is_policy_name(name) {
            return Err(AdminError {
                kind: AdminErrorKind::Invalid,
                message: "The policy must be a name of lower-case letters, digits and dashes, not a path; put the \
                    file into the policy directory as NAME.toml."
                    .into(),
            });
        }
        let file = self.0.as_ref().map(|dir| dir.join(format!("{name}.toml")));
        // Only where nothing at all stands there: a link that leads nowhere is a narrower policy that got lost.
        let absent =
            |file: &Path| file.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        match file.filter(|file| name != DEFAULT_NAME || !absent(file)) {
            Some(file) => read(&file, name),
            None if name == DEFAULT_NAME => parse(DEFAULT, "default.toml (built in)", name),
            None => Err(AdminError {
                kind: AdminErrorKind::NotFound,
                message: format!(
                    "There is no policy {name}, as no policy directory was given; start `tabwarden serve` with \
                        --policy-dir DIR."
                ),
            }),
        }
    }
}

/// A file that the operator named.
pub fn load_file(path: &Path) -> Result<Arc<Policies>, AdminError> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    read(path, &name)
}

fn read(path: &Path, name: &str) -> Result<Arc<Policies>, AdminError> {
    let text = std::fs::read_to_string(path).map_err(|error| AdminError {
        kind: AdminErrorKind::NotFound,
        message: format!("The policy {name} cannot be read from {} ({error}); put the file there.", path.display()),
    })?;
    parse(&text, &path.display().to_string(), name)
}

fn parse(text: &str, file: &str, name: &str) -> Result<Arc<Policies>, AdminError> {
    let policy = Policy::parse(text, file).map(|policy| Arc::new(Policies::from(Arc::new(policy))));
    if policy.is_ok() {
        tracing::warn!(
            "{name} is enforced on documents (pages, frames, redirects, popups) and on URLs in commands; subresources, sockets and scripts of an allowed page are not filtered by this version."
        );
    }
    policy.map_err(|error| AdminError {
        kind: AdminErrorKind::Invalid,
        message: format!("The policy {name} is not used, as it is wrong: {error}"),
    })
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
    fn the_built_in_default_needs_no_directory_and_parses() {
        assert!(PolicyDir(None).load("default").is_ok());
        assert_eq!(PolicyDir(None).load("other").unwrap_err().kind, AdminErrorKind::NotFound);
    }
}
