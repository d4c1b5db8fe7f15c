//! The trace of a run. Off by default, since so many runs would write it for nobody; a run that fails is repeated with
//! it, which gives the same run.

use ownership::id::ClientId;

#[derive(Default)]
pub struct Log {
    lines: Option<Vec<String>>,
}

impl Log {
    pub fn on() -> Log {
        Log { lines: Some(Vec::new()) }
    }

    pub fn line(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push(line());
        }
    }

    pub fn frame(&mut self, whose: &str, text: &str) {
        self.line(|| format!("{whose} {text}"));
    }

    pub fn command(&mut self, text: &str, on_behalf: Option<ClientId>) {
        self.line(|| match on_behalf {
            Some(client) => format!("  b< {text} for c{}", client.0),
            None => format!("  b< {text}"),
        });
    }

    pub fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
