//! Measures what a hop between cores costs: the same load on one partition through connections that
//! lie on its own shard and on the other one. The result goes to the folder of the comparisons.
//!
//! A broker deals connections out in turn, so an idle one more shifts those of the client to the
//! other shard. Which case a run was is read from the kernel, not assumed: on the owning shard's
//! connections the other shard has next to nothing to do.

use std::{fs, io, path::Path, process::ExitCode};

use millrace_tests::{
    broker::{self, Broker},
    kernel,
    load::{Client, Load, Run},
    manifest::Manifest,
    spread::Spread,
    wire::Connection,
};

/// Runs of each case.
const RUNS: usize = 5;

/// Runs after which the measurement gives up on seeing both cases often enough.
const RUNS_MAX: usize = 6 * RUNS;

/// Share of the busier shard's CPU below which a shard has no part in the load, in percent.
const IDLE_PERCENT: u64 = 15;

/// Records per second of 1 KiB.
const RATE: i64 = 20_000;

/// Length of a run and of its warm-up, in seconds.
const RUN_S: u64 = 8;
const WARM_UP_S: u64 = 2;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hop_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The runs of both cases.
#[derive(Default)]
struct Runs {
    owning: Vec<Run>,
    other: Vec<Run>,
}

fn measure() -> io::Result<()> {
    let broker = Broker::start(broker::Options::default().with_shards(2));
    let mut runs = Runs::default();
    for round in 0..RUNS_MAX {
        if runs.owning.len() >= RUNS && runs.other.len() >= RUNS {
            return write(&runs, broker.data_dir());
        }
        let shift = (round % 2 == 1).then(|| Connection::open(broker.address())).transpose()?;
        let (run, hops) = run_once(&broker)?;
        drop(shift);
        let place = if hops { "the other shard" } else { "the owning shard" };
        println!(
            "{round}: by way of {place}: p50 {} ms, p99 {} ms, {:.2} us/record",
            run.p50_ms, run.p99_ms, run.cpu_us_per_record
        );
        if hops { runs.other.push(run) } else { runs.owning.push(run) }
    }
    Err(io::Error::other("one of the two cases did not come up often enough"))
}

/// A run on a topic of one partition; whether the records hopped.
fn run_once(broker: &Broker) -> io::Result<(Run, bool)> {
    let topic = "hop-cost";
    Connection::open(broker.address())?.create_topic(topic, 1)?;
    let load = Load {
        client: Client::Native,
        record_bytes: 1024,
        records: u64::try_from(RATE).map_err(io::Error::other)? * (RUN_S + WARM_UP_S),
        warm_up_records: u64::try_from(RATE).map_err(io::Error::other)? * WARM_UP_S,
        records_per_second: RATE,
        producer: vec![("linger.ms".into(), "0".into()), ("acks".into(), "all".into())],
    };
    let before = kernel::thread_cpu_us(broker.pid(), "shard-")?;
    let run = load.run_native(broker.address(), broker.pid(), topic)?;
    let after = kernel::thread_cpu_us(broker.pid(), "shard-")?;
    let mut used: Vec<u64> = after.iter().zip(&before).map(|(new, old)| new.1 - old.1).collect();
    used.sort_unstable();
    let [idler, busier] = used.as_slice() else {
        return Err(io::Error::other("the broker does not have two shards"));
    };
    Connection::open(broker.address())?.delete_topic(topic)?;
    Ok((run, idler * 100 > busier * IDLE_PERCENT))
}

/// A figure of a run: its name, and how it is had.
type Figure = (&'static str, fn(&Run) -> f64);

fn write(runs: &Runs, data_dir: &Path) -> io::Result<()> {
    let median = |runs: &[Run], of: fn(&Run) -> f64| Spread::of(runs.iter().map(of)).median;
    let figures: [Figure; 3] = [
        ("p50_ms", |run| run.p50_ms),
        ("p99_ms", |run| run.p99_ms),
        ("cpu_us_per_record", |run| run.cpu_us_per_record),
    ];
    let lines = figures.map(|(name, of)| {
        let (owning, other) = (median(&runs.owning, of), median(&runs.other, of));
        let ratio = other / owning;
        println!("{name}: owning shard {owning:.3}, other shard {other:.3}, ratio {ratio:.2}");
        let figures =
            format!("\"owning\": {owning:.3}, \"other\": {other:.3}, \"ratio\": {ratio:.3}");
        format!("  \"{name}\": {{ {figures} }}")
    });
    let manifest = Manifest::new(data_dir, broker::binary());
    let name = format!("{}-{}", manifest.date, manifest.host_kind);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/results").join(name);
    fs::create_dir_all(&folder)?;
    let head = format!(
        "  \"shows\": \"one partition, {RATE} records/s of 1 KiB, linger 0, flushed; medians of \
         {} and {} runs\",\n  \"client\": \"{}\"",
        runs.owning.len(),
        runs.other.len(),
        Client::Native.name()
    );
    fs::write(folder.join("hop-cost.json"), format!("{{\n{head},\n{}\n}}\n", lines.join(",\n")))?;
    fs::write(folder.join("hop-cost-manifest.json"), manifest.to_json())
}
