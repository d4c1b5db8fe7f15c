//! Starting a browser of our own over `--remote-debugging-pipe`, so that no debugging port exists, and ending it.

mod explain;
mod leftover;
mod profile;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use router::server::upstream::PipeEnds;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tracing::{debug, warn};

use crate::browsers;
use crate::exit::Failure;
use profile::Profile;
pub use profile::ProfileChoice;

/// Lines of the browser's stderr that a failure message shows.
const REMEMBERED_LINES: usize = 12;

/// A browser that was not told to close ends soon after its pipe has closed.
const EXIT_PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub struct LaunchConfig {
    pub program: Option<PathBuf>,
    pub profile: ProfileChoice,
    pub headless: bool,
    pub no_sandbox: bool,
    pub flags: Vec<String>,
}

pub struct Browser {
    child: Child,
    pid: Option<u32>,
    /// Removed with it when it is for once only.
    profile: Profile,
    last_lines: Rc<RefCell<VecDeque<String>>>,
}

pub fn start(config: &LaunchConfig) -> Result<(Browser, PipeEnds), Failure> {
    let program = program(config)?;
    refuse_hopeless(config)?;
    let profile = Profile::prepare(&config.profile)?;
    let mut command = std::process::Command::new(&program);
    command.args(arguments(config, &profile)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ends = connect(&mut command).map_err(|error| {
        Failure::new(format!("The pipe to the browser could not be made ({error}); check the limit on open files."))
    })?;
    // A group of its own: Ctrl-C must reach the browser as an orderly close, and a kill must reach its helpers.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut command = Command::from(command);
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| {
        Failure::new(format!("The browser {} could not be started ({error}); check --browser-path.", program.display()))
    })?;
    let last_lines = Rc::new(RefCell::new(VecDeque::new()));
    if let Some(stderr) = child.stderr.take() {
        let lines = last_lines.clone();
        tokio::task::spawn_local(async move {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            // Read as bytes: a line that is not UTF-8 must not end the reading, or the browser would block at some
            // time.
            while matches!(reader.read_until(b'\n', &mut line).await, Ok(1..)) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                debug!(target: "browser", "{text}");
                let mut lines = lines.borrow_mut();
                lines.push_back(text);
                if lines.len() > REMEMBERED_LINES {
                    lines.pop_front();
                }
                drop(lines);
                line.clear();
            }
        });
    }
    let pid = child.id();
    Ok((Browser { child, pid, profile, last_lines }, ends))
}

fn program(config: &LaunchConfig) -> Result<PathBuf, Failure> {
    match &config.program {
        Some(path) if path.is_file() => Ok(path.clone()),
        Some(path) => Err(Failure::usage(format!(
            "There is no browser at {}; correct --browser-path or \
            TABWARDEN_BROWSER.",
            path.display()
        ))),
        None => browsers::find_program(&std::env::var_os("PATH").unwrap_or_default()).ok_or_else(|| {
            Failure::new(
                "No Chrome, Chromium, Edge or Brave was found; install one (Debian: `apt install chromium`) \
                or name it with --browser-path FILE.",
            )
        }),
    }
}

/// What the browser itself would only say after its start, in the middle of its log.
fn refuse_hopeless(config: &LaunchConfig) -> Result<(), Failure> {
    if nix::unistd::geteuid().is_root() && !config.no_sandbox {
        return Err(Failure::usage(
            "Chromium does not start as root with its sandbox; run Tabwarden as another user, or give --no-sandbox \
                where all pages are trusted.",
        ));
    }
    let has_display =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    if cfg!(target_os = "linux") && !config.headless && !has_display {
        return Err(Failure::usage(
            "There is no display for the browser's windows, as neither DISPLAY nor WAYLAND_DISPLAY is set; give \
                --headless, or run under a desktop or `xvfb-run`.",
        ));
    }
    Ok(())
}

