//! Recovery at open (rules R4 and R5): trust sealed segments by their record, read the rest, and
//! tell a torn tail (cut, it was never acknowledged) from damage (kept, reported, never written
//! to).
//!
//! The border between the two is the largest offset known to have been durable: the durable-end
//! record's and the ends of sealed segments. Nothing is appended before what was cut is gone for
//! good: lengths and names are synced here. A start reads the unsealed part only.

use std::{collections::VecDeque, io, path::Path, rc::Rc};

use super::{
    RecoveryReport, checkpoint,
    index::{Indexes, SegmentIndex},
    inventory::{self, FoundSegment, Inventory},
    marks::Marks,
    remove,
    scan::Scanner,
    seal::{FileMark, SealRecord},
    segment::{
        INDEX_SUFFIX, LOG_SUFFIX, PRODUCERS_SUFFIX, Phase, Segment, TIME_INDEX_SUFFIX, file_name,
    },
    settings::Settings,
    snapshot,
    state::{FileOf, State},
    tail::Tail,
};
use crate::{
    error::{Error, Kind},
    io::{
        Disk, DiskFile, Env, OpenMode,
        buf::{Pool, TailBuf},
    },
    limits::{DIRECT_ALIGNMENT_BYTES, INDEX_FILE_CAP_BYTES, READ_CHUNK_BYTES},
    types::Offset,
};

/// What recovery works with.
pub(super) struct Recovery<'a, E: Env> {
    pub(super) disk: &'a E::Disk,
    pub(super) pool: &'a Pool,
    pub(super) dir: &'a Path,
    pub(super) settings: Rc<Settings>,
    pub(super) now_ms: i64,
    pub(super) report: RecoveryReport,
}

