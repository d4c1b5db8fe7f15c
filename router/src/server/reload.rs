//! Reading the policy files anew while tasks run: all of them or none, away from the loop, and in force at once.

use std::time::Duration;

use ownership::id::TaskId;
use tracing::{error, info};

use super::handle::Handle;
use super::policies::{Applied, Due, LastReload, TaskPolicy, Trigger};
use super::time;
use crate::engine::io::{AdminCommand, AdminError, AdminErrorKind, AdminReply, TaskContext};

/// As often are the files looked at, and a change counts once it was seen twice.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloaded {
    pub tasks: usize,
    /// Pages that their tasks may no longer hold.
    pub released: usize,
}

impl Handle {
    /// `Err` is the sentence that says why everything is as before.
    pub async fn reload(&self, by: Trigger) -> Result<Reloaded, String> {
        let _one = self.shared.policies.reloading.lock().await;
        let outcome = self.reload_all().await;
        let error = outcome.as_ref().err().cloned();
        match &outcome {
            Ok(Reloaded { tasks, released }) => {
                info!("Policies were read anew ({}): {tasks} tasks, {released} pages released.", by.as_str());
            }
            Err(error) => error!("Policies stay as they were ({}): {error}", by.as_str()),
        }
        self.shared.policies.set_last(LastReload { at: time::now_ms(), by, error });
        outcome
    }

    async fn reload_all(&self) -> Result<Reloaded, String> {
        let tasks = self.shared.registry.each(|id, entry| (id, entry.name.clone(), entry.policy.clone()));
        let store = self.shared.policies.clone();
        let (base, applied) = blocking(move || store.read(tasks)).await?;
        let tasks = applied.len();
        // From here on new tasks have them; those that were made meanwhile catch up.
        self.shared.policies.install(base);
        let released = self.put_in_force(applied).await? + self.renew_stale().await?;
        Ok(Reloaded { tasks, released })
    }

    /// A task that was being made while the files were read has what held before.
    pub(super) async fn catch_up(&self) -> Result<(), String> {
        if self.stale().is_empty() {
            return Ok(());
        }
        let _one = self.shared.policies.reloading.lock().await;
        self.renew_stale().await.map(drop)
    }

    /// Another day: what has expired lapses, without a look at the files.
    async fn turn_day(&self) {
        let _one = self.shared.policies.reloading.lock().await;
        let tasks = self.shared.registry.each(|id, entry| (id, entry.policy.clone()));
        let turned = self.shared.policies.turn_day(tasks);
        match self.put_in_force(turned).await {
            Ok(released) => info!("Another day has begun; {released} pages were released, as rules have expired."),
            Err(error) => error!("Rules that have expired may still hold: {error}"),
        }
    }

    fn stale(&self) -> Vec<(TaskId, Applied)> {
        let generation = self.shared.policies.generation();
        let all = self.shared.registry.each(|id, entry| (id, entry.policy.clone()));
        all.into_iter().filter(|(_, applied)| applied.generation != generation).collect()
    }

    async fn renew_stale(&self) -> Result<usize, String> {
        let mut released = 0;
        loop {
            let stale = self.stale();
            if stale.is_empty() {
                return Ok(released);
            }
            let renewed = stale.into_iter().map(|(id, applied)| Ok((id, self.shared.policies.renew(&applied)?)));
            released += self.put_in_force(renewed.collect::<Result<_, String>>()?).await?;
        }
    }

    async fn put_in_force(&self, applied: Vec<(TaskId, Applied)>) -> Result<usize, String> {
        if applied.is_empty() {
            return Ok(0);
        }
        let policies = applied.iter().map(|(id, applied)| (*id, applied.policies.clone())).collect();
        let reply = self.ask(AdminCommand::SetPolicies(policies)).await.map_err(|error| error.message)?;
        for (id, applied) in applied {
            self.shared.registry.set_policy(id, applied);
        }
        match reply {
            AdminReply::PoliciesSet { released } => Ok(released),
            other => {
                Err(format!("The engine answered new policies with {other:?}; report this as a bug of Tabwarden."))
            }
        }
    }

    pub(super) async fn read_policy(&self, from: TaskPolicy, context: TaskContext) -> Result<Applied, AdminError> {
        let store = self.shared.policies.clone();
        let isolated = context == TaskContext::Isolated;
        // That its policy is missing or wrong is a mistake in what was asked for.
        blocking(move || store.apply(&from, isolated))
            .await
            .map_err(|message| AdminError { kind: AdminErrorKind::Invalid, message })
    }
}

/// Reloads when files have changed, and lets rules expire, for as long as the server runs.
pub(super) async fn watch(handle: Handle) {
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let store = handle.shared.policies.clone();
        match blocking(move || Ok(store.is_due())).await {
            Ok(Some(Due::Day)) => handle.turn_day().await,
            // Said in the log and in the status.
            Ok(Some(Due::Files)) => drop(handle.reload(Trigger::Watch).await),
            Ok(None) | Err(_) => {}
        }
    }
}

/// Files may lie on a drive that hangs, and the loop must not.
async fn blocking<T: Send + 'static>(read: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    match tokio::task::spawn_blocking(read).await {
        Ok(outcome) => outcome,
        Err(error) => Err(format!("The policy files could not be read ({error}); report this as a bug of Tabwarden.")),
    }
}
