//! Fetch over the partitions of all shards: read at once, else wait for a signal, never poll.
//!
//! Owns the waiting rules of KIP-74 and protocol section 4.4: answer when enough bytes are
//! readable, something is wrong, or the time is up.

use std::{rc::Rc, time::Duration};

use smallvec::SmallVec;

pub use super::frame::ReadSpec;
use super::{
    Asked, Shard,
    failure::Failure,
    frame::{Header, ReadCode},
    join::{Join, Slot},
    partition::Partition,
    signal::{Signal, race},
};
use crate::{
    io::{Env, buf::Chain},
    log::{ColdRead, Marks},
    types::{ShardId, TopicPartition},
};

/// What a fetch wants of one partition.
#[derive(Clone, Copy, Debug)]
pub struct FetchPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// What to read of it.
    pub read: ReadSpec,
}

/// How long a fetch waits and for how much.
#[derive(Clone, Copy, Debug)]
pub struct FetchRules {
    /// Longest wait, in milliseconds; 0 or less answers at once.
    pub max_wait_ms: i32,
    /// Bytes worth an answer before the time is up.
    pub min_bytes: usize,
    /// The most bytes of the answer; the first batch may exceed it.
    pub max_bytes: usize,
}

/// What a fetch found in one partition.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Why nothing was read, if something is wrong.
    pub failure: Option<Failure>,
    /// High watermark, -1 on failure.
    pub high_watermark: i64,
    /// Last stable offset, -1 on failure.
    pub last_stable_offset: i64,
    /// Log start offset, -1 on failure.
    pub log_start: i64,
    /// Whole record batches as they lie in the log.
    pub records: Chain,
}

/// What was found in each partition of a fetch; that of a single one lies in place.
pub type FetchedAll = SmallVec<[Fetched; 1]>;

/// A read so far.
pub(super) enum Reading {
    /// Nothing is left to do.
    Done(Fetched),
    /// The records are on disk.
    Cold(Fetched, ColdRead),
}

impl Fetched {
    pub(super) fn empty(marks: &Marks) -> Self {
        Self {
            failure: None,
            high_watermark: marks.high_watermark().0,
            last_stable_offset: marks.last_stable_offset().0,
            log_start: marks.log_start().0,
            records: Chain::new(),
        }
    }

    pub(super) fn failed(self, failure: Failure) -> Self {
        Self::of_failure(failure)
    }

    /// An answer that says only what is wrong.
    #[must_use]
    pub fn of_failure(failure: Failure) -> Self {
        Self {
            failure: Some(failure),
            high_watermark: -1,
            last_stable_offset: -1,
            log_start: -1,
            records: Chain::new(),
        }
    }

    fn code(&self) -> ReadCode {
        ReadCode {
            failure: self.failure.map_or(0, |failure| failure as u8),
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start: self.log_start,
        }
    }

    fn from_code(code: ReadCode, records: Chain) -> Self {
        Self {
            failure: Failure::from_code(code.failure),
            high_watermark: code.high_watermark,
            last_stable_offset: code.last_stable_offset,
            log_start: code.log_start,
            records,
        }
    }
}

impl<E: Env> Shard<E> {
    /// Reads all `wanted` partitions, in order of priority, waiting as `rules` say. The answer has
    /// one entry per partition; together they obey `max_bytes`, the first batch excepted.
    pub async fn fetch(&self, wanted: &[FetchPartition], rules: FetchRules) -> FetchedAll {
        let wait_ns = u64::try_from(rules.max_wait_ms).unwrap_or(0) * 1_000_000;
        let deadline_ns = self.inner.env.monotonic_ns() + wait_ns;
        let watch = Watch::new(self, wanted, wait_ns > 0);
        loop {
            watch.signal.rearm();
            let mut fetched = self.read_all(wanted, &watch, rules.max_bytes).await;
            let bytes = keep_within(&mut fetched, rules.max_bytes);
            let now_ns = self.inner.env.monotonic_ns();
            if bytes >= rules.min_bytes
                || now_ns >= deadline_ns
                || fetched.iter().any(|one| one.failure.is_some())
            {
                return fetched;
            }
            drop(fetched);
            let left = Duration::from_nanos(deadline_ns - now_ns);
            race(watch.signal.wait(), self.inner.env.sleep(left)).await;
        }
    }

