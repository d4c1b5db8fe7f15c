//! `<runtime dir>/<port>.json`: how the other commands find a running `serve`. It holds the admin token, so it is for
//! its
//! owner only; files of processes that are gone are passed over.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub pid: u32,
    pub url: String,
    pub admin_token: String,
}

/// Removes the file when dropped.
pub struct RuntimeFile(PathBuf);

impl RuntimeFile {
    pub fn write(port: u16, running: &Running) -> Result<RuntimeFile, String> {
        let dir = files::runtime_dir();
        files::private_dir(&dir)?;
        let path = dir.join(format!("{port}.json"));
        let text = serde_json::to_string(running).map_err(|error| error.to_string())?;
        files::write_private(&path, &text).map_err(|error| {
            format!(
                "The runtime file {} cannot be written ({error}); free the space or set XDG_RUNTIME_DIR.",
                path.display()
            )
        })?;
        Ok(RuntimeFile(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RuntimeFile {
    fn drop(&mut self) {
        // A later `serve` on the same port may have written its own.
        if read(&self.0).is_some_and(|running| running.pid == std::process::id()) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// All servers of this user that still run, by port.
pub fn running() -> Vec<Running> {
    running_in(&files::runtime_dir())
}

fn running_in(dir: &Path) -> Vec<Running> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| read(path)).filter(|running| is_alive(running.pid)).collect()
}

fn read(path: &Path) -> Option<Running> {
    serde_json::from_str(&files::read_secret(path).ok()?).ok()
}

/// Whether a process has this id and is ours.
pub fn is_alive(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| pid > 0 && nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_processes_and_open_ones_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, pid: u32| {
            let running = Running { pid, url: format!("http://{name}"), admin_token: "x".into() };
            files::write_private(&dir.path().join(name), &serde_json::to_string(&running).unwrap()).unwrap();
        };
        write("1.json", std::process::id());
        // Above the largest id that Linux gives.
        write("2.json", 0x7fff_fff0);
        write("3.txt", std::process::id());
        fs::write(dir.path().join("4.json"), "{}").unwrap();
        let urls: Vec<String> = running_in(dir.path()).into_iter().map(|running| running.url).collect();
        assert_eq!(urls, ["http://1.json"]);
    }
}
