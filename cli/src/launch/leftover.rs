//! Directories of profiles for once only. One is left behind when its `serve` is killed; the next start deletes it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use router::server::Token;
use router::server::token::Tokens;
use tracing::info;

use super::profile::browser_in;

const PREFIX: &str = "tabwarden-profile-";

const LOCK: &str = "tabwarden.lock";

/// A directory that is in use. The kernel ends the lock with our process, however that ends, and no other process holds
/// it: files of ours are closed in the browser that we start.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "held, not read")] Flock<File>);

/// A directory that nobody can have made before us.
pub fn new_dir(temp: &Path) -> Result<PathBuf, String> {
    Ok(temp.join(format!("{PREFIX}{}", Tokens::new()?.draw()?.reveal())))
}

pub fn claim(dir: &Path) -> Result<Claim, String> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let locked = file.and_then(|file| {
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| std::io::Error::from(error))
    });
    locked.map(Claim).map_err(|error| {
        format!(
            "The temporary profile cannot be locked at {} ({error}); set TMPDIR to a directory on a local disk.",
            path.display()
        )
    })
}

/// Deletes what killed runs of this user left in the temp directory. What is in doubt stays.
pub fn sweep(temp: &Path) {
    let Ok(entries) = fs::read_dir(temp) else { return };
    for dir in entries.flatten().map(|entry| entry.path()).filter(|dir| is_our_name(dir)) {
        // Kept until it is deleted, so that two that start at once do not both delete.
        let Some(_claim) = abandoned(&dir) else { continue };
        match fs::remove_dir_all(&dir) {
            Ok(()) => info!("Deleted {}, which a killed run left behind.", dir.display()),
            Err(error) => info!("{} was left behind by a killed run and stays ({error}).", dir.display()),
        }
    }
}

fn is_our_name(dir: &Path) -> bool {
    let name = dir.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
    name.is_some_and(|random| Token::parse(random).is_some())
}

/// Ours, its lock let go by its process, and no browser in it. One without a lock file may just be being made.
fn abandoned(dir: &Path) -> Option<Flock<File>> {
    let about = fs::symlink_metadata(dir).ok()?;
    if !about.is_dir() || about.uid() != nix::unistd::geteuid().as_raw() || about.mode() & 0o077 != 0 {
        return None;
    }
    let file = OpenOptions::new().write(true).open(dir.join(LOCK)).ok()?;
    let claim = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
    browser_in(dir).is_none().then_some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    fn made(temp: &Path) -> PathBuf {
        let dir = new_dir(temp).unwrap();
        files::private_dir(&dir).unwrap();
        dir
    }

    #[test]
    fn only_a_directory_of_ours_that_nobody_uses_is_swept() {
        let temp = tempfile::tempdir().unwrap();
        let (left, used, unlocked, with_browser, open) =
            (made(temp.path()), made(temp.path()), made(temp.path()), made(temp.path()), made(temp.path()));
        drop(claim(&left).unwrap());
        fs::create_dir(left.join("Default")).unwrap();
        let _claim = claim(&used).unwrap();
        drop(claim(&with_browser).unwrap());
        let host = nix::unistd::gethostname().unwrap().to_string_lossy().into_owned();
        let lock = format!("{host}-{}", std::process::id());
        std::os::unix::fs::symlink(lock, with_browser.join("SingletonLock")).unwrap();
        drop(claim(&open).unwrap());
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let other = temp.path().join("tabwarden-profile-mine");
        files::private_dir(&other).unwrap();
        drop(claim(&other).unwrap());
        let link = new_dir(temp.path()).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();

        sweep(temp.path());
        assert!(!left.exists());
        for kept in [used, unlocked, with_browser, open, other, link] {
            assert!(kept.exists(), "{}", kept.display());
        }
    }

    #[test]
    fn a_directory_is_claimed_once() {
        let temp = tempfile::tempdir().unwrap();
        let dir = made(temp.path());
        let first = claim(&dir).unwrap();
        assert!(claim(&dir).unwrap_err().contains("cannot be locked"));
        drop(first);
        claim(&dir).unwrap();
    }
}
