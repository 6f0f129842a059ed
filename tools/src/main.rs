//! `millrace`: everything an operator types, in one binary.
//!
//! This file is the table of contents: each subcommand has its own file and a `run`. Failure
//! behaviour: one line on standard error and exit code 1; a reader of our output that goes away
//! (`| head`) ends the command quietly.

mod bench;
mod bootstrap;
mod consume;
mod failure;
mod output;
mod produce;
mod serve;
mod settings;
mod topics;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::Outcome;

/// A Kafka-compatible streaming log that keeps what it acknowledges.
#[derive(Debug, Parser)]
#[command(name = "millrace", version, propagate_version = true)]
struct Millrace {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    #[command(subcommand)]
    Config(serve::Config),
    /// Create, list, describe, alter and delete topics
    #[command(subcommand)]
    Topics(topics::Topics),
    /// Send lines of standard input as records
    Produce(Box<produce::Produce>),
    /// Print records of a topic
    Consume(Box<consume::Consume>),
    /// Measure a broker under load
    #[command(subcommand)]
    Bench(bench::Bench),
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Self::Serve(command) => command.run(),
            Self::Config(command) => command.run(),
            Self::Topics(command) => command.run(),
            Self::Produce(command) => command.run(),
            Self::Consume(command) => command.run(),
            Self::Bench(command) => command.run(),
        }
    }
}

fn main() -> ExitCode {
    match Millrace::try_parse() {
        Ok(millrace) => failure::exit_code(millrace.command.run()),
        Err(error) => usage::explain(&error),
    }
}