impl<E: Env> Recovery<'_, E> {
    /// The state of the log in the directory, which exists.
    pub(super) async fn run(&mut self) -> io::Result<State<E>> {
        let mut inventory = inventory::take(self.disk, self.dir).await?;
        let durable = durable_end(&inventory);
        let segments = self.read_segments(&mut inventory, durable).await?;
        self.build(inventory, segments, durable).await
    }

    async fn read_segments(
        &mut self,
        inventory: &mut Inventory,
        durable: Offset,
    ) -> io::Result<VecDeque<Segment<FileOf<E>>>> {
        let mut segments: VecDeque<Segment<FileOf<E>>> = VecDeque::new();
        let found = std::mem::take(&mut inventory.segments);
        let last = found.last().map(|segment| segment.base);
        for found in found {
            let end = segments.back().map(|segment| segment.end);
            let dense_from = inventory.dense_from;
            let fits = end.is_none_or(|end| dense_from.continues(end, found.base));
            if !fits {
                // Before the durable end bytes are missing, and nothing is touched.
                if inventory.record_lost || end.is_some_and(|end| end < durable) {
                    break;
                }
                // Behind it lies what a torn write left over: gone before anything is appended.
                let file = self.open(found.base).await?;
                self.report.cut_bytes += torn_bytes(&*file, 0, found.length).await?;
                remove::remove_segment_files(self.disk, self.dir, found.base).await?;
                continue;
            }
            let is_last = last == Some(found.base);
            segments.push_back(self.read_segment(inventory, found, is_last).await?);
        }
        Ok(segments)
    }

    async fn read_segment(
        &mut self,
        inventory: &mut Inventory,
        found: FoundSegment,
        is_last: bool,
    ) -> io::Result<Segment<FileOf<E>>> {
        let replay = found.base >= inventory.replay_from;
        match found.seal {
            Some(record) if !is_last && !replay => Ok(sealed_segment(&record, self.now_ms)),
            Some(record) if record.end <= inventory.replay_from => {
                match load_indexes(self.disk, self.dir, &record).await? {
                    Some(indexes) => {
                        let file = self.open(found.base).await?;
                        Ok(resumed_segment(&record, indexes, file, self.now_ms))
                    }
                    None => self.scan_segment(inventory, found, is_last).await,
                }
            }
            _ => self.scan_segment(inventory, found, is_last).await,
        }
    }

    async fn open(&self, base: Offset) -> io::Result<Rc<FileOf<E>>> {
        let path = self.dir.join(file_name(base, LOG_SUFFIX));
        Ok(Rc::new(self.disk.open(&path, OpenMode::Write).await?))
    }

    async fn scan_segment(
        &mut self,
        inventory: &mut Inventory,
        found: FoundSegment,
        is_last: bool,
    ) -> io::Result<Segment<FileOf<E>>> {
        let mut segment = Segment::empty(found.base, 0, self.now_ms);
        let file = self.open(found.base).await?;
        let mut scanner =
            Scanner::new((*file).clone(), found.length, found.base, inventory.dense_from);
        while let Some(header) = scanner.next().await? {
            segment.add(&header, self.settings.index_interval_bytes);
            inventory.epochs.note(header.partition_leader_epoch, header.base_offset);
            if header.base_offset >= inventory.replay_from {
                inventory.producers.remember(&header);
            }
        }
        assert!(segment.size == scanner.position(), "what counts is what was walked");
        if !is_last {
            let newest = (segment.max_timestamp_ms, segment.max_timestamp_offset);
            segment.growing.add_time(segment.base, newest);
            let snapshot = snapshot::encode(&inventory.producers, segment.end);
            segment.producers_at_end = (segment.base >= inventory.replay_from).then_some(snapshot);
        }
        self.report.scanned_bytes += segment.size;
        // Read back is not durable: bytes and name may lie in a cache that a killed process filled.
        file.sync().await?;
        self.disk.sync_dir(self.dir).await?;
        segment.prepared = found.length;
        // All but the last one wait for their seal, which opens them one by one.
        segment.file = is_last.then_some(file);
        Ok(segment)
    }

    async fn build(
        &mut self,
        inventory: Inventory,
        mut segments: VecDeque<Segment<FileOf<E>>>,
        durable: Offset,
    ) -> io::Result<State<E>> {
        let log_start = inventory.checkpoint.log_start;
        let ends_before_start = segments.back().is_some_and(|last| last.end < log_start);
        if ends_before_start && log_start >= durable {
            // Only deleted records are missing: offsets go on behind them and are never used twice.
            for segment in segments.drain(..) {
                remove::remove_segment_files(self.disk, self.dir, segment.base).await?;
            }
        }
        if segments.is_empty() {
            segments.push_back(Segment::empty(log_start, 0, self.now_ms));
        }
        number_segments(&mut segments);
        let first = segments.front().map_or(Offset(0), |segment| segment.base);
        let log_end = segments.back().map_or(first, |segment| segment.end);
        assert!(log_end >= first, "a log does not end before it begins");
        let damage = self.damage(&inventory, durable, log_end);
        let damaged = damage.is_some();
        if !damaged {
            self.clear_left(&inventory, &segments).await?;
        }
        let active = segments.back_mut().expect("there is one by now");
        if !damaged {
            if active.prepared > 0 && active.file.is_none() {
                active.file = Some(self.open(active.base).await?);
            }
            self.cut(active).await?;
        }
        active.phase = Phase::Open;
        let tail = self.tail(active, damaged).await?;
        let log_start = inventory.checkpoint.log_start.max(first).min(log_end);
        let marks = Marks::recovered(log_start, log_end);
        let mut state = State::new(self.settings.clone(), marks, segments, tail);
        state.producers = inventory.producers;
        state.epochs = inventory.epochs;
        state.epochs.cut(log_end);
        state.epochs_changed = true;
        state.checkpoint_sequence = inventory.checkpoint.sequence;
        state.dense_from = inventory.dense_from.0.min(log_end);
        if let Some(text) = damage {
            self.report.damage.push(text.clone());
            state.damaged = true;
            state.closed = Some(Error::new(Kind::Corrupt, text));
        }
        Ok(state)
    }

    /// Removes what a crash left of removals, and snapshots of the producers that have had their
    /// time.
    async fn clear_left(
        &self,
        inventory: &Inventory,
        segments: &VecDeque<Segment<FileOf<E>>>,
    ) -> io::Result<()> {
        let names = &inventory.names;
        for name in &names.deleted {
            self.disk.remove_file(&self.dir.join(name)).await?;
        }
        for base in names.orphans() {
            remove::remove_segment_files(self.disk, self.dir, base).await?;
        }
        let ends = segments.iter().filter_map(|segment| segment.seal.map(|record| record.end));
        let borders = segments.iter().map(|segment| segment.base).chain(ends).collect();
        for offset in names.spent_snapshots(&borders, inventory.replay_from) {
            let path = self.dir.join(file_name(offset, PRODUCERS_SUFFIX));
            self.disk.remove_file(&path).await?;
        }
        Ok(())
    }

    /// What is wrong with a log that ends at `log_end`, as a line for the operator.
    fn damage(&self, inventory: &Inventory, durable: Offset, log_end: Offset) -> Option<String> {
        let kept =
            format!("readable up to offset {log_end}, nothing was changed, appends are refused");
        let dir = self.dir.display();
        if log_end < durable {
            return Some(format!(
                "{dir}: bytes before the recorded durable end {durable} are missing or damaged; \
                 {kept}"
            ));
        }
        inventory.record_lost.then(|| {
            format!(
                "{dir}: both copies of the durable-end record are damaged, so that lost records \
                 would not be noticed; {kept} until its file `{}` is removed, which takes the log \
                 as it is",
                checkpoint::FILE_NAME
            )
        })
    }

    /// Takes the torn tail and all prepared space off the active segment, durably, so that no byte
    /// behind the end can ever be taken for a batch.
    async fn cut(&mut self, active: &mut Segment<FileOf<E>>) -> io::Result<()> {
        let Some(file) = &active.file else { return Ok(()) };
        if active.prepared > active.size {
            self.report.cut_bytes += torn_bytes(&**file, active.size, active.prepared).await?;
            file.set_length(active.size).await?;
            file.sync().await?;
        }
        active.prepared = active.size;
        Ok(())
    }

    async fn tail(&mut self, active: &Segment<FileOf<E>>, damaged: bool) -> io::Result<Tail> {
        let rest = active.size % DIRECT_ALIGNMENT_BYTES as u64;
        let start = active.size - rest;
        let Some(file) = active.file.as_ref().filter(|_| rest > 0 && !damaged) else {
            return Ok(Tail::new(active.virtual_end()));
        };
        let bytes = file.read_at(start, super::segment::in_memory(rest)).await?;
        if bytes.len() as u64 != rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let block = self.pool.take(DIRECT_ALIGNMENT_BYTES);
        let mut block = block.unwrap_or_else(|| TailBuf::unpooled(DIRECT_ALIGNMENT_BYTES));
        block.append(&bytes);
        Ok(Tail::resumed(active.origin + start, block, self.now_ms))
    }
}

