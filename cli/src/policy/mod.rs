//! `tabwarden policy`: what a person does with policy files before and after they are in force.

mod args;
mod audit;
mod check;
mod diff;
mod explain;
mod import;
mod load;
mod new;
mod schema;
mod suggest;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use ::policy::Date;

pub use args::PolicyArgs;
use args::PolicyCommand;

use crate::exit::Failure;
use crate::output;

pub async fn run(args: &PolicyArgs) -> Result<(), Failure> {
    let today = today();
    let report = match &args.command {
        PolicyCommand::Check { strict, files } => check::check(files, *strict, today),
        PolicyCommand::Test { files } => check::test(files),
        PolicyCommand::Explain(args) => match &args.task {
            Some(task) => explain::of_task(args, task).await,
            None => explain::explain(args, today),
        },
        PolicyCommand::Schema => Ok(Report::of(schema::SCHEMA)),
        PolicyCommand::Diff { old, new, against } => diff::diff(old, new, against, today),
        PolicyCommand::Suggest { from } => suggest::suggest(from),
        PolicyCommand::New { name } => new::starter(name),
        PolicyCommand::Import { from, file } => import::import(*from, file),
    }?;
    if !report.text.is_empty() {
        output::line(report.text.trim_end());
    }
    report.failure.map_or(Ok(()), Err)
}

/// What a command prints, and how it ends.
#[derive(Debug, Default)]
struct Report {
    text: String,
    failure: Option<Failure>,
}

impl Report {
    fn of(text: impl Into<String>) -> Report {
        Report { text: text.into(), failure: None }
    }
}

fn today() -> Date {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Date::from_unix_days(u32::try_from(seconds / 86_400).unwrap_or(u32::MAX))
}
