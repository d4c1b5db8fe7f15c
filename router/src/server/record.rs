//! `--record-upstream FILE`: every frame to and from the browser, one JSON object a line, for tests and bug reports.
//! It holds page data, so the file is for its owner only.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ownership::id::ClientId;
use serde::Serialize;

#[derive(Serialize)]
struct Line<'a> {
    dir: &'static str,
    client: Option<u64>,
    task: Option<&'a str>,
    frame: &'a str,
}

/// Writes nothing without a file.
#[derive(Default)]
pub struct Recorder(Option<BufWriter<File>>);

impl Recorder {
    pub fn create(path: &Path) -> Result<Recorder, String> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).and_then(|file| {
            // The mode above counts for a new file only.
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
            Ok(file)
        });
        match file {
            Ok(file) => Ok(Recorder(Some(BufWriter::new(file)))),
            Err(error) => Err(format!(
                "The recording {} cannot be written ({error}); name a file in a directory of yours.",
                path.display()
            )),
        }
    }

    pub fn received(&mut self, frame: &str) {
        self.line(Line { dir: "from", client: None, task: None, frame });
    }

    pub fn sent(&mut self, client: Option<ClientId>, task: Option<&str>, frame: &str) {
        self.line(Line { dir: "to", client: client.map(|client| client.0), task, frame });
    }

    fn line(&mut self, line: Line<'_>) {
        let Some(file) = &mut self.0 else { return };
        let written =
            serde_json::to_writer(&mut *file, &line).map_err(std::io::Error::from).and_then(|()| file.write_all(b"\n"));
        self.keep(written);
    }

    /// At the end of each batch, so that a crash loses nothing that came before it.
    pub fn flush(&mut self) {
        let Some(file) = &mut self.0 else { return };
        let written = file.flush();
        self.keep(written);
    }

    /// A recording that cannot go on must not stop the tasks.
    fn keep(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written {
            tracing::error!("The recording of the browser's connection ends here, as it cannot be written ({error}).");
            self.0 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_json_and_the_file_is_its_owners_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("up.jsonl");
        std::fs::write(&path, "older").unwrap();
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.sent(Some(ClientId(3)), Some("one"), "{\"id\":1}");
        recorder.received("{}");
        recorder.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "{\"dir\":\"to\",\"client\":3,\"task\":\"one\",\"frame\":\"{\\\"id\\\":1}\"}\n{\"dir\":\"from\",\"client\":null,\"task\":null,\"frame\":\"{}\"}\n"
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}
