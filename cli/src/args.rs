//! What can be typed. Meaning is given to it by the subcommands.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use url::Url;

/// One real browser, many agents: each client sees and holds only the pages of its own task.
#[derive(Debug, Parser)]
#[command(name = "tabwarden", version)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Share one browser: start one, or take the one that is handed over.
    Serve(Box<ServeArgs>),
    /// Make, list, show and end the tasks of a running `serve`.
    Task(TaskArgs),
    /// Show what a running `serve` does.
    Status(ServerArgs),
    /// Have a running `serve` read its policy files anew: all of them, or none if one is wrong.
    Reload(ServerArgs),
    /// Show what was refused, and what a monitored rule would have refused.
    Audit(AuditArgs),
    /// Check, test, explain and draft policy files. Needs no running `serve`, but for `explain --task`.
    Policy(crate::policy::PolicyArgs),
}

#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Start Chrome or Chromium without any debugging port; the default. It ends with Tabwarden.
    #[arg(long, conflicts_with_all = ["browser_url", "auto"])]
    pub launch: bool,
    /// The browser to start; else TABWARDEN_BROWSER, else the first found in the usual places.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["browser_url", "auto"])]
    pub browser_path: Option<PathBuf>,
    /// Use this profile directory as it is, instead of one of Tabwarden's own.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["browser_url", "auto", "profile_name", "ephemeral"])]
    pub profile: Option<PathBuf>,
    /// Which of Tabwarden's own profiles to use; they persist. [default: default]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["browser_url", "auto", "ephemeral"])]
    pub profile_name: Option<String>,
    /// Use a new profile that is deleted at the end, for CI.
    #[arg(long, conflicts_with_all = ["browser_url", "auto"])]
    pub ephemeral: bool,
    /// Start the browser without windows.
    #[arg(long, conflicts_with_all = ["browser_url", "auto"])]
    pub headless: bool,
    /// Start the browser without its sandbox: a page that breaks out of the renderer then has all rights of this user.
    #[arg(long, conflicts_with_all = ["browser_url", "auto"])]
    pub no_sandbox: bool,
    /// Share a running browser: http(s)://HOST:PORT of its debugging port, or its ws(s):// address.
    #[arg(long, value_name = "URL", conflicts_with = "auto")]
    pub browser_url: Option<Url>,
    /// Share the running browser in which somebody has allowed remote debugging (chrome://inspect#remote-debugging).
    #[arg(long)]
    pub auto: bool,
    /// Make this task at start: NAME[,context=shared][,policy=FILE][,token-file=PATH]. May be repeated.
    #[arg(long = "task", value_name = "NAME,…")]
    pub tasks: Vec<String>,
    /// Where to listen; port 0 takes a free one. Other than loopback is reachable by other machines.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9333")]
    pub listen: SocketAddr,
    /// Print one JSON line on stdout when ready.
    #[arg(long)]
    pub json: bool,
    /// End when stdin closes, for programs that start Tabwarden.
    #[arg(long)]
    pub exit_on_stdin_close: bool,
    /// Accept this host name in requests, beside IP addresses and localhost. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Accept requests of web pages of this origin (scheme://host[:port]). May be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,
    /// The address at which clients reach Tabwarden, when a proxy stands before it.
    #[arg(long, value_name = "URL")]
    pub public_url: Option<Url>,
    /// A policy for all tasks, beside their own: each may only narrow what the others allow. May be repeated. The
    /// administrator's in /etc/tabwarden/policies are always read.
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,
    /// Where the API finds policies, as NAME.toml.
    #[arg(long, value_name = "DIR")]
    pub policy_dir: Option<PathBuf>,
    /// Clients may upload files from below this directory. May be repeated. [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub grant_read: Vec<PathBuf>,
    /// Clients may have downloads written below this directory. May be repeated.
    #[arg(long, value_name = "DIR")]
    pub grant_write: Vec<PathBuf>,
    /// Active tasks at most.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_tasks: usize,
    /// Do not give the keyboard focus back to the person's tab when an agent's click or popup has taken it.
    #[arg(long)]
    pub leave_focus: bool,
    /// Write the audit here: a line of JSON for each decision that is not a plain yes. [default: audit/audit.jsonl in
    /// the data directory]
    #[arg(long, value_name = "FILE")]
    pub audit_file: Option<PathBuf>,
    /// Keep queries and fragments of addresses in the audit; there may be secrets in them.
    #[arg(long)]
    pub audit_queries: bool,
    /// Write every message to and from the browser to this file, as JSON Lines. It will hold page data: passwords
    /// typed,
    /// cookies, contents.
    #[arg(long, value_name = "FILE")]
    pub record_upstream: Option<PathBuf>,
    /// Further flags for the browser that is started.
    #[arg(last = true, value_name = "BROWSER FLAGS")]
    pub browser_flags: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// The running `serve`; else TABWARDEN_URL, else the only one of this user.
    #[arg(long, value_name = "URL", global = true)]
    pub server: Option<Url>,
    /// A file with the admin token, for a server that another user runs; else TABWARDEN_ADMIN_TOKEN.
    #[arg(long, value_name = "FILE", global = true)]
    pub admin_token_file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct AuditArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Read this file and its older ones, whether a server runs or not.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "admin_token_file"])]
    pub file: Option<PathBuf>,
    /// Only of this task.
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Only what was refused: neither what was allowed nor what a monitored rule would have refused.
    #[arg(long)]
    pub denied: bool,
    /// Only of so long ago, e.g. 90s, 30m, 12h, 7d.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub since: Option<u64>,
    /// Go on with what is being written, until interrupted.
    #[arg(long)]
    pub follow: bool,
}

