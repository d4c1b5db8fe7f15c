//! The file of the audit: whole lines only, for its owner only, and never more than so many bytes on the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg, OFlag};

/// So many bytes, and then a new file is begun.
pub const MAX_BYTES: u64 = 10 << 20;

/// The one that is written and the older ones, `.1` being the newest of these.
pub const MAX_FILES: usize = 5;

pub struct LogFile {
    path: PathBuf,
    max_bytes: u64,
    /// `None` after something went wrong: opened anew at the next line.
    open: Option<Open>,
    /// Two servers that rotate the same file would each throw away what the other wrote.
    _lock: Flock<File>,
}

struct Open {
    file: File,
    size: u64,
    /// The last line has no end, as the disk was full or the machine stopped: the next one must not continue it.
    torn: bool,
}

#[derive(Debug)]
pub enum OpenError {
    /// Another server writes to it.
    Taken,
    Io(io::Error),
}

impl LogFile {
    pub fn open(path: &Path, max_bytes: u64) -> Result<LogFile, OpenError> {
        let lock = with_ending(path, "lock");
        let lock = open_own(&lock).map_err(OpenError::Io)?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            nix::errno::Errno::EWOULDBLOCK => OpenError::Taken,
            other => OpenError::Io(other.into()),
        })?;
        let mut file = LogFile { path: path.to_owned(), max_bytes, open: None, _lock: lock };
        file.opened().map_err(OpenError::Io)?;
        Ok(file)
    }

    /// `lines`: whole ones. On an error none of them is there, and the next try begins from scratch.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let written = self.try_append(lines);
        if written.is_err() {
            self.open = None;
        }
        written
    }

    fn try_append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.was_moved() {
            self.open = None;
        }
        let max_bytes = self.max_bytes;
        let open = self.opened()?;
        if open.size > 0 && open.size + lines.len() as u64 > max_bytes {
            self.open = None;
            rotate(&self.path)?;
        }
        let open = self.opened()?;
        let torn_end: &[u8] = if open.torn { b"\n" } else { b"" };
        let whole = [torn_end, lines].concat();
        if let Err(error) = open.file.write_all(&whole) {
            // Half a line is worth nothing. Where it cannot be taken back either, the next line begins a new one.
            let _ = open.file.set_len(open.size);
            return Err(error);
        }
        open.torn = false;
        open.size += whole.len() as u64;
        Ok(())
    }

    /// Somebody may have moved or removed it; what is written then would be seen by nobody.
    fn was_moved(&self) -> bool {
        let Some(open) = &self.open else { return false };
        let (Ok(here), Ok(there)) = (open.file.metadata(), fs::symlink_metadata(&self.path)) else { return true };
        (here.dev(), here.ino()) != (there.dev(), there.ino())
    }

    fn opened(&mut self) -> io::Result<&mut Open> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let file = open_own(&self.path)?;
                let size = file.metadata()?.len();
                let mut last = [b'\n'];
                if size > 0 {
                    file.read_exact_at(&mut last, size - 1)?;
                }
                Open { file, size, torn: last != [b'\n'] }
            }
        };
        Ok(self.open.insert(open))
    }
}

/// A regular file of this user's, made if missing, closed to everybody else. A link is none: in a directory of others it
/// could lead anywhere.
fn open_own(path: &Path) -> io::Result<File> {
    // Without blocking: a pipe without a reader would hold up everything.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags.bits()).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if about.uid() != nix::unistd::geteuid().as_raw() {
        return Err(io::Error::other("it is another user's"));
    }
    if about.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// The file and its older ones, the newest first, whether they are there or not.
pub fn all(path: &Path) -> Vec<PathBuf> {
    let older = (1..MAX_FILES).map(|number| with_ending(path, &number.to_string()));
    std::iter::once(path.to_owned()).chain(older).collect()
}

fn rotate(path: &Path) -> io::Result<()> {
    let files = all(path);
    for (newer, older) in files.iter().zip(files.iter().skip(1)).rev() {
        match fs::rename(newer, older) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn old_files_move_up_and_the_oldest_goes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let mut file = LogFile::open(&path, 10).unwrap();
        for number in 0..14 {
            file.append(format!("{number:04}\n").as_bytes()).unwrap();
        }
        let texts: Vec<String> = all(&path).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(texts, ["0012\n0013\n", "0010\n0011\n", "0008\n0009\n", "0006\n0007\n", "0004\n0005\n"]);
        assert!(all(&path).iter().all(|path| mode(path) == 0o600));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), MAX_FILES + 1, "and the lock");
    }

    #[test]
    fn a_torn_line_is_ended_and_a_wide_mode_narrowed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        fs::write(&path, "{\"half").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        LogFile::open(&path, 100).unwrap().append(b"{}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"half\n{}\n");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn links_pipes_and_directories_are_no_audit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let refused = || matches!(LogFile::open(&path, 100), Err(OpenError::Io(_)));
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        assert!(refused());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refused());
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(refused());
    }

    #[test]
    fn one_server_writes_it_and_after_its_end_another_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let first = LogFile::open(&path, 100).unwrap();
        assert!(matches!(LogFile::open(&path, 100), Err(OpenError::Taken)));
        drop(first);
        assert!(LogFile::open(&path, 100).is_ok());
    }

    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let mut file = LogFile::open(&path, 100).unwrap();
        file.append(b"1\n").unwrap();
        fs::rename(&path, dir.path().join("kept")).unwrap();
        file.append(b"2\n").unwrap();
        fs::remove_file(&path).unwrap();
        file.append(b"3\n").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("kept")).unwrap(), "1\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "3\n");
    }

    #[test]
    fn what_cannot_be_written_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let mut file = LogFile::open(&path, 100).unwrap();
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(file.append(b"1\n").is_err());
        fs::remove_dir(&path).unwrap();
        file.append(b"2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2\n");
    }
}
