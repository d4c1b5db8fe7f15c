//! What was typed for `serve` → what it means; read once, checked at once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use router::engine::io::{BrowserOrigin, EngineConfig, TaskContext};
use router::server::policies::{PolicyFiles, Source, Store, TaskPolicy};
use router::server::{Doors, Settings, TaskPlan, Token, api, audit, time};
use url::Url;

use crate::args::ServeArgs;
use crate::attach::AttachConfig;
use crate::exit::Failure;
use crate::files;
use crate::launch::{LaunchConfig, ProfileChoice};

pub enum BrowserConfig {
    Launch(LaunchConfig),
    Attach(AttachConfig),
}

pub struct TaskConfig {
    pub plan: TaskPlan,
    /// `None`: a new one each time.
    pub token: Option<Token>,
}

pub struct Config {
    pub browser: BrowserConfig,
    pub settings: Settings,
    pub tasks: Vec<TaskConfig>,
    pub json: bool,
    pub exit_on_stdin_close: bool,
}

/// These would open what Tabwarden is there to keep shut, or are its own to give.
const OWN_FLAGS: [&str; 5] = [
    "--remote-debugging-port",
    "--remote-debugging-address",
    "--remote-debugging-pipe",
    "--remote-debugging-socket-name",
    "--user-data-dir",
];

impl Config {
    pub fn read(args: ServeArgs) -> Result<Config, Failure> {
        let named = args.policy_dir.as_deref().map(|dir| directory(dir, "--policy-dir")).transpose()?;
        let policies = PolicyFiles::new(args.policy.clone(), named);
        let tasks = args.tasks.iter().map(|text| task(text)).collect::<Result<Vec<_>, _>>()?;
        let doors = Doors {
            hosts: args.allow_host.iter().map(|host| allowed_host(host)).collect::<Result<_, _>>()?,
            origins: args.allow_origin.iter().map(|origin| allowed_origin(origin)).collect::<Result<_, _>>()?,
        };
        if let Some(url) = &args.public_url
            && (!matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some())
        {
            return Err(Failure::usage(
                "--public-url is where clients reach Tabwarden; give http(s)://HOST[:PORT][/PATH].",
            ));
        }
        let working = std::env::current_dir().map_err(|error| {
            Failure::new(format!("The working directory cannot be read ({error}); start somewhere else."))
        })?;
        let reads = if args.grant_read.is_empty() { vec![working] } else { args.grant_read.clone() };
        let launched = args.browser_url.is_none() && !args.auto;
        check_policies(&policies, &tasks, launched)?;
        let engine = EngineConfig {
            origin: if launched { BrowserOrigin::Launched } else { BrowserOrigin::Attached },
            max_tasks: args.max_tasks,
            reads_by_default: args.grant_read.is_empty(),
            read_dirs: reads.iter().map(|dir| directory(dir, "--grant-read")).collect::<Result<_, _>>()?,
            write_dirs: args.grant_write.iter().map(|dir| directory(dir, "--grant-write")).collect::<Result<_, _>>()?,
            tasks_dir: files::tasks_dir(),
            temp_dir: directory(&std::env::temp_dir(), "TMPDIR")?,
            audit_prefix: format!("{:x}", time::now_ms()),
            born_unix_ms: time::now_ms(),
            return_focus: !args.leave_focus,
        };
        let settings = Settings {
            listen: args.listen,
            doors,
            public_url: args.public_url.clone(),
            policies,
            audit: audit::Settings { place: audit_place(args.audit_file.as_deref())?, queries: args.audit_queries },
            record_upstream: args.record_upstream.clone(),
            no_sandbox: args.no_sandbox,
            engine,
        };
        let (json, exit_on_stdin_close) = (args.json, args.exit_on_stdin_close);
        Ok(Config { browser: browser(args)?, settings, tasks, json, exit_on_stdin_close })
    }
}

fn browser(args: ServeArgs) -> Result<BrowserConfig, Failure> {
    let attached = if args.auto { Some(AttachConfig::Auto) } else { args.browser_url.map(AttachConfig::Url) };
    if let Some(attached) = attached {
        if !args.browser_flags.is_empty() {
            return Err(Failure::usage(
                "Flags after -- are for a browser that Tabwarden starts; leave them out with --browser-url and --auto.",
            ));
        }
        return Ok(BrowserConfig::Attach(attached));
    }
    for flag in &args.browser_flags {
        // Chromium takes one dash for two.
        let bare = flag.split('=').next().unwrap_or_default().trim_start_matches('-');
        let name = format!("--{bare}");
        let name = name.as_str();
        if OWN_FLAGS.contains(&name) {
            return Err(Failure::usage(format!(
                "{name} cannot be given to the browser: a debugging port would be open to every local program, and \
                    the profile is chosen with --profile."
            )));
        }
        if name == "--no-sandbox" || name == "--headless" {
            return Err(Failure::usage(format!("Give {name} before the --, so that Tabwarden knows of it.")));
        }
    }
    let profile = match (args.profile, args.ephemeral) {
        (Some(dir), _) => ProfileChoice::Given(dir),
        (None, true) => ProfileChoice::Ephemeral,
        (None, false) => {
            let name = args.profile_name.unwrap_or_else(|| "default".into());
            if !api::is_task_name(&name) {
                return Err(Failure::usage(
                    "A profile's name begins with a letter or digit and holds only these, '-', '_' and '.'; choose \
                        another --profile-name.",
                ));
            }
            ProfileChoice::Named(name)
        }
    };
    let named = std::env::var_os("TABWARDEN_BROWSER").filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(BrowserConfig::Launch(LaunchConfig {
        program: args.browser_path.or(named),
        profile,
        headless: args.headless,
        no_sandbox: args.no_sandbox,
        flags: args.browser_flags,
    }))
}

