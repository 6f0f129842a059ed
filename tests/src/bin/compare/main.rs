//! Measures this broker against Apache Kafka on the same host, in alternating runs, with Kafka's
//! own producer tool as the client. Results and manifest go to `bench/results/<date>-<host kind>/`.
//!
//! Owns the scenarios and the order of runs. Ours acknowledges after the flush, Kafka's not, unless
//! a scenario relaxes ours. Failure behaviour: a run that fails ends the comparison; what was
//! measured before is not written, so that a result is always whole.

mod options;
mod report;
mod scenario;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::Duration,
};

use millrace_tests::{
    broker::{self, Broker},
    kafka::{self, Kafka},
    kernel,
    load::Run,
    manifest::Manifest,
    server::{Server, against_kafka},
    wire::Connection,
};

use options::Options;
use report::{Comparison, Side};
use scenario::Scenario;

/// Partitions of every topic of a comparison.
const PARTITIONS: i32 = 12;

/// How long either broker takes to remove the files of a deleted topic, with room to spare.
const FILES_ARE_GONE_AFTER: Duration = Duration::from_secs(4);

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    match compare(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The two brokers, both running all the time: an idle one costs the other next to nothing, and a
/// JVM that was stopped between runs would be measured cold.
struct Brokers {
    ours: Server,
    theirs: Kafka,
}

fn compare(options: &Options) -> io::Result<()> {
    let scratch = broker::fresh_folder("compare");
    let ours = start_ours(options, scratch.path())?;
    let theirs = Kafka::start(kafka_in(scratch.path().join("kafka")))?;
    let brokers = Brokers { ours, theirs };
    let manifest = Manifest::new(scratch.path(), broker::binary());
    let suffix = match options.shards {
        _ if against_kafka() => "-kafka-against-itself".to_owned(),
        Some(shards) => format!("-shards-{shards}"),
        None => String::new(),
    };
    let name = format!("{}-{}{suffix}", manifest.date, manifest.host_kind);
    let folder = options.results.join(name);
    for scenario in &options.scenarios {
        let comparison = run_scenario(&brokers, scenario, options)?;
        print!("{}", comparison.table());
        write_result(&folder, scenario, &comparison, &manifest)?;
    }
    println!("written to {}", folder.display());
    Ok(())
}

/// Kafka in `folder`, which removes the files of a deleted topic soon and not a minute later: by
/// then another's run would wait for the disk to discard them.
fn kafka_in(folder: PathBuf) -> kafka::Options {
    let settings = vec![("log.segment.delete.delay.ms".to_owned(), "500".to_owned())];
    kafka::Options { folder: Some(folder), settings, ..kafka::Options::default() }
}

/// Ours; or a second Apache Kafka, which shows how far apart two runs of the same broker are.
fn start_ours(options: &Options, scratch: &Path) -> io::Result<Server> {
    if against_kafka() {
        return Kafka::start(kafka_in(scratch.join("second"))).map(Server::Kafka);
    }
    let (data_dir, shards) = (Some(scratch.join("millrace")), options.shards);
    let settings = broker::Options { data_dir, shards, ..broker::Options::default() };
    Ok(Server::Millrace(Broker::start(settings)))
}

fn write_result(
    folder: &Path,
    scenario: &Scenario,
    comparison: &Comparison,
    manifest: &Manifest,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(format!("{}.json", scenario.name)), comparison.to_json())?;
    fs::write(folder.join("manifest.json"), manifest.to_json())
}

/// Warms both up, then alternates.
fn run_scenario(
    brokers: &Brokers,
    scenario: &Scenario,
    options: &Options,
) -> io::Result<Comparison> {
    let mut comparison = Comparison::new(scenario);
    let ours = (brokers.ours.address(), brokers.ours.pid());
    let theirs = (brokers.theirs.address(), brokers.theirs.pid());
    for (side, place) in [(Side::Millrace, ours), (Side::Kafka, theirs)] {
        let warm_up = scenario.for_seconds(options.warm_up_s);
        let run = run_once(brokers, &warm_up, side, place, 0)?;
        println!("{}: {side:?} warm at {:.0} records/s", scenario.name, run.rate);
    }
    for round in 1..=options.runs {
        for (side, place) in [(Side::Millrace, ours), (Side::Kafka, theirs)] {
            let run = run_once(brokers, &scenario.for_seconds(options.run_s), side, place, round)?;
            println!("{} {round}: {side:?} {}", scenario.name, report::line(&run));
            comparison.add(side, run);
        }
    }
    Ok(comparison)
}

/// One run on a topic of its own, which is deleted afterwards so that disks stay as they were, and
/// so that the next run finds a quiet one.
fn run_once(
    brokers: &Brokers,
    scenario: &Scenario,
    side: Side,
    (address, pid): (SocketAddr, u32),
    round: usize,
) -> io::Result<Run> {
    let topic = format!("compare-{}-{round}", scenario.name);
    let settings = if side == Side::Millrace { scenario.our_topic } else { &[] };
    Connection::open(address)?.create_topic_with(&topic, PARTITIONS, settings)?;
    // Kafka leaves its writes to the page cache, and their time would be taken from the next run.
    kernel::sync_disks();
    let run = scenario.load.run(brokers.theirs.installation(), address, pid, &topic)?;
    Connection::open(address)?.delete_topic(&topic)?;
    thread::sleep(FILES_ARE_GONE_AFTER);
    Ok(run)
}
