//! Reading: from the tail's memory when the offset lies there, else from the file.
//!
//! Answers whole batches from the one that holds the offset on; at least one if any is readable.
//! Bytes go out as they lie, never copied, decoded or re-encoded. Invariant: nothing at or behind
//! `up_to` is returned.

use std::rc::Rc;

use super::state::{Shared, State};
use crate::{
    io::{Env, buf::Chain},
    types::Offset,
};

/// The answer to a read.
#[derive(Debug)]
pub enum Read {
    /// Whole batches from memory.
    Ready(Chain),
    /// The bytes are on disk: await [`super::Log::read_cold`].
    Cold(ColdRead),
    /// Nothing to read yet at this offset.
    Empty,
    /// The offset is not in the log.
    OutOfRange,
}

/// A read that needs the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdRead {
    pub(super) from: Offset,
    pub(super) max_bytes: usize,
    pub(super) up_to: Offset,
}

/// Reads whole batches from `from` on that end at or before `up_to`.
pub(super) fn read<E: Env>(
    shared: &Shared<E>,
    from: Offset,
    max_bytes: usize,
    up_to: Offset,
) -> Read {
    let state = shared.state.borrow();
    if from < state.marks.log_start() || from > state.marks.log_end() {
        return Read::OutOfRange;
    }
    let up_to = up_to.min(state.marks.log_end());
    if from >= up_to {
        return Read::Empty;
    }
    if state.tail.first_offset().is_none_or(|first| from < first) {
        let up_to = up_to.min(state.written_end);
        return if from < up_to {
            Read::Cold(ColdRead { from, max_bytes, up_to })
        } else {
            Read::Empty
        };
    }
    let start = state.tail.locate(from);
    let end = state.tail.limit(start, max_bytes, up_to);
    if end == start { Read::Empty } else { Read::Ready(state.tail.chain(start, end)) }
}

/// Bytes from `from` to `up_to`, by the tail's positions or the indexes in memory; whole segments
/// count as they are. An estimate: within an index interval, or a segment whose index is not cached.
pub(super) fn bytes_between<E: Env>(shared: &Shared<E>, from: Offset, up_to: Offset) -> usize {
    let state = shared.state.borrow();
    let up_to = up_to.min(state.marks.log_end());
    if from >= up_to {
        return 0;
    }
    let bytes = position(&state, up_to).saturating_sub(position(&state, from));
    // At least one batch lies between.
    usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
}

/// Bytes of the log before `offset`, roughly; only differences mean something.
fn position<E: Env>(state: &State<E>, offset: Offset) -> u64 {
    let next = state.segments.partition_point(|segment| segment.base <= offset);
    let before: u64 =
        state.segments.iter().take(next.saturating_sub(1)).map(|segment| segment.size).sum();
    let Some(segment) = next.checked_sub(1).and_then(|at| state.segments.get(at)) else {
        return 0;
    };
    if offset >= segment.end {
        return before + segment.size;
    }
    if state.tail.first_offset().is_some_and(|first| offset >= first.max(segment.base)) {
        return before + (state.tail.locate(offset) - segment.origin);
    }
    let indexes = segment.cached.as_ref().map(Rc::as_ref).unwrap_or(segment.growing.entries());
    before + indexes.position_before(segment.base, offset)
}
