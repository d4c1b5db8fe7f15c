//! Shared pieces of the tests: the trace runner and the policies that traces use.

pub mod trace;
