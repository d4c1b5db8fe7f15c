//! What is kept of decisions, and how they are told: each that is not a plain forward is one audit record, whose id the refusal
//! names; a load that was blocked is told to the clients that listen to the page's log.

use std::time::{Duration, Instant};

use ownership::id::{ClientId, TargetId, TaskId};
use policy::methods::Row;
use policy::{Decision, Verb};
use serde_json::json;

use super::Engine;
use super::departed::Whose;
use super::io::{Audit, Output, Record, RecordKind};
use super::refusal::Refusal;

/// Something that was judged: `verb` at `object`, mostly a URL.
pub struct Judgement {
    pub decision: Decision,
    /// `None`: the method as a whole.
    pub verb: Option<Verb>,
    pub object: String,
}

impl Judgement {
    /// `None` for what may happen.
    pub fn unless_allowed(decision: Decision, verb: Verb, object: &str) -> Option<Judgement> {
        match decision.allowed() {
            true => None,
            false => Some(Judgement { decision, verb: Some(verb), object: object.to_owned() }),
        }
    }

    /// The sentence of the refusal, without an id.
    pub fn sentence(&self) -> String {
        self.decision.sentence(&self.what())
    }

    fn what(&self) -> String {
        let place = without_query(&self.object);
        match self.verb {
            None => place,
            Some(verb @ (Verb::Navigate | Verb::Popup)) => format!("{verb} to {place}"),
            Some(verb @ (Verb::Frame | Verb::Subresource | Verb::Worker | Verb::WebSocket | Verb::Download)) => {
                format!("{verb} {place}")
            }
            Some(verb) => format!("{verb} at {place}"),
        }
    }
}

/// Without query or fragment: sentences are logged, and nothing in one may begin a line of its own.
pub(super) fn without_query(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let end = (0..=end.min(300)).rev().find(|at| url.is_char_boundary(*at)).unwrap_or(0);
    url[..end].replace(char::is_control, " ")
}

/// How long the gates of one load may be apart.
const ONE_LOAD: Duration = Duration::from_secs(5);

/// Loads that are remembered to have been kept.
const MOST_TRIALS: usize = 256;

/// When, whose, and what.
pub type KeptTrial = (Instant, (TaskId, Option<Verb>, String));

fn record_of(
    id: String,
    whose: &Whose,
    (client, method): (Option<ClientId>, &str),
    judged: &Judgement,
    decision: &Decision,
    enforced: bool,
) -> Audit {
    Audit {
        id,
        task: whose.task,
        task_name: whose.name.clone(),
        client,
        method: method.to_owned(),
        verb: judged.verb,
        object: judged.object.clone(),
        verdict: decision.verdict,
        enforced,
        rule: decision.rule.clone(),
        reason: decision.reason.clone(),
        policy_hash: whose.policy.hash().to_owned(),
    }
}

impl Engine {
    /// Keeps a decision and gives it its id.
    pub(super) fn audit(&mut self, task: TaskId, client: Option<ClientId>, method: &str, judged: &Judgement) -> String {
        let whose =
            self.tasks.get(&task).map(|state| Whose { task, name: state.name.clone(), policy: state.policy.clone() });
        // Without its task everything is refused, and nobody is there to be told why.
        let Some(whose) = whose else { return self.next_audit_id() };
        self.audit_of(&whose, client, method, judged)
    }

    fn next_audit_id(&mut self) -> String {
        self.audits += 1;
        format!("a-{}-{}", self.config.audit_prefix, self.audits)
    }

    pub(super) fn audit_of(
        &mut self,
        whose: &Whose,
        client: Option<ClientId>,
        method: &str,
        judged: &Judgement,
    ) -> String {
        let id = self.next_audit_id();
        let kept = |decision: &Decision, enforced: bool| {
            record_of(id.clone(), whose, (client, method), judged, decision, enforced)
        };
        let decided = Output::Audit(Box::new(kept(&judged.decision, true)));
        let would = judged.decision.would.as_deref().map(|would| Output::Audit(Box::new(kept(would, false))));
        self.outputs.extend(std::iter::once(decided).chain(would));
        id
    }

