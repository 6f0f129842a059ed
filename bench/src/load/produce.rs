//! The producing side of a run.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use millrace_net::client::{
    config::ProducerConfig,
    error::{ClientError, Result},
    producer::{Producer, ProducerRecord},
};

use super::{
    Load, Mode,
    consume::Tail,
    latency::Latency,
    payload::Payload,
    process::Usage,
    report::{Punctuality, Report, count_as_f64},
    schedule::{LATE_AFTER, Next, Schedule},
    target::Target,
};

/// How long the end of a run waits for acknowledgements and records to be read.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// What the callbacks add to.
#[derive(Debug)]
struct Acknowledged {
    latency: Latency,
    count: AtomicU64,
    failed: AtomicU64,
    first_error: Mutex<Option<String>>,
    /// When the last one came, in ns since the start.
    last_ns: AtomicU64,
}

/// What was handed to the producer.
struct Sent {
    measured: u64,
    late: u64,
    lateness: Latency,
    at_warmup: Snapshot,
}

/// Both processes and the clock at one moment.
#[derive(Clone, Copy)]
struct Snapshot {
    elapsed: Duration,
    broker: Option<Usage>,
    own: Option<Usage>,
}

impl Snapshot {
    fn take(load: &Load, start: Instant) -> Self {
        Self {
            elapsed: start.elapsed(),
            broker: load.broker_pid.and_then(Usage::of),
            own: Usage::own(),
        }
    }
}

/// Runs the load with a producer, and a consumer behind it if asked for.
pub fn run(load: &Load, config: ProducerConfig, target: Target) -> Result<Report> {
    if let Some(pid) = load.broker_pid
        && Usage::of(pid).is_none()
    {
        return Err(ClientError::invalid(format!("--broker-pid {pid}: there is no such process")));
    }
    let run = RandomState::new().hash_one(0);
    let schedule = Schedule::of(load);
    let producer = Producer::connect(config)?;
    producer.partitions(&load.topic)?;
    let tail = match load.mode {
        Mode::Both => Some(Tail::start(load, &target, run, schedule)?),
        Mode::Produce | Mode::Consume => None,
    };
    let acknowledged = Arc::new(Acknowledged::new());
    let start = Instant::now();
    if let Some(tail) = &tail {
        tail.begin(start);
    }
    let sent = send_all(load, &producer, schedule, run, start, &acknowledged);
    producer.flush();
    let end = Snapshot::take(load, start);
    let sent = sent?;
    let wanted = acknowledged.count.load(Ordering::Relaxed);
    let read = tail.map(|tail| tail.finish(wanted, DRAIN_LIMIT)).transpose()?;
    drop(producer);
    Ok(report(load, target, schedule, &sent, &acknowledged, end, read))
}

fn send_all(
    load: &Load,
    producer: &Producer,
    schedule: Schedule,
    run: u64,
    start: Instant,
    acknowledged: &Arc<Acknowledged>,
) -> Result<Sent> {
    let mut payload = Payload::new(run, load.record_size);
    let mut sent = Sent {
        measured: 0,
        late: 0,
        lateness: Latency::new(),
        at_warmup: Snapshot::take(load, start),
    };
    for number in 0.. {
        let Next::Due(due) = schedule.next(number, sent.measured, start.elapsed()) else { break };
        thread::sleep(due.saturating_sub(start.elapsed()));
        let is_measured = schedule.is_measured(due);
        if is_measured {
            if sent.measured == 0 {
                sent.at_warmup = Snapshot::take(load, start);
            }
            sent.measured += 1;
            let late = start.elapsed().saturating_sub(due);
            sent.late += u64::from(late > LATE_AFTER);
            if schedule.is_open_loop() {
                sent.lateness.record(late);
            }
        }
        let told = acknowledged.clone();
        let record = ProducerRecord {
            topic: &load.topic,
            value: Some(payload.next(due)),
            ..ProducerRecord::default()
        };
        producer.send(
            &record,
            Some(Box::new(move |result| {
                if is_measured {
                    told.take(start, due, result.err());
                }
            })),
        )?;
    }
    Ok(sent)
}

impl Acknowledged {
    fn new() -> Self {
        Self {
            latency: Latency::new(),
            count: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            first_error: Mutex::new(None),
            last_ns: AtomicU64::new(0),
        }
    }

    fn take(&self, start: Instant, due: Duration, error: Option<ClientError>) {
        let now = start.elapsed();
        if let Some(error) = error {
            self.failed.fetch_add(1, Ordering::Relaxed);
            let mut first = self.first_error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| error.to_string());
            return;
        }
        self.latency.record(now.saturating_sub(due));
        self.count.fetch_add(1, Ordering::Relaxed);
        let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.last_ns.fetch_max(now_ns, Ordering::Relaxed);
    }
}

fn report(
    load: &Load,
    target: Target,
    schedule: Schedule,
    sent: &Sent,
    acknowledged: &Acknowledged,
    end: Snapshot,
    read: Option<super::consume::Read>,
) -> Report {
    let records = acknowledged.count.load(Ordering::Relaxed);
    let last = Duration::from_nanos(acknowledged.last_ns.load(Ordering::Relaxed));
    let first_error =
        acknowledged.first_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Report {
        load: load.clone(),
        target,
        records,
        failed: acknowledged.failed.load(Ordering::Relaxed),
        elapsed: last.saturating_sub(sent.at_warmup.elapsed),
        ack: Some(acknowledged.latency.quantiles()),
        end_to_end: read.map(|read| read.latency),
        missing: read.map_or(0, |read| records.saturating_sub(read.records)),
        punctuality: schedule.is_open_loop().then(|| Punctuality {
            lateness: sent.lateness.quantiles(),
            late_share: count_as_f64(sent.late) / count_as_f64(sent.measured.max(1)),
        }),
        broker: used_between(sent.at_warmup.broker, end.broker),
        own: used_between(sent.at_warmup.own, end.own),
        first_error,
    }
}

/// CPU time used meanwhile, and memory at the end.
pub fn used_between(before: Option<Usage>, after: Option<Usage>) -> Option<Usage> {
    let (before, after) = (before?, after?);
    Some(Usage { cpu: after.cpu.saturating_sub(before.cpu), rss_bytes: after.rss_bytes })
}
