//! What has to hold when nothing is in flight any more, and what may be left at the very end.

use std::time::Duration;

use super::check::{Check, Rule, broken};
use super::client::Client;
use super::truth::Owner;
use super::world::{Phase, World};

/// More than the longest hold of a page (30 s), less than a task's idle time here.
const HUNG: Duration = Duration::from_secs(31);

/// What was held back may lead to more that is held.
const ROUNDS: usize = 3;

/// So many pieces of work come of nothing only when two sides answer each other for ever.
const ENDLESS: usize = 20_000;

impl World {
    /// Lets everything that is under way come to its end: the browser works, clients run what waits for them, and where the
    /// engine waits for a client that hangs, the time passes after which it does so no longer.
    pub fn settle(&mut self) -> Check {
        self.run_out()?;
        self.check_holds()?;
        for _ in 0..ROUNDS {
            let patient = self.subject.engine.poll_timeout().is_some_and(|due| due <= self.now + HUNG);
            if !patient || self.check_quiet().is_ok() {
                break;
            }
            self.pass(HUNG)?;
            self.run_out()?;
        }
        self.check_quiet()
    }

    /// What a guard still holds it holds for a client that hangs, and for no other reason.
    fn check_holds(&self) -> Check {
        for (id, target) in &self.browser.targets {
            let holder = target.held_by.as_ref().and_then(|session| self.browser.sessions.get(session));
            if holder.is_none_or(|session| session.made_for.is_some()) {
                continue;
            }
            let waits_for = |client: &&Client| Owner::Task(client.task) == self.browser.owner(id);
            let hangs = |client: &Client| client.connected && !client.cooperative;
            if !self.clients.iter().filter(waits_for).any(hangs) {
                let name = self.browser.truth.shorten(id);
                return broken(
                    Rule::HoldEnds,
                    format!("{name} is held, and all of its task's clients have asked or left"),
                );
            }
        }
        Ok(())
    }

    pub fn run_out(&mut self) -> Check {
        for _ in 0..ENDLESS {
            let waiting = self
                .clients
                .iter()
                .find(|client| client.connected && client.cooperative && client.next_to_run().is_some());
            if let Some(no) = waiting.map(|client| client.no) {
                self.client_runs(no)?;
            } else if !self.browser.outbox.is_empty() {
                let batch = 1 + self.rng.below(4);
                self.deliver(batch)?;
            } else if self.browser.is_busy() {
                self.browser.work();
            } else if self.is_moving_files() {
                self.files_are_moved()?;
            } else {
                return Ok(());
            }
        }
        broken(Rule::Livelock, "the engine and the browser do not come to rest")
    }

    fn check_quiet(&self) -> Check {
        for client in self.clients.iter().filter(|client| client.connected) {
            let waits = client.outstanding.iter().find(|sent| !self.browser.stuck.contains(&sent.nonce));
            if let Some(sent) = waits {
                return broken(Rule::OneResponse, format!("c{} waits for ever: {}", client.no, sent.text));
            }
            if client.idless > 0 {
                return broken(Rule::OneResponse, format!("c{} got no error for a malformed frame", client.no));
            }
        }
        if let Some((request, navigation)) = self.browser.paused.iter().next() {
            return broken(Rule::HoldEnds, format!("document {request} waits for ever: {navigation:?}"));
        }
        for (id, target) in &self.browser.targets {
            if self.browser.owner(id) == Owner::Person && !target.sessions.is_empty() {
                let name = self.browser.truth.shorten(id);
                return broken(Rule::ForeignUntouched, format!("{name} is the person's and we are attached to it"));
            }
            let holder = target.held_by.as_ref().and_then(|session| self.browser.sessions.get(session));
            let hung = holder
                .and_then(|session| session.made_for)
                .and_then(|client| self.clients.get(client))
                .is_none_or(|client| !client.connected || client.cooperative);
            if let (Some(session), true) = (&target.held_by, hung) {
                let (name, session) = (self.browser.truth.shorten(id), self.browser.truth.shorten(session));
                return broken(Rule::HoldEnds, format!("{name} is held by {session}, whose client has asked or left"));
            }
        }
        match self.unanswered_requests() {
            0 => Ok(()),
            some => broken(Rule::AdminAnswered, format!("{some} requests of the API wait for ever")),
        }
    }

