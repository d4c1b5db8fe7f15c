//! Where the directories of tasks are: one place for each `serve` of this user that runs at the same time. What a killed
//! one left there is deleted by the next.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use tracing::warn;

use crate::files;

/// No task is called so.
const LOCK: &str = "~lock";

/// More than anybody runs of them.
const MOST: usize = 64;

/// The kernel ends the lock with our process, however that ends; what is there goes with us at the latest.
pub struct TasksDir {
    path: PathBuf,
    _claim: Flock<File>,
}

impl TasksDir {
    /// `base`, or where another `serve` has that, `base-2` and so on.
    pub fn claim(base: &Path) -> Result<TasksDir, String> {
        if base.to_str().is_none() {
            return Err(format!(
                "The data directory {} has a name that is no UTF-8, which the browser cannot be told; set XDG_DATA_HOME.",
                base.display()
            ));
        }
        for number in 1..=MOST {
            let path = match number {
                1 => base.to_owned(),
                number => PathBuf::from(format!("{}-{number}", base.display())),
            };
            files::private_dir(&path)?;
            match lock(&path.join(LOCK)) {
                Ok(claim) => {
                    clear(&path);
                    return Ok(TasksDir { path, _claim: claim });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    return Err(format!(
                        "{} cannot be locked ({error}); set XDG_DATA_HOME to a directory on a local disk.",
                        path.display()
                    ));
                }
            }
        }
        Err(format!("{MOST} servers of this user run already, each with its directory beside {}.", base.display()))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TasksDir {
    fn drop(&mut self) {
        clear(&self.path);
    }
}

fn lock(path: &Path) -> io::Result<Flock<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error.into())
}

fn clear(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name() != LOCK) {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            warn!("{} of an ended task stays ({error}); delete it.", entry.path().display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own_and_the_next_one_clears_what_was_left() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().join("tasks");
        let first = TasksDir::claim(&base).unwrap();
        let second = TasksDir::claim(&base).unwrap();
        assert_eq!((first.path(), second.path()), (base.as_path(), temp.path().join("tasks-2").as_path()));
        fs::create_dir_all(base.join("one/files")).unwrap();
        fs::write(base.join("one/files/x"), "x").unwrap();
        drop(second);
        assert!(base.join("one/files/x").exists(), "that is the first one's");
        // As if the second had been killed before it cleared anything.
        fs::create_dir_all(temp.path().join("tasks-2/left")).unwrap();
        let again = TasksDir::claim(&base).unwrap();
        assert_eq!(again.path(), temp.path().join("tasks-2"));
        assert!(!again.path().join("left").exists());
        drop(first);
        assert!(!base.join("one").exists() && base.join(LOCK).exists());
    }
}
