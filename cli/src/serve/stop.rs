//! What ends `serve` in order: SIGINT, SIGTERM, SIGHUP, and the end of stdin when asked for.

use std::cell::Cell;
use std::rc::Rc;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::Failure;

pub struct Stop {
    asked: Rc<Asked>,
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

impl Stop {
    pub fn new(with_stdin: bool) -> Result<Stop, Failure> {
        let asked = Rc::<Asked>::default();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let signal = signal(kind).map_err(|error| {
                Failure::new(format!("Signals cannot be received ({error}); check the limit on open files."))
            })?;
            tokio::task::spawn_local(count(signal, asked.clone()));
        }
        if with_stdin {
            let asked = asked.clone();
            tokio::task::spawn_local(async move {
                let mut stdin = tokio::io::stdin();
                let mut scrap = [0; 1024];
                while matches!(stdin.read(&mut scrap).await, Ok(1..)) {}
                asked.add();
            });
        }
        Ok(Stop { asked })
    }

    pub async fn wait(&mut self) {
        self.asked.times(1).await;
    }

    pub async fn again(&mut self) {
        self.asked.times(2).await;
    }
}

async fn count(mut signal: Signal, asked: Rc<Asked>) {
    while signal.recv().await.is_some() {
        asked.add();
    }
}