    // --- the end ------------------------------------------------------------------------------------------------

    /// Everybody leaves and every task ends, in any order. Nothing of ours may stay.
    pub fn wind_down(&mut self) -> Check {
        let mut clients: Vec<usize> = (0..self.clients.len()).collect();
        let mut tasks: Vec<usize> = (0..self.tasks.len()).collect();
        while !clients.is_empty() || !tasks.is_empty() {
            if self.rng.chance(50) && !clients.is_empty() {
                let at = self.rng.below(clients.len());
                let no = clients.swap_remove(at);
                if self.clients[no].connected {
                    self.leave(no)?;
                }
            } else if !tasks.is_empty() {
                let at = self.rng.below(tasks.len());
                let no = tasks.swap_remove(at);
                if self.tasks[no].phase != Phase::Gone {
                    let keep = self.rng.chance(30);
                    self.end_task(no, keep)?;
                }
            }
            if self.rng.chance(40) {
                self.browser.work();
                self.deliver(1)?;
            }
        }
        self.settle()?;
        // Clicks that are waited for are forgotten in time.
        self.pass(Duration::from_secs(10))?;
        self.nothing_left()
    }

    fn nothing_left(&self) -> Check {
        let left = |what: String| broken(Rule::NothingLeft, what);
        let browser = &self.browser;
        if let Some((id, session)) = browser.sessions.iter().next() {
            let (session, target) = (browser.truth.shorten(id), browser.truth.shorten(&session.target));
            return left(format!("session {session} on {target} is still attached"));
        }
        if let Some((id, context)) = browser.contexts.iter().find(|(_, context)| context.owner != Owner::Person) {
            return left(format!("context {} of {:?} is still there", browser.truth.shorten(id), context.owner));
        }
        for (id, target) in &browser.targets {
            if let Owner::Task(task) = browser.owner(id)
                && !self.tasks[task].keep
            {
                let name = browser.truth.shorten(id);
                return left(format!("{name} ({}) of task {task} is still open", target.kind.name()));
            }
        }
        let living = browser.targets.len();
        for (what, count) in self.subject.engine.footprint() {
            let allowed = if what == "targets" { living } else { 0 };
            if count > allowed {
                return left(format!("the engine remembers {count} {what}, and there are {allowed}"));
            }
        }
        Ok(())
    }

    /// An orderly end. A launched browser goes as a whole; of an attached one, what tasks made is taken away.
    pub fn drained_down(&mut self) -> Check {
        self.shut_down()?;
        self.run_out()?;
        if self.drained != 1 {
            return broken(Rule::AdminAnswered, format!("drained {} times", self.drained));
        }
        match self.clients.iter().find(|client| client.connected) {
            Some(client) => broken(Rule::OneResponse, format!("c{} is still connected", client.no)),
            None => Ok(()),
        }
    }

    /// The browser is gone: everybody is told, and whoever asks gets an answer.
    pub fn after_loss(&mut self) -> Check {
        if let Some(client) = self.clients.iter().find(|client| client.connected) {
            return broken(Rule::OneResponse, format!("c{} is still connected to a browser that is gone", client.no));
        }
        for no in 0..self.tasks.len() {
            if self.tasks[no].phase == Phase::Active {
                self.join(no, true)?;
                self.end_task(no, false)?;
            }
        }
        self.look()?;
        self.shut_down()?;
        if let Some(client) = self.clients.iter().find(|client| client.connected) {
            return broken(Rule::OneResponse, format!("c{} was let in to a browser that is gone", client.no));
        }
        match (self.unanswered_requests(), self.drained) {
            (0, 1) => Ok(()),
            (0, drained) => broken(Rule::AdminAnswered, format!("drained {drained} times")),
            (some, _) => broken(Rule::AdminAnswered, format!("{some} requests wait for a browser that is gone")),
        }
    }
}
