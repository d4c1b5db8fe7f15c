//! The directories of tasks: `<tasks dir>/NAME/downloads`, into which Chromium writes, and `…/NAME/files`, which holds what
//! is complete and allowed. From there a file is placed where a client asked for it, if that is granted, and served over
//! HTTP to clients that are elsewhere.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

use crate::engine::io::{Keep, Kept, Naming, Place};

/// Names tried for a file before it stays where it is: `a.txt`, `a (1).txt`, …
const MOST_NAMES: usize = 100;

/// What a suggested name may have; file systems take 255.
const LONGEST_NAME: usize = 200;

/// A complete download, as it is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub path: PathBuf,
    /// As its server or page called it.
    pub suggested: String,
}

pub struct TaskFiles {
    root: PathBuf,
    /// By name of task and guid.
    finished: DashMap<(String, String), Finished>,
    removals: AtomicU64,
}

impl TaskFiles {
    /// `root` is this server's alone. Names of tasks were checked by the engine, and none leads out of it.
    pub fn new(root: PathBuf) -> TaskFiles {
        TaskFiles { root, finished: DashMap::new(), removals: AtomicU64::new(0) }
    }

    /// Fails where something of that name is there already: it would be somebody else's.
    pub fn make(&self, task: &str) -> io::Result<()> {
        let dir = self.root.join(task);
        for dir in [dir.clone(), dir.join("downloads"), dir.join("files")] {
            DirBuilder::new().mode(0o700).create(dir)?;
        }
        Ok(())
    }

    /// Out of the way at once, for a new task of the same name; what has to be deleted, which may take its time.
    pub fn forget(&self, task: &str) -> Option<PathBuf> {
        self.finished.retain(|(name, _), _| name != task);
        let number = self.removals.fetch_add(1, Ordering::Relaxed);
        // No task is called so.
        let aside = self.root.join(format!("~ended-{number}"));
        match fs::rename(self.root.join(task), &aside) {
            Ok(()) => Some(aside),
            // A task that ended before it was there has none.
            Err(_) => None,
        }
    }

    pub fn finish(&self, task: &str, guid: &str, finished: Finished) {
        self.finished.insert((task.to_owned(), guid.to_owned()), finished);
    }

    pub fn find(&self, task: &str, guid: &str) -> Option<Finished> {
        self.finished.get(&(task.to_owned(), guid.to_owned())).map(|found| found.clone())
    }

    /// Takes a complete download into the task's directory and places it where clients want it. Blocks.
    pub fn keep(root: &Path, work: &Keep) -> Result<Kept, String> {
        let guid = work.download.as_str();
        if !guid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err("its guid cannot be a file's name".to_owned());
        }
        let path = root.join(&work.task_name).join("files").join(guid);
        take(&work.written, &path)
            .map_err(|error| format!("{} cannot be moved to {} ({error})", work.written.display(), path.display()))?;
        let placed = work.places.iter().map(|to| (to.client, place(&path, to, work))).collect();
        Ok(Kept { path, placed })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Moves a file, to another file system too. What is no plain file is not taken: in the person's download folder another
/// program could have put a link in its place.
fn take(from: &Path, to: &Path) -> io::Result<()> {
    let not_plain = || io::Error::new(ErrorKind::InvalidInput, "it is no plain file");
    if !fs::symlink_metadata(from)?.is_file() {
        return Err(not_plain());
    }
    match fs::rename(from, to) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let mut source = open_plain(from)?;
            let part = to.with_extension("part");
            let copied = new_private(&part).and_then(|mut target| io::copy(&mut source, &mut target));
            copied.and_then(|_| fs::rename(&part, to)).inspect_err(|_| drop(fs::remove_file(&part)))?;
            fs::remove_file(from)?;
        }
        Err(error) => return Err(error),
    }
    // It may have become another thing between the two.
    if !fs::symlink_metadata(to)?.is_file() {
        fs::remove_file(to)?;
        return Err(not_plain());
    }
    Ok(())
}

/// For reading, without following a link at its end and without waiting at a pipe.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file")),
    }
}

