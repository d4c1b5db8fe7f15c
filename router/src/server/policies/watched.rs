//! Whether policy files have changed, told by what the file system says of them.
//!
//! Looked at every second instead of being told by the kernel: that works the same for a directory that is made later, a
//! link that is turned elsewhere, a network drive and a mode that was widened, and costs a few calls. What is compared
//! includes the time of the last change of the inode, which nobody can set back.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    /// Before the file is read, or the directory looked into: what changes afterwards is then seen as a change.
    pub fn add(&mut self, path: &Path) {
        self.0.entry(path.to_owned()).or_insert_with(|| stamp(path));
    }

    /// The same paths as they are now.
    pub fn again(&self) -> Stamps {
        Stamps(self.0.keys().map(|path| (path.clone(), stamp(path))).collect())
    }

    /// What was known before stays: its change has still to be noticed.
    pub fn merge(&mut self, more: Stamps) {
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
        let mut before = Stamps::default();
        for path in [&system, &file] {
            before.add(path);
        }
        let mut changed = |what: &str| {
            let now = before.again();
            assert_ne!(before, now, "{what}");
            assert_eq!(now, now.again(), "nothing since {what}");
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
    fn what_was_seen_stays_until_it_is_read_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("1");
        fs::write(&file, "x").unwrap();
        let (mut seen, mut later) = (Stamps::default(), Stamps::default());
        seen.add(&file);
        fs::write(&file, "xy").unwrap();
        seen.add(&file);
        later.add(&file);
        seen.merge(later);
        assert_ne!(seen, seen.again());
    }
}
