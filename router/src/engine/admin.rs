//! What the API and the CLI ask of the engine.

use std::sync::Arc;

use ownership::id::TaskId;
use ownership::{Lineage, Relation};
use policy::{Mode, Policies, Verb};

use super::Engine;
use super::calls::Listing;
use super::io::{
    AdminCommand, AdminError, AdminErrorKind, AdminReply, AdminRequest, ClientInfo, CloseCode, Output, PageInfo,
    StatusInfo, TaskInfo,
};
use super::state::{Cause, TaskState};

impl Engine {
    pub(super) fn admin(&mut self, request: AdminRequest, command: AdminCommand) {
        match command {
            AdminCommand::TaskNew(spec) => {
                if let Err(error) = self.new_task(request, spec) {
                    self.admin_reply(Some(request), Err(error));
                }
            }
            AdminCommand::TaskList => {
                self.refresh(Listing::Tasks(request));
            }
            AdminCommand::TaskShow(name) => match self.task_named(&name) {
                Some(task) => self.refresh(Listing::Task { request, task }),
                None => self.admin_reply(Some(request), Err(no_such_task(&name))),
            },
            AdminCommand::TaskEnd { name, keep_pages } => match self.task_named(&name) {
                Some(id) => self.end_task(id, keep_pages, Some(request), CloseCode::TaskEnded),
                None => self.admin_reply(Some(request), Ok(AdminReply::Ended)),
            },
            AdminCommand::Status => {
                let status = self.status();
                self.admin_reply(Some(request), Ok(AdminReply::Status(status)));
            }
            AdminCommand::SetPolicies(policies) => {
                let released = self.set_policies(policies);
                self.admin_reply(Some(request), Ok(AdminReply::PoliciesSet { released }));
            }
        }
    }

    /// What was allowed until now and is not any more ends here: pages whose document may not be held are released.
    fn set_policies(&mut self, policies: Vec<(TaskId, Arc<Policies>)>) -> usize {
        let mut released = 0;
        for (id, policies) in policies {
            let launched = self.launched();
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            task.set_policy(policies, Mode { launched, isolated: !task.shared() });
            self.policies_changed();
            for page in self.page_ids(id) {
                let Some(url) = self.targets.get(&page).map(|target| target.info.url.clone()) else { continue };
                if let Some(judged) = self.forbids(id, Verb::Navigate, &url, Some(Cause::Client)) {
                    self.release_denied(page, "its task's policy was narrowed", &judged);
                    released += 1;
                } else {
                    self.gate_requests_of(page);
                }
            }
        }
        released
    }

    pub(super) fn list_tasks(&mut self, request: AdminRequest) {
        let mut ids: Vec<TaskId> = self.tasks.keys().copied().collect();
        ids.sort_unstable();
        let tasks = ids.into_iter().filter_map(|id| self.task_info(id)).collect();
        self.admin_reply(Some(request), Ok(AdminReply::Tasks(tasks)));
    }

    pub(super) fn show_task(&mut self, request: AdminRequest, task: TaskId) {
        let reply = self.task_info(task).map(AdminReply::Task);
        self.admin_reply(Some(request), reply.ok_or_else(|| no_such_task("of that name any more")));
    }

    pub(super) fn admin_reply(&mut self, request: Option<AdminRequest>, reply: Result<AdminReply, AdminError>) {
        if let Some(request) = request {
            self.outputs.push_back(Output::AdminReply { request, reply });
        }
    }

    fn task_named(&self, name: &str) -> Option<TaskId> {
        self.tasks.iter().find(|(_, task)| task.name == name).map(|(id, _)| *id)
    }

    fn status(&self) -> StatusInfo {
        StatusInfo {
            product: self.browser.product.clone(),
            user_agent: self.browser.user_agent.clone(),
            revision: self.browser.revision.clone(),
            js_version: self.browser.js_version.clone(),
            protocol_version: self.browser.protocol_version.clone(),
            origin: self.config.origin,
            tasks: self.tasks.len(),
            clients: self.clients.len(),
            pages: self.tasks.keys().map(|id| self.page_ids(*id).len()).sum(),
        }
    }

    pub(super) fn task_info(&self, id: TaskId) -> Option<TaskInfo> {
        let task = self.tasks.get(&id)?;
        let pages = self.page_ids(id);
        let clients = self.clients_of(id);
        Some(TaskInfo {
            id,
            name: task.name.clone(),
            state: match task.state {
                TaskState::Starting => "starting",
                TaskState::Active => "active",
                TaskState::Ending => "ending",
            },
            context: task.context_kind,
            policy: task.policy.name().to_owned(),
            policy_hash: task.policy.hash().to_owned(),
            labels: task.labels.clone(),
            expires_at: self.expires_at(id),
            idle_ttl: task.idle_ttl,
            pages: pages
                .into_iter()
                .filter_map(|page| {
                    let target = self.targets.get(&page)?;
                    let opener = match self.ledger.lineage(page) {
                        Some(Lineage::OpenedBy(opener) | Lineage::ClickedIn(opener)) => Some(opener),
                        _ => None,
                    };
                    (target.info.kind == "page").then(|| PageInfo {
                        target_id: page.to_string(),
                        url: target.info.url.clone(),
                        title: target.info.title.clone(),
                        opener: opener
                            .filter(|opener| self.ledger.target(id, *opener) != Relation::Foreign)
                            .map(|opener| opener.to_string()),
                    })
                })
                .collect(),
            clients: clients
                .into_iter()
                .filter_map(|client| {
                    let state = self.clients.get(&client)?;
                    Some(ClientInfo { id: client, user_agent: state.user_agent.clone(), since: state.since })
                })
                .collect(),
            last_refusals: task.refusals.iter().cloned().collect(),
        })
    }

    /// The browser is gone: whoever waits for an answer of the API gets one.
    pub(super) fn lose_admin_requests(&mut self, reason: &str) {
        let mut waiting = Vec::new();
        for task in self.tasks.values_mut() {
            waiting.extend(task.waiting_new.take());
            waiting.append(&mut task.ending_requests);
        }
        for request in waiting {
            let message = format!("the browser is gone: {reason}");
            self.outputs.push_back(Output::AdminReply {
                request,
                reply: Err(AdminError { kind: AdminErrorKind::Unavailable, message }),
            });
        }
    }
}

fn no_such_task(name: &str) -> AdminError {
    AdminError {
        kind: AdminErrorKind::NotFound,
        message: format!("there is no task named {name:?}; `tabwarden task list` names those that there are"),
    }
}
