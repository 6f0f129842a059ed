//! One log under test beside the list of what was appended to it.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::super::{AppendError, Log, Read, Settings, Volume, checkpoint};
use crate::{
    batch::{BatchBuilder, BatchOptions, HEADER_BYTES, Header, NewRecord, first_at_or_after},
    error::Kind,
    io::{
        Clock, Spawn,
        buf::{Chain, Pool, Slice},
        fake::{FakeEnv, Random, Sim},
    },
    types::{LeaderEpoch, Offset, ProducerId},
};

/// A batch as the log must hold it.
#[derive(Clone)]
pub(super) struct Expected {
    pub(super) header: Header,
    pub(super) bytes: Vec<u8>,
}

/// An idempotent producer.
struct Sender {
    id: ProducerId,
    epoch: i16,
    sequence: i32,
}

/// A log and its reference.
pub(super) struct Partition {
    pub(super) dir: PathBuf,
    pub(super) settings: Settings,
    pub(super) log: Log<FakeEnv>,
    /// All batches from the first retained one to the log's end, in order.
    pub(super) history: Vec<Expected>,
    pub(super) acknowledged: Rc<Cell<Offset>>,
    /// Start of the log that was answered to a deletion or seen.
    pub(super) log_start: Offset,
    epoch: LeaderEpoch,
    senders: Vec<Sender>,
}

pub(super) fn open(
    sim: &Sim,
    volume: &Volume<FakeEnv>,
    pool: &Pool,
    dir: &Path,
    settings: &Settings,
) -> (Log<FakeEnv>, super::super::RecoveryReport) {
    let opening =
        Log::open(sim.env(), volume.clone(), pool.clone(), dir.to_owned(), settings.clone());
    sim.block_on(opening).expect("a log opens after any crash")
}

fn listen(log: &Log<FakeEnv>, acknowledged: &Rc<Cell<Offset>>) {
    let target = acknowledged.clone();
    log.set_on_advance(Box::new(move |marks| {
        target.set(target.get().max(marks.ack_end()));
    }));
}

impl Partition {
    pub(super) fn new(log: Log<FakeEnv>, dir: PathBuf, settings: Settings, index: i64) -> Self {
        let acknowledged = Rc::new(Cell::new(Offset(0)));
        listen(&log, &acknowledged);
        let senders = (0..2)
            .map(|n| Sender { id: ProducerId(index * 10 + n), epoch: 0, sequence: 0 })
            .collect();
        Self {
            dir,
            settings,
            log,
            history: Vec::new(),
            acknowledged,
            log_start: Offset(0),
            epoch: LeaderEpoch(0),
            senders,
        }
    }

    pub(super) fn end(&self) -> Offset {
        let appended = self.history.last().map(|batch| batch.header.next_offset());
        appended.map_or(self.log_start, |end| end.max(self.log_start))
    }

    /// Appends a random batch; nothing happens when the log is busy or has failed.
    pub(super) fn append(&mut self, random: &mut Random, now_ms: i64) {
        if random.chance(3) {
            self.epoch.0 += 1;
        }
        let sender = random.chance(60).then(|| random.below(self.senders.len()));
        if let Some(sender) = sender.filter(|_| random.chance(5)) {
            self.senders[sender].epoch += 1;
            self.senders[sender].sequence = 0;
        }
        let mut options = BatchOptions::default();
        if let Some(sender) = sender {
            options.producer_id = self.senders[sender].id;
            options.producer_epoch = self.senders[sender].epoch;
            options.base_sequence = self.senders[sender].sequence;
        }
        let (header, bytes) = batch(random, now_ms, &options);
        let payload = split(random, &bytes[HEADER_BYTES..]);
        match self.log.append_parts(&header, &payload, self.epoch, now_ms) {
            Ok(appended) => {
                assert!(!appended.duplicate, "a new sequence is no duplicate");
                assert_eq!(
                    appended.base_offset,
                    self.log.marks().log_end().plus(-i64::from(header.record_count))
                );
                self.remember(header, bytes, appended.base_offset);
                if let Some(sender) = sender {
                    self.senders[sender].sequence += header.record_count;
                }
            }
            Err(AppendError::Busy) => {}
            Err(AppendError::Failed(_)) => assert!(self.log.failure().is_some()),
            Err(other) => panic!("a good batch is refused: {other:?}"),
        }
    }

    fn remember(&mut self, mut header: Header, mut bytes: Vec<u8>, base: Offset) {
        assert_eq!(base, self.end(), "offsets are dense");
        header.base_offset = base;
        header.partition_leader_epoch = self.epoch;
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        self.history.push(Expected { header, bytes });
    }

