//! What ends `serve` in order: SIGINT, SIGTERM, a terminal that is gone, and the end of stdin when asked for.

use std::cell::Cell;
use std::rc::Rc;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::Failure;

pub struct Stop {
    asked: Rc<Asked>,
    reloads: Reloads,
}

#[derive(Default)]
struct Asked {
    times: Cell<u32>,
    notify: Notify,
}

impl Asked {
    fn add(&self) {
        self.times.set(self.times.get() + 1);
        self.notify.notify_waiters();
    }

    async fn times(&self, wanted: u32) {
        loop {
            let notified = self.notify.notified();
            if self.times.get() >= wanted {
                return;
            }
            notified.await;
        }
    }
}

/// SIGHUP with a terminal still there, or without any from the start.
#[derive(Clone, Default)]
pub struct Reloads(Rc<Notify>);

impl Reloads {
    pub async fn wait(&self) {
        self.0.notified().await;
    }
}

impl Stop {
    pub fn new(with_stdin: bool) -> Result<Stop, Failure> {
        let (asked, reloads) = (Rc::<Asked>::default(), Reloads::default());
        for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
            tokio::task::spawn_local(count(receive(kind)?, asked.clone()));
        }
        tokio::task::spawn_local(hang_up(
            receive(SignalKind::hangup())?,
            has_terminal(),
            asked.clone(),
            reloads.clone(),
        ));
        if with_stdin {
            let asked = asked.clone();
            tokio::task::spawn_local(async move {
                let mut stdin = tokio::io::stdin();
                let mut scrap = [0; 1024];
                while matches!(stdin.read(&mut scrap).await, Ok(1..)) {}
                asked.add();
            });
        }
        Ok(Stop { asked, reloads })
    }

    pub fn reloads(&self) -> Reloads {
        self.reloads.clone()
    }

    pub async fn wait(&mut self) {
        self.asked.times(1).await;
    }

    pub async fn again(&mut self) {
        self.asked.times(2).await;
    }
}

fn receive(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind)
        .map_err(|error| Failure::new(format!("Signals cannot be received ({error}); check the limit on open files.")))
}

/// The signal has two meanings: somebody sent it for the policies to be read anew, as to any server, or the kernel did as
/// the terminal was closed, and then nobody could end us any more. A terminal that is gone cannot be opened.
async fn hang_up(mut signal: Signal, had_terminal: bool, asked: Rc<Asked>, reloads: Reloads) {
    while signal.recv().await.is_some() {
        if had_terminal && !has_terminal() {
            asked.add();
        } else {
            reloads.0.notify_one();
        }
    }
}

fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

async fn count(mut signal: Signal, asked: Rc<Asked>) {
    while signal.recv().await.is_some() {
        asked.add();
    }
}
