//! Sealing: a complete segment is cut to its size, indexed, and recorded as such, so that a start
//! need not read it. A clean stop seals the last segment too; it is resumed when it grows again.
//!
//! Order: bytes durable, length synced, leader epochs, producers, indexes, then the record, which
//! thus vouches for all of them. A record counts while the segment has exactly the length it names:
//! space prepared for more appends is longer and synced before them.

use std::{io, rc::Rc};

use super::{
    checkpoint, epochs,
    frame::{Fields, Format},
    index::Indexes,
    room,
    segment::{
        INDEX_SUFFIX, LOG_SUFFIX, PRODUCERS_SUFFIX, Phase, SEAL_SUFFIX, TIME_INDEX_SUFFIX,
        file_name,
    },
    state::{FileOf, Shared, State},
};
use crate::{
    error::Error,
    io::{Disk, DiskFile, Env, OpenMode},
    types::Offset,
};

const FORMAT: Format = Format { magic: *b"MRSL", version: 1 };

/// What a seal record says of its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SealRecord {
    pub(super) base: Offset,
    pub(super) end: Offset,
    pub(super) size: u64,
    pub(super) max_timestamp_ms: i64,
    pub(super) max_timestamp_offset: Offset,
    pub(super) first_timestamp_ms: i64,
    pub(super) index: FileMark,
    pub(super) time_index: FileMark,
}

/// Length and CRC-32C of an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileMark {
    pub(super) length: u32,
    pub(super) crc: u32,
}

impl FileMark {
    /// The mark of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("an index stays far below 4 GiB");
        Self { length, crc: crc32c::crc32c(bytes) }
    }
}

impl SealRecord {
    fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(64);
        content.extend_from_slice(&self.base.0.to_be_bytes());
        content.extend_from_slice(&self.end.0.to_be_bytes());
        content.extend_from_slice(&self.size.to_be_bytes());
        content.extend_from_slice(&self.max_timestamp_ms.to_be_bytes());
        content.extend_from_slice(&self.max_timestamp_offset.0.to_be_bytes());
        content.extend_from_slice(&self.first_timestamp_ms.to_be_bytes());
        for mark in [self.index, self.time_index] {
            content.extend_from_slice(&mark.length.to_be_bytes());
            content.extend_from_slice(&mark.crc.to_be_bytes());
        }
        FORMAT.encode(&content)
    }

    /// The record in a file's bytes; `None` for damage.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(FORMAT.decode(bytes)?);
        Some(Self {
            base: Offset(fields.i64()?),
            end: Offset(fields.i64()?),
            size: fields.u64()?,
            max_timestamp_ms: fields.i64()?,
            max_timestamp_offset: Offset(fields.i64()?),
            first_timestamp_ms: fields.i64()?,
            index: FileMark { length: fields.u32()?, crc: fields.u32()? },
            time_index: FileMark { length: fields.u32()?, crc: fields.u32()? },
        })
    }
}

/// Seals complete segments in the background, if there are any.
pub(super) fn start<E: Env>(shared: &Rc<Shared<E>>) {
    {
        let mut state = shared.state.borrow_mut();
        let waits = state.sealing || state.seal_waits || state.has_failed();
        if waits || next_complete(&state).is_none() {
            return;
        }
        state.sealing = true;
    }
    let shared = shared.clone();
    let env = shared.env.clone();
    env.spawn_background(async move {
        let result = seal_complete(&shared).await;
        shared.state.borrow_mut().sealing = false;
        match result {
            Ok(()) => {}
            Err(error) if Error::is_shortage(&error) => room::missed_seal(&shared),
            Err(error) => shared.fail_io("seal a segment", &error),
        }
        shared.changed.notify();
    });
}

async fn seal_complete<E: Env>(shared: &Rc<Shared<E>>) -> io::Result<()> {
    loop {
        let next = next_complete(&shared.state.borrow());
        let Some(base) = next else { return Ok(()) };
        seal(shared, base).await?;
        checkpoint::write(shared).await?;
    }
}

/// Whether a complete segment waits for its seal.
pub(super) fn is_due<E: Env>(state: &State<E>) -> bool {
    next_complete(state).is_some()
}

