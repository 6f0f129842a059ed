//! The model test: random work on several logs over the fake disk, power cuts and kills at random
//! moments, and after each restart a comparison with what must be there.
//!
//! Checked: no acknowledged record is lost, offsets are dense, the log is a prefix of what was
//! appended byte for byte, a repeated batch of an idempotent producer gets its old offset, reads
//! return whole batches of exactly these bytes. `MILLRACE_LOG_SEEDS` sets the number of seeds.

#![expect(clippy::disallowed_methods, reason = "a seed that fails is told apart from the run")]

mod driver;
mod partition;

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::planted::{Bug, plant};

/// Seeds of a normal test run.
const SEEDS: u64 = 300;

fn seeds() -> u64 {
    std::env::var("MILLRACE_LOG_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

fn first_seed() -> u64 {
    std::env::var("MILLRACE_LOG_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Seeds of these that fail with `bug` planted; their panics are expected and not shown.
fn failing_seeds(bug: Bug, seeds: u64) -> u64 {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !QUIET.get() {
            hook(panic);
        }
    }));
    QUIET.set(true);
    plant(Some(bug));
    let fails = |seed: &u64| catch_unwind(AssertUnwindSafe(|| driver::run(*seed))).is_err();
    let failing = (0..seeds).filter(fails).count() as u64;
    plant(None);
    QUIET.set(false);
    failing
}

#[test]
fn nothing_acknowledged_is_lost() {
    let first = first_seed();
    for seed in first..first + seeds() {
        let outcome = catch_unwind(AssertUnwindSafe(|| driver::run(seed)));
        if let Err(panic) = outcome {
            eprintln!("seed {seed} fails; run it alone with MILLRACE_LOG_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn acknowledging_at_write_completion_is_caught() {
    let failing = failing_seeds(Bug::AcknowledgeAtWrite, 100);
    assert!(failing > 0, "the model test misses a planted bug");
    println!("caught by {failing} of 100 seeds");
}

#[test]
fn covering_an_unreaped_write_is_caught() {
    let failing = failing_seeds(Bug::CoverUnreaped, 100);
    assert!(failing > 0, "the model test misses a planted bug");
    println!("caught by {failing} of 100 seeds");
}