    /// Keeps what rules in monitor mode would have refused: once for each load, which is judged at several gates.
    pub(super) fn keep_trials(&mut self) {
        let now = self.now;
        while self.trials_kept.front().is_some_and(|(at, ..)| now.saturating_duration_since(*at) >= ONE_LOAD) {
            self.trials_kept.pop_front();
        }
        let mut tasks: Vec<TaskId> = self.tasks.keys().copied().collect();
        tasks.sort_unstable();
        for task in tasks {
            let Some(state) = self.tasks.get(&task) else { continue };
            let trials = state.trials.take();
            let whose = Whose { task, name: state.name.clone(), policy: state.policy.clone() };
            for trial in trials {
                let what = (task, trial.verb, trial.object.clone());
                if self.trials_kept.iter().any(|(_, kept)| *kept == what) {
                    continue;
                }
                if self.trials_kept.len() >= MOST_TRIALS {
                    self.trials_kept.pop_front();
                }
                self.trials_kept.push_back((now, what));
                let id = self.next_audit_id();
                let kept = record_of(id, &whose, (None, ""), &trial, &trial.decision, false);
                self.outputs.push_back(Output::Audit(Box::new(kept)));
            }
        }
    }

    /// What a client is told whose command was refused.
    pub(super) fn denied(&mut self, client: ClientId, method: &str, judged: &Judgement) -> Refusal {
        let id = self.task_of(client).map(|task| self.audit(task, Some(client), method, judged));
        Refusal::denied(&judged.sentence(), id.as_deref())
    }

    /// The refusal of a command whose reach no rule can narrow. `why` continues a sentence, `advice` is one.
    pub(super) fn beyond_rules(
        &mut self,
        client: ClientId,
        row: &'static Row,
        why: &'static str,
        advice: &'static str,
    ) -> Refusal {
        let decision = policy::beyond_rules(row, why, advice);
        self.denied(client, row.method, &Judgement { decision, verb: None, object: row.method.to_owned() })
    }

    /// A load of an owned page was failed. (Clients see `net::ERR_BLOCKED_BY_CLIENT` and no reason, so it is told beside.)
    pub(super) fn blocked(&mut self, page: TargetId, judged: &Judgement) {
        let Some(task) = self.ledger.owner(page) else { return };
        let id = self.audit(task, None, "", judged);
        let sentence = format!("{} [{id}]", judged.sentence());
        self.tell_log(page, &judged.object, &sentence);
        let is_document = matches!(judged.verb, Some(Verb::Navigate | Verb::Frame));
        if let Some(target) = self.targets.get_mut(&page).filter(|_| is_document) {
            target.blocked = Some(sentence.clone());
        }
        self.record(Record { task: Some(task), client: None, kind: RecordKind::Blocked, message: sentence });
    }

    /// As an entry of the page's log, which Playwright shows as a console message.
    pub(super) fn tell_log(&mut self, page: TargetId, url: &str, sentence: &str) {
        let timestamp = self.unix_ms();
        let entry = json!({"entry": {
            "source": "security", "level": "error", "text": sentence, "timestamp": timestamp, "url": url}});
        let entry = entry.to_string();
        let sessions = self.targets.get(&page).map(|target| target.sessions.clone()).unwrap_or_default();
        for session in sessions {
            let listens = self.client_session(session).filter(|session| session.hears_log);
            if let Some((client, shown)) = listens.map(|session| (session.client, session.shown)) {
                self.event(client, Some(shown), "Log.entryAdded", &entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_described_url_has_no_query() {
        assert_eq!(without_query("https://a.test/x?secret=1#y"), "https://a.test/x");
        assert_eq!(without_query("https://a.test/\n"), "https://a.test/ ");
        without_query(&"é".repeat(400));
    }
}