/// The oldest segment that takes no more appends, is durable and not sealed.
fn next_complete<E: Env>(state: &State<E>) -> Option<Offset> {
    if state.has_failed() || state.damaged {
        return None;
    }
    let complete = state.segments.iter().rev().skip(1).rev();
    let durable_end = state.marks.durable_end();
    let mut open =
        complete.filter(|segment| segment.phase != Phase::Sealed && segment.end <= durable_end);
    open.next().map(|segment| segment.base)
}

/// What sealing writes.
struct Work<F> {
    file: Option<Rc<F>>,
    indexes: Indexes,
    producers: Option<Vec<u8>>,
    epochs: Option<String>,
    record: SealRecord,
    older_snapshot: Option<Offset>,
}

/// Seals the segment at `base`, all of whose bytes are durable.
pub(super) async fn seal<E: Env>(shared: &Rc<Shared<E>>, base: Offset) -> io::Result<()> {
    shared.changed.wait_for(|| (shared.state.borrow().preparing != Some(base)).then_some(())).await;
    let Some(work) = begin(&mut shared.state.borrow_mut(), base) else { return Ok(()) };
    let (disk, record) = (shared.disk(), &work.record);
    let path = |offset, suffix| shared.dir.join(file_name(offset, suffix));
    let file = match work.file {
        Some(file) => file,
        // Found complete at the start.
        None => Rc::new(disk.open(&path(base, LOG_SUFFIX), OpenMode::Write).await?),
    };
    file.set_length(record.size).await?;
    file.sync().await.map_err(room::flush_failed)?;
    if let Some(text) = work.epochs {
        disk.write_file(&shared.dir.join(epochs::FILE_NAME), text.as_bytes()).await?;
        let mut state = shared.state.borrow_mut();
        state.epochs_changed = state.epochs.encode() != text;
    }
    if let Some(bytes) = work.producers {
        disk.write_file(&path(record.end, PRODUCERS_SUFFIX), &bytes).await?;
    }
    disk.write_file(&path(base, INDEX_SUFFIX), &work.indexes.encode_offsets()).await?;
    disk.write_file(&path(base, TIME_INDEX_SUFFIX), &work.indexes.encode_times()).await?;
    disk.write_file(&path(base, SEAL_SUFFIX), &record.encode()).await?;
    finish(shared, base, *record);
    if let Some(older) = work.older_snapshot {
        let _may_be_gone = disk.remove_file(&path(older, PRODUCERS_SUFFIX)).await;
    }
    Ok(())
}

fn begin<E: Env>(state: &mut State<E>, base: Offset) -> Option<Work<FileOf<E>>> {
    assert!(!state.damaged, "a damaged log is not written to");
    let at = state.segments.partition_point(|segment| segment.base < base);
    let older_snapshot = at.checked_sub(1).map(|before| state.segments[before].base);
    let epochs = state.epochs_changed.then(|| state.epochs.encode());
    let durable_end = state.marks.durable_end();
    let segment = state.segment(base)?;
    assert!(segment.end <= durable_end, "only durable bytes are vouched for");
    assert!(segment.size > 0, "an empty segment is not sealed");
    segment.phase = Phase::Sealing;
    let indexes = segment.growing.entries().clone();
    let record = SealRecord {
        base,
        end: segment.end,
        size: segment.size,
        max_timestamp_ms: segment.max_timestamp_ms,
        max_timestamp_offset: segment.max_timestamp_offset,
        first_timestamp_ms: segment.first_timestamp_ms.unwrap_or(-1),
        index: FileMark::of(&indexes.encode_offsets()),
        time_index: FileMark::of(&indexes.encode_times()),
    };
    let producers = segment.producers_at_end.clone();
    let file = segment.file.clone();
    Some(Work { file, indexes, producers, epochs, record, older_snapshot })
}

fn finish<E: Env>(shared: &Shared<E>, base: Offset, record: SealRecord) {
    let mut state = shared.state.borrow_mut();
    if let Some(segment) = state.segment(base) {
        assert!(segment.size == record.size, "a segment does not grow while it is sealed");
        segment.phase = Phase::Sealed;
        segment.prepared = record.size;
        segment.seal = Some(record);
        segment.growing = super::index::SegmentIndex::default();
        segment.producers_at_end = None;
        segment.file = None;
    }
}