fn new_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Puts the file into the client's directory, if that is there, ours and granted. `Err` says why it is not.
fn place(file: &Path, to: &Place, work: &Keep) -> Result<PathBuf, String> {
    let dir = to.dir.display();
    let real = to.dir.canonicalize().map_err(|error| format!("{dir} cannot be used on this machine ({error})"))?;
    if !real.to_str().is_some_and(|real| work.grants.may_write(real)) {
        return Err(format!("{dir} lies below no directory that was granted with --grant-write"));
    }
    let failed = |error: Errno| format!("{dir} cannot be written to ({})", error.desc());
    // Opened one by one without following links: what was judged is what is written to.
    let opened = open_dir(&real).map_err(failed)?;
    if fstat(&opened).map_err(failed)?.st_uid != geteuid().as_raw() {
        return Err(format!("{dir} is not a directory of the user who runs this server"));
    }
    let guid = work.download.as_str();
    let names: Box<dyn Iterator<Item = String>> = match plain_name(&work.suggested) {
        Some(name) if to.naming == Naming::Suggested => Box::new((0..MOST_NAMES).map(|n| numbered(name, n))),
        _ => Box::new(std::iter::once(guid.to_owned())),
    };
    for name in names {
        match put(file, &opened, &name) {
            Ok(()) => return Ok(to.dir.join(name)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{dir} cannot be written to ({error})")),
        }
    }
    Err(format!("a file of its name is in {dir} already"))
}

fn open_dir(real: &Path) -> nix::Result<OwnedFd> {
    // A directory above may be one that can be passed through and not be listed.
    #[cfg(target_os = "linux")]
    let reading = OFlag::O_PATH;
    #[cfg(not(target_os = "linux"))]
    let reading = OFlag::O_RDONLY;
    let flags = reading | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut dir = nix::fcntl::open("/", flags, Mode::empty())?;
    for part in real.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => dir = openat(&dir, name, flags, Mode::empty())?,
            // A real path has no other parts on this system.
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(dir)
}

/// Never over what is there. A second name for the same file where that can be, else a copy.
fn put(file: &Path, dir: &OwnedFd, name: &str) -> io::Result<()> {
    match linkat(nix::fcntl::AT_FDCWD, file, dir, name, AtFlags::empty()) {
        Ok(()) => return Ok(()),
        Err(Errno::EEXIST) => return Err(ErrorKind::AlreadyExists.into()),
        Err(_) => {}
    }
    let mut source = open_plain(file)?;
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut target = File::from(openat(dir, name, flags, Mode::from_bits_truncate(0o600))?);
    io::copy(&mut source, &mut target).map(drop).inspect_err(|_| {
        // Half a file would be taken for a whole one.
        let _ = unlinkat(dir, name, UnlinkatFlags::NoRemoveDir);
    })
}

/// A name that is one, in the directory that it is put into, and hides nothing.
fn plain_name(suggested: &str) -> Option<&str> {
    let plain = !suggested.is_empty()
        && suggested.len() <= LONGEST_NAME
        && !suggested.starts_with('.')
        && !suggested.chars().any(|c| c.is_control() || matches!(c, '/' | '\\'));
    plain.then_some(suggested)
}

/// As Chromium does it: `a.txt`, `a (1).txt`, `a (2).txt`.
fn numbered(name: &str, n: usize) -> String {
    match (n, name.rsplit_once('.')) {
        (0, _) => name.to_owned(),
        (n, Some((stem, extension))) if !stem.is_empty() => format!("{stem} ({n}).{extension}"),
        (n, _) => format!("{name} ({n})"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::sync::Arc;

    use ownership::id::{ClientId, DownloadId, TaskId};
    use policy::Grants;

    use super::*;

    const GUID: &str = "0a8a6a1c-0000-4000-8000-000000000001";

    struct World {
        _temp: tempfile::TempDir,
        files: TaskFiles,
        base: PathBuf,
    }

    fn world() -> World {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        fs::create_dir(base.join("root")).unwrap();
        fs::create_dir(base.join("granted")).unwrap();
        fs::create_dir(base.join("other")).unwrap();
        let files = TaskFiles::new(base.join("root"));
        files.make("one").unwrap();
        World { _temp: temp, files, base }
    }

    impl World {
        fn keep(&self, written: &Path, naming: Naming, dirs: &[&str]) -> Result<Kept, String> {
            let places =
                dirs.iter().map(|dir| Place { client: ClientId(1), dir: self.base.join(dir), naming }).collect();
            let grants =
                Grants { read_dirs: vec![], write_dirs: vec![self.base.join("granted")], temp_dir: self.base.clone() };
            let work = Keep {
                download: DownloadId::new(GUID).unwrap(),
                task: TaskId(1),
                task_name: "one".into(),
                written: written.to_owned(),
                suggested: "a.txt".into(),
                places,
                grants: Arc::new(grants),
            };
            TaskFiles::keep(self.files.root(), &work)
        }

        /// As Chromium writes it.
        fn written(&self, text: &str) -> PathBuf {
            let path = self.base.join("root/one/downloads").join(GUID);
            fs::write(&path, text).unwrap();
            path
        }

        fn placed(&self, naming: Naming, dir: &str) -> Result<PathBuf, String> {
            let kept = self.keep(&self.written("x"), naming, &[dir]).unwrap();
            kept.placed.into_iter().next().unwrap().1
        }
    }

    #[test]
    fn a_download_is_kept_and_placed() {
        let world = world();
        let written = world.written("hello");
        let kept = world.keep(&written, Naming::Guid, &["granted"]).unwrap();
        assert_eq!(kept.path, world.base.join("root/one/files").join(GUID));
        assert_eq!(kept.placed, [(ClientId(1), Ok(world.base.join("granted").join(GUID)))]);
        assert!(!written.exists());
        for path in [&kept.path, kept.placed[0].1.as_ref().unwrap()] {
            assert_eq!(fs::read_to_string(path).unwrap(), "hello");
        }
        assert_eq!(fs::metadata(world.base.join("root/one")).unwrap().mode() & 0o777, 0o700);
        assert!(world.files.make("one").is_err(), "what is there may be somebody else's");
    }

    #[test]
    fn a_suggested_name_is_numbered_and_never_written_over() {
        let world = world();
        for expected in ["a.txt", "a (1).txt", "a (2).txt"] {
            assert_eq!(world.placed(Naming::Suggested, "granted"), Ok(world.base.join("granted").join(expected)));
        }
        // A link that dangles is there too.
        symlink(world.base.join("other/new"), world.base.join("granted/a (3).txt")).unwrap();
        assert_eq!(world.placed(Naming::Suggested, "granted"), Ok(world.base.join("granted/a (4).txt")));
        fs::write(world.base.join("granted").join(GUID), "mine").unwrap();
        assert!(world.placed(Naming::Guid, "granted").unwrap_err().contains("is in"));
        assert_eq!(fs::read_to_string(world.base.join("granted").join(GUID)).unwrap(), "mine");
        assert!(fs::read_dir(world.base.join("other")).unwrap().next().is_none());
    }

    #[test]
    fn nothing_is_placed_where_it_was_not_granted_or_by_a_link() {
        let world = world();
        symlink(world.base.join("other"), world.base.join("granted/link")).unwrap();
        symlink(world.base.join("other"), world.base.join("playwright-artifacts-link")).unwrap();
        fs::create_dir(world.base.join("playwright-artifacts-1")).unwrap();
        for dir in ["other", "granted/link", "granted/none", "playwright-artifacts-link", "granted/../other", ""] {
            assert!(world.placed(Naming::Guid, dir).is_err(), "{dir}");
        }
        assert!(fs::read_dir(world.base.join("other")).unwrap().next().is_none());
        assert!(world.placed(Naming::Guid, "playwright-artifacts-1").is_ok());
        // A link to what is granted leads there, whatever it is called.
        symlink(world.base.join("granted"), world.base.join("other/in")).unwrap();
        assert!(world.placed(Naming::Guid, "other/in").is_ok());
    }

    #[test]
    fn a_directory_is_opened_without_following_links() {
        let world = world();
        fs::create_dir(world.base.join("granted/in")).unwrap();
        symlink(world.base.join("other"), world.base.join("granted/link")).unwrap();
        assert!(open_dir(&world.base.join("granted/in")).is_ok());
        for bad in ["granted/link", "granted/none", "granted/in/../link"] {
            assert!(open_dir(&world.base.join(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_a_plain_file_is_taken() {
        let world = world();
        let secret = world.base.join("other/secret");
        fs::write(&secret, "secret").unwrap();
        let link = world.base.join("link");
        symlink(&secret, &link).unwrap();
        assert!(world.keep(&link, Naming::Guid, &[]).unwrap_err().contains("no plain file"));
        assert!(world.base.join("root/one/files").join(GUID).symlink_metadata().is_err());
        assert!(secret.exists());
        assert!(world.keep(&world.base.join("none"), Naming::Guid, &[]).is_err());
        assert!(world.keep(&world.base.join("other"), Naming::Guid, &[]).is_err());
        assert!(secret.exists());
    }

    #[test]
    fn names_that_lead_elsewhere_or_hide_are_none() {
        for bad in ["", ".", "..", ".bashrc", "a/b", "a\\b", "/etc/passwd", "a\0", "a\nb", &"x".repeat(201)] {
            assert_eq!(plain_name(bad), None, "{bad:?}");
        }
        assert_eq!(plain_name("ü (1).tar.gz"), Some("ü (1).tar.gz"));
        assert_eq!(numbered("a.tar.gz", 2), "a.tar (2).gz");
        assert_eq!(numbered("a", 1), "a (1)");
    }

    #[test]
    fn a_task_that_ends_takes_its_directory_with_it_and_not_what_was_placed() {
        let world = world();
        let placed = world.placed(Naming::Guid, "granted").unwrap();
        world.files.finish("one", GUID, Finished { path: placed.clone(), suggested: String::new() });
        let aside = world.files.forget("one").unwrap();
        assert!(aside.starts_with(world.files.root()) && !world.base.join("root/one").exists());
        assert_eq!(world.files.find("one", GUID), None);
        world.files.make("one").unwrap();
        fs::remove_dir_all(aside).unwrap();
        assert!(placed.exists() && world.base.join("root/one").exists());
        assert_eq!(world.files.forget("none"), None);
    }
}
