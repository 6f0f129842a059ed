//! The consuming side of a run: behind the producer, or alone over what a topic holds.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use millrace_net::client::{
    admin::OffsetSpec,
    config::ConsumerConfig,
    consumer::Consumer,
    error::{ClientError, Kind, Result},
};

use super::{
    Load,
    latency::{Latency, Quantiles},
    payload,
    process::Usage,
    produce::used_between,
    report::Report,
    schedule::Schedule,
    target::Target,
};

/// Longest wait for records before the end of the run is looked for.
const POLL: Duration = Duration::from_millis(100);

/// Largest number of bytes of one partition in one answer, when reading alone.
const BULK_FETCH_BYTES: i32 = 4 << 20;

/// What the tail reader found.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// From when a record was due to when it was read.
    pub latency: Quantiles,
    /// Records of the run that count.
    pub records: u64,
}

#[derive(Debug)]
struct Shared {
    latency: Latency,
    records: AtomicU64,
    over: AtomicBool,
    failure: Mutex<Option<ClientError>>,
}

/// A thread that reads what the run writes.
#[derive(Debug)]
pub struct Tail {
    shared: Arc<Shared>,
    begin: mpsc::SyncSender<Instant>,
    thread: JoinHandle<()>,
}

impl Tail {
    /// Starts behind everything that the topic holds now.
    pub fn start(load: &Load, target: &Target, run: u64, schedule: Schedule) -> Result<Self> {
        let mut config = ConsumerConfig::new(&load.bootstrap_server);
        config.client.client_id = "millrace-bench".to_owned();
        let mut consumer = assigned(config, target)?;
        for &partition in &target.partitions {
            let end = consumer.offset(&target.topic, partition, OffsetSpec::Latest)?.offset;
            consumer.seek(&target.topic, partition, end)?;
        }
        let shared = Arc::new(Shared {
            latency: Latency::new(),
            records: AtomicU64::new(0),
            over: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let (begin, began) = mpsc::sync_channel(1);
        let theirs = shared.clone();
        let thread = thread::spawn(move || {
            let Ok(start) = began.recv() else { return };
            if let Err(error) = theirs.read(&mut consumer, run, schedule, start) {
                let mut failure = theirs.failure.lock().unwrap_or_else(PoisonError::into_inner);
                *failure = Some(error);
            }
        });
        Ok(Self { shared, begin, thread })
    }

    /// The run begins at `start`.
    pub fn begin(&self, start: Instant) {
        // The thread listens until it is told, so it is there.
        let _ = self.begin.send(start);
    }

    /// Waits until `records` were read, for at most `limit`.
    pub fn finish(self, records: u64, limit: Duration) -> Result<Read> {
        let deadline = Instant::now() + limit;
        while self.shared.records.load(Ordering::Relaxed) < records
            && Instant::now() < deadline
            && !self.thread.is_finished()
        {
            thread::sleep(POLL / 10);
        }
        self.shared.over.store(true, Ordering::Relaxed);
        if self.thread.join().is_err() {
            return Err(ClientError::new(Kind::Closed, "the reading thread panicked"));
        }
        let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)?;
        Ok(Read {
            latency: self.shared.latency.quantiles(),
            records: self.shared.records.load(Ordering::Relaxed),
        })
    }
}

impl Shared {
    fn read(
        &self,
        consumer: &mut Consumer,
        run: u64,
        schedule: Schedule,
        start: Instant,
    ) -> Result<()> {
        while !self.over.load(Ordering::Relaxed) {
            consumer.poll_each(POLL, &mut |record| {
                let due = record.value.and_then(|value| payload::due(run, value));
                if let Some(due) = due.filter(|due| schedule.is_measured(*due)) {
                    self.latency.record(start.elapsed().saturating_sub(due));
                    self.records.fetch_add(1, Ordering::Relaxed);
                }
            })?;
        }
        Ok(())
    }
}

fn assigned(config: ConsumerConfig, target: &Target) -> Result<Consumer> {
    let mut consumer = Consumer::connect(config)?;
    let partitions: Vec<(&str, i32)> =
        target.partitions.iter().map(|&partition| (target.topic.as_str(), partition)).collect();
    consumer.assign(&partitions);
    Ok(consumer)
}

/// Reads what the topic holds, from its beginning to its present end, or `--records` of it.
pub fn drain(load: &Load, target: Target) -> Result<Report> {
    let mut config = ConsumerConfig::new(&load.bootstrap_server);
    config.max_partition_fetch_bytes = BULK_FETCH_BYTES;
    let mut consumer = assigned(config, &target)?;
    let mut left = 0;
    for &partition in &target.partitions {
        let end = consumer.offset(&target.topic, partition, OffsetSpec::Latest)?.offset;
        let first = consumer.offset(&target.topic, partition, OffsetSpec::Earliest)?.offset;
        consumer.seek(&target.topic, partition, first)?;
        left += u64::try_from(end - first).unwrap_or(0);
    }
    let wanted = load.records.unwrap_or(left).min(left);
    let start = Instant::now();
    let broker = load.broker_pid.and_then(Usage::of);
    let own = Usage::own();
    let limit = load.duration.map(Duration::from_secs);
    let (mut records, mut idle_since) = (0_u64, Instant::now());
    while records < wanted && limit.is_none_or(|limit| start.elapsed() < limit) {
        let count = consumer.poll_each(POLL, &mut |_| ())?;
        records += u64::try_from(count).unwrap_or(0);
        if count > 0 {
            idle_since = Instant::now();
        } else if idle_since.elapsed() > POLL * 20 {
            // Offsets without a record, as behind compaction or a marker.
            break;
        }
    }
    Ok(Report {
        load: load.clone(),
        target,
        records,
        failed: 0,
        elapsed: start.elapsed(),
        ack: None,
        end_to_end: None,
        missing: 0,
        punctuality: None,
        broker: used_between(broker, load.broker_pid.and_then(Usage::of)),
        own: used_between(own, Usage::own()),
        first_error: None,
    })
}
