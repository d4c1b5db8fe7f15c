//! Engines with a fault: the same engine, with one of its outputs spoilt. The checker has to notice each of them, or it
//! checks nothing.

use std::time::Instant;

use ownership::id::ClientId;
use router::engine::Engine;
use router::engine::io::{Input, Output};

use super::browser::{Browser, TargetKind};
use super::check::Rule;
use super::truth::Owner;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    DropsResponse,
    DoublesResponse,
    AnswersAnotherCommand,
    LeaksTargetToClient,
    LeaksPrivateUrl,
    DeliversToAnotherClient,
    NamesForeignForClient,
    ClosesForeign,
    NeverResumes,
    NeverLetsGo,
    DetachesWhatIsHeld,
    NeverContinuesDocuments,
    NeverDetaches,
    LetsClientResumePage,
}

impl Fault {
    pub const ALL: [Fault; 14] = [
        Fault::DropsResponse,
        Fault::DoublesResponse,
        Fault::AnswersAnotherCommand,
        Fault::LeaksTargetToClient,
        Fault::LeaksPrivateUrl,
        Fault::DeliversToAnotherClient,
        Fault::NamesForeignForClient,
        Fault::ClosesForeign,
        Fault::NeverResumes,
        Fault::NeverLetsGo,
        Fault::DetachesWhatIsHeld,
        Fault::NeverContinuesDocuments,
        Fault::NeverDetaches,
        Fault::LetsClientResumePage,
    ];

    /// The rules of which the checker may name one; a fault can break several.
    pub fn breaks(self) -> &'static [Rule] {
        match self {
            Fault::DropsResponse | Fault::DoublesResponse => &[Rule::OneResponse],
            Fault::AnswersAnotherCommand => &[Rule::RightResponse, Rule::OneResponse],
            Fault::LeaksTargetToClient | Fault::LeaksPrivateUrl => &[Rule::NothingForeignToClient],
            Fault::DeliversToAnotherClient => &[
                Rule::OwnSession,
                Rule::NothingForeignToClient,
                Rule::OneResponse,
                Rule::RightResponse,
                Rule::ToldTruth,
            ],
            Fault::NamesForeignForClient => &[Rule::NothingForeignToBrowser],
            Fault::ClosesForeign => &[Rule::ForeignUntouched],
            Fault::NeverResumes => &[Rule::HoldEnds, Rule::Gates],
            Fault::NeverContinuesDocuments => &[Rule::HoldEnds],
            Fault::NeverLetsGo | Fault::NeverDetaches => &[Rule::ForeignUntouched, Rule::NothingLeft, Rule::HoldEnds],
            Fault::DetachesWhatIsHeld | Fault::LetsClientResumePage => &[Rule::Gates],
        }
    }
}

pub struct Subject {
    pub engine: Engine,
    fault: Option<Fault>,
    spoilt: bool,
    again: Option<Output>,
}

