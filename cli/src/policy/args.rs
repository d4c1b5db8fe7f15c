//! What can be typed after `tabwarden policy`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::args::ServerArgs;

#[derive(Debug, clap::Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Read policy files, look for what is wrong with them, and run their tests.
    #[command(visible_alias = "validate")]
    Check {
        /// Fail on warnings too.
        #[arg(long)]
        strict: bool,
        /// Files, or directories of *.toml. They are checked as they would be loaded together.
        #[arg(required = true, value_name = "FILES")]
        files: Vec<PathBuf>,
    },
    /// Run the tests of policy files, and nothing else.
    Test {
        #[arg(required = true, value_name = "FILES")]
        files: Vec<PathBuf>,
    },
    /// Say what a policy does with a verb at a URL, and why.
    Explain(ExplainArgs),
    /// Print the JSON Schema of policy files, for editors.
    Schema,
    /// Show which decisions of an audit would be others under another policy. (It keeps refusals: what a narrower policy would
    /// refuse anew does not show.)
    Diff {
        old: PathBuf,
        new: PathBuf,
        /// A file of audit records, as `serve` writes it.
        #[arg(long, value_name = "AUDIT")]
        against: PathBuf,
    },
    /// Draft a policy that allows what an audit shows was refused or would have been, for a person to go over.
    Suggest {
        /// A file of audit records, as `serve` writes it.
        #[arg(long, value_name = "AUDIT")]
        from: PathBuf,
    },
    /// Print a policy with comments to begin with.
    New {
        #[arg(default_value = "mine")]
        name: String,
    },
    /// Print a policy made of what another program uses, with a note on each line that means something else here.
    Import { from: ImportFrom, file: PathBuf },
}

#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// For example navigate, subresource, read or script.
    pub verb: String,
    pub url: String,
    /// The document that asks for it, or that made it. [default: the client itself]
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// Of HTTP. [default: GET, for what is a request]
    #[arg(long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Of a task's policy. May be repeated. [default: the built-in policy]
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,
    /// Ask a running `serve` about this task: all layers that are in force.
    #[arg(long, value_name = "NAME", conflicts_with = "policy")]
    pub task: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ImportFrom {
    /// JSON with URLBlocklist and URLAllowlist, as Chrome's and Edge's managed policies have them.
    Chrome,
    /// JSON with allowedDomains, as agent-browser's configuration has it.
    AgentBrowser,
}
