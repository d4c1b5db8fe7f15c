//! The seeded simulation, and the proof that it can fail.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tabwarden_tests::sim::{self, Failure, Fault};

/// Chosen so that all of it takes about twenty seconds in a debug build on two cores.
const SEEDS: Range<u64> = 0..1600;
const STEPS: usize = 200;

/// How much of a trace a failure shows; `SIM_SEED` shows all.
const SHOWN: usize = 60;

fn steps() -> usize {
    std::env::var("SIM_STEPS").ok().map_or(STEPS, |steps| steps.parse().expect("SIM_STEPS is a number"))
}

fn seeds() -> Range<u64> {
    let Ok(range) = std::env::var("SIM_SEEDS") else { return SEEDS };
    let (from, to) = range.split_once("..").expect("SIM_SEEDS is FROM..TO");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn report(failure: &Failure) -> String {
    let Failure { seed, step, violation, trace } = failure;
    let shown = &trace[trace.len().saturating_sub(SHOWN)..];
    format!(
        "seed {seed}, step {step}: {:?}: {}\n\n{}\n\nAll of it: SIM_SEED={seed} cargo test -p tabwarden-tests --test simulation -- --nocapture",
        violation.rule,
        violation.what,
        shown.join("\n")
    )
}

/// Every run of that range, on all cores. The failures, in the order of their seeds.
fn failures(seeds: Range<u64>, fault: Option<Fault>) -> Vec<Failure> {
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if let Err(failure) = sim::run(seed, steps(), fault) {
                        found.lock().expect("no thread panics while it holds this").push(failure);
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread has panicked");
    found.sort_by_key(|failure| failure.seed);
    found
}

#[test]
fn invariants_hold_whatever_happens() {
    if let Ok(seed) = std::env::var("SIM_SEED") {
        let (trace, failure) = sim::traced(seed.parse().expect("SIM_SEED is a number"), steps());
        println!("{}", trace.join("\n"));
        if let Some(failure) = failure {
            panic!("step {}: {:?}: {}", failure.step, failure.violation.rule, failure.violation.what);
        }
        return;
    }
    let failures = failures(seeds(), None);
    let Some(first) = failures.first() else { return };
    let mut rules: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for failure in &failures {
        rules.entry(failure.violation.rule).or_default().push(failure.seed);
    }
    let mut summary = String::new();
    for (rule, seeds) in rules {
        summary.push_str(&format!("  {rule:?}: {} runs, seeds {:?} …\n", seeds.len(), &seeds[..seeds.len().min(8)]));
    }
    panic!("{} runs failed:\n{summary}\nThe first: {}", failures.len(), report(first));
}

/// An engine with each fault in turn. A checker that does not notice it would not notice it in the real one either.
#[test]
fn every_fault_is_noticed() {
    const ENOUGH: u64 = 40;
    for fault in Fault::ALL {
        let noticed = (0..ENOUGH).find_map(|seed| sim::run(seed, STEPS, Some(fault)).err());
        let Some(failure) = noticed else { panic!("{fault:?} was noticed in none of {ENOUGH} runs") };
        assert!(
            fault.breaks().contains(&failure.violation.rule),
            "{fault:?} was taken for something else: {}",
            report(&failure)
        );
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..5 {
        assert_eq!(sim::traced(seed, STEPS).0, sim::traced(seed, STEPS).0, "seed {seed}");
    }
}
