//! Exit codes, documented in the README, and the one error type: a code and a sentence.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success = 0,
    Failure = 1,
    /// Typed wrongly, or a choice is needed that only the person can make.
    Usage = 2,
    /// The browser went away while it was served.
    BrowserLost = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// What, why and what to do next, in one sentence that stands alone.
#[derive(Debug, PartialEq)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failure, message: message.into() }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, message: message.into() }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::new(message)
    }
}
