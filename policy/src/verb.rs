//! The closed list of verbs: what a rule can speak about, and what a method does.

use std::fmt;

macro_rules! verbs {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Verb { $($(#[$doc])* $name),* }

        impl Verb {
            pub const ALL: &'static [Verb] = &[$(Verb::$name),*];

            /// As policy files and the method table spell it.
            pub fn as_str(self) -> &'static str {
                match self { $(Verb::$name => $text),* }
            }
        }
    };
}

verbs! {
    /// A top document.
    Navigate = "navigate",
    /// The document of a frame.
    Frame = "frame",
    Subresource = "subresource",
    /// Also WebTransport.
    WebSocket = "websocket",
    /// The script of a dedicated, shared or service worker.
    Worker = "worker",
    Popup = "popup",
    Download = "download",
    Upload = "upload",
    /// The DOM, the accessibility tree, a screenshot, a body.
    Read = "read",
    /// Evaluate, injected scripts, bindings, DOM and CSS writes, the debugger.
    Script = "script",
    /// Mouse, keyboard, touch, forms.
    Input = "input",
    CookiesRead = "cookies.read",
    CookiesWrite = "cookies.write",
    StorageRead = "storage.read",
    StorageWrite = "storage.write",
    /// Geolocation, clipboard, camera and the like.
    Permissions = "permissions",
    Emulate = "emulate",
    /// Taking over a tab of the person's.
    Adopt = "adopt",
    /// A client's own use of `Fetch`.
    Intercept = "intercept",
    /// Methods with no better verb.
    Raw = "raw",
}

/// Groups that keep first policy files short. A group may name another one before it.
pub(crate) const VIEW: &[Verb] =
    &[Verb::Navigate, Verb::Frame, Verb::Subresource, Verb::Worker, Verb::WebSocket, Verb::Popup, Verb::Read];
pub(crate) const USE: &[Verb] = &[
    Verb::Navigate,
    Verb::Frame,
    Verb::Subresource,
    Verb::Worker,
    Verb::WebSocket,
    Verb::Popup,
    Verb::Read,
    Verb::Script,
    Verb::Input,
    Verb::Download,
];

impl Verb {
    pub fn parse(text: &str) -> Option<Verb> {
        Verb::ALL.iter().copied().find(|verb| verb.as_str() == text)
    }

    /// Of what the verb asks the network, where nobody says otherwise. `None` for what is no HTTP request of its own.
    pub fn usual_method(self) -> Option<&'static str> {
        match self {
            Verb::Navigate | Verb::Frame | Verb::Subresource | Verb::Worker | Verb::Download => Some("GET"),
            _ => None,
        }
    }

    pub(crate) fn group(text: &str) -> Option<&'static [Verb]> {
        match text {
            "*" => Some(Verb::ALL),
            "view" => Some(VIEW),
            "use" => Some(USE),
            _ => None,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of verbs, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verbs(u32);

impl From<&[Verb]> for Verbs {
    fn from(verbs: &[Verb]) -> Verbs {
        let mut set = Verbs::default();
        verbs.iter().for_each(|verb| set.insert(*verb));
        set
    }
}

impl Verbs {
    pub(crate) fn insert(&mut self, verb: Verb) {
        self.0 |= 1 << verb as u32;
    }

    pub(crate) fn contains(self, verb: Verb) -> bool {
        self.0 & (1 << verb as u32) != 0
    }
}