/// Before a browser is started for tasks that it cannot have.
fn check_policies(files: &PolicyFiles, tasks: &[TaskConfig], launched: bool) -> Result<(), Failure> {
    let store = Store::open(files.clone(), launched).map_err(Failure::usage)?;
    for task in tasks {
        let isolated = task.plan.context == TaskContext::Isolated;
        store.apply(&task.plan.policy, isolated).map_err(Failure::usage)?;
    }
    Ok(())
}

/// `NAME[,context=shared][,policy=FILE][,token-file=PATH]`
fn task(text: &str) -> Result<TaskConfig, Failure> {
    let mut parts = text.split(',');
    let name = parts.next().unwrap_or_default();
    let wrong = |what: &str| {
        Failure::usage(format!("--task {text}: {what}; write NAME[,context=shared][,policy=FILE][,token-file=PATH]."))
    };
    if !api::is_task_name(name) {
        return Err(wrong("a name begins with a letter or digit and holds only these, '-', '_' and '.'"));
    }
    let (mut context, mut source, mut token) = (None, None, None);
    for part in parts {
        match part.split_once('=') {
            Some(("context", "isolated")) if context.is_none() => context = Some(TaskContext::Isolated),
            Some(("context", "shared")) if context.is_none() => context = Some(TaskContext::Shared),
            Some(("policy", file)) if source.is_none() => source = Some(Source::File(file.into())),
            Some(("token-file", path)) if token.is_none() => token = Some(files::token_file(Path::new(path))?),
            _ => return Err(wrong(&format!("{part:?} is not understood here"))),
        }
    }
    let policy = source.map(|source| TaskPolicy { source, allow: None }).unwrap_or_default();
    let idle_ttl: Option<Duration> = None;
    let context = context.unwrap_or(TaskContext::Isolated);
    let plan = TaskPlan { name: Some(name.into()), context, policy, idle_ttl, labels: Default::default(), open: None };
    Ok(TaskConfig { plan, token })
}

fn audit_place(named: Option<&Path>) -> Result<audit::Place, Failure> {
    Ok(match named {
        Some(file) => audit::Place::File(file.to_owned()),
        None => audit::Place::Directory(files::audit_dir()?),
    })
}

fn directory(dir: &Path, option: &str) -> Result<PathBuf, Failure> {
    match dir.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(Failure::usage(format!("{option} {} is no directory; name one.", dir.display()))),
        Err(error) => Err(Failure::usage(format!(
            "{option} {} cannot be used ({error}); name a directory that exists.",
            dir.display()
        ))),
    }
}

fn allowed_host(host: &str) -> Result<String, Failure> {
    let right = !host.is_empty()
        && !host.ends_with('.')
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'));
    if right {
        Ok(host.to_ascii_lowercase())
    } else {
        Err(Failure::usage(format!(
            "--allow-host {host} is no host name; give it without scheme, port and trailing dot."
        )))
    }
}

fn allowed_origin(origin: &str) -> Result<String, Failure> {
    match Url::parse(origin) {
        // Extensions have opaque origins for the `url` crate; what browsers send is what was typed.
        Ok(url)
            if url.host().is_some()
                && matches!(url.path(), "" | "/")
                && !origin.ends_with('/')
                && url.query().is_none() =>
        {
            Ok(origin.to_owned())
        }
        _ => Err(Failure::usage(format!(
            "--allow-origin {origin} is no origin; give scheme://host[:port] without a slash at the end."
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    fn read(arguments: &[&str]) -> Result<Config, Failure> {
        let args = Args::try_parse_from(["tabwarden", "serve"].iter().chain(arguments))
            .map_err(|error| Failure::usage(error.to_string()))?;
        match args.command {
            Command::Serve(args) => Config::read(*args),
            _ => panic!("not serve"),
        }
    }

    #[test]
    fn a_task_has_a_name_and_options() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let config =
            read(&["--task", "one", "--task", &format!("two,context=shared,token-file={}", file.display())]).unwrap();
        assert_eq!(config.tasks[0].plan.name.as_deref(), Some("one"));
        assert_eq!(config.tasks[0].plan.context, TaskContext::Isolated);
        assert_eq!(config.tasks[1].plan.context, TaskContext::Shared);
        assert!(config.tasks[1].token.is_some() && file.exists());
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for wrong in [
            &["--task", ""][..],
            &["--task", "a b"],
            &["--task", "a,context=other"],
            &["--task", "a,context=shared,context=isolated"],
            &["--task", "a,policy=/nowhere.toml"],
            &["--policy-dir", "/nowhere"],
            &["--policy", "/nowhere.toml"],
            &["--grant-read", "/nowhere"],
            &["--allow-host", "https://x"],
            &["--allow-origin", "https://x/"],
            &["--allow-origin", "null"],
            &["--public-url", "ws://x"],
            &["--profile-name", "../x"],
            &["--auto", "--headless"],
            &["--auto", "--", "--x"],
            &["--", "--remote-debugging-port=9222"],
            &["--", "--no-sandbox"],
        ] {
            assert_eq!(read(wrong).err().map(|failure| failure.exit), Some(crate::exit::Exit::Usage), "{wrong:?}");
        }
    }

    #[test]
    fn the_defaults_are_narrow() {
        let config = read(&[]).unwrap();
        assert!(config.settings.listen.ip().is_loopback());
        assert_eq!(config.settings.engine.read_dirs, [std::env::current_dir().unwrap().canonicalize().unwrap()]);
        assert!(config.settings.engine.write_dirs.is_empty());
        assert!(matches!(
            config.browser,
            BrowserConfig::Launch(LaunchConfig { profile: ProfileChoice::Named(_), no_sandbox: false, .. })
        ));
    }
}
