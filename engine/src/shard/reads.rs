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
    signal::{Signal, race},
};
use crate::{
    batch,
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
    /// Bytes that could be read, where only that was asked.
    pub(super) readable_bytes: usize,
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
            readable_bytes: 0,
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
            readable_bytes: 0,
        }
    }

    fn code(&self) -> ReadCode {
        ReadCode {
            failure: self.failure.map_or(0, |failure| failure as u8),
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start: self.log_start,
            readable_bytes: self.readable_bytes as u64,
        }
    }

    fn from_code(code: ReadCode, records: Chain) -> Self {
        Self {
            failure: Failure::from_code(code.failure),
            high_watermark: code.high_watermark,
            last_stable_offset: code.last_stable_offset,
            log_start: code.log_start,
            records,
            readable_bytes: usize::try_from(code.readable_bytes).unwrap_or(usize::MAX),
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
        // Any batch is worth a single byte: then reading tells as much as counting.
        let counts = wait_ns > 0 && rules.min_bytes > 1;
        loop {
            watch.signal.rearm();
            let is_time_up = || self.inner.env.monotonic_ns() >= deadline_ns;
            if !counts || is_time_up() || self.is_due(wanted, &watch, &rules).await {
                let fetched = self.read_all(wanted, &watch, rules.max_bytes).await;
                let bytes: usize = fetched.iter().map(|one| one.records.len()).sum();
                // What was due by its count is not judged again: whole batches may come to less.
                let is_enough = bytes >= rules.min_bytes || (counts && bytes > 0);
                let has_failed = fetched.iter().any(|one| one.failure.is_some());
                if is_enough || has_failed || is_time_up() {
                    return fetched;
                }
            }
            let left_ns = deadline_ns.saturating_sub(self.inner.env.monotonic_ns());
            race(watch.signal.wait(), self.inner.env.sleep(Duration::from_nanos(left_ns))).await;
        }
    }

    /// Whether enough can be read, or something is wrong, by counting alone.
    async fn is_due(
        &self,
        wanted: &[FetchPartition],
        watch: &Watch<'_, E>,
        rules: &FetchRules,
    ) -> bool {
        let join = Join::new(wanted.len());
        for (index, one) in wanted.iter().enumerate() {
            let owner = self.owner(one.partition);
            let slot = join.slot(index);
            if owner != self.id() {
                self.ask_read(owner, one, one.read, true, slot, watch.token).await;
                continue;
            }
            let counted = self.find(one.partition).map(|partition| {
                partition.watch(self.id(), watch.token);
                partition.count(&one.read)
            });
            slot.fulfil(
                counted.unwrap_or_else(|| Fetched::of_failure(self.absence(one.partition))),
            );
        }
        let mut bytes = 0_usize;
        for counted in join.wait().await {
            match counted.filter(|counted| counted.failure.is_none()) {
                Some(counted) => bytes = bytes.saturating_add(counted.readable_bytes),
                None => return true,
            }
        }
        bytes >= rules.min_bytes
    }

    /// Reads every partition once, within `max_bytes` together.
    async fn read_all(
        &self,
        wanted: &[FetchPartition],
        watch: &Watch<'_, E>,
        max_bytes: usize,
    ) -> FetchedAll {
        let mut fetched = FetchedAll::new();
        let mut kept_bytes = 0;
        while fetched.len() < wanted.len() {
            let rest = &wanted[fetched.len()..];
            let mut round = self.read_some(rest, watch, kept_bytes, max_bytes).await;
            assert!(!round.is_empty(), "each round brings the answer forward");
            kept_bytes = keep_within(&mut round, kept_bytes, max_bytes);
            if fetched.is_empty() {
                fetched = round;
            } else {
                fetched.append(&mut round);
            }
        }
        assert_eq!(fetched.len(), wanted.len(), "each partition has its answer");
        fetched
    }

    /// Reads as many of `wanted`, from the first on, as the rest of the answer may take. What other
    /// shards are asked for counts in full until they have answered.
    async fn read_some(
        &self,
        wanted: &[FetchPartition],
        watch: &Watch<'_, E>,
        kept_bytes: usize,
        max_bytes: usize,
    ) -> FetchedAll {
        let (mut left_bytes, mut asked_bytes) = (max_bytes.saturating_sub(kept_bytes), 0);
        let mut is_begun = kept_bytes > 0;
        let mut is_asking = false;
        let join = Join::new(wanted.len());
        let mut count = 0;
        for (index, one) in wanted.iter().enumerate() {
            let room = left_bytes.saturating_sub(asked_bytes);
            if room == 0 && is_asking {
                break;
            }
            // Once the answer is full, only the marks are told. Its first read takes a batch at
            // least.
            let looks = room == 0 && is_begun;
            let mut read = one.read;
            read.max_bytes = read.max_bytes.min(u32::try_from(room).unwrap_or(u32::MAX));
            let owner = self.owner(one.partition);
            if owner == self.id() {
                let fetched = self.read_here(one.partition, &read, looks, watch).await;
                left_bytes = left_bytes.saturating_sub(fetched.records.len());
                is_begun |= !fetched.records.is_empty();
                join.slot(index).fulfil(fetched);
            } else {
                asked_bytes += read.max_bytes as usize;
                is_asking |= !looks;
                self.ask_read(owner, one, read, looks, join.slot(index), watch.token).await;
            }
            count = index + 1;
        }
        (count..wanted.len()).for_each(|index| drop(join.slot(index)));
        let answers = join.wait().await.into_iter().take(count);
        answers.map(|one| one.unwrap_or_else(|| Fetched::of_failure(Failure::NotOwner))).collect()
    }

    async fn read_here(
        &self,
        partition: TopicPartition,
        read: &ReadSpec,
        looks: bool,
        watch: &Watch<'_, E>,
    ) -> Fetched {
        let Some(found) = self.find(partition) else {
            return Fetched::of_failure(self.absence(partition));
        };
        // Watching before reading, so that no move between the two is missed.
        if watch.token != 0 {
            found.watch(self.id(), watch.token);
        }
        if looks { found.look(read) } else { found.read(read).await }
    }

    async fn ask_read(
        &self,
        owner: ShardId,
        one: &FetchPartition,
        read: ReadSpec,
        counts: bool,
        slot: Slot<Fetched>,
        watch: u64,
    ) {
        let token = self.inner.asked.borrow_mut().insert(Asked::Read(slot));
        let partition = super::key_of(one.partition);
        assert_ne!(owner, self.id(), "a shard asks others only");
        let header = Header::Read { token, partition, read, counts, watch };
        self.ask(owner, token, &header, Chain::new()).await;
    }

    /// Answers a read of another shard: at once from memory, a cold one on a task of its own, so
    /// that the mailbox moves.
    pub(super) fn answer_read(
        &self,
        to: ShardId,
        token: u64,
        partition: TopicPartition,
        read: ReadSpec,
        counts: bool,
        watch: u64,
    ) {
        let Some(partition) = self.find(partition) else {
            let failed = Fetched::of_failure(self.absence(partition));
            return self.post_read(to, token, failed);
        };
        if watch != 0 {
            partition.watch(to, watch);
        }
        if counts {
            return self.post_read(to, token, partition.count(&read));
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

/// Cuts what exceeds the limit, in order of priority and between batches; returns the bytes kept,
/// with those kept before. The first batch of an answer is kept whatever its size, so that a
/// consumer always moves on (KIP-74).
fn keep_within(fetched: &mut [Fetched], kept_before: usize, max_bytes: usize) -> usize {
    let mut kept = kept_before;
    for one in fetched {
        let left = max_bytes.saturating_sub(kept);
        if one.records.len() > left {
            let whole = whole_batches(&one.records, left, kept == 0);
            one.records = one.records.sub(0..whole);
        }
        kept += one.records.len();
    }
    kept
}

/// Length of the whole batches that fit into `max_bytes`, the first one at any rate if `needs_one`.
fn whole_batches(records: &Chain, max_bytes: usize, needs_one: bool) -> usize {
    let mut end = 0;
    while let Some(header) = batch::Header::from_chain(records, end) {
        let next = end + header.size_bytes();
        if next > records.len() || (next > max_bytes && !(needs_one && end == 0)) {
            break;
        }
        end = next;
    }
    end
}

/// The interest of one waiting fetch, given up when it ends however it ends.
struct Watch<'a, E: Env> {
    shard: &'a Shard<E>,
    wanted: &'a [FetchPartition],
    signal: Rc<Signal>,
    /// Names the watch to partitions; 0 when the fetch does not wait.
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
            if owner == self.shard.id() {
                if let Some(partition) = self.shard.find(one.partition) {
                    partition.unwatch(owner, self.token);
                }
            } else {
                let partition = super::key_of(one.partition);
                let header = Header::Unwatch { watch: self.token, partition };
                self.shard.post(owner, &header, Chain::new());
            }
        }
    }
}