fn arguments(config: &LaunchConfig, profile: &Profile) -> Vec<std::ffi::OsString> {
    let mut user_data = std::ffi::OsString::from("--user-data-dir=");
    user_data.push(profile.dir());
    let mut arguments: Vec<std::ffi::OsString> = vec![
        "--remote-debugging-pipe".into(),
        user_data,
        // Dialogs that nobody may be there to answer.
        "--no-first-run".into(),
        "--no-default-browser-check".into(),
        // A page restored from it commits without any pause in which it could be judged.
        "--disable-back-forward-cache".into(),
        // A task's window that the person's covers must go on drawing, or its screenshots never come.
        "--disable-backgrounding-occluded-windows".into(),
    ];
    if profile.is_ours() {
        // Else the desktop's keyring may ask for a password, and waits until it is answered.
        arguments.push("--password-store=basic".into());
        if cfg!(target_os = "macos") {
            arguments.push("--use-mock-keychain".into());
        }
    }
    if config.headless {
        arguments.push("--headless=new".into());
    }
    if config.no_sandbox {
        arguments.push("--no-sandbox".into());
    }
    arguments.extend(config.flags.iter().map(Into::into));
    arguments
}

/// The browser reads its descriptor 3 and writes its 4.
fn connect(command: &mut std::process::Command) -> io::Result<PipeEnds> {
    let (to_browser, reads) = StdUnixStream::pair()?;
    let (from_browser, writes) = StdUnixStream::pair()?;
    let mapping = |stream: StdUnixStream, child_fd| FdMapping { parent_fd: OwnedFd::from(stream), child_fd };
    command.fd_mappings(vec![mapping(reads, 3), mapping(writes, 4)]).map_err(io::Error::other)?;
    to_browser.set_nonblocking(true)?;
    from_browser.set_nonblocking(true)?;
    Ok(PipeEnds { to_browser: UnixStream::from_std(to_browser)?, from_browser: UnixStream::from_std(from_browser)? })
}

impl Browser {
    pub fn profile_note(&self) -> String {
        self.profile.note()
    }

    /// Its pipe closed before it could be used: waits for its end and says why.
    pub async fn explain_failure(mut self) -> Failure {
        let status = self.wait(Instant::now() + EXIT_PATIENCE).await;
        // What it wrote last may still be on its way here.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let lines: Vec<String> = self.last_lines.borrow().iter().cloned().collect();
        explain::failure(status, &lines)
    }

    /// Whatever of it is left at the deadline is killed. `None`: it was not told to close, or there is no more time.
    pub async fn end(mut self, deadline: Option<Instant>) {
        self.wait(deadline.unwrap_or_else(|| Instant::now() + EXIT_PATIENCE)).await;
    }

    async fn wait(&mut self, deadline: Instant) -> Option<ExitStatus> {
        if let Ok(status) = tokio::time::timeout_at(deadline.into(), self.child.wait()).await {
            return status.ok();
        }
        warn!("The browser did not end by itself, so it is killed; its profile may lack the last seconds.");
        if let Some(pid) = self.pid.and_then(|pid| i32::try_from(pid).ok()) {
            // Not reaped yet, so the number is still its own. The group holds its helpers.
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
        self.child.wait().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_browser_that_does_not_end_is_killed_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("browser");
        std::fs::write(&program, "#!/bin/sh\nsleep 60 &\nwait\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let config = LaunchConfig {
            program: Some(program),
            profile: ProfileChoice::Ephemeral,
            headless: true,
            no_sandbox: true,
            flags: Vec::new(),
        };
        let ending = async {
            let (browser, _ends) = start(&config).unwrap();
            let profile = browser.profile.dir().to_owned();
            let started = Instant::now();
            browser.end(Some(started + Duration::from_millis(300))).await;
            let took = started.elapsed();
            assert!((Duration::from_millis(300)..Duration::from_secs(2)).contains(&took), "{took:?}");
            assert!(!profile.exists());
        };
        tokio::task::LocalSet::new().run_until(ending).await;
    }
}
