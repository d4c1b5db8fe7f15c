//! From paths to policies: the files, what they include, and what the linter says of them.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use policy::{Date, Included, Policy, PolicyError, Severity};

use super::trusted::{self, Authority};
use super::watched::Stamps;
use crate::server::includes;

/// One reading of files, all on the same day.
pub struct Reading {
    pub today: Date,
    /// Of everything that was looked at, well or badly.
    pub seen: Stamps,
}

impl Reading {
    pub fn new(today: Date) -> Reading {
        Reading { today, seen: Stamps::default() }
    }

    /// The administrator's, in order.
    pub fn admin(&mut self, directory: &Path) -> Result<Vec<Arc<Policy>>, String> {
        self.seen.add(directory);
        trusted::admin_files(directory)?.iter().map(|path| self.file(path, Authority::Admin)).collect()
    }

    pub fn file(&mut self, path: &Path, authority: Authority) -> Result<Arc<Policy>, String> {
        self.seen.add(path);
        let text = trusted::read(path, authority)?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let seen = &mut self.seen;
        let mut include = |pattern: &str| include(directory, pattern, authority, seen);
        let policy =
            Policy::parse_with(&text, &path.display().to_string(), &mut include).map_err(|error| wrong(&error))?;
        self.lint(&policy)?;
        Ok(Arc::new(policy))
    }

    fn lint(&self, policy: &Policy) -> Result<(), String> {
        let (errors, warnings): (Vec<_>, Vec<_>) =
            policy.lints(self.today).into_iter().partition(|lint| lint.severity == Severity::Error);
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        match errors.as_slice() {
            [] => Ok(()),
            [one] => Err(format!("A policy is not used, as it is wrong: {one}")),
            [first, others @ ..] => Err(format!(
                "A policy is not used, as it is wrong in {} places; `tabwarden policy check {}` lists them, and the first is {first}",
                others.len() + 1,
                policy.file()
            )),
        }
    }
}

pub fn wrong(error: &PolicyError) -> String {
    format!("A policy is not used, as it is wrong: {error}")
}

/// Whoever may write to an included file may widen the policy, so it is looked at like the policy itself. The directory
/// is watched too: a file in it may be a further one that is meant.
fn include(directory: &Path, pattern: &str, authority: Authority, seen: &mut Stamps) -> Result<Vec<Included>, String> {
    let below = pattern.rsplit_once('/').map_or("", |(below, _)| below);
    seen.add(&directory.join(below));
    let seen = RefCell::new(seen);
    includes::included(directory, pattern, &|path| {
        seen.borrow_mut().add(path);
        trusted::read(path, authority)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    const INCLUDING: &str = r#"policy = 1
name = "p"
default = "deny"
include = ["sets/*.toml"]
[[rule]]
id = "r"
effect = "allow"
verbs = ["view"]
to = "@desk"
"#;

    #[test]
    fn included_sets_are_found_beside_the_policy_watched_and_as_closed_as_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, sets) = (dir.path().join("p.toml"), dir.path().join("sets"));
        write(&path, INCLUDING);
        let mut reading = Reading::new(Date::EARLIEST);
        assert!(reading.file(&path, Authority::Admin).unwrap_err().contains("p.toml:4:"), "no directory yet");
        fs::create_dir(&sets).unwrap();
        assert_ne!(reading.seen, reading.seen.again());
        fs::set_permissions(&sets, fs::Permissions::from_mode(0o755)).unwrap();
        let set = sets.join("desk.toml");
        write(&set, "policy = 1\n[sets.desk]\nhosts = [{ host = \"desk.example.com\" }]\n");
        write(&sets.join(".desk.toml.swp"), "x");
        let mut reading = Reading::new(Date::EARLIEST);
        assert!(reading.file(&path, Authority::Admin).is_ok());
        write(&set, "policy = 1\n[sets.desk]\nhosts = [{ host = \"desk.example.org\" }]\n#");
        assert_ne!(reading.seen, reading.seen.again());
        fs::set_permissions(&set, fs::Permissions::from_mode(0o664)).unwrap();
        let said = Reading::new(Date::EARLIEST).file(&path, Authority::Admin).unwrap_err();
        assert!(said.contains("p.toml:4:") && said.contains("`chmod g-w "), "{said}");
        assert!(Reading::new(Date::EARLIEST).file(&path, Authority::Operator).is_ok());
    }

    #[test]
    fn what_the_linter_calls_an_error_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        let rule = |host: &str| {
            INCLUDING
                .replace("include = [\"sets/*.toml\"]\n", "")
                .replace("\"@desk\"", &format!("{{ host = \"{host}\", subdomains = true }}"))
        };
        write(&path, &rule("co.uk"));
        let said = Reading::new(Date::EARLIEST).file(&path, Authority::Operator).unwrap_err();
        assert!(said.contains("p.toml:5:"), "{said}");
        write(&path, &rule("example.co.uk"));
        assert!(Reading::new(Date::EARLIEST).file(&path, Authority::Operator).is_ok());
    }
}
