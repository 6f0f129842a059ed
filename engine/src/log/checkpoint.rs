//! The durable-end record: what the log had made durable some time ago, and where it starts. Kept
//! in `durable-end`, twice: two blocks written in turn, the newer good one counts.
//!
//! It is written lazily (at a seal, at a clean stop, once quiet or every so many bytes), so it is a
//! lower bound: a log that ends before it has lost bytes, one that ends behind it may be torn there.
//! Only a new log start is written and synced at once. docs/format.md has the bytes.

use std::{io, rc::Rc};

use super::{
    frame::{Fields, Format},
    state::Shared,
};
use crate::{
    io::{Disk, DiskFile, Env, OpenMode, buf::TailBuf},
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

    /// The newest good record in the file's bytes.
    pub(super) fn newest(bytes: &[u8]) -> Option<Self> {
        let slots = bytes.chunks(DIRECT_ALIGNMENT_BYTES).take(2);
        slots.filter_map(Self::decode).max_by_key(|record| record.sequence)
    }
}

/// Writes a record of the log as it is now and syncs it.
pub(super) async fn write<E: Env>(shared: &Rc<Shared<E>>) -> io::Result<()> {
    // One at a time: two records in flight could both be torn.
    shared
        .changed
        .wait_for(|| {
            let mut state = shared.state.borrow_mut();
            (!std::mem::replace(&mut state.recording, true)).then_some(())
        })
        .await;
    let result = write_next(shared).await;
    shared.state.borrow_mut().recording = false;
    shared.changed.notify();
    result
}

async fn write_next<E: Env>(shared: &Shared<E>) -> io::Result<()> {
    let (record, recorded) = {
        let mut state = shared.state.borrow_mut();
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
    let path = shared.dir.join(FILE_NAME);
    let file = shared.disk().open(&path, OpenMode::Write).await?;
    let made = file.length().await? < 2 * SLOT_BYTES;
    if made {
        file.write_zeros(0, 2 * SLOT_BYTES).await?;
    }
    let at = record.sequence % 2 * SLOT_BYTES;
    file.write_at(&[block.io_range(0..DIRECT_ALIGNMENT_BYTES)], at).await?;
    file.sync().await?;
    if made {
        shared.disk().sync_dir(&shared.dir).await?;
    }
    shared.state.borrow_mut().recorded = recorded;
    Ok(())
}