/// Bytes of a file from `from` up to the last one before `to` that is not zero: what is not just
/// space prepared for writes to come.
async fn torn_bytes<F: DiskFile>(file: &F, from: u64, to: u64) -> io::Result<u64> {
    let (mut at, mut torn) = (from, 0);
    while at < to {
        let wanted = super::segment::in_memory(to - at).min(READ_CHUNK_BYTES);
        let piece = file.read_at(at, wanted).await?;
        if piece.is_empty() {
            break;
        }
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            torn = at + last as u64 + 1 - from;
        }
        at += piece.len() as u64;
    }
    Ok(torn)
}

/// The largest offset known to have been durable. Kafka keeps no such record, so of a log of its
/// own all but the last segment counts as durable.
fn durable_end(inventory: &Inventory) -> Offset {
    let sealed = inventory.segments.iter().filter_map(|found| found.seal);
    let durable =
        sealed.map(|record| record.end).fold(inventory.checkpoint.durable_end, Offset::max);
    match inventory.segments.last() {
        Some(last) if !inventory.is_ours => durable.max(last.base),
        _ => durable,
    }
}

/// Gives the segments virtual positions one behind the other, each starting at a multiple of the
/// direct alignment as files do.
fn number_segments<F>(segments: &mut VecDeque<Segment<F>>) {
    let mut origin = 0;
    for segment in segments {
        segment.origin = origin;
        origin = segment.virtual_end().next_multiple_of(DIRECT_ALIGNMENT_BYTES as u64);
    }
}

fn sealed_segment<F>(record: &SealRecord, now_ms: i64) -> Segment<F> {
    let mut segment = Segment::empty(record.base, 0, now_ms);
    segment.end = record.end;
    segment.size = record.size;
    segment.prepared = record.size;
    segment.max_timestamp_ms = record.max_timestamp_ms;
    segment.max_timestamp_offset = record.max_timestamp_offset;
    segment.first_timestamp_ms = (record.size > 0).then_some(record.first_timestamp_ms);
    segment.phase = Phase::Sealed;
    segment.seal = Some(*record);
    segment
}

fn resumed_segment<F>(
    record: &SealRecord,
    indexes: Indexes,
    file: Rc<F>,
    now_ms: i64,
) -> Segment<F> {
    let mut segment = sealed_segment(record, now_ms);
    segment.growing = SegmentIndex::resumed(indexes);
    segment.file = Some(file);
    segment
}

/// The indexes that a seal record vouches for; `None` when they are not what it says.
pub(super) async fn load_indexes<D: Disk>(
    disk: &D,
    dir: &Path,
    record: &SealRecord,
) -> io::Result<Option<Indexes>> {
    let read = async |suffix, mark: FileMark| {
        let path = dir.join(file_name(record.base, suffix));
        let bytes = inventory::read_remakable(disk, &path, INDEX_FILE_CAP_BYTES).await?;
        io::Result::Ok(bytes.filter(|bytes| FileMark::of(bytes) == mark))
    };
    let offsets = read(INDEX_SUFFIX, record.index).await?;
    let times = read(TIME_INDEX_SUFFIX, record.time_index).await?;
    let both = offsets.zip(times);
    Ok(both.and_then(|(offsets, times)| Indexes::decode(&offsets, &times, record.size)))
}
