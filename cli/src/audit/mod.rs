//! `tabwarden audit`: what was decided, from the files of the audit.

mod reader;

use std::path::PathBuf;
use std::time::Duration;

use router::server::{audit, time};
use serde::Deserialize;

use crate::api_client::ApiClient;
use crate::args::AuditArgs;
use crate::exit::Failure;
use crate::output::{self, printable};
use crate::{files, runtime_file};
use reader::{Line, Reader};

/// As often as the file is looked at again, like other tools that follow files: on a network drive nobody would tell.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What is shown of a record. Later versions may write more.
#[derive(Deserialize)]
struct Record {
    time: String,
    id: String,
    task: String,
    client: Option<u64>,
    method: Option<String>,
    verb: Option<String>,
    object: String,
    verdict: String,
    enforced: bool,
    rule: Rule,
    reason: String,
}

#[derive(Deserialize)]
struct Rule {
    id: String,
    file: String,
    line: u32,
}

struct Filter {
    task: Option<String>,
    denied: bool,
    /// In milliseconds since 1970.
    since: Option<u64>,
}

pub async fn run(args: AuditArgs) -> Result<(), Failure> {
    let path = file(&args).await?;
    let mut reader = Reader::open(&path).map_err(|error| unreadable(&path, &error))?;
    let since = args.since.map(|seconds| time::now_ms().saturating_sub(seconds.saturating_mul(1000)));
    let mut view = View {
        filter: Filter { task: args.task, denied: args.denied, since },
        as_json: args.server.json,
        broken: 0,
        hung_up: false,
    };
    loop {
        view.read(&mut reader, !args.follow).map_err(|error| unreadable(&path, &error))?;
        if !args.follow || view.hung_up {
            return view.end();
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            _ = tokio::signal::ctrl_c() => return view.end(),
        }
    }
}

struct View {
    filter: Filter,
    as_json: bool,
    broken: u64,
    /// Nobody reads our output any more.
    hung_up: bool,
}

impl View {
    fn read(&mut self, reader: &mut Reader, last: bool) -> std::io::Result<()> {
        let mut batch = String::new();
        reader.read(last, |line| {
            match show(&line, &self.filter, self.as_json) {
                Ok(Some(text)) => {
                    batch.push_str(&text);
                    batch.push('\n');
                }
                Ok(None) => {}
                Err(why) => {
                    self.broken += 1;
                    output::note(&format!(
                        "tabwarden: {} is left out, as it is no record of an audit ({why}).",
                        line.place
                    ));
                }
            }
            if batch.len() > 64 << 10 {
                self.hung_up = !output::lines(&std::mem::take(&mut batch));
            }
            !self.hung_up
        })?;
        if !batch.is_empty() {
            self.hung_up = !output::lines(&batch);
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Failure> {
        match self.broken {
            0 => Ok(()),
            1 => Err(Failure::new("One line of the audit was left out; see above which, and look at it by hand.")),
            many => Err(Failure::new(format!(
                "{many} lines of the audit were left out; see above which, and look at them by hand."
            ))),
        }
    }
}

/// The named one, that of the running server, or where the last one that was given none has written.
async fn file(args: &AuditArgs) -> Result<PathBuf, Failure> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let named = args.server.server.is_some() || std::env::var_os("TABWARDEN_URL").is_some_and(|url| !url.is_empty());
    if !named && runtime_file::running().is_empty() {
        let file = files::audit_dir()?.join("audit.jsonl");
        output::note(&format!("No server is running; reading {}.", file.display()));
        return Ok(file);
    }
    let api = ApiClient::find(&args.server)?;
    if !api.is_here() {
        return Err(Failure::usage(
            "The audit of a server of another user or machine cannot be read through the network; name its file with \
                --file, or ask GET /api/v1/tasks/NAME/decisions.",
        ));
    }
    let status = api.call("GET", "status", None).await?;
    status["audit"]["file"]
        .as_str()
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new("The server does not say where its audit is; give the file with --file."))
}

fn unreadable(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("The audit {} cannot be read ({error}); name another with --file FILE.", path.display()))
}

