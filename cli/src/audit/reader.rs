//! The lines of an audit, oldest file first, also while the server goes on writing and begins new files.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use router::server::audit;

/// What is longer is no record, and is not kept in memory to find out.
const MAX_LINE: usize = 1 << 20;

pub struct Reader {
    path: PathBuf,
    /// The newest last.
    files: Vec<Source>,
}

struct Source {
    path: PathBuf,
    file: File,
    id: (u64, u64),
    line: u64,
    /// The beginning of a line whose end is not there yet.
    partial: Vec<u8>,
    /// Within a line that is too long.
    skipping: bool,
}

#[derive(Debug, PartialEq)]
pub struct Line {
    pub place: String,
    /// Empty where it was too long or no UTF-8.
    pub text: String,
}

impl Reader {
    pub fn open(path: &Path) -> io::Result<Reader> {
        let mut reader = Reader { path: path.to_owned(), files: Vec::new() };
        reader.files = reader.newer_than(None)?;
        if reader.files.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(reader)
    }

    /// Opened from the newest to the oldest: one that is renamed meanwhile is found twice then, and not missed.
    fn newer_than(&self, known: Option<(u64, u64)>) -> io::Result<Vec<Source>> {
        let mut found: Vec<Source> = Vec::new();
        for path in audit::files(&self.path) {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let about = file.metadata()?;
            if !about.is_file() {
                return Err(io::Error::other("it is no regular file"));
            }
            let id = (about.dev(), about.ino());
            if Some(id) == known {
                break;
            }
            if found.iter().all(|source| source.id != id) {
                found.push(Source { path, file, id, line: 0, partial: Vec::new(), skipping: false });
            }
        }
        found.reverse();
        Ok(found)
    }

    /// What was written since the last call. `last`: nothing more is waited for, so a line without its end is one.
    pub fn read(&mut self, last: bool, mut each: impl FnMut(Line) -> bool) -> io::Result<()> {
        let newest = self.files.last().map(|source| source.id);
        // Before the newest is read to its end: what is written there after this comes into a newer one only when it was
        // there by now.
        let newer = self.newer_than(newest)?;
        self.files.extend(newer);
        let count = self.files.len();
        for (at, source) in self.files.iter_mut().enumerate() {
            if !source.read(last || at + 1 < count, &mut each)? {
                return Ok(());
            }
        }
        self.files.drain(..count.saturating_sub(1));
        Ok(())
    }
}

impl Source {
    /// `false`: `each` wants no more.
    fn read(&mut self, whole: bool, each: &mut impl FnMut(Line) -> bool) -> io::Result<bool> {
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = self.file.read(&mut chunk)?;
            let mut rest = chunk.get(..read).unwrap_or_default();
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let (piece, after) = rest.split_at(end);
                self.add(piece);
                rest = after.get(1..).unwrap_or_default();
                if !self.finish(each) {
                    return Ok(false);
                }
            }
            self.add(rest);
            if read == 0 {
                let open = !self.partial.is_empty() || self.skipping;
                return Ok(!(whole && open) || self.finish(each));
            }
        }
    }

    fn add(&mut self, piece: &[u8]) {
        if self.partial.len() + piece.len() > MAX_LINE {
            self.skipping = true;
            self.partial.clear();
        } else if !self.skipping {
            self.partial.extend_from_slice(piece);
        }
    }

    fn finish(&mut self, each: &mut impl FnMut(Line) -> bool) -> bool {
        self.line += 1;
        let text = String::from_utf8(std::mem::take(&mut self.partial)).unwrap_or_default();
        self.skipping = false;
        each(Line { place: format!("{}:{}", self.path.display(), self.line), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn read(reader: &mut Reader, last: bool) -> Vec<String> {
        let mut texts = Vec::new();
        let each = |line: Line| {
            texts.push(line.text);
            true
        };
        reader.read(last, each).unwrap();
        texts
    }

    #[test]
    fn older_files_come_first_and_lines_are_counted_in_each() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(dir.path().join("a.2"), "1\n").unwrap();
        fs::write(dir.path().join("a.1"), "2\n3\n").unwrap();
        fs::write(&path, "4\n5").unwrap();
        let mut places = Vec::new();
        Reader::open(&path)
            .unwrap()
            .read(true, |line| {
                places.push(line);
                true
            })
            .unwrap();
        let expected = [("a.2:1", "1"), ("a.1:1", "2"), ("a.1:2", "3"), ("a:1", "4"), ("a:2", "5")];
        let expected = expected
            .map(|(place, text)| Line { place: format!("{}/{place}", dir.path().display()), text: text.into() });
        assert_eq!(places, expected);
    }

    #[test]
    fn following_goes_on_behind_new_lines_and_new_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let old = |number: u32| dir.path().join(format!("a.{number}"));
        let mut file = File::create(&path).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        file.write_all(b"1\n2").unwrap();
        assert_eq!(read(&mut reader, false), ["1"]);
        file.write_all(b"2\n3\n").unwrap();
        fs::rename(&path, old(1)).unwrap();
        assert_eq!(read(&mut reader, false), ["22", "3"], "while there is no new one yet");
        fs::rename(old(1), old(2)).unwrap();
        fs::write(old(1), "4\n").unwrap();
        fs::write(&path, "5\n").unwrap();
        assert_eq!(read(&mut reader, false), ["4", "5"]);
        assert_eq!(read(&mut reader, true), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_text_or_too_long_is_an_empty_line_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let long = "x".repeat(MAX_LINE + 1);
        fs::write(&path, [b"\xff\n".as_slice(), long.as_bytes(), b"\nok\n"].concat()).unwrap();
        assert_eq!(read(&mut Reader::open(&path).unwrap(), true), ["", "", "ok"]);
        assert_eq!(Reader::open(&dir.path().join("b")).err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    }
}
