//! The crate as its users see it.

mod decide;
mod explain;
mod format;
mod layers;
mod urls;
