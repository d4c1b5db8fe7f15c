//! Makes it so: `wire` (text to commands and back), `engine` (the sans-io state machine) and `server` (all I/O).

pub mod engine;
pub mod server;
pub mod wire;
