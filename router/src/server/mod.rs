//! All the I/O: client sockets, the connection to the browser, discovery, the API and admission, on one thread.
//!
//! One current-thread runtime runs everything inside a `LocalSet`: a wake-up across cores would cost a hundred times what
//! looking at a message costs. Sockets and driver share by `Rc` what every message passes. The handlers of HTTP requests
//! are `Send`, as axum wants them; they meet the driver in the registry, and send it commands and new clients through
//! channels.

pub mod admission;
pub mod api;
pub mod audit;
mod client_socket;
mod discovery;
pub mod driver;
pub mod explain;
mod files;
mod handle;
mod http;
mod inbox;
pub mod includes;
mod join;
pub mod net;
mod paths;
pub mod policies;
mod record;
mod refusal;
pub mod registry;
mod reload;
mod routes;
mod socket;
mod task_files;
pub mod time;
pub mod token;
pub mod upstream;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

pub use admission::Doors;
pub use driver::Outcome;
pub use handle::{Handle, NewTask, Server, TaskAddress, TaskPlan};
pub use reload::Reloaded;
pub use token::Token;
pub use upstream::Upstream;

use crate::engine::io::EngineConfig;

/// A browser that was told to close gets so long to write its profile.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// Idle time after which a task made through the API ends, unless it says otherwise.
pub const API_IDLE_TTL: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    pub doors: Doors,
    /// Where clients reach us when it is not the Host that they send: behind a proxy. `http` or `https`.
    pub public_url: Option<Url>,
    pub policies: policies::PolicyFiles,
    pub audit: audit::Settings,
    pub record_upstream: Option<PathBuf>,
    /// Shown in `status`; the sandbox is off only when somebody asked for it.
    pub no_sandbox: bool,
    pub engine: EngineConfig,
}
