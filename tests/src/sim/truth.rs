//! What is whose, kept by the model browser and never read from the engine: the engine's ledger is what is being tested.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::rng::Rng;

pub type Id = Rc<str>;

/// A task, by its number in this run.
pub type TaskNo = usize;
/// A client, by its number in this run; the same as its `ClientId`.
pub type ClientNo = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The person at the browser, or nobody.
    Person,
    Task(TaskNo),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Target,
    Session,
    Frame,
    Context,
    Download,
}

impl Kind {
    fn letter(self) -> char {
        match self {
            Kind::Target => 'T',
            Kind::Session => 'S',
            Kind::Frame => 'F',
            Kind::Context => 'C',
            Kind::Download => 'D',
        }
    }
}

#[derive(Clone, Debug)]
pub struct Thing {
    pub kind: Kind,
    pub owner: Owner,
    /// Whose it was until it was released: that task may be told that it is gone.
    pub former: Option<Owner>,
    pub alive: bool,
    /// Its end is on the way to the browser; what follows on the same connection cannot reach it any more.
    pub doomed: bool,
    /// The engine has read it.
    pub seen: bool,
    /// For sessions: the client for which it was made; `None` is Tabwarden's own.
    pub made_for: Option<ClientNo>,
    /// Short, for reports: `T3`.
    pub name: String,
}

#[derive(Default)]
pub struct Truth {
    // Only ever looked up: iterating would make runs differ.
    things: HashMap<Id, Thing>,
    /// What the engine or a client has read, in that order. Nobody can know anything else.
    seen: BTreeMap<Kind, Vec<Id>>,
    counts: BTreeMap<Kind, usize>,
}

impl Truth {
    pub fn make(&mut self, rng: &mut Rng, kind: Kind, owner: Owner) -> Id {
        let text = if kind == Kind::Download { rng.guid() } else { rng.hex() };
        let id: Id = text.into();
        self.insert(id.clone(), kind, owner);
        id
    }

    /// The main frame of a page has the id of its target, so an id may be there already; it stays what it was.
    pub fn insert(&mut self, id: Id, kind: Kind, owner: Owner) {
        if self.things.contains_key(&id) {
            return;
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("{}{count}", kind.letter());
        let thing = Thing { kind, owner, former: None, alive: true, doomed: false, seen: false, made_for: None, name };
        self.things.insert(id, thing);
    }

    pub fn get(&self, id: &str) -> Option<&Thing> {
        self.things.get(id)
    }

    pub fn with(&mut self, id: &str, change: impl FnOnce(&mut Thing)) {
        if let Some(thing) = self.things.get_mut(id) {
            change(thing);
        }
    }

    pub fn gone(&mut self, id: &str) {
        self.with(id, |thing| thing.alive = false);
    }

    /// The page is let go: the person's from now on.
    pub fn release(&mut self, id: &str) {
        self.with(id, |thing| {
            if thing.owner != Owner::Person {
                thing.former = Some(std::mem::replace(&mut thing.owner, Owner::Person));
            }
        });
    }

    /// Notes every id in a frame that the engine is about to read.
    pub fn see(&mut self, text: &str) {
        for token in tokens(text) {
            // A download in a page that was let go is told to nobody, and remembered by nobody.
            let stranger = |thing: &Thing| thing.kind == Kind::Download && thing.owner == Owner::Person;
            if let Some(thing) = self.things.get_mut(token).filter(|thing| !stranger(thing))
                && !std::mem::replace(&mut thing.seen, true)
            {
                self.seen.entry(thing.kind).or_default().push(token.into());
            }
        }
    }

    pub fn any_seen(&self, rng: &mut Rng, kind: Kind) -> Option<Id> {
        rng.pick(self.seen.get(&kind)?).cloned()
    }

    /// The text with short names for ids.
    pub fn shorten(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for token in tokens(text) {
            if let Some(thing) = self.get(token) {
                out = out.replace(token, &thing.name);
            } else if let Some(counted) = token.strip_prefix("000000000000000000000000") {
                // A session id that the engine drew; see `trace::counter`.
                out = out.replace(token, &format!("E{}", u32::from_str_radix(counted, 16).unwrap_or_default()));
            }
        }
        out
    }
}

/// Everything in a text that has the shape of an id, wherever it stands. (By hand: debug runs spend a sixth of
/// their time here otherwise.)
pub fn tokens(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut found, mut start, mut at) = (Vec::new(), 0, 0);
    while at <= bytes.len() {
        if at == bytes.len() || !PART_OF_ID[bytes[at] as usize] {
            if at - start == 32 || at - start == 36 {
                found.push(&text[start..at]);
            }
            start = at + 1;
        }
        at += 1;
    }
    found
}

/// Hex digits and the dashes of guids.
static PART_OF_ID: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_hexdigit() || byte as u8 == b'-';
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_wherever_they_stand() {
        let mut rng = Rng::new(1);
        let (hex, guid) = (rng.hex(), rng.guid());
        let text = format!(r#"{{"a":"{hex}","b":["x {guid} y"],"c":"{hex}0"}}"#);
        assert_eq!(tokens(&text), [&hex, &guid]);
    }

    #[test]
    fn a_released_thing_is_the_persons_and_remembers() {
        let mut truth = Truth::default();
        let id = truth.make(&mut Rng::new(1), Kind::Target, Owner::Task(1));
        truth.release(&id);
        truth.release(&id);
        let thing = truth.get(&id).unwrap();
        assert_eq!((thing.owner, thing.former), (Owner::Person, Some(Owner::Task(1))));
    }
}