impl Subject {
    pub fn new(engine: Engine, fault: Option<Fault>) -> Subject {
        Subject { engine, fault, spoilt: false, again: None }
    }

    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.engine.handle(now, input);
    }

    pub fn poll_output(&mut self, browser: &Browser) -> Option<Output> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        loop {
            let output = self.engine.poll_output()?;
            match self.fault {
                None => return Some(output),
                Some(fault) => {
                    if let Some(output) = self.spoil(fault, output, browser) {
                        return Some(output);
                    }
                }
            }
        }
    }

    /// `None`: it is dropped.
    fn spoil(&mut self, fault: Fault, output: Output, browser: &Browser) -> Option<Output> {
        match output {
            Output::ToClient { client, text } => self.spoil_to_client(fault, client, text, browser),
            Output::ToBrowser { text, on_behalf } => self.spoil_to_browser(fault, text, on_behalf, browser),
            other => Some(other),
        }
    }

    fn spoil_to_client(&mut self, fault: Fault, client: ClientId, text: String, browser: &Browser) -> Option<Output> {
        let is_response = text.starts_with(r#"{"id":"#);
        let once = !std::mem::replace(&mut self.spoilt, true);
        let mut to = client;
        let text = match fault {
            Fault::DropsResponse if is_response && once => return None,
            Fault::DoublesResponse if is_response && once => {
                self.again = Some(Output::ToClient { client, text: text.clone() });
                text
            }
            Fault::AnswersAnotherCommand if is_response && once && text.contains(r#""echo":"n"#) => {
                text.replacen(r#""echo":"n"#, r#""echo":"n0"#, 1)
            }
            Fault::LeaksTargetToClient if once => match foreign_page(browser) {
                Some(id) => text.replacen('}', &format!(r#","leak":"{id}"}}"#), 1),
                None => {
                    self.spoilt = false;
                    text
                }
            },
            Fault::LeaksPrivateUrl if once => {
                text.replacen(r#""result":{"#, r#""result":{"url":"https://private.test/","#, 1)
            }
            Fault::DeliversToAnotherClient if text.contains("sessionId") => {
                to = ClientId(client.0 % 4 + 1);
                text
            }
            _ => {
                self.spoilt = !once;
                text
            }
        };
        Some(Output::ToClient { client: to, text })
    }

    fn spoil_to_browser(
        &mut self,
        fault: Fault,
        text: String,
        on_behalf: Option<ClientId>,
        browser: &Browser,
    ) -> Option<Output> {
        let resumes = text.contains("Runtime.runIfWaitingForDebugger");
        let detaches = text.contains("Target.detachFromTarget");
        let once = !self.spoilt;
        match fault {
            Fault::NeverResumes if resumes && on_behalf.is_none() => return None,
            // The person's tabs are resumed, then let go by detaching the session that held them.
            Fault::DetachesWhatIsHeld if resumes && names_a_strangers_session(&text, browser) => return None,
            Fault::NeverLetsGo if detaches && names_a_strangers_session(&text, browser) => return None,
            Fault::NeverContinuesDocuments if text.contains("Fetch.continueRequest") => return None,
            Fault::NeverDetaches if detaches && on_behalf.is_none() => return None,
            Fault::ClosesForeign if once => {
                if let Some(id) = foreign_page(browser) {
                    self.spoilt = true;
                    let text =
                        format!(r#"{{"id":999999,"method":"Target.closeTarget","params":{{"targetId":"{id}"}}}}"#);
                    self.again = Some(Output::ToBrowser { text, on_behalf: None });
                }
            }
            Fault::NamesForeignForClient if on_behalf.is_some() && once => {
                if let Some(id) = foreign_page(browser) {
                    self.spoilt = true;
                    let text = text.replacen(r#""params":{"#, &format!(r#""params":{{"x":"{id}","#), 1);
                    return Some(Output::ToBrowser { text, on_behalf });
                }
            }
            Fault::LetsClientResumePage if on_behalf.is_some() && text.contains(r#""sessionId":"#) => {
                let Some(session) = held_by_guard(&text, browser) else {
                    return Some(Output::ToBrowser { text, on_behalf });
                };
                let frame = format!(
                    r#"{{"id":999998,"method":"Runtime.runIfWaitingForDebugger","params":{{}},"sessionId":"{session}"}}"#
                );
                self.again = Some(Output::ToBrowser { text: frame, on_behalf });
            }
            _ => {}
        }
        Some(Output::ToBrowser { text, on_behalf })
    }
}

fn foreign_page(browser: &Browser) -> Option<String> {
    let (id, _) =
        browser.targets.iter().find(|(id, t)| t.kind == TargetKind::Page && browser.owner(id) == Owner::Person)?;
    Some(id.to_string())
}

fn names_a_strangers_session(text: &str, browser: &Browser) -> bool {
    super::truth::tokens(text)
        .into_iter()
        .filter_map(|token| browser.sessions.get(token))
        .any(|session| browser.owner(&session.target) == Owner::Person)
}

/// The session of that frame, if it is a client's on a page that its guard holds.
fn held_by_guard(text: &str, browser: &Browser) -> Option<String> {
    super::truth::tokens(text).into_iter().find_map(|token| {
        let session = browser.sessions.get(token).filter(|session| session.made_for.is_some())?;
        let target = browser.targets.get(&session.target)?;
        (target.parent.is_none() && target.held_by.is_some()).then(|| token.to_owned())
    })
}
