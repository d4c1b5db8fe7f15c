//! Reading policy files that only the right people can have written.
//!
//! What counts is where a file really is: links are followed first, and each directory on the way is looked at, since
//! whoever may write there may put another file in its place.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// Policies are written by hand.
const MAX_BYTES: u64 = 1 << 20;

/// More links than that lead in a circle.
const MAX_LINKS: usize = 32;

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
/// In such a directory, files can be replaced by their owners only.
const STICKY: u32 = 0o1000;

/// Whom a file speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// Of the system directory: over whoever runs the server.
    Admin,
    /// Of whoever runs the server.
    Operator,
}

/// `Err` is the sentence for whoever keeps the file.
pub fn read(path: &Path, authority: Authority) -> Result<String, String> {
    let shown = path.display();
    let (real, directories) = resolve(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("The policy file {shown} is not there; put it there, or name another."),
        _ => {
            format!("The policy file {shown} cannot be reached ({error}); make its directories readable for this user.")
        }
    })?;
    let unreadable = |error: io::Error| {
        format!("The policy file {shown} cannot be read ({error}); make it a file that this user may read.")
    };
    // Without blocking, since it may be a pipe; and it is no link, unless it has just become one.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&real).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(format!("The policy file {shown} is no regular file; put a file there, or name another."));
    }
    for directory in &directories {
        check_directory(directory, &about, authority)
            .map_err(|why| format!("The policy file {shown} is not used: {why}"))?;
    }
    check_writers(&real, &about, authority).map_err(|why| format!("The policy file {shown} is not used: {why}"))?;
    text(&mut file, &about).map_err(|why| format!("The policy file {shown} cannot be used ({why})."))
}

fn text(file: &mut File, about: &Metadata) -> Result<String, String> {
    if about.len() > MAX_BYTES {
        return Err(format!("it is larger than {} KiB: take out what is no policy", MAX_BYTES >> 10));
    }
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| format!("{error}: write it as UTF-8"))?;
    Ok(text)
}

/// The `*.toml` of the system directory, in order. Without the directory there are none; one that cannot be looked into
/// may hold some.
pub fn admin_files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = directory.display();
    let unreadable = |error: io::Error| {
        format!(
            "The administrator's policies in {shown} cannot be read ({error}); make the directory readable for this user."
        )
    };
    let real = match directory.canonicalize() {
        Ok(real) => real,
        // Nothing stands there: what else is "not found" is a link to policies that got lost.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_absent(directory) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let about = fs::metadata(&real).map_err(unreadable)?;
    check_directory(&real, &about, Authority::Admin)
        .map_err(|why| format!("The administrator's policies in {shown} are not used: {why}"))?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&real).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        match is_policy_file(&name) {
            Some(true) => files.push(real.join(&name)),
            Some(false) => {
                tracing::warn!("{} is no policy, as its name does not end in .toml.", real.join(&name).display());
            }
            None => {}
        }
    }
    files.sort();
    Ok(files)
}

/// Whether nothing at all stands there, not even a link that leads nowhere.
pub fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// `None`: hidden, as editors make them beside the file.
fn is_policy_file(name: &OsStr) -> Option<bool> {
    if name.as_encoded_bytes().starts_with(b".") {
        return None;
    }
    Some(Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("toml")))
}

/// The file itself, and the directories in which it and the links to it stand.
fn resolve(path: &Path) -> io::Result<(PathBuf, Vec<PathBuf>)> {
    let mut at = std::path::absolute(path)?;
    let mut directories = Vec::new();
    for _ in 0..MAX_LINKS {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            return Err(io::Error::other("its name is none of a file"));
        };
        let parent = parent.canonicalize()?;
        let here = parent.join(name);
        directories.push(parent.clone());
        match here.symlink_metadata()?.is_symlink() {
            true => at = parent.join(fs::read_link(&here)?),
            false => return Ok((here, directories)),
        }
    }
    Err(io::Error::other("its links lead in a circle"))
}

/// `file`: what stands in it.
fn check_directory(directory: &Path, file: &Metadata, authority: Authority) -> Result<(), String> {
    for (distance, above) in directory.ancestors().enumerate() {
        let about = fs::metadata(above).map_err(|error| {
            format!("the directory {} cannot be looked at ({error}); make it readable for this user", above.display())
        })?;
        if distance == 0 && authority == Authority::Admin {
            check_writers(above, &about, authority)?;
        }
        let replaceable = about.mode() & STICKY == 0 || !is_ours_or_roots(file);
        if about.mode() & OTHERS_WRITE != 0 && replaceable {
            return Err(format!(
                "every user may write to the directory {0}; `chmod o-w {0}`, or keep the file elsewhere",
                above.display()
            ));
        }
    }
    Ok(())
}

fn check_writers(path: &Path, about: &Metadata, authority: Authority) -> Result<(), String> {
    let shown = path.display();
    if authority == Authority::Admin && !is_ours_or_roots(about) {
        return Err(format!(
            "{shown} belongs to user {}, and an administrator's to root or the server's user; `chown root {shown}`",
            about.uid()
        ));
    }
    if about.mode() & OTHERS_WRITE != 0 {
        return Err(format!("every user may write to {shown}; `chmod o-w {shown}` after checking what it says"));
    }
    if about.mode() & GROUP_WRITES != 0 {
        match authority {
            Authority::Admin => {
                return Err(format!("its group may write to {shown}; `chmod g-w {shown}` after checking what it says"));
            }
            Authority::Operator => {
                tracing::warn!("The group of {shown} may write to it; `chmod g-w` it unless it should.")
            }
        }
    }
    Ok(())
}

