//! One newtype for each id space of the protocol, so that a session id cannot be looked up as a target.
//!
//! Ids are short ASCII strings: 32 hex characters for targets, sessions, frames and browser contexts, a
//! dashed UUID (36) for downloads and for the browser target. They are kept inline, so an id is `Copy` and
//! costs no allocation. Text that is longer than any real id is not an id, and [`TargetId::new`] and its
//! siblings say so by `None`: a thing that cannot be named cannot be owned.

use std::fmt;

const CAPACITY: usize = 39;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Text {
    len: u8,
    bytes: [u8; CAPACITY],
}

impl Text {
    fn new(text: &str) -> Option<Text> {
        let len = text.len();
        if len == 0 || len > CAPACITY || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let mut bytes = [0; CAPACITY];
        bytes[..len].copy_from_slice(text.as_bytes());
        Some(Text { len: len as u8, bytes })
    }

    fn as_str(&self) -> &str {
        // Only ASCII gets in (see `new`), so this cannot fail; an empty id would match nothing.
        std::str::from_utf8(&self.bytes[..self.len as usize]).unwrap_or_default()
    }
}

macro_rules! text_ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Text);

        impl $name {
            /// `None` when the text cannot be an id of any kind (empty, over 39 bytes, not printable ASCII).
            pub fn new(text: &str) -> Option<$name> {
                Text::new(text).map($name)
            }

            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }

            /// Thirty-two upper-case hex characters, the shape that Chromium gives its own ids.
            pub fn from_bytes(bytes: [u8; 16]) -> $name {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                let mut text = Text { len: 32, bytes: [0; CAPACITY] };
                for (i, byte) in bytes.iter().enumerate() {
                    text.bytes[2 * i] = HEX[(byte >> 4) as usize];
                    text.bytes[2 * i + 1] = HEX[(byte & 15) as usize];
                }
                $name(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.as_str())
            }
        }
    )*};
}

text_ids! {
    /// A target of the browser: a page, an OOPIF, a worker. Real, never translated.
    TargetId,
    /// A session as *Chromium* knows it.
    SessionId,
    /// A session as a *client* knows it: Tabwarden's own id for page and browser sessions, the real one below them.
    ClientSessionId,
    /// A frame. The main frame of a page and an OOPIF have the id of their target.
    FrameId,
    /// A browser context (an isolated, incognito-like profile, or the profile itself).
    ContextId,
    /// A download's guid.
    DownloadId,
}

macro_rules! number_ids {
    ($($(#[$doc:meta])* $name:ident($int:ty)),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

number_ids! {
    /// One task. Never reused while the process lives.
    TaskId(u32),
    /// One WebSocket connection of a tool. Never reused while the process lives.
    ClientId(u64),
    /// A browser window. A small integer that clients can guess, so only the ledger says whose it is.
    WindowId(i64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_text() {
        let id = TargetId::new("1F4DB6A51BB1CF1257545AFE3524EA50").unwrap();
        assert_eq!(id.as_str(), "1F4DB6A51BB1CF1257545AFE3524EA50");
        assert_eq!(TargetId::from_bytes([0x1f; 16]).as_str(), "1F".repeat(16));
    }

    #[test]
    fn what_cannot_be_an_id_is_none() {
        for text in ["", &"A".repeat(40), "a b", "é", "a\u{0}"] {
            assert_eq!(FrameId::new(text), None, "{text:?}");
        }
    }
}
