//! Who owns what: the ids of the protocol, the changes that the engine reports, and the ledger that they
//! add up to. No I/O, no clock, no async: the same changes always give the same ledger.

mod change;
pub mod id;
mod ledger;

pub use change::{Change, Lineage, TargetKind};
pub use ledger::{Ledger, Relation};