/// `None`: not asked for. `Err`: half a sentence about what is wrong with it.
fn show(line: &Line, filter: &Filter, as_json: bool) -> Result<Option<String>, String> {
    if line.text.is_empty() {
        return Err("it is empty, no UTF-8, or longer than any record".into());
    }
    let record: Record = serde_json::from_str(&line.text).map_err(|error| printable(&error.to_string()))?;
    let at = time::parse_rfc3339(&record.time).ok_or("its time is none")?;
    if !filter.takes(&record, at) {
        return Ok(None);
    }
    Ok(Some(if as_json { audit::escape(line.text.clone()) } else { record.describe() }))
}

impl Filter {
    fn takes(&self, record: &Record, at: u64) -> bool {
        let refused = record.enforced && record.verdict != "allow";
        self.task.as_ref().is_none_or(|task| *task == record.task)
            && (!self.denied || refused)
            && self.since.is_none_or(|since| at >= since)
    }
}

impl Record {
    fn describe(&self) -> String {
        let verdict = if self.enforced { self.verdict.clone() } else { format!("would {}", self.verdict) };
        let client = self.client.map(|client| format!(" client {client}")).unwrap_or_default();
        let method = self.method.as_ref().map(|method| format!(" {method}")).unwrap_or_default();
        let reason = if self.reason.is_empty() { String::new() } else { format!(": {}", self.reason) };
        printable(&format!(
            "{}  {}  {verdict} {} {}  by {} ({}:{}){reason}  [{}{client}{method}]",
            self.time,
            self.task,
            self.verb.as_deref().unwrap_or("-"),
            self.object,
            self.rule.id,
            self.rule.file,
            self.rule.line,
            self.id,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Filter = Filter { task: None, denied: false, since: None };

    fn line(change: impl FnOnce(&mut serde_json::Value)) -> Line {
        let mut record = serde_json::json!({
            "time": "2026-01-31T12:00:00.007Z", "id": "a-1", "task": "one", "client": 3, "method": "Page.navigate",
            "verb": "navigate", "object": "https://x.test/", "verdict": "deny", "enforced": true,
            "rule": {"id": "no", "file": "p.toml", "line": 4}, "reason": "because", "policy_hash": "sha256:00"
        });
        change(&mut record);
        Line { place: "a:1".into(), text: record.to_string() }
    }

    #[test]
    fn a_record_is_one_line_for_a_person() {
        let shown = |change: fn(&mut serde_json::Value)| show(&line(change), &ALL, false).unwrap().unwrap();
        assert_eq!(
            shown(|_| {}),
            "2026-01-31T12:00:00.007Z  one  deny navigate https://x.test/  by no (p.toml:4): because  [a-1 client 3 Page.navigate]"
        );
        let monitored = shown(|record| {
            record["enforced"] = false.into();
            for key in ["client", "method", "verb"] {
                record[key] = serde_json::Value::Null;
            }
            record["reason"] = "".into();
            record["object"] = "a\n\u{1b}[2Jb".into();
        });
        assert_eq!(
            monitored,
            "2026-01-31T12:00:00.007Z  one  would deny - a\\u{a}\\u{1b}[2Jb  by no (p.toml:4)  [a-1]"
        );
    }

    #[test]
    fn only_what_is_asked_for_is_shown() {
        let at = time::parse_rfc3339("2026-01-31T12:00:00.007Z").unwrap();
        let taken =
            |filter: Filter, change: fn(&mut serde_json::Value)| show(&line(change), &filter, true).unwrap().is_some();
        assert!(taken(ALL, |_| {}));
        assert!(taken(Filter { task: Some("one".into()), ..ALL }, |_| {}));
        assert!(!taken(Filter { task: Some("two".into()), ..ALL }, |_| {}));
        assert!(taken(Filter { denied: true, ..ALL }, |record| record["verdict"] = "confirm".into()));
        assert!(!taken(Filter { denied: true, ..ALL }, |record| record["verdict"] = "allow".into()));
        assert!(!taken(Filter { denied: true, ..ALL }, |record| record["enforced"] = false.into()));
        assert!(taken(Filter { since: Some(at), ..ALL }, |_| {}));
        assert!(!taken(Filter { since: Some(at + 1), ..ALL }, |_| {}));
    }

    #[test]
    fn what_is_no_record_is_said_to_be_none() {
        for broken in ["", "{", "[]", "{}", "null", &line(|record| record["time"] = "noon".into()).text] {
            let line = Line { place: "a:1".into(), text: broken.into() };
            assert!(show(&line, &ALL, false).is_err(), "{broken}");
        }
    }
}