    /// Sends one of the batches the log must still know again.
    pub(super) fn repeat(&self, random: &mut Random, now_ms: i64) {
        let sender = &self.senders[random.below(self.senders.len())];
        let theirs = self.history.iter().rev().filter(|batch| {
            batch.header.producer_id == sender.id && batch.header.producer_epoch == sender.epoch
        });
        for known in theirs.take(5) {
            let mut header = known.header;
            header.base_offset = Offset(0);
            let payload = split(random, &known.bytes[HEADER_BYTES..]);
            match self.log.append_parts(&header, &payload, self.epoch, now_ms) {
                Ok(appended) => {
                    assert!(appended.duplicate, "a repeated batch is not appended again");
                    assert_eq!(appended.base_offset, known.header.base_offset);
                    assert_eq!(appended.last_offset, known.header.last_offset());
                }
                Err(AppendError::Failed(_)) => assert!(self.log.failure().is_some()),
                Err(other) => panic!("a repeated batch is refused: {other:?}"),
            }
        }
    }

    /// Reads from a random offset and compares every byte.
    pub(super) fn read(&self, sim: &Sim, random: &mut Random) {
        let marks = self.log.marks();
        let up_to = marks.high_watermark();
        let start = marks.log_start();
        let span = usize::try_from(up_to.distance_from(start)).expect("short logs");
        let from = start.plus(i64::try_from(random.below(span + 2)).expect("small"));
        let max_bytes = [1, 500, 5_000, 100_000][random.below(4)];
        let chain = match self.log.read(from, max_bytes, up_to) {
            Read::Ready(chain) => chain,
            Read::Empty => {
                assert!(from >= up_to, "there is something to read at {from}");
                return;
            }
            Read::OutOfRange => {
                assert!(from > marks.log_end(), "{from} is in the log");
                return;
            }
            Read::Cold(cold) => {
                let log = self.log.clone();
                match sim.block_on(async move { log.read_cold(cold).await }) {
                    Ok(chain) => chain,
                    // An injected fault.
                    Err(error) if matches!(error.kind(), Kind::Fatal | Kind::Full) => return,
                    Err(_) if self.log.marks().log_start() > from => return,
                    Err(error) => panic!("cold read at {from}: {error}"),
                }
            }
        };
        self.compare(from, max_bytes, up_to, &chain.to_vec());
    }

    fn compare(&self, from: Offset, max_bytes: usize, up_to: Offset, got: &[u8]) {
        let first = self.history.partition_point(|batch| batch.header.last_offset() < from);
        let (mut at, mut count) = (0, 0);
        for batch in &self.history[first..] {
            if at >= got.len() {
                break;
            }
            assert!(batch.header.next_offset() <= up_to, "nothing beyond the limit is read");
            let end = (at + batch.bytes.len()).min(got.len());
            assert!(
                got[at..end] == batch.bytes[..end - at],
                "bytes at {}",
                batch.header.base_offset
            );
            assert_eq!(end - at, batch.bytes.len(), "whole batches only");
            at = end;
            count += 1;
        }
        assert!(at == got.len() && count > 0, "{} bytes, {count} batches from {from}", got.len());
        assert!(count == 1 || got.len() <= max_bytes, "no more than asked for");
    }

    /// Moves the start of the log, by retention or by request; answered deletions must stay.
    pub(super) fn delete(&mut self, sim: &Sim, random: &mut Random) {
        let log = self.log.clone();
        let marks = log.marks();
        if random.chance(50) {
            let now_ms = sim.env().wall_ms();
            let applied = sim.block_on(async move { log.apply_retention(now_ms).await });
            assert!(applied.is_ok() || self.log.failure().is_some());
            return;
        }
        let span = usize::try_from(marks.high_watermark().distance_from(marks.log_start()));
        let span = random.below(span.expect("marks are in order") + 1);
        let to = marks.log_start().plus(i64::try_from(span).expect("small"));
        match sim.block_on(async move { log.delete_records(to).await }) {
            Ok(start) => {
                assert!(start >= to);
                self.log_start = self.log_start.max(to);
            }
            Err(error) if error.kind() == Kind::Full => {}
            Err(error) => assert!(self.log.failure().is_some(), "{error}"),
        }
    }

    /// Writes a durable-end record for the next flush to cover, as a busy log does now and then.
    pub(super) fn note_durable_end(&self, sim: &Sim) {
        let shared = self.log.shared.clone();
        if self.log.failure().is_none() && shared.state.borrow().checkpoint_sequence > 0 {
            let env = sim.env();
            env.spawn(async move {
                let _fails_with_the_log = checkpoint::note(&shared).await;
            });
        }
    }

