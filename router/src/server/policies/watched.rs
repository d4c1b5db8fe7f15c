//! Whether policy files have changed, told by what the file system says of them.
//!
//! Looked at every second instead of being told by the kernel: that works the same for a directory that is made later, a
//! link that is turned elsewhere, a network drive and a mode that was widened, and costs a few calls. What is compared
//! includes the time of the last change of the inode, which nobody can set back.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::trusted;

/// `None`: nothing is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stamps(HashMap<PathBuf, Option<Stamp>>);

#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    /// Which file, behind all links.
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamps {
    /// Of these files, and of the directory with whatever stands in it.
    pub fn take<'a>(directory: &Path, files: impl IntoIterator<Item = &'a Path>) -> Stamps {
        let mut stamps = Stamps::of(files);
        stamps.0.insert(directory.to_owned(), stamp(directory));
        // One that cannot be read stops the reading, which says so.
        for file in trusted::admin_files(directory).unwrap_or_default() {
            let stamp = stamp(&file);
            stamps.0.insert(file, stamp);
        }
        stamps
    }

    pub fn of<'a>(files: impl IntoIterator<Item = &'a Path>) -> Stamps {
        Stamps(files.into_iter().map(|file| (file.to_owned(), stamp(file))).collect())
    }

    /// Whether something is otherwise now than it was at `self`. What `now` does not name is of nobody's concern any more.
    pub fn differ(&self, now: &Stamps) -> bool {
        now.0.iter().any(|(path, stamp)| self.0.get(path) != Some(stamp))
    }

    /// What was known before stays: its change has still to be noticed.
    pub fn add(&mut self, more: Stamps) {
        for (path, stamp) in more.0 {
            self.0.entry(path).or_insert(stamp);
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = fs::metadata(path).ok()?;
    Some(Stamp {
        inode: (about.dev(), about.ino()),
        size: about.len(),
        modified: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn every_kind_of_change_is_seen_and_none_where_there_was_none() {
        let dir = tempfile::tempdir().unwrap();
        let (system, file) = (dir.path().join("system"), dir.path().join("link.toml"));
        for target in ["a", "b"] {
            fs::write(dir.path().join(target), "x").unwrap();
        }
        let take = || Stamps::take(&system, [file.as_path()]);
        let mut before = take();
        let mut changed = |what: &str| {
            let now = take();
            assert!(before.differ(&now), "{what}");
            assert!(!now.differ(&take()), "nothing since {what}");
            before = now;
        };
        symlink("a", &file).unwrap();
        changed("a link");
        fs::remove_file(&file).unwrap();
        symlink("b", &file).unwrap();
        changed("a link that leads elsewhere");
        fs::write(dir.path().join("b"), "xy").unwrap();
        changed("another size");
        fs::set_permissions(dir.path().join("b"), fs::Permissions::from_mode(0o646)).unwrap();
        changed("a mode");
        fs::create_dir(&system).unwrap();
        changed("the directory");
        fs::write(system.join("a.toml"), "x").unwrap();
        changed("a file in it");
        fs::remove_file(system.join("a.toml")).unwrap();
        changed("a file that is gone");
        fs::remove_file(&file).unwrap();
        changed("a link that is gone");
    }

    #[test]
    fn what_is_not_watched_any_more_does_not_count_and_what_was_seen_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("1"), dir.path().join("2"));
        fs::write(&one, "x").unwrap();
        let mut seen = Stamps::of([one.as_path(), two.as_path()]);
        assert!(!seen.differ(&Stamps::of([two.as_path()])));
        fs::write(&one, "xy").unwrap();
        seen.add(Stamps::of([one.as_path()]));
        assert!(seen.differ(&Stamps::of([one.as_path()])));
    }
}
