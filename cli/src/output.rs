//! Lines for people and programs. A reader that has hung up (`| head`) is no reason to panic.

use std::io::Write;

pub fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Whether somebody still reads.
pub fn lines(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Text that a page or a file had a say in: nothing in it can move the cursor, end the line or turn it around.
pub fn printable(text: &str) -> String {
    let unprintable = router::server::audit::is_unprintable;
    if !text.contains(unprintable) {
        return text.to_owned();
    }
    text.chars().map(|c| if unprintable(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// On stderr: what is not the result itself.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
