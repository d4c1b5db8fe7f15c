//! Shared pieces of the tests: the trace runner, the seeded simulation, and the policies that they use.

pub mod sim;
pub mod trace;
