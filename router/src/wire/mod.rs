//! Text to [`Command`], [`Response`] and [`Event`], and back. The envelope is parsed, `params` and `result` stay borrowed
//! raw text, so a screenshot crosses without being looked at.

mod browser;
mod command;
mod render;

pub use browser::{BrowserMessage, Garbage, Outcome, parse_browser_message, value_of};
pub use command::{Command, Malformed, parse_command, read_lossy};
pub use render::{render_command, render_error, render_event, render_result};