#[derive(Debug, clap::Args)]
pub struct TaskArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(subcommand)]
    pub command: TaskCommand,
}

#[derive(Debug, Subcommand)]
pub enum TaskCommand {
    /// Make a task and print its address, this once.
    New {
        /// Letters, digits, '-', '_' and '.'.
        name: String,
        /// isolated: without the profile's logins. shared: with them.
        #[arg(long, default_value = "isolated", value_parser = ["isolated", "shared"])]
        context: String,
        /// A name in the server's policy directory.
        #[arg(long, value_name = "NAME")]
        policy: Option<String>,
        /// Allow nothing but this host, and others that are named so, as far as the policies allow them. May be repeated.
        #[arg(long, value_name = "HOST")]
        allow_host: Vec<String>,
        /// The same for a host with everything below it. May be repeated.
        #[arg(long, value_name = "HOST")]
        allow_site: Vec<String>,
        /// Open this page at once, in the background.
        #[arg(long, value_name = "URL")]
        open: Option<String>,
        /// End the task after so long without a client, e.g. 90s, 30m, 12h, 7d. [default: never]
        #[arg(long, value_parser = parse_duration)]
        ttl: Option<u64>,
    },
    /// List all tasks.
    List,
    /// Show one task with its pages, clients and last refusals.
    Show { name: String },
    /// Replace a task's token by a new one, which is printed this once.
    Token {
        name: String,
        /// Needed: there is no way to show a token again.
        #[arg(long, required = true)]
        rotate: bool,
    },
    /// End a task: its pages are closed, its clients too.
    End {
        name: String,
        /// Leave the pages of a shared task to the person.
        #[arg(long)]
        keep_pages: bool,
    },
}

/// Seconds of `90s`, `30m`, `12h`, `7d` or a bare number of seconds.
fn parse_duration(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("write a number with s, m, h or d, e.g. 30m".into()),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|seconds| *seconds > 0);
    number.ok_or_else(|| "write a number with s, m, h or d, e.g. 30m".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("90"), Ok(90));
        assert_eq!(parse_duration("2h"), Ok(7200));
        for bad in ["", "h", "0s", "-1s", "1w", "1.5h", "99999999999999999999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
