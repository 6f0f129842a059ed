//! `millrace serve` and `millrace config explain`: the broker's settings from a command line.

use std::{fs, io::IsTerminal, path::PathBuf};

use clap::{Args, Subcommand};
use millrace_engine::{
    config::{BrokerConfig, Flag, Sources},
    io::runtime::RuntimeOptions,
};
use millrace_net::broker;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use crate::{
    failure::{Failure, Outcome},
    output::Output,
};

/// Where settings come from, weakest first: defaults, file, environment, --set, the other flags.
#[derive(Debug, Args)]
pub struct Settings {
    /// Directory of the data (log.dirs) [default: millrace-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Address to listen on (listeners) [default: 127.0.0.1:9092]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Address that clients are told to connect to (advertised.listeners)
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Number of shards, each on a core of its own (millrace.shards) [default: the process's CPUs]
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// File of settings in the syntax of Kafka's server.properties
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// Start a broker
#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    settings: Settings,
}

/// Look at settings
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Print each setting, its value and where it came from
    Explain(Settings),
}

impl Settings {
    fn load(&self) -> Outcome<BrokerConfig> {
        BrokerConfig::load(&self.sources()?).map_err(|error| Failure::line(error.to_string()))
    }

    fn sources(&self) -> Outcome<Sources> {
        let flags = [
            ("--data-dir", "log.dirs", self.data_dir.clone()),
            ("--listen", "listeners", self.listen.as_ref().map(|at| format!("PLAINTEXT://{at}"))),
            (
                "--advertise",
                "advertised.listeners",
                self.advertise.as_ref().map(|at| format!("PLAINTEXT://{at}")),
            ),
            ("--shards", "millrace.shards", self.shards.clone()),
        ];
        let given = flags.into_iter().filter_map(|(flag, name, value)| {
            value.map(|value| Flag { flag: flag.into(), name: name.into(), value })
        });
        Ok(Sources {
            file: self.read_file()?,
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            set: self.set.clone(),
            flags: given.collect(),
        })
    }

    fn read_file(&self) -> Outcome<Option<(String, String)>> {
        let Some(path) = &self.config else { return Ok(None) };
        let name = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::line(format!("cannot read the settings in {name}: {error}; see --config"))
        })?;
        Ok(Some((name, text)))
    }
}

impl Serve {
    /// Runs a broker until SIGTERM or SIGINT.
    pub fn run(self) -> Outcome {
        let config = self.settings.load()?;
        for line in config.warnings() {
            eprintln!("millrace: {line}");
        }
        let options = options(&config);
        // Taken over before anything starts, so that no signal finds a half-started broker.
        let mut signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| Failure::line(format!("cannot wait for signals: {error}")))?;
        let running =
            broker::start(config, options).map_err(|error| Failure::line(error.to_string()))?;
        eprintln!("millrace {} {}", env!("CARGO_PKG_VERSION"), running.summary());
        if std::io::stderr().is_terminal() {
            eprintln!("Stop it with Ctrl-C.");
        }
        let stop = running.stopper();
        let handle = signals.handle();
        let waiter = std::thread::spawn(move || {
            if signals.forever().next().is_some() {
                stop();
            }
        });
        let outcome = running.wait();
        handle.close();
        // The thread ends with its signals; it cannot panic.
        let _ = waiter.join();
        let hops = outcome.map_err(|error| Failure::line(error.to_string()))?;
        eprintln!("millrace: stopped; the shards sent each other {hops} messages");
        Ok(())
    }
}

fn options(config: &BrokerConfig) -> RuntimeOptions {
    let mut options = RuntimeOptions::default();
    if let Some(shards) = config.shards {
        options.shards = shards;
    }
    options.allow_shared_cpus = config.shards_share_cpus;
    options.buffer_budget_bytes = config.buffer_bytes;
    options.spin_us = u32::try_from(config.spin_us).unwrap_or(u32::MAX);
    options
}

impl Config {
    /// Prints a table of settings.
    pub fn run(self) -> Outcome {
        let Self::Explain(settings) = self;
        let rows = settings.load()?.explain();
        let mut out = Output::new();
        for row in rows {
            let value = row.value.unwrap_or_default();
            out.line(&format!("{}={value}    # {}", row.name, row.origin))?;
        }
        out.flush()
    }
}
