//! The durable-end record: what the log had made durable some time ago, and where it starts. Kept
//! in `durable-end`, twice: two blocks written in turn, the newer good one counts.
//!
//! It is written lazily (at a seal, at a clean stop, once quiet or every so many bytes), so it is a
//! lower bound: a log that ends before it has lost bytes, one that ends behind it may be torn
//! there. Only a new log start is written and synced at once. docs/format.md has the bytes.

use std::{io, rc::Rc};

use super::{
    frame::{Fields, Format},
    room::flush_failed,
    state::{FileOf, Shared},
};
use crate::{
    io::{Disk, DiskFile, Env, FlushScope, OpenMode, buf::TailBuf},
    limits::DIRECT_ALIGNMENT_BYTES,
    types::Offset,
};

const FORMAT: Format = Format { magic: *b"MRDE", version: 1 };

/// The file's name.
pub(super) const FILE_NAME: &str = "durable-end";

const SLOT_BYTES: u64 = DIRECT_ALIGNMENT_BYTES as u64;

/// One durable-end record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Counts the records; the slot is its lowest bit.
    pub(super) sequence: u64,
    pub(super) durable_end: Offset,
    pub(super) log_start: Offset,
    /// Gaps between the offsets of batches are legal below this one.
    pub(super) dense_from: Offset,
}

impl Checkpoint {
    fn encode(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(32);
        content.extend_from_slice(&self.sequence.to_be_bytes());
        content.extend_from_slice(&self.durable_end.0.to_be_bytes());
        content.extend_from_slice(&self.log_start.0.to_be_bytes());
        content.extend_from_slice(&self.dense_from.0.to_be_bytes());
        FORMAT.encode(&content)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(FORMAT.decode(bytes)?);
        Some(Self {
            sequence: fields.u64()?,
            durable_end: Offset(fields.i64()?),
            log_start: Offset(fields.i64()?),
            dense_from: Offset(fields.i64()?),
        })
    }

    /// What the file's bytes tell.
    pub(super) fn find(bytes: &[u8]) -> Found {
        let slots = || bytes.chunks(DIRECT_ALIGNMENT_BYTES).take(2);
        let newest = slots().filter_map(Self::decode).max_by_key(|record| record.sequence);
        let written = slots().filter(|slot| slot.iter().any(|byte| *byte != 0)).count();
        match newest {
            Some(record) => Found::Good(record),
            None if written < 2 => Found::Unwritten,
            None => Found::Damaged,
        }
    }
}

/// What a durable-end file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The newest record.
    Good(Checkpoint),
    /// The first record was never completed: at most one slot has been written to.
    Unwritten,
    /// Both slots were written and neither is good. No crash does that: one of them is always
    /// durable before the other is written.
    Damaged,
}

/// When a record becomes durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    /// Before the write returns.
    Now,
    /// With the next flush of the disk.
    WithNextFlush,
}

/// Writes a record of the log as it is now and syncs it.
pub(super) async fn write<E: Env>(shared: &Rc<Shared<E>>) -> io::Result<()> {
    write_in_turn(shared, Durable::Now).await
}

/// Writes a record that the next flush of the disk will cover; where a flush covers single files
/// only, nothing.
pub(super) async fn note<E: Env>(shared: &Rc<Shared<E>>) -> io::Result<()> {
    if shared.disk().flush_scope() == FlushScope::File {
        return Ok(());
    }
    write_in_turn(shared, Durable::WithNextFlush).await
}

async fn write_in_turn<E: Env>(shared: &Rc<Shared<E>>, durable: Durable) -> io::Result<()> {
    // One at a time: two records in flight could both be torn.
    let deleted = shared
        .changed
        .wait_for(|| {
            let mut state = shared.state.borrow_mut();
            if state.deleted {
                return Some(true);
            }
            (!std::mem::replace(&mut state.recording, true)).then_some(false)
        })
        .await;
    if deleted {
        return Err(io::Error::other("the partition was deleted"));
    }
    let result = write_next(shared, durable).await;
    shared.state.borrow_mut().recording = false;
    shared.changed.notify();
    result
}

async fn write_next<E: Env>(shared: &Shared<E>, durable: Durable) -> io::Result<()> {
    let file = open(shared).await?;
    if is_last_undurable(shared) {
        // Two records that are not durable could both be torn, and with them the one before.
        match durable {
            Durable::Now => file.sync().await.map_err(flush_failed)?,
            Durable::WithNextFlush => return Ok(()),
        }
    }
    let (record, recorded) = {
        let mut state = shared.state.borrow_mut();
        assert!(state.recording, "records are written one at a time");
        assert!(!state.damaged, "a damaged log's record is its evidence");
        state.checkpoint_sequence += 1;
        let record = Checkpoint {
            sequence: state.checkpoint_sequence,
            durable_end: state.marks.durable_end(),
            log_start: state.marks.log_start(),
            dense_from: state.dense_from,
        };
        (record, state.written)
    };
    let bytes = record.encode();
    let mut block = TailBuf::unpooled(DIRECT_ALIGNMENT_BYTES);
    block.append(&bytes);
    block.zero_to_alignment();
    let at = record.sequence % 2 * SLOT_BYTES;
    let written = file.write_at(&[block.io_range(0..DIRECT_ALIGNMENT_BYTES)], at).await;
    if let Err(error) = written {
        // The next try is for the same slot: the other one may be the only good one.
        shared.state.borrow_mut().checkpoint_sequence -= 1;
        return Err(error);
    }
    if durable == Durable::Now {
        file.sync().await.map_err(flush_failed)?;
    }
    let flushes = shared.volume.flushes();
    let mut state = shared.state.borrow_mut();
    state.recorded = recorded;
    state.noted_at_flush = (durable == Durable::WithNextFlush).then_some(flushes);
    Ok(())
}

/// Whether the last record may not be durable yet. A flush in flight when it was written does not
/// cover it; the one after that does.
fn is_last_undurable<E: Env>(shared: &Shared<E>) -> bool {
    let noted_at = shared.state.borrow().noted_at_flush;
    noted_at.is_some_and(|flushes| shared.volume.flushes() < flushes + 2)
}

/// The file, made and with both slots written and synced, so that a flush of the disk covers them.
async fn open<E: Env>(shared: &Shared<E>) -> io::Result<Rc<FileOf<E>>> {
    let known = shared.state.borrow().record_file.clone();
    if let Some(file) = known {
        return Ok(file);
    }
    let path = shared.dir.join(FILE_NAME);
    let file = Rc::new(shared.disk().open(&path, OpenMode::Write).await?);
    if file.length().await? < 2 * SLOT_BYTES {
        file.write_zeros(0, 2 * SLOT_BYTES).await?;
    }
    // One that was found may lie in a cache that a killed process filled.
    file.sync().await.map_err(flush_failed)?;
    shared.disk().sync_dir(&shared.dir).await.map_err(flush_failed)?;
    shared.state.borrow_mut().record_file = Some(file.clone());
    Ok(file)
}
