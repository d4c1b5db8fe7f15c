//! The `tabwarden` command: what was typed becomes a typed configuration, and one file for each subcommand runs it.

mod api_client;
mod args;
mod attach;
mod audit;
mod browsers;
mod exit;
mod files;
mod launch;
mod output;
mod policy;
mod reload;
mod runtime_file;
mod serve;
mod status;
mod task;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::{Exit, Failure};

fn main() -> ExitCode {
    // Clap prints help and usage errors itself; 2 is also its code for those.
    let args = Args::parse();
    let outcome = match runtime() {
        Ok(runtime) => {
            let local = tokio::task::LocalSet::new();
            let outcome = local.block_on(&runtime, run(args));
            // A blocked lookup of a name must not hold up the end.
            runtime.shutdown_background();
            outcome
        }
        Err(failure) => Err(failure),
    };
    match outcome {
        Ok(()) => Exit::Success.into(),
        Err(failure) => {
            output::note(&format!("tabwarden: {}", failure.message));
            failure.exit.into()
        }
    }
}

async fn run(args: Args) -> Result<(), Failure> {
    match args.command {
        Command::Serve(args) => serve::run(*args).await,
        Command::Task(args) => task::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Reload(args) => reload::run(args).await,
        Command::Audit(args) => audit::run(args).await,
        Command::Policy(args) => policy::run(&args).await,
    }
}

/// One thread for everything: a wake-up across cores costs more than a message.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(format!("The event loop could not be started ({error}); check the limits on open files."))
    })
}
