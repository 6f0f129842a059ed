//! Real clients against a broker: each produces the same 100,000 records over codecs and acks
//! modes, reads them back by assign and seek, and what it reports is compared with what was sent.
//!
//! `cargo run -p millrace-tests --bin clients` starts `millrace serve` on a free port;
//! `--bootstrap-server` takes a running broker of any make. See `tests/clients/README.md`.

mod broker;
mod client;
mod compare;
mod corpus;
mod dump;
mod frames;
mod install;
mod job;
mod kcat;
mod rdkafka;

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use broker::Broker;
use clap::{Args, Parser, Subcommand};
use client::{Client, Half};
use compare::{Expected, Plant};
use corpus::{Corpus, Shape};
use install::Places;
use job::Job;

/// Result of anything here; the error is a line for a person.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Real Kafka clients against a broker, byte by byte
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    inner: Option<Inner>,
}

#[derive(Args)]
struct Options {
    /// A running broker; without it one is started on a free port
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// The broker to start [default: target/release/millrace]
    #[arg(long, value_name = "FILE", conflicts_with = "bootstrap_server")]
    broker_binary: Option<PathBuf>,
    /// Only these clients (repeat)
    #[arg(long, value_name = "NAME")]
    client: Vec<Client>,
    /// Records per client
    #[arg(long, default_value_t = 100_000)]
    records: usize,
    /// Seed of the records
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Put an error into the expectation: every client must then fail
    #[arg(long, value_name = "KIND")]
    plant: Option<Plant>,
    /// Install what the clients need and end
    #[arg(long)]
    install_only: bool,
}

#[derive(Subcommand)]
enum Inner {
    /// One half of a client that is part of this program
    #[command(hide = true)]
    Client { client: Client, job: PathBuf, half: Half, dump: PathBuf },
}

