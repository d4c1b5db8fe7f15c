//! Shared pieces of the tests: the trace runner, the seeded simulation, the bodies of the fuzz targets, and the policies
//! that they use.

pub mod fuzz;
pub mod sim;
pub mod trace;
