//! Look-ups by timestamp (`ListOffsets`), exact inside the batch.
//!
//! Timestamps need not ascend, so the time index holds running maxima: the search is "the first
//! segment whose largest is late enough, the last index entry before it, then batch by batch".

use std::rc::Rc;

use super::{
    cold,
    read::{Read, read},
    state::Shared,
};
use crate::{
    batch::{
        CodecError, Header, RecordError, TimestampedOffset, comes_to_more, first_at_or_after,
        first_with_max_timestamp, record_bytes,
    },
    error::{Error, Kind, Result},
    io::{Env, buf::Chain},
    limits::{DECOMPRESSED_BATCH_CAP_BYTES, QUICK_RECORDS_BYTES, TIMESTAMP_READ_BYTES},
    types::Offset,
};

/// What the records of a batch say to a question.
type Judged = std::result::Result<Option<TimestampedOffset>, RecordError>;

/// The first record before `up_to` with a timestamp of at least `timestamp_ms`.
pub(super) async fn offset_for_timestamp<E: Env>(
    shared: &Rc<Shared<E>>,
    timestamp_ms: i64,
    up_to: Offset,
) -> Result<Option<TimestampedOffset>> {
    let mut from = shared.state.borrow().marks.log_start();
    while let Some(base) = next_late_segment(shared, from, timestamp_ms) {
        let Some(found) = cold::indexes(shared, base).await? else {
            // Retention has taken the segment, or the whole log has been deleted.
            if shared.state.borrow().deleted {
                break;
            }
            continue;
        };
        let (near, end) = {
            let mut state = shared.state.borrow_mut();
            let log_start = state.marks.log_start();
            let Some(segment) = state.segment(base) else { continue };
            let near = found.offset_before(base, timestamp_ms, segment.growing.entries());
            (near.max(from).max(log_start), segment.end)
        };
        let hit = search(shared, near, end.min(up_to), move |header, bytes, log_start| {
            first_at_or_after(header, bytes, timestamp_ms, log_start)
        });
        if let Some(hit) = hit.await? {
            return Ok(Some(hit));
        }
        if end >= up_to {
            break;
        }
        from = end;
    }
    deleted(shared).map_or(Ok(None), Err)
}

/// Why nothing can be looked for: the log was deleted.
fn deleted<E: Env>(shared: &Shared<E>) -> Option<Error> {
    shared.failure().filter(|_| shared.state.borrow().deleted)
}

/// The first segment that ends behind `from` and has a record late enough.
fn next_late_segment<E: Env>(
    shared: &Shared<E>,
    from: Offset,
    timestamp_ms: i64,
) -> Option<Offset> {
    let state = shared.state.borrow();
    let mut late = state
        .segments
        .iter()
        .filter(|segment| segment.end > from && segment.max_timestamp_ms >= timestamp_ms);
    late.next().map(|segment| segment.base)
}

/// The first record with the largest timestamp of the log.
pub(super) async fn max_timestamp_offset<E: Env>(
    shared: &Rc<Shared<E>>,
) -> Result<Option<TimestampedOffset>> {
    let newest = {
        let state = shared.state.borrow();
        let mut newest: Option<(i64, Offset)> = None;
        for segment in state.segments.iter().filter(|segment| segment.size > 0) {
            if newest.is_none_or(|newest| segment.max_timestamp_ms > newest.0) {
                newest = Some((segment.max_timestamp_ms, segment.max_timestamp_offset));
            }
        }
        newest
    };
    let Some((_, last_offset)) = newest else { return Ok(None) };
    let hit = search(shared, last_offset, last_offset.plus(1), |header, bytes, _| {
        first_with_max_timestamp(header, bytes)
    });
    hit.await
}

/// Asks `judge` about each batch from the one that holds `from` on, up to `up_to`.
async fn search<E: Env>(
    shared: &Rc<Shared<E>>,
    from: Offset,
    up_to: Offset,
    judge: impl Fn(&Header, &[u8], Offset) -> Judged + Copy + Send + 'static,
) -> Result<Option<TimestampedOffset>> {
    let mut from = from;
    loop {
        from = from.max(log_start_of(shared));
        if from >= up_to {
            return Ok(None);
        }
        let chain = match read(shared, from, TIMESTAMP_READ_BYTES, up_to) {
            Read::Ready(chain) => chain,
            Read::Cold(cold) => match cold::read_or_retry(shared, cold).await {
                // Retention went by: what it left is still to be asked.
                Err(_) if log_start_of(shared) > from => continue,
                read => read?,
            },
            Read::Empty | Read::OutOfRange => return Ok(None),
        };
        if chain.is_empty() {
            return Ok(None);
        }
        let log_start = log_start_of(shared);
        let mut at = 0;
        while let Some(header) = Header::from_chain(&chain, at) {
            let end = at + header.size_bytes();
            let payload = chain.sub(at + crate::batch::HEADER_BYTES..end);
            if let Some(hit) = ask(shared, &header, &payload, log_start, judge).await? {
                return Ok(Some(hit));
            }
            from = header.next_offset();
            at = end;
        }
    }
}

fn log_start_of<E: Env>(shared: &Shared<E>) -> Offset {
    shared.state.borrow().marks.log_start()
}

/// Asks `judge` about the records of one batch: here where they are few, else on a thread for long
/// work, for they may decompress to [`DECOMPRESSED_BATCH_CAP_BYTES`].
async fn ask<E: Env>(
    shared: &Shared<E>,
    header: &Header,
    payload: &Chain,
    log_start: Offset,
    judge: impl Fn(&Header, &[u8], Offset) -> Judged + Copy + Send + 'static,
) -> Result<Option<TimestampedOffset>> {
    let quick = if comes_to_more(header, payload, QUICK_RECORDS_BYTES) {
        Err(RecordError::Codec(CodecError::OverCap))
    } else {
        look(header, payload, log_start, QUICK_RECORDS_BYTES, judge)
    };
    let hit = match quick {
        Err(RecordError::Codec(CodecError::OverCap)) => {
            let (header, payload) = (*header, payload.clone());
            let cap_bytes = DECOMPRESSED_BATCH_CAP_BYTES;
            let work = move || look(&header, &payload, log_start, cap_bytes, judge);
            shared.env.run_long(work).await
        }
        quick => quick,
    };
    hit.map_err(|error| {
        let path = shared.dir.display();
        let text = format!("{path}: batch at {}: {error}", header.base_offset);
        Error::new(Kind::Corrupt, text)
    })
}

fn look(
    header: &Header,
    payload: &Chain,
    log_start: Offset,
    cap_bytes: usize,
    judge: impl Fn(&Header, &[u8], Offset) -> Judged,
) -> Judged {
    judge(header, &record_bytes(header, payload, cap_bytes)?, log_start)
}
