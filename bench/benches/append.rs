//! What one batch costs the owning core from the accepted batch to the log's tail in memory: the
//! producer's sequence, offsets, index, one copy, and the eviction of old tail chunks.
//!
//! Only `Log::append` is timed. The writer and the flush of the fake disk run between the timed
//! stretches, and a log is replaced before the fake disk's memory grows large. The batch is hot in
//! the core's caches, as after its CRC; the tail cycles through more memory than a core's L2, as a
//! busy shard's does.

mod batches;
mod settings;

use std::{
    hint::black_box,
    path::PathBuf,
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use millrace_engine::{
    batch::{Accepted, Rules, check},
    io::{
        buf::{Pool, copied_bytes},
        fake::{FakeEnv, Sim},
        health::DiskHealth,
    },
    limits::BUFFER_BUDGET_PER_SHARD_BYTES,
    log::{Log, Settings, Volume},
    types::{LeaderEpoch, ProducerId},
};

use batches::{RECORD_TIME_MS, batch_of, received};

const SIZES: [(&str, usize); 3] = [("1KiB", 1 << 10), ("16KiB", 16 << 10), ("64KiB", 64 << 10)];

/// Written tail that the volume keeps for readers, in bytes.
const TAIL_BUDGET_BYTES: usize = 16 << 20;

/// Bytes appended between two runs of the writer: below the bound on unwritten bytes of a log.
const STRETCH_BYTES: usize = 4 << 20;

/// Bytes that one fake disk takes; it keeps several copies of them.
const WORLD_BYTES: usize = 64 << 20;

/// Virtual time in which a silent log gives back what it holds.
const QUIET: Duration = Duration::from_mins(1);

/// A log on a fake disk, and how much each may still take.
struct World {
    sim: Sim,
    log: Log<FakeEnv>,
    left_bytes: usize,
    stretch_bytes: usize,
}

impl World {
    fn new(pool: &Pool) -> Self {
        let sim = Sim::new(1);
        let volume = Volume::new(sim.env(), sim.disk(), DiskHealth::new(), TAIL_BUDGET_BYTES);
        let dir = PathBuf::from("/data/topic-0");
        let opened = Log::open(sim.env(), volume, pool.clone(), dir, Settings::default());
        let (log, _) = sim.block_on(opened).expect("an empty disk");
        Self { sim, log, left_bytes: WORLD_BYTES, stretch_bytes: STRETCH_BYTES }
    }

    /// Lets the writer and the flush catch up.
    fn settle(&mut self) {
        self.sim.settle();
        let marks = self.log.marks();
        assert_eq!(marks.durable_end(), marks.log_end(), "all is written and flushed");
        self.stretch_bytes = STRETCH_BYTES;
    }

    /// Lets the log fall quiet, so that its volume forgets it and all memory comes back.
    fn retire(&mut self) {
        self.settle();
        self.sim.advance(QUIET);
    }
}

/// Appends the same batch as often as asked; with a producer id, as the next of its sequence.
struct Appender {
    pool: Pool,
    world: World,
    batch: Accepted,
    sequence: i32,
}

impl Appender {
    fn new(batch: Accepted) -> Self {
        let pool = Pool::new(BUFFER_BUDGET_PER_SHARD_BYTES);
        Self { world: World::new(&pool), pool, batch, sequence: 0 }
    }

    /// The time that `count` appends take.
    fn time(&mut self, count: u64) -> Duration {
        let size = self.batch.size_bytes();
        let (mut left, mut spent) = (count, Duration::ZERO);
        while left > 0 {
            if self.world.left_bytes < STRETCH_BYTES {
                self.world.retire();
                self.world = World::new(&self.pool);
                self.sequence = 0;
            }
            if self.world.stretch_bytes < size {
                self.world.settle();
            }
            let now = left.min((self.world.stretch_bytes / size) as u64);
            let start = Instant::now();
            (0..now).for_each(|_| self.append());
            spent += start.elapsed();
            left -= now;
            let bytes = size * usize::try_from(now).expect("small");
            self.world.stretch_bytes -= bytes;
            self.world.left_bytes = self.world.left_bytes.saturating_sub(bytes);
        }
        spent
    }

    fn append(&mut self) {
        if self.batch.header.is_idempotent() {
            self.batch.header.base_sequence = self.sequence;
            self.sequence += self.batch.header.record_count;
        }
        let batch = black_box(&self.batch);
        let appended = self.world.log.append(batch, LeaderEpoch(0), RECORD_TIME_MS);
        let appended = black_box(appended).expect("memory and an unbroken sequence");
        assert!(!appended.duplicate, "each append is new");
    }
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append");
    for (size, bytes) in SIZES {
        let rules = Rules::default();
        let idempotent = check(&received(&batch_of(bytes)), &rules, RECORD_TIME_MS)
            .expect("the batch is accepted");
        let mut plain = idempotent.clone();
        plain.header.producer_id = ProducerId::NONE;
        group.throughput(Throughput::Bytes(bytes as u64));
        for (kind, batch) in [("plain", plain), ("idempotent", idempotent)] {
            let mut appender = Appender::new(batch);
            let before = copied_bytes();
            appender.append();
            assert_eq!(copied_bytes() - before, bytes as u64, "the payload is copied once");
            // The pool's blocks are touched once, so that no page fault is timed below.
            appender.time((WORLD_BYTES / bytes) as u64);
            group.bench_function(BenchmarkId::new(kind, size), |bencher| {
                bencher.iter_custom(|count| appender.time(count));
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = settings::criterion();
    targets = append
}
criterion_main!(benches);