fn is_ours_or_roots(about: &Metadata) -> bool {
    about.uid() == 0 || about.uid() == nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn file_in(dir: &Path, name: &str) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, "x").unwrap();
        chmod(&path, 0o644);
        path
    }

    /// Whoever reads it in each way: what is said, or nothing.
    fn said(path: &Path) -> [Option<String>; 2] {
        [Authority::Operator, Authority::Admin].map(|authority| read(path, authority).err())
    }

    fn refused(path: &Path) -> [bool; 2] {
        said(path).map(|said| said.is_some())
    }

    #[test]
    fn a_file_that_others_may_write_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = file_in(dir.path(), "a.toml");
        for (mode, expected) in
            [(0o600, [false, false]), (0o644, [false, false]), (0o664, [false, true]), (0o646, [true, true])]
        {
            chmod(&path, mode);
            assert_eq!(refused(&path), expected, "{mode:o}");
        }
        let [operator, _] = said(&path);
        assert!(operator.unwrap().contains("`chmod o-w "));
    }

    #[test]
    fn a_directory_that_others_may_write_is_as_bad() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let path = file_in(&inner, "a.toml");
        for (mode, expected) in
            [(0o755, [false, false]), (0o775, [false, true]), (0o757, [true, true]), (0o1757, [false, true])]
        {
            chmod(&inner, mode);
            assert_eq!(refused(&path), expected, "{mode:o}");
        }
        chmod(&inner, 0o755);
        chmod(dir.path(), 0o707);
        assert_eq!(refused(&path), [true, true], "a directory above it");
    }

    #[test]
    fn links_are_judged_where_they_lead_and_where_they_stand() {
        let dir = tempfile::tempdir().unwrap();
        let (open, closed) = (dir.path().join("open"), dir.path().join("closed"));
        for inner in [&open, &closed] {
            fs::create_dir(inner).unwrap();
        }
        let path = file_in(&open, "a.toml");
        let (link, link_to_link) = (closed.join("b.toml"), closed.join("c.toml"));
        symlink(&path, &link).unwrap();
        symlink("b.toml", &link_to_link).unwrap();
        assert_eq!(refused(&link_to_link), [false, false]);
        chmod(&open, 0o757);
        assert_eq!(refused(&link_to_link), [true, true], "where it leads");
        chmod(&open, 0o755);
        chmod(&path, 0o646);
        assert_eq!(refused(&link), [true, true]);
        let good = file_in(&closed, "good.toml");
        let through = open.join("through.toml");
        symlink(&good, &through).unwrap();
        chmod(&open, 0o757);
        assert_eq!(refused(&through), [true, true], "where a link stands");
        let circle = closed.join("circle.toml");
        symlink(&circle, &circle).unwrap();
        assert_eq!(refused(&circle), [true, true]);
    }

    #[test]
    fn what_is_missing_or_no_text_is_named_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.toml");
        assert!(read(&missing, Authority::Operator).unwrap_err().contains("missing.toml is not there; put it there"));
        let link = dir.path().join("link.toml");
        symlink(&missing, &link).unwrap();
        assert!(read(&link, Authority::Operator).unwrap_err().contains("link.toml is not there"));
        assert!(read(dir.path(), Authority::Operator).unwrap_err().contains("no regular file"));
        let pipe = dir.path().join("pipe.toml");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(read(&pipe, Authority::Operator).unwrap_err().contains("no regular file"));
        let path = file_in(dir.path(), "a.toml");
        fs::write(&path, b"\xff").unwrap();
        assert!(read(&path, Authority::Operator).unwrap_err().contains("UTF-8"));
        fs::write(&path, vec![b' '; (MAX_BYTES + 1) as usize]).unwrap();
        assert!(read(&path, Authority::Operator).unwrap_err().contains("larger than"));
    }

    #[test]
    fn the_system_directory_gives_every_toml_and_may_be_missing_but_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("policies");
        assert_eq!(admin_files(&system), Ok(vec![]));
        fs::create_dir(&system).unwrap();
        for name in ["b.toml", "a.TOML", ".a.toml.swp", ".hidden.toml", "note.txt"] {
            file_in(&system, name);
        }
        symlink("nowhere", system.join("lost.toml")).unwrap();
        let real = system.canonicalize().unwrap();
        assert_eq!(admin_files(&system), Ok(["a.TOML", "b.toml", "lost.toml"].map(|name| real.join(name)).to_vec()));
        for mode in [0o775, 0o757, 0o1777] {
            chmod(&system, mode);
            assert!(admin_files(&system).unwrap_err().contains("chmod"), "{mode:o}");
        }
        let link = dir.path().join("link");
        symlink(dir.path().join("gone"), &link).unwrap();
        assert!(admin_files(&link).is_err(), "a link to policies that got lost");
        assert!(admin_files(&file_in(dir.path(), "file")).is_err());
    }
}
