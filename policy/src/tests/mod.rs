//! The crate as its users see it.

mod decide;
mod layers;
mod urls;
