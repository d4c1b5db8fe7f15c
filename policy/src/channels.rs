//! Ways out of a page that the gates do not see in every mode, and what a policy says about those that it denies.

use std::fmt;

use crate::date::Date;
use crate::file::PolicyError;
use crate::layer::Layer;
use crate::pattern::HostPattern;
use crate::rules::To;
use crate::{Policies, Policy, Verb, Verdict};

/// As `[unenforceable]` spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChannelName {
    /// Also WebTransport.
    WebSocket,
    WebRtc,
    /// Prefetches, prerendering, and the lookups and connections made ahead.
    Speculation,
    /// What the browser asks for to see whether a service worker has a new version.
    ServiceWorkerUpdate,
    /// What a shared worker loads.
    SharedWorker,
    /// What the browser itself asks for on a page's behalf: accounts and payments that a page names, background fetches, reports,
    /// early hints, issuers of certificates. No interception sees any of it.
    BrowserRequests,
    /// The address to which a name resolves.
    ResolvedIp,
}

/// What a policy wants where a channel that it denies cannot be enforced. Ordered from lax to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unenforceable {
    /// It stays open.
    Accept,
    /// What happens there is noticed, and the document that did it is stopped.
    Tripwire,
    /// The task does not start.
    Refuse,
}

/// How the browser is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// By Tabwarden, with its own flags and preferences.
    pub launched: bool,
    /// With a browser context for the task alone, instead of the person's profile.
    pub isolated: bool,
}

/// How things stand with one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    pub name: &'static str,
    /// Whether the policy denies anything there.
    pub denied: bool,
    /// `None` where nothing can enforce it in this mode.
    pub enforced_by: Option<&'static str>,
    /// What the policy says about that; always `Some` where something is denied, not enforced, and the start was not refused.
    pub setting: Option<Unenforceable>,
}

impl ChannelName {
    pub const ALL: [ChannelName; 7] = [
        ChannelName::WebSocket,
        ChannelName::WebRtc,
        ChannelName::Speculation,
        ChannelName::ServiceWorkerUpdate,
        ChannelName::SharedWorker,
        ChannelName::BrowserRequests,
        ChannelName::ResolvedIp,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ChannelName::WebSocket => "websocket",
            ChannelName::WebRtc => "webrtc",
            ChannelName::Speculation => "speculation",
            ChannelName::ServiceWorkerUpdate => "sw-update",
            ChannelName::SharedWorker => "shared-worker",
            ChannelName::BrowserRequests => "browser-requests",
            ChannelName::ResolvedIp => "resolved-ip",
        }
    }

    fn enforced_by(self, mode: Mode) -> Option<&'static str> {
        match self {
            ChannelName::Speculation if mode.launched => Some("a preference of the browser that Tabwarden started"),
            // It names the worker that asks; the profile's own workers serve the person too and are left alone.
            ChannelName::SharedWorker if mode.isolated => Some("interception on the browser's session"),
            _ => None,
        }
    }

    /// Whether the layer keeps anything away that could come this way.
    fn is_denied(self, layer: &Layer, today: Date) -> bool {
        let everywhere = |verbs: &[Verb]| verbs.iter().all(|verb| layer.allows_everywhere(*verb, today));
        match self {
            ChannelName::WebSocket => !everywhere(&[Verb::WebSocket]),
            ChannelName::WebRtc => !everywhere(&[Verb::WebSocket, Verb::Subresource]),
            ChannelName::Speculation => !everywhere(&[Verb::Navigate, Verb::Subresource]),
            ChannelName::ServiceWorkerUpdate => !everywhere(&[Verb::Worker]),
            ChannelName::SharedWorker => !everywhere(&[Verb::Worker, Verb::Subresource]),
            ChannelName::BrowserRequests => !everywhere(&[Verb::Subresource]),
            ChannelName::ResolvedIp => denies_addresses(layer),
        }
    }
}

fn denies_addresses(layer: &Layer) -> bool {
    let network = |to: &To| match to {
        To::Anywhere => false,
        To::Hosts(hosts) => hosts.iter().any(|host| matches!(host, HostPattern::Network { .. })),
    };
    layer.rules().filter(|rule| !rule.monitor).any(|rule| match rule.effect {
        Verdict::Allow => rule.except.iter().any(|except| network(&except.to)),
        Verdict::Confirm | Verdict::Deny => network(&rule.to),
    })
}

