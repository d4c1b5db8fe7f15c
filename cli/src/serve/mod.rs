//! `tabwarden serve`: bind, get the browser, make the tasks, say that it is ready, and end in order.

mod announce;
mod config;
mod stop;
mod tasks_dir;

use std::time::Duration;

use router::server::policies::Trigger;
use router::server::token::Tokens;
use router::server::{Handle, Outcome, Server, Upstream, audit};
use tracing::info;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::ServeArgs;
use crate::attach;
use crate::exit::{Exit, Failure};
use crate::files;
use crate::launch::{self, Browser};
use crate::runtime_file::{Running, RuntimeFile};
use announce::Made;
use config::{BrowserConfig, Config, TaskConfig};
use stop::{Reloads, Stop};
use tasks_dir::TasksDir;

/// A browser that was started has so long to answer; a cold one on a slow disk needs some of it.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Clients get so long to take their close frames.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(2);

pub async fn run(args: ServeArgs) -> Result<(), Failure> {
    if router::engine::UNCHECKED {
        eprintln!("This build gives every client everything: it is the control of a test, and nothing else.");
    }
    log();
    let mut config = Config::read(args)?;
    // Kept until the end, when what is in it goes.
    let tasks_dir = TasksDir::claim(&config.settings.engine.tasks_dir)?;
    tasks_dir.path().clone_into(&mut config.settings.engine.tasks_dir);
    let mut stop = Stop::new(config.exit_on_stdin_close)?;
    let admin = Tokens::new()?.draw()?;
    if let audit::Place::Directory(dir) = &config.settings.audit.place {
        files::private_dir(dir)?;
    }
    let server = Server::bind(config.settings.clone(), &admin).await?;
    let handle = server.handle();
    tokio::task::spawn_local(reload_when_told(handle.clone(), stop.reloads()));
    for token in config.tasks.iter().filter_map(|task| task.token.as_ref()) {
        handle.expect(token);
    }
    let running = Running { pid: std::process::id(), url: handle.http_url(), admin_token: admin.reveal().to_owned() };
    let runtime_file = RuntimeFile::write(server.local_addr().port(), &running)?;
    let connected = tokio::select! {
        connected = connect(&config, &handle) => connected?,
        () = stop.wait() => {
            handle.give_up("Tabwarden is shutting down; start it again.");
            return Ok(());
        }
    };
    let outcome = serve(server, connected, config, &mut stop, &runtime_file).await;
    handle.clients_gone(GOODBYE_PATIENCE).await;
    outcome
}

/// How it went is said in the log.
async fn reload_when_told(handle: Handle, reloads: Reloads) {
    loop {
        reloads.wait().await;
        let _ = handle.reload(Trigger::Signal).await;
    }
}

fn log() {
    // Levels by module, e.g. `info,router=debug,browser=debug`.
    let wanted = std::env::var("TABWARDEN_LOG").unwrap_or_default();
    let filter: tracing_subscriber::filter::Targets = wanted
        .parse()
        .ok()
        .filter(|_| !wanted.is_empty())
        .unwrap_or_else(|| tracing_subscriber::filter::Targets::new().with_default(tracing::Level::INFO));
    // Errors of writing the log itself would be printed on stderr, which panics when that is what is closed.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false);
    // Fails only where a logger was set before, and then there is one.
    let _ = tracing_subscriber::registry().with(lines).with(filter).try_init();
}

async fn connect(config: &Config, handle: &Handle) -> Result<(Upstream, Option<Browser>), Failure> {
    match &config.browser {
        BrowserConfig::Launch(launching) => {
            handle.set_waiting("The browser is starting; try again in a moment.");
            let (browser, ends) = launch::start(launching)?;
            Ok((Upstream::Pipe(ends), Some(browser)))
        }
        BrowserConfig::Attach(attaching) => Ok((attach::connect(attaching, handle).await?, None)),
    }
}

async fn serve(
    server: Server,
    connected: (Upstream, Option<Browser>),
    config: Config,
    stop: &mut Stop,
    runtime_file: &RuntimeFile,
) -> Result<(), Failure> {
    let (upstream, browser) = connected;
    let handle = server.handle();
    let driving = server.drive(upstream);
    tokio::pin!(driving);
    let profile = browser.as_ref().map(Browser::profile_note);
    let Config { settings, tasks, json, .. } = config;
    let start = start(&handle, tasks, browser.is_some());
    let started = tokio::select! {
        biased;
        outcome = &mut driving => Err(outcome),
        made = start => Ok(made),
        () = stop.wait() => Ok(Err(Failure { exit: Exit::Success, message: "stopped before it was ready".into() })),
    };
    // `Ok`: it ran. `Err`: it never came that far, and why.
    let (outcome, ran) = match started {
        Err(outcome) => (outcome, Err(None)),
        Ok(Err(failure)) => {
            handle.drain();
            (finish(driving, stop).await, Err(Some(failure)))
        }
        Ok(Ok(made)) => {
            announce::ready(json, &handle, &made, profile.as_deref(), &settings, runtime_file.path());
            let outcome = tokio::select! {
                outcome = &mut driving => outcome,
                () = stop.wait() => {
                    info!("Shutting down.");
                    handle.drain();
                    finish(driving, stop).await
                }
            };
            (outcome, Ok(()))
        }
    };
    match (browser, &outcome, &ran) {
        // It was lost before it said anything: its own words are the better reason.
        (Some(browser), Outcome::BrowserLost(_), Err(None)) => return Err(browser.explain_failure().await),
        (Some(browser), ..) => browser.end(handle.close_deadline()).await,
        (None, ..) => {}
    }
    match (outcome, ran) {
        (_, Err(Some(failure))) if failure.exit == Exit::Success => Ok(()),
        (_, Err(Some(failure))) => Err(failure),
        (Outcome::Drained, _) => Ok(()),
        (Outcome::BrowserLost(reason), _) => Err(Failure {
            exit: Exit::BrowserLost,
            message: format!("{reason} Its tasks are gone with it; start Tabwarden again."),
        }),
        (Outcome::Fatal(reason), _) => Err(Failure::new(format!("This browser cannot be shared safely: {reason}."))),
    }
}

/// A second signal while ending means: at once.
async fn finish(driving: impl Future<Output = Outcome>, stop: &mut Stop) -> Outcome {
    tokio::select! {
        outcome = driving => outcome,
        () = stop.again() => Outcome::Drained,
    }
}

async fn start(handle: &Handle, tasks: Vec<TaskConfig>, launched: bool) -> Result<Vec<Made>, Failure> {
    let ready = handle.ready();
    if launched {
        let ready = tokio::time::timeout(START_PATIENCE, ready).await.map_err(|_| {
            Failure::new(format!(
                "The browser did not answer within {} s of its start; try again, or choose another \
                with --browser-path.",
                START_PATIENCE.as_secs()
            ))
        })?;
        ready?;
    } else {
        ready.await?;
    }
    let mut made = Vec::new();
    for task in tasks {
        let new = handle.new_task(task.plan, task.token).await.map_err(|error| Failure::new(error.message))?;
        made.push(Made { name: new.info.name, context: new.info.context, address: handle.address(&new.token) });
    }
    handle.expect_no_more();
    Ok(made)
}
