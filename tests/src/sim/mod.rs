//! Seeded simulation: the engine between a model browser and simulated clients, with the invariants of the design checked on
//! every output. A seed is a whole run; a run that fails is repeated with its trace, and so can you:
//!
//! ```text
//! SIM_SEED=7 cargo test -p tabwarden-tests --test simulation -- --nocapture     one run, with its trace
//! SIM_SEEDS=0..50000 SIM_STEPS=400 cargo test -p tabwarden-tests --test simulation
//! ```

mod browser;
mod check;
mod client;
mod commands;
mod log;
mod quiet;
mod rng;
mod tamper;
mod truth;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

pub use check::{Rule, Violation};
pub use rng::Rng;
pub use tamper::Fault;

use check::Check;
use log::Log;
use world::{Phase, World};

/// A run whose invariants did not hold.
pub struct Failure {
    pub seed: u64,
    pub step: usize,
    pub violation: Violation,
    /// What went in and came out, the newest last; with short names for ids.
    pub trace: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Everybody,
    BrowserLost,
    Drain,
}

#[derive(Clone, Copy)]
enum Act {
    Work,
    Deliver,
    Happening,
    ClientSays,
    ClientRuns,
    Join,
    Leave,
    NewTask,
    EndTask,
    Look,
    Time,
    Settle,
}

const ACTS: [(usize, Act); 12] = [
    (22, Act::Work),
    (22, Act::Deliver),
    (18, Act::Happening),
    (22, Act::ClientSays),
    (14, Act::ClientRuns),
    (7, Act::Join),
    (2, Act::Leave),
    (3, Act::NewTask),
    (1, Act::EndTask),
    (1, Act::Look),
    (1, Act::Time),
    (1, Act::Settle),
];

/// Tasks at a time; one more than the engine is configured to allow is tried now and then.
const TASKS: usize = 3;
const CLIENTS: usize = 6;

/// One run of that many steps. `Ok` is how many frames crossed.
pub fn run(seed: u64, steps: usize, fault: Option<Fault>) -> Result<(), Failure> {
    match attempt(seed, steps, fault, false) {
        Ok(()) => Ok(()),
        // The same again, this time written down.
        Err(_) => attempt(seed, steps, fault, true),
    }
}

/// As `run`, with the trace of a run that goes well.
pub fn traced(seed: u64, steps: usize) -> (Vec<String>, Option<Failure>) {
    let mut world = World::new(seed, None, Log::on());
    let outcome = guarded(&mut world, steps);
    (trace(&world), outcome.err().map(|(step, violation)| Failure { seed, step, violation, trace: Vec::new() }))
}

fn attempt(seed: u64, steps: usize, fault: Option<Fault>, logged: bool) -> Result<(), Failure> {
    let log = if logged { Log::on() } else { Log::default() };
    let mut world = World::new(seed, fault, log);
    guarded(&mut world, steps).map_err(|(step, violation)| Failure { seed, step, violation, trace: trace(&world) })
}

fn trace(world: &World) -> Vec<String> {
    world.log.lines().iter().map(|line| world.browser.truth.shorten(line)).collect()
}

/// A panic of the engine's is a violation like any other: what led to it is wanted just as much.
fn guarded(world: &mut World, steps: usize) -> Result<(), (usize, Violation)> {
    let mut step = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| whole(world, steps, &mut step)));
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(violation)) => Err((step, violation)),
        Err(panic) => {
            let said = panic.downcast_ref::<String>().cloned();
            let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err((step, Violation { rule: Rule::Panic, what: said.unwrap_or_default() }))
        }
    }
}

fn whole(world: &mut World, steps: usize, step: &mut usize) -> Check {
    world.start()?;
    let end = world.rng.weighted(&[(8, End::Everybody), (1, End::BrowserLost), (1, End::Drain)]);
    // Most browsers are as they should be; in the others a gate fails now and then.
    world.browser.faults = world.rng.chance(30);
    for _ in 0..1 + world.rng.below(TASKS) {
        let (shared, denies) = (world.rng.chance(50), world.rng.chance(50));
        world.new_task(shared, denies)?;
    }
    if world.rng.chance(70) {
        world.run_out()?;
    }
    for _ in 0..steps {
        *step += 1;
        world.log.line(|| format!("# {step}"));
        one_step(world)?;
    }
    match end {
        End::Everybody => world.wind_down(),
        End::BrowserLost => {
            world.lose()?;
            world.after_loss()
        }
        End::Drain => world.drained_down(),
    }
}

fn one_step(world: &mut World) -> Check {
    let few = world.rng.below(20);
    world.pass(Duration::from_millis(few as u64))?;
    match world.rng.weighted(&ACTS) {
        Act::Work => (0..=world.rng.below(16)).for_each(|_| world.browser.work()),
        Act::Deliver => {
            let batch = 1 + world.rng.below(16);
            world.deliver(batch)?;
        }
        Act::Happening => world.browser.happening(),
        Act::ClientSays => {
            if let Some(no) = some_client(world, |_| true) {
                world.client_says(no)?;
            }
        }
        Act::ClientRuns => {
            let waits = |client: &client::Client| client.next_to_run().is_some();
            if let Some(no) = some_client(world, |client| client.cooperative && waits(client)) {
                world.client_runs(no)?;
            }
        }
        Act::Join => {
            let task = some_task(world, |phase| phase == Phase::Active || phase == Phase::Ending);
            let connected = world.clients.iter().filter(|client| client.connected).count();
            if let (Some(task), true) = (task, connected < CLIENTS) {
                let cooperative = world.rng.chance(80);
                world.join(task, cooperative)?;
            }
        }
        Act::Leave => {
            if let Some(no) = some_client(world, |_| true) {
                world.leave(no)?;
            }
        }
        Act::NewTask => {
            let living = world.tasks.iter().filter(|task| task.phase != Phase::Gone).count();
            if living < TASKS || world.rng.chance(10) {
                let (shared, denies) = (world.rng.chance(50), world.rng.chance(50));
                world.new_task(shared, denies)?;
            }
        }
        Act::EndTask => {
            if let Some(task) = some_task(world, |phase| phase != Phase::Gone) {
                let keep = world.rng.chance(30);
                world.end_task(task, keep)?;
            }
        }
        Act::Look => world.look()?,
        Act::Time => {
            let seconds = *world.rng.pick(&[1, 6, 31, 70]).unwrap_or(&1);
            world.pass(Duration::from_secs(seconds))?;
        }
        Act::Settle => world.settle()?,
    }
    Ok(())
}

fn some_client(world: &mut World, fits: impl Fn(&client::Client) -> bool) -> Option<usize> {
    let connected: Vec<usize> =
        world.clients.iter().filter(|client| client.connected && fits(client)).map(|client| client.no).collect();
    world.rng.pick(&connected).copied()
}

fn some_task(world: &mut World, fits: impl Fn(Phase) -> bool) -> Option<usize> {
    let tasks: Vec<usize> =
        world.tasks.iter().enumerate().filter(|(_, task)| fits(task.phase)).map(|(no, _)| no).collect();
    world.rng.pick(&tasks).copied()
}
