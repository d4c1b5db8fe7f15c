//! The profile of a browser that we start: one of ours, one for once only, or a given one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::warn;

use super::leftover::{self, Claim};
use crate::browsers;
use crate::exit::Failure;
use crate::files;
use crate::runtime_file::is_alive;

const DELETE_ATTEMPTS: u32 = 20;

#[derive(Clone, Debug, PartialEq)]
pub enum ProfileChoice {
    /// Ours, kept under the data directory.
    Named(String),
    /// Ours, deleted at the end.
    Ephemeral,
    /// As it is: nothing is written into it by us.
    Given(PathBuf),
}

/// Deleted when dropped if it was for once only.
#[derive(Debug)]
pub struct Profile {
    dir: PathBuf,
    choice: ProfileChoice,
    /// Of one for once only; let go after it has been deleted.
    claim: Option<Claim>,
}

impl Profile {
    pub fn prepare(choice: &ProfileChoice) -> Result<Profile, Failure> {
        let dir = match choice {
            ProfileChoice::Named(name) => {
                files::data_dir("a profile; set one or use --ephemeral")?.join("profiles").join(name)
            }
            ProfileChoice::Ephemeral => {
                leftover::sweep(&std::env::temp_dir());
                leftover::new_dir(&std::env::temp_dir())?
            }
            ProfileChoice::Given(dir) => std::path::absolute(dir).map_err(|error| {
                Failure::usage(format!("The profile {} has no absolute path ({error}); name another.", dir.display()))
            })?,
        };
        if let ProfileChoice::Given(_) = choice {
            refuse_default(&dir)?;
        } else {
            files::private_dir(&dir)?;
        }
        let mut profile = Profile { dir, choice: choice.clone(), claim: None };
        if profile.choice == ProfileChoice::Ephemeral {
            profile.claim = Some(leftover::claim(&profile.dir)?);
        }
        refuse_in_use(&profile.dir)?;
        if profile.is_ours() {
            write_preferences(&profile.dir.join("Default"))?;
        }
        Ok(profile)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ours to configure.
    pub fn is_ours(&self) -> bool {
        !matches!(self.choice, ProfileChoice::Given(_))
    }

    /// For the banner.
    pub fn note(&self) -> String {
        match &self.choice {
            ProfileChoice::Ephemeral => "a new profile, deleted at the end".into(),
            ProfileChoice::Named(_) => format!("profile {}", self.dir.display()),
            ProfileChoice::Given(_) => format!(
                "profile {}; its settings are left as they are: with \"Preload pages\" on, speculation can fetch \
                    pages before a policy sees them",
                self.dir.display()
            ),
        }
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        if self.choice != ProfileChoice::Ephemeral {
            return;
        }
        // Helpers of the browser may write for a moment after it has ended, which makes a directory "not empty".
        for last in (0..DELETE_ATTEMPTS).map(|attempt| attempt + 1 == DELETE_ATTEMPTS) {
            match fs::remove_dir_all(&self.dir) {
                Ok(()) => return,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
                Err(error) if last => {
                    warn!(
                        "The temporary profile {} could not be deleted ({error}); delete it by hand.",
                        self.dir.display()
                    );
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Chrome ignores remote debugging there since 136, without a word.
fn refuse_default(dir: &Path) -> Result<(), Failure> {
    let Some(home) = files::home() else { return Ok(()) };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let wanted = real(dir);
    match browsers::user_data_dirs(&home).find(|(_, default)| wanted.starts_with(real(default))) {
        Some((name, _)) => Err(Failure::usage(format!(
            "{} is {name}'s default profile, for which it refuses debugging since version 136; start {name} \
                yourself, allow it at chrome://inspect#remote-debugging and use --auto, or copy the profile elsewhere.",
            dir.display()
        ))),
        None => Ok(()),
    }
}

/// A second browser on one profile hands its arguments to the first and ends.
fn refuse_in_use(dir: &Path) -> Result<(), Failure> {
    match browser_in(dir) {
        Some(pid) => Err(Failure::new(format!(
            "The profile {} is in use by the browser with process id {pid}; close it, or use another with \
                --profile-name NAME or --ephemeral.",
            dir.display()
        ))),
        None => Ok(()),
    }
}

/// The process id of the browser of this machine that has the profile open.
pub fn browser_in(dir: &Path) -> Option<u32> {
    // Chromium on Linux and macOS: a link to `HOST-PID`.
    let lock = fs::read_link(dir.join("SingletonLock")).ok()?;
    let lock = lock.to_string_lossy();
    let (host, pid) = lock.rsplit_once('-')?;
    let here = nix::unistd::gethostname().is_ok_and(|name| name.to_string_lossy() == host);
    pid.parse().ok().filter(|pid| here && is_alive(*pid))
}

/// Network prediction off: else speculation rules fetch a forbidden URL and show it without any pause to judge it in.
fn write_preferences(dir: &Path) -> Result<(), Failure> {
    let path = dir.join("Preferences");
    let fail = |error: &dyn std::fmt::Display| {
        Failure::new(format!(
            "The preferences {} cannot be set ({error}); repair or remove the file, or use another --profile-name.",
            path.display()
        ))
    };
    files::private_dir(dir)?;
    let existing = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| fail(&error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Map::new(),
        Err(error) => return Err(fail(&error)),
    };
    let merged = merge(existing).ok_or_else(|| fail(&"`net` is no object"))?;
    files::write_private(&path, &Value::Object(merged).to_string()).map_err(|error| fail(&error))
}

fn merge(mut preferences: Map<String, Value>) -> Option<Map<String, Value>> {
    // 2 is "never" in Chromium's NetworkPredictionOptions.
    preferences
        .entry("net")
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()?
        .insert("network_prediction_options".into(), 2.into());
    Some(preferences)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn preferences_are_merged_into_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let read = || -> Value {
            serde_json::from_str(&fs::read_to_string(dir.path().join("Default/Preferences")).unwrap()).unwrap()
        };
        write_preferences(&dir.path().join("Default")).unwrap();
        assert_eq!(read(), json!({"net": {"network_prediction_options": 2}}));
        fs::write(
            dir.path().join("Default/Preferences"),
            r#"{"a":[1],"net":{"x":true,"network_prediction_options":0}}"#,
        )
        .unwrap();
        write_preferences(&dir.path().join("Default")).unwrap();
        assert_eq!(read(), json!({"a": [1], "net": {"x": true, "network_prediction_options": 2}}));
    }

    #[test]
    fn broken_preferences_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        for broken in ["{", "[]", r#"{"net":1}"#] {
            fs::write(dir.path().join("Preferences"), broken).unwrap();
            assert!(write_preferences(dir.path()).is_err());
            assert_eq!(fs::read_to_string(dir.path().join("Preferences")).unwrap(), broken);
        }
    }

    #[test]
    fn a_profile_with_a_living_owner_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let host = nix::unistd::gethostname().unwrap().to_string_lossy().into_owned();
        let lock = dir.path().join("SingletonLock");
        std::os::unix::fs::symlink(format!("{host}-{}", std::process::id()), &lock).unwrap();
        assert!(refuse_in_use(dir.path()).unwrap_err().message.contains("in use"));
        fs::remove_file(&lock).unwrap();
        std::os::unix::fs::symlink(format!("{host}-{}", 0x7fff_fff0), &lock).unwrap();
        assert_eq!(refuse_in_use(dir.path()), Ok(()));
        assert_eq!(refuse_in_use(&dir.path().join("missing")), Ok(()));
    }

    #[test]
    fn an_ephemeral_profile_goes_when_dropped() {
        let profile = Profile::prepare(&ProfileChoice::Ephemeral).unwrap();
        let dir = profile.dir().to_owned();
        assert!(dir.join("Default/Preferences").exists());
        drop(profile);
        assert!(!dir.exists());
    }
}
