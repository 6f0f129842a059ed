//! `millrace bench`: load on a broker, ours or another.

use clap::Subcommand;
use millrace_bench::load::Load;

use crate::{
    failure::{Failure, Outcome},
    output::Output,
};

/// Exit code of a run whose figures do not count.
const INVALID_RUN: u8 = 3;

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Put load on one topic and print rate, latency and cost
    Load(Box<Load>),
}

impl Bench {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::Load(load) => {
                let report = load.run()?;
                let mut output = Output::new();
                output.bytes(report.to_string().as_bytes())?;
                output.flush()?;
                match report.invalid() {
                    None => Ok(()),
                    Some(reason) => {
                        Err(Failure::Coded(format!("the run is invalid: {reason}"), INVALID_RUN))
                    }
                }
            }
        }
    }
}
