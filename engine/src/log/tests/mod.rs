//! Tests of the log over the fake disk, one story each.

mod damage;
mod durability;
mod foreign;
mod read_ahead;
mod real;
mod retention;
mod sealing;
mod tail;
mod timestamps;

use std::path::{Path, PathBuf};

use super::{AppendError, Appended, Log, Read, RecoveryReport, Settings, Volume};
use crate::{
    batch::{BatchBuilder, BatchOptions, HEADER_BYTES, Header, NewRecord},
    io::{
        Clock,
        buf::{Pool, Slice},
        fake::{FakeEnv, Sim},
        health::DiskHealth,
    },
    types::{LeaderEpoch, Offset},
};

/// Even, so that the disk's flush covers all files; see `FakeDisk`.
const SEED: u64 = 8;

/// A started broker, as far as one log is concerned.
pub(super) struct World {
    pub(super) sim: Sim,
    pub(super) volume: Volume<FakeEnv>,
    pub(super) pool: Pool,
}

impl World {
    pub(super) fn new(sim: Sim) -> Self {
        let volume = Volume::new(sim.env(), sim.disk(), DiskHealth::new(), 1 << 20);
        Self { sim, volume, pool: Pool::new(8 << 20) }
    }

    pub(super) fn fresh() -> Self {
        Self::new(Sim::new(SEED))
    }

    /// With a log of small segments that holds so many batches, each of one record with a value of
    /// `N` bytes that say which.
    pub(super) fn with_batches<const N: usize>(count: u8) -> (Self, Log<FakeEnv>) {
        let world = Self::fresh();
        let (log, _) = world.open(&small_segments());
        for n in 0..count {
            world.append(&log, &[&[n; N]]);
        }
        (world, log)
    }

    pub(super) fn open(&self, settings: &Settings) -> (Log<FakeEnv>, RecoveryReport) {
        self.open_at(dir(), settings)
    }

    pub(super) fn open_at(
        &self,
        dir: &Path,
        settings: &Settings,
    ) -> (Log<FakeEnv>, RecoveryReport) {
        let opening = Log::open(
            self.sim.env(),
            self.volume.clone(),
            self.pool.clone(),
            dir.to_owned(),
            settings.clone(),
        );
        self.sim.block_on(opening).expect("the log opens")
    }

    /// Appends and waits until it is acknowledged.
    pub(super) fn append(&self, log: &Log<FakeEnv>, values: &[&[u8]]) -> Appended {
        let appended = self.send(log, values, &BatchOptions::default()).expect("taken");
        self.sim.settle();
        assert!(log.marks().ack_end() > appended.last_offset, "acknowledged");
        appended
    }

    pub(super) fn send(
        &self,
        log: &Log<FakeEnv>,
        values: &[&[u8]],
        options: &BatchOptions,
    ) -> Result<Appended, AppendError> {
        let now_ms = self.sim.env().wall_ms();
        let (header, bytes) = batch(values, now_ms, options);
        let payload = Slice::copy_of(&bytes[HEADER_BYTES..]).into();
        log.append_parts(&header, &payload, LeaderEpoch(0), now_ms)
    }

    pub(super) fn close(&self, log: &Log<FakeEnv>) {
        let log = log.clone();
        self.sim.block_on(async move { log.close().await }).expect("closed");
    }

    /// All bytes of the log that consumers may see.
    pub(super) fn read_all(&self, log: &Log<FakeEnv>) -> Vec<u8> {
        let mut from = log.marks().log_start();
        let end = log.marks().high_watermark();
        let mut bytes = Vec::new();
        while from < end {
            let chain = match log.read(from, 10_000, end) {
                Read::Ready(chain) => chain,
                Read::Cold(cold) => {
                    let log = log.clone();
                    self.sim.block_on(async move { log.read_cold(cold).await }).expect("readable")
                }
                other => panic!("{from} reads as {other:?}"),
            };
            let mut at = 0;
            while let Some(header) = Header::from_chain(&chain, at) {
                at += header.size_bytes();
                from = header.next_offset();
            }
            bytes.extend(chain.to_vec());
        }
        bytes
    }

    pub(super) fn power_cut(self) -> Self {
        let Self { sim, volume, pool } = self;
        drop((volume, pool));
        Self::new(sim.crash(SEED))
    }
}

pub(super) fn dir() -> &'static Path {
    Path::new("/data/topic-0")
}

pub(super) fn file(name: &str) -> PathBuf {
    dir().join(name)
}

pub(super) fn small_segments() -> Settings {
    Settings { segment_bytes: 1_000, index_interval_bytes: 100, ..Settings::default() }
}

pub(super) fn batch(values: &[&[u8]], now_ms: i64, options: &BatchOptions) -> (Header, Vec<u8>) {
    let mut builder = BatchBuilder::new();
    for value in values {
        let record =
            NewRecord { timestamp_ms: now_ms, key: None, value: Some(value), headers: &[] };
        builder.push(&record).expect("it fits");
    }
    let mut bytes = Vec::new();
    let header = builder.finish(options, &mut bytes).expect("it has records");
    (header, bytes)
}

/// The offset behind the last record, for short.
pub(super) fn end<E: crate::io::Env>(log: &Log<E>) -> Offset {
    log.marks().log_end()
}