    /// Looks a random timestamp up and compares with a walk over all records.
    pub(super) fn look_up(&self, sim: &Sim, random: &mut Random) {
        let marks = self.log.marks();
        let (start, up_to) = (marks.log_start(), marks.high_watermark());
        let Some(batch) = self.history.get(random.below(self.history.len())) else { return };
        let timestamp_ms =
            batch.header.base_timestamp_ms + i64::try_from(random.below(100)).expect("small") - 50;
        let expected =
            self.history.iter().filter(|batch| batch.header.next_offset() <= up_to).find_map(
                |batch| {
                    let bytes = &batch.bytes[HEADER_BYTES..];
                    first_at_or_after(&batch.header, bytes, timestamp_ms, start).expect("good")
                },
            );
        let log = self.log.clone();
        let found =
            sim.block_on(async move { log.offset_for_timestamp(timestamp_ms, up_to).await });
        match found {
            Ok(found) if self.log.marks().log_start() == start => assert_eq!(found, expected),
            Ok(_) => {}
            Err(error) => assert!(error.kind() != Kind::Corrupt, "{error}"),
        }
    }

    /// Opens the log again after a restart and checks all that must hold.
    pub(super) fn reopen(
        &mut self,
        sim: &Sim,
        volume: &Volume<FakeEnv>,
        pool: &Pool,
        required: Offset,
    ) {
        let (log, report) = open(sim, volume, pool, &self.dir, &self.settings);
        assert!(report.damage.is_empty(), "no damage was done: {:?}", report.damage);
        let marks = log.marks();
        assert!(marks.log_end() >= required, "acknowledged to {required}, {marks:?} is left");
        assert!(marks.log_end() <= self.end(), "nothing was invented");
        assert!(marks.log_start() >= self.log_start, "deleted records came back");
        self.log_start = marks.log_start();
        self.log = log;
        self.history.retain(|batch| batch.header.base_offset < marks.log_end());
        if self.settings.flush_messages > 1 && marks.log_start() == marks.log_end() {
            // A relaxed log may have lost records behind a deletion and then goes on at its start.
            self.history.clear();
        }
        assert_eq!(self.end().max(self.log_start), marks.log_end(), "batches are whole");
        self.acknowledged.set(marks.log_end());
        listen(&self.log, &self.acknowledged);
        for sender in &mut self.senders {
            let last = self.history.iter().rev().find(|batch| {
                batch.header.producer_id == sender.id && batch.header.producer_epoch == sender.epoch
            });
            if let Some(last) = last {
                sender.sequence = last.header.last_sequence() + 1;
            } else {
                // Nothing of this epoch is left for sure: a new one may always start.
                sender.epoch += 1;
                sender.sequence = 0;
            }
        }
        self.read_all(sim);
    }

    /// Reads the log from end to end.
    pub(super) fn read_all(&self, sim: &Sim) {
        let marks = self.log.marks();
        let mut from = marks.log_start();
        while from < marks.high_watermark() {
            let up_to = marks.high_watermark();
            let chain = match self.log.read(from, 3_000, up_to) {
                Read::Ready(chain) => chain,
                Read::Cold(cold) => {
                    let log = self.log.clone();
                    sim.block_on(async move { log.read_cold(cold).await }).expect("readable")
                }
                other => panic!("{from} of {marks:?} reads as {other:?}"),
            };
            self.compare(from, 3_000, up_to, &chain.to_vec());
            let mut at = 0;
            while let Some(header) = Header::from_chain(&chain, at) {
                from = header.next_offset();
                at += header.size_bytes();
            }
        }
    }
}

fn batch(random: &mut Random, now_ms: i64, options: &BatchOptions) -> (Header, Vec<u8>) {
    let mut builder = BatchBuilder::new();
    let records = 1 + random.below(4);
    let size = [20, 200, 1_500, 9_000][random.below(4)];
    for _ in 0..records {
        let length = random.below(size);
        let value: Vec<u8> = (0..length).map(|_| random.bits().to_le_bytes()[0]).collect();
        let timestamp_ms = now_ms - i64::try_from(random.below(50)).expect("small");
        let record = NewRecord { timestamp_ms, key: None, value: Some(&value), headers: &[] };
        builder.push(&record).expect("it fits");
    }
    let mut bytes = Vec::new();
    let header = builder.finish(options, &mut bytes).expect("it has records");
    (header, bytes)
}

fn split(random: &mut Random, bytes: &[u8]) -> Chain {
    let mut chain = Chain::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(1 + random.below(rest.len()));
        chain.push(Slice::copy_of(piece));
        rest = behind;
    }
    chain
}
