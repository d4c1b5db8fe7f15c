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
    if !fs::symlink_metadata(to)?.is_file() {
        fs::remove_file(to)?;
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no plain file"));
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
