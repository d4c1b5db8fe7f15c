//! The crate as its users see it.

mod decide;
mod format;
mod layers;
mod urls;
