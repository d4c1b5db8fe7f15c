//! Lines for people and programs. A reader that has hung up (`| head`) is no reason to panic.

use std::io::Write;

pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// On stderr: what is not the result itself.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
