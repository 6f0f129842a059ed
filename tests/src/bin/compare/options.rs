//! The command line.

use std::path::{Path, PathBuf};

use crate::scenario::{self, Scenario};

const USAGE: &str = "\
usage: compare [SCENARIO...] [--runs N] [--run-s S] [--warm-up-s S] [--shards N] [--results DIR]
Measures this broker (built with this profile, or MILLRACE_BIN) against Apache Kafka.
With MILLRACE_TEST_AGAINST=kafka, measures Apache Kafka against itself: the noise of this host.
--runs 5, --run-s 20 and --warm-up-s 60 if not given; all scenarios if none is named:";

/// What was asked for.
#[derive(Debug)]
pub struct Options {
    /// What to compare.
    pub scenarios: Vec<Scenario>,
    /// Runs of each side.
    pub runs: usize,
    /// Length of a run, in seconds, about.
    pub run_s: u64,
    /// Length of the warm-up of each side, in seconds, about; a JVM wants 60.
    pub warm_up_s: u64,
    /// Shards of our broker; its own choice if not given.
    pub shards: Option<usize>,
    /// Where results go.
    pub results: PathBuf,
}

impl Options {
    /// Reads the arguments; the text of the error is for the user.
    pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let known = scenario::all();
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results");
        let mut options = Self {
            scenarios: Vec::new(),
            runs: 5,
            run_s: 20,
            warm_up_s: 60,
            shards: None,
            results,
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} takes a value"));
            match argument.as_str() {
                "--runs" => options.runs = number(&value()?)?,
                "--run-s" => options.run_s = number(&value()?)?,
                "--warm-up-s" => options.warm_up_s = number(&value()?)?,
                "--shards" => options.shards = Some(number(&value()?)?),
                "--results" => options.results = value()?.into(),
                name => {
                    let named = known.iter().find(|scenario| scenario.name == name);
                    options.scenarios.push(named.ok_or_else(|| usage(&known))?.clone());
                }
            }
        }
        if options.scenarios.is_empty() {
            options.scenarios = known;
        }
        Ok(options)
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number that fits"))
}

fn usage(known: &[Scenario]) -> String {
    let line = |scenario: &Scenario| format!("\n  {:14} {}", scenario.name, scenario.shows);
    let lines: String = known.iter().map(line).collect();
    format!("{USAGE}{lines}")
}