impl Unenforceable {
    pub fn as_str(self) -> &'static str {
        match self {
            Unenforceable::Accept => "accept",
            Unenforceable::Tripwire => "tripwire",
            Unenforceable::Refuse => "refuse",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let browser =
            if self.launched { "a browser that Tabwarden started" } else { "a browser that was running already" };
        let profile = if self.isolated { "a browser context of the task's own" } else { "the person's profile" };
        write!(f, "{browser}, in {profile}")
    }
}

/// What holds in every mode.
const ALWAYS: [(&str, &[Verb], &str); 3] = [
    (
        "documents",
        &[Verb::Navigate, Verb::Frame, Verb::Popup],
        "interception on the browser's session, and the check of what commits",
    ),
    ("subresources", &[Verb::Subresource], "interception on the guard of each page, frame and service worker"),
    ("workers", &[Verb::Worker], "interception on the guard of each page and service worker"),
];

impl Policies {
    /// What is enforced by what in `mode`, and what is not.
    pub fn coverage(&self, mode: Mode) -> Vec<Channel> {
        let always = ALWAYS.iter().map(|(name, verbs, by)| Channel {
            name,
            denied: !verbs.iter().all(|verb| self.layers().all(|layer| layer.allows_everywhere(*verb, self.today()))),
            enforced_by: Some(by),
            setting: None,
        });
        let others = ChannelName::ALL.iter().map(|channel| {
            let denying = || self.layers().filter(|layer| channel.is_denied(layer, self.today()));
            let enforced_by = channel.enforced_by(mode);
            let setting = denying().filter_map(|layer| self.setting(layer, *channel)).max();
            Channel {
                name: channel.as_str(),
                denied: denying().next().is_some(),
                enforced_by,
                setting: setting.filter(|_| enforced_by.is_none()),
            }
        });
        always.chain(others).collect()
    }

    /// Why a task cannot have this policy in `mode`: something is denied that nothing can enforce there, and a file says
    /// `refuse` for it, or does not say what it wants.
    pub fn refuse_start(&self, mode: Mode) -> Option<PolicyError> {
        self.layers().find_map(|layer| self.refuse_layer(layer, mode))
    }

    fn refuse_layer(&self, layer: &Layer, mode: Mode) -> Option<PolicyError> {
        let open = ChannelName::ALL
            .into_iter()
            .filter(|channel| channel.enforced_by(mode).is_none() && channel.is_denied(layer, self.today()));
        let (mut silent, mut refused) = (Vec::new(), Vec::new());
        for channel in open {
            match self.setting(layer, channel) {
                None => silent.push(channel.as_str()),
                Some(Unenforceable::Refuse) => refused.push(channel.as_str()),
                Some(Unenforceable::Accept | Unenforceable::Tripwire) => {}
            }
        }
        let file = layer.enforced_files().next()?;
        let place =
            |message| Some(PolicyError { file: file.file().to_owned(), line: file.default.line, column: 1, message });
        if !silent.is_empty() {
            let where_to = if file.only_narrows { "in the task's policy file, for each" } else { "for each" };
            return place(format!(
                "the policy {} denies what nothing can enforce in {mode}: {}; say {where_to} under `[unenforceable]` whether the task is then refused or the channel stays open, for example `{} = \"accept\"`",
                file.name(),
                silent.join(", "),
                silent.first().copied().unwrap_or_default()
            ));
        }
        if !refused.is_empty() {
            return place(format!(
                "the policy {} refuses to be used where it cannot be enforced, and in {mode} that is so for {}; use it where these are enforced, or have its `[unenforceable]` say \"accept\" for them",
                file.name(),
                refused.join(", ")
            ));
        }
        None
    }

    /// The strictest that the layer's own files say: what one layer accepts is not accepted for another. Hosts that were
    /// named for a task have no file to say it in, so there all files count.
    fn setting(&self, layer: &Layer, channel: ChannelName) -> Option<Unenforceable> {
        let of = |file: &Policy| file.unenforceable.get(&channel).copied();
        match layer.enforced_files().all(|file| file.only_narrows) {
            true => self.layers().flat_map(Layer::enforced_files).filter_map(of).max(),
            false => layer.enforced_files().filter_map(of).max(),
        }
    }
}
