//! Where paths really lead, for the engine, which judges them. A link that is changed after that is followed by Chromium when
//! it opens the file: whoever can make links in a granted directory while the browser runs as another user can have it read
//! what that user can (`SECURITY.md`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::engine::io::RealPath;

/// Of all directories of one command. More are refused: looking is not free, and a whole disk is no upload.
const MOST_ENTRIES: usize = 20_000;

/// Deeper directories are none of a person's.
const DEEPEST: usize = 100;

/// Blocks.
pub fn find(paths: &[PathBuf]) -> Vec<Result<RealPath, String>> {
    let mut left = MOST_ENTRIES;
    paths.iter().map(|path| find_one(path, &mut left)).collect()
}

fn find_one(path: &Path, left: &mut usize) -> Result<RealPath, String> {
    let real = path.canonicalize().map_err(|error| error.kind().to_string())?;
    let mut links_to = Vec::new();
    // A page that takes a directory gets everything below it, through links too.
    if real.is_dir() {
        look_below(&real, 0, left, &mut links_to)?;
    }
    Ok(RealPath { path: real, links_to })
}

fn look_below(dir: &Path, depth: usize, left: &mut usize, links_to: &mut Vec<PathBuf>) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("it is more than {DEEPEST} directories deep"));
    }
    let unreadable = |error: io::Error| format!("a directory in it cannot be read: {}", error.kind());
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        *left = left.checked_sub(1).ok_or_else(|| format!("there are more than {MOST_ENTRIES} files in it"))?;
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_symlink() {
            // One that leads nowhere leads nobody anywhere, until something is put there: then to that.
            links_to.push(entry.path().canonicalize().map_err(|_| "a link in it leads nowhere".to_owned())?);
        } else if kind.is_dir() {
            look_below(&entry.path(), depth + 1, left, links_to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_read_on_the_way_at_the_end_and_in_directories() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("granted/in/deep")).unwrap();
        fs::create_dir(base.join("other")).unwrap();
        fs::write(base.join("other/secret"), "x").unwrap();
        fs::write(base.join("granted/in/file"), "x").unwrap();
        symlink(base.join("other"), base.join("granted/dir")).unwrap();
        symlink("../other/secret", base.join("granted/file")).unwrap();
        let found = |path: &str| find(&[base.join(path)]).remove(0);
        let plain = |path: &str| Ok(RealPath { path: base.join(path), links_to: vec![] });
        assert_eq!(found("granted/in/file"), plain("granted/in/file"));
        assert_eq!(found("granted/file"), plain("other/secret"));
        assert_eq!(found("granted/dir/secret"), plain("other/secret"));
        assert_eq!(found("granted/in"), plain("granted/in"));
        symlink(base.join("other/secret"), base.join("granted/in/deep/link")).unwrap();
        let links_to = vec![base.join("other/secret")];
        assert_eq!(found("granted/in"), Ok(RealPath { path: base.join("granted/in"), links_to }));
        symlink(base.join("none"), base.join("granted/in/deep/nowhere")).unwrap();
        for bad in ["granted/none", "granted/in", "granted/in/file/x"] {
            assert!(found(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn looking_has_an_end() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("a"), "").unwrap();
        fs::write(temp.path().join("b"), "").unwrap();
        let mut links_to = Vec::new();
        assert!(look_below(temp.path(), 0, &mut 2, &mut links_to).is_ok());
        assert!(look_below(temp.path(), 0, &mut 1, &mut links_to).unwrap_err().contains("more than"));
        assert!(look_below(temp.path(), DEEPEST + 1, &mut 9, &mut links_to).unwrap_err().contains("deep"));
    }
}