    /// Reads every partition once. What this shard reads itself stays within `max_bytes`; what
    /// others read at the same time is cut by the caller.
    async fn read_all(
        &self,
        wanted: &[FetchPartition],
        watch: &Watch<'_, E>,
        max_bytes: usize,
    ) -> FetchedAll {
        let join = Join::new(wanted.len());
        let mut left_bytes = max_bytes;
        for (index, one) in wanted.iter().enumerate() {
            let owner = self.owner(one.partition);
            if owner != self.id() {
                self.ask_read(owner, one, join.slot(index), watch.token).await;
                continue;
            }
            let fetched = match self.find(one.partition) {
                Some(partition) => {
                    // Watching before reading, so that no move between the two is missed.
                    if watch.token != 0 {
                        partition.watch_local(&watch.signal);
                    }
                    let fetched = read_within(&partition, one.read, left_bytes, max_bytes).await;
                    left_bytes = left_bytes.saturating_sub(fetched.records.len());
                    fetched
                }
                None => Fetched::of_failure(Failure::NotOwner),
            };
            join.slot(index).fulfil(fetched);
        }
        let answers = join.wait().await;
        assert_eq!(answers.len(), wanted.len(), "each partition has its answer");
        answers
            .into_iter()
            .map(|one| one.unwrap_or_else(|| Fetched::of_failure(Failure::NotOwner)))
            .collect()
    }

    async fn ask_read(
        &self,
        owner: ShardId,
        one: &FetchPartition,
        slot: Slot<Fetched>,
        watch: u64,
    ) {
        let token = self.inner.asked.borrow_mut().insert(Asked::Read(slot));
        let partition = super::key_of(one.partition);
        assert_ne!(owner, self.id(), "a shard asks others only");
        self.ask(owner, &Header::Read { token, partition, read: one.read, watch }, Chain::new())
            .await;
    }

    /// Answers a read of another shard: at once from memory, a cold one on a task of its own, so
    /// that the mailbox moves.
    pub(super) fn answer_read(
        &self,
        to: ShardId,
        token: u64,
        partition: TopicPartition,
        read: ReadSpec,
        watch: u64,
    ) {
        let Some(partition) = self.find(partition) else {
            let failed = Fetched::of_failure(Failure::NotOwner);
            return self.post_read(to, token, failed);
        };
        if watch != 0 {
            partition.watch_remote(to, watch);
        }
        match partition.read_memory(&read) {
            Reading::Done(fetched) => self.post_read(to, token, fetched),
            Reading::Cold(begun, cold) => {
                let shard = self.clone();
                self.inner.env.spawn(async move {
                    let fetched = partition.read_disk(&read, begun, cold).await;
                    shard.post_read(to, token, fetched);
                });
            }
        }
    }

    fn post_read(&self, to: ShardId, token: u64, fetched: Fetched) {
        let result = fetched.code();
        self.post(to, &Header::ReadDone { token, result }, fetched.records);
    }

    pub(super) fn read_done(&self, token: u64, result: ReadCode, records: Chain) {
        if let Some(Asked::Read(slot)) = self.inner.asked.borrow_mut().take(token) {
            slot.fulfil(Fetched::from_code(result, records));
        }
    }

    pub(super) fn moved(&self, watch: u64) {
        if let Some(signal) = self.inner.watches.borrow().get(&watch) {
            signal.fire();
        }
    }
}

/// Reads at most what is left of the answer; once that is spent, only looks. The first read of an
/// answer takes a batch at least.
async fn read_within<E: Env>(
    partition: &Partition<E>,
    mut read: ReadSpec,
    left_bytes: usize,
    max_bytes: usize,
) -> Fetched {
    if left_bytes == 0 && max_bytes > 0 {
        return partition.look(&read);
    }
    read.max_bytes = read.max_bytes.min(u32::try_from(left_bytes).unwrap_or(u32::MAX));
    partition.read(&read).await
}

/// Drops what exceeds the limit, in order of priority; returns the bytes kept. The first batch is
/// kept whatever its size, so that a consumer always moves on (KIP-74).
fn keep_within(fetched: &mut [Fetched], max_bytes: usize) -> usize {
    let mut kept = 0;
    for one in fetched {
        let bytes = one.records.len();
        if kept > 0 && kept + bytes > max_bytes {
            one.records = Chain::new();
        } else {
            kept += bytes;
        }
    }
    kept
}

/// The interest of one waiting fetch, given up when it ends however it ends.
struct Watch<'a, E: Env> {
    shard: &'a Shard<E>,
    wanted: &'a [FetchPartition],
    signal: Rc<Signal>,
    /// Names the watch to other shards; 0 when the fetch does not wait.
    token: u64,
}

impl<'a, E: Env> Watch<'a, E> {
    fn new(shard: &'a Shard<E>, wanted: &'a [FetchPartition], waits: bool) -> Self {
        let signal = Rc::<Signal>::default();
        let token = if waits { shard.next_watch() } else { 0 };
        if waits {
            shard.inner.watches.borrow_mut().insert(token, signal.clone());
        }
        Self { shard, wanted, signal, token }
    }
}

impl<E: Env> Drop for Watch<'_, E> {
    fn drop(&mut self) {
        if self.token == 0 {
            return;
        }
        self.shard.inner.watches.borrow_mut().remove(&self.token);
        for one in self.wanted {
            let owner = self.shard.owner(one.partition);
            if owner != self.shard.id() {
                let partition = super::key_of(one.partition);
                let header = Header::Unwatch { watch: self.token, partition };
                self.shard.post(owner, &header, Chain::new());
            }
        }
    }
}