fn main() -> ExitCode {
    let Arguments { options, inner } = Arguments::parse();
    let outcome = match inner {
        Some(Inner::Client { client, job, half, dump }) => {
            client::run_own(client, &job, half, &dump).map(|()| true)
        }
        None => run_all(&options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("clients: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen clients; `false` when one failed.
fn run_all(options: &Options) -> Outcome<bool> {
    let started = Instant::now();
    let places = Places::find()?;
    let chosen: Vec<Client> =
        if options.client.is_empty() { Client::ALL.to_vec() } else { options.client.clone() };
    let mut table = Table { failed: 0, passed: 0 };
    let mut usable = Vec::new();
    for client in chosen {
        let begun = Instant::now();
        match client.prepare(&places) {
            Ok(_) => usable.push(client),
            Err(error) => table.row(client, "install", 0, begun.elapsed(), Err(error)),
        }
    }
    println!("installed in {:.1} s", started.elapsed().as_secs_f64());
    if options.install_only {
        return Ok(table.failed == 0);
    }
    let work = tempfile::tempdir()?;
    let own = match &options.bootstrap_server {
        Some(_) => None,
        None => Some(Broker::start(&broker_binary(options)?, &work.path().join("data"))?),
    };
    let bootstrap = match (&options.bootstrap_server, &own) {
        (Some(address), _) => address.clone(),
        (None, Some(broker)) => broker.address.to_string(),
        (None, None) => return Err("no broker".into()),
    };
    let bench = Bench { options, places, work: work.path(), bootstrap };
    for client in usable {
        bench.run(client, &mut table);
    }
    if let Some(broker) = own {
        let begun = Instant::now();
        let stopped = broker.stop();
        table.line("broker", "stop", 0, begun.elapsed(), stopped);
    }
    println!("{} passed, {} failed", table.passed, table.failed);
    println!("in {:.1} s", started.elapsed().as_secs_f64());
    Ok(table.failed == 0)
}

fn broker_binary(options: &Options) -> Outcome<PathBuf> {
    if let Some(binary) = &options.broker_binary {
        return Ok(binary.clone());
    }
    // This program lies in target/PROFILE.
    let target = env::current_exe()?.parent().and_then(Path::parent).map(Path::to_owned);
    Ok(target.ok_or("this program has no target directory")?.join("release/millrace"))
}

/// What all clients share.
struct Bench<'a> {
    options: &'a Options,
    places: Places,
    work: &'a Path,
    bootstrap: String,
}

impl Bench<'_> {
    fn run(&self, client: Client, table: &mut Table) {
        let begun = Instant::now();
        if let Err(error) = self.steps(client, table) {
            table.row(client, "set up", 0, begun.elapsed(), Err(error));
        }
    }

    /// Produces, consumes and compares; a half that fails is a row, not an error.
    fn steps(&self, client: Client, table: &mut Table) -> Outcome<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let now_ms = i64::try_from(now.as_millis())?;
        let shape = Shape { records: self.options.records, seed: self.options.seed, now_ms };
        let corpus = Corpus::new(shape, client.profile());
        let corpus_path = self.work.join("corpus");
        corpus.write(&corpus_path)?;
        let prefix = format!("{}-{now_ms}", client.name());
        let job = Job::new(&self.bootstrap, &corpus_path, &prefix, &corpus);
        let sheet = self.work.join("job");
        fs::write(&sheet, job.text())?;
        rdkafka::create_topics(&job)?;
        let mut expected = Expected::new(&corpus, client.profile(), now_ms);
        if let Some(plant) = self.options.plant {
            expected.plant(plant)?;
        }
        for half in [Half::Produce, Half::Consume] {
            let dump = self.work.join(half.word());
            let begun = Instant::now();
            let actor = client.stand_in(half);
            let ran = actor
                .prepare(&self.places)
                .and_then(|mut command| client::run(&mut command, &sheet, half, &dump));
            let seconds = begun.elapsed();
            // Without all of its records there is nothing to wait for in the other half.
            let readable = ran.is_ok();
            let judged = ran.and_then(|()| match half {
                Half::Produce => expected.check_produced(&dump),
                Half::Consume => expected.check_consumed(&dump),
            });
            let passed = judged.is_ok();
            table.row(client, half.word(), corpus.records.len(), seconds, judged);
            if half == Half::Consume && passed {
                let begun = Instant::now();
                let caught = self.plants_are_caught(client, &corpus, now_ms);
                table.row(client, "plants", 0, begun.elapsed(), caught);
            }
            if !readable {
                break;
            }
        }
        Ok(())
    }

    /// Proves on this client's own dumps that each kind of difference would have been found.
    fn plants_are_caught(&self, client: Client, corpus: &Corpus, now_ms: i64) -> Outcome<()> {
        for plant in Plant::ALL {
            let mut expected = Expected::new(corpus, client.profile(), now_ms);
            if !expected.plant(plant)? {
                continue;
            }
            let half = if plant == Plant::Offset { Half::Produce } else { Half::Consume };
            let dump = self.work.join(half.word());
            let judged = match half {
                Half::Produce => expected.check_produced(&dump),
                Half::Consume => expected.check_consumed(&dump),
            };
            if judged.is_ok() {
                return Err(format!("the planted error {plant:?} was not found").into());
            }
        }
        Ok(())
    }
}

/// Prints one line per step and counts.
struct Table {
    passed: usize,
    failed: usize,
}

impl Table {
    fn row(
        &mut self,
        client: Client,
        step: &str,
        records: usize,
        time: Duration,
        result: Outcome<()>,
    ) {
        self.line(client.name(), step, records, time, result);
    }

    fn line(&mut self, who: &str, step: &str, records: usize, time: Duration, result: Outcome<()>) {
        let seconds = time.as_secs_f64();
        let verdict = match result {
            Ok(()) => {
                self.passed += 1;
                "ok".to_owned()
            }
            Err(error) => {
                self.failed += 1;
                format!("FAILED: {error}")
            }
        };
        println!("{who:16} {step:8} {records:8} records {seconds:7.1} s  {verdict}");
    }
}
