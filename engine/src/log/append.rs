//! Appending: judge the producer's sequence, assign offsets, copy the payload once.
//!
//! Synchronous and without I/O: it ends with the batch in memory and the writer awake. Invariant:
//! a refused append changes nothing; an accepted one is next in order for every reader of the file.

use std::rc::Rc;

use super::{
    producers::Verdict,
    segment::Segment,
    state::{FileOf, Shared, State},
    writer,
};
use crate::{
    batch::{Header, TimestampType},
    error::Error,
    io::{Env, buf::Chain},
    limits::{TAIL_CHUNK_MAX_BYTES, UNWRITTEN_PER_LOG_BYTES},
    types::{LeaderEpoch, Offset},
};

/// An accepted append. Acknowledge it once `ack_end` has passed `last_offset`, a duplicate too: the
/// original may not be durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the batch's first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Time of append where the topic stamps it so, else -1.
    pub log_append_time_ms: i64,
    /// Start of the log at this moment.
    pub log_start: Offset,
    /// The batch was here before; nothing was appended.
    pub duplicate: bool,
}

/// Why a batch was not appended; nothing has changed.
#[derive(Clone, Debug)]
pub enum AppendError {
    /// No buffers, or too many bytes of this log wait for the device. Try again after the next
    /// advance of any log on the shard: the buffers may be in others' hands.
    Busy,
    /// The sequence number leaves a gap or is older than what is remembered (Kafka error 45).
    OutOfOrderSequence {
        /// The sequence number that would be taken.
        expected: i32,
    },
    /// The producer's epoch is older than the one known (Kafka error 47).
    InvalidProducerEpoch {
        /// The epoch in force.
        current: i16,
    },
    /// Transactional batches are not taken yet.
    TransactionalRefused,
    /// The log takes no appends: failed, read-only, closing or deleted; or, of kind `Full`, none
    /// until it has room or descriptors again.
    Failed(Error),
}

/// What of a batch decides whether a new segment starts.
struct Arrival {
    size: u64,
    max_timestamp_ms: i64,
    last_offset: Offset,
    now_ms: i64,
}

/// Appends one batch that passed `batch::check`: its header and the bytes behind it.
pub(super) fn append<E: Env>(
    shared: &Rc<Shared<E>>,
    header: &Header,
    payload: &Chain,
    epoch: LeaderEpoch,
    now_ms: i64,
) -> Result<Appended, AppendError> {
    if let Some(error) = shared.volume.health().failure() {
        return Err(AppendError::Failed(error));
    }
    assert!(epoch.0 >= 0, "who appends has a leader epoch");
    let mut header = *header;
    header.partition_leader_epoch = epoch;
    let attempt = try_append(shared, &mut header, payload, now_ms);
    let appended = match attempt {
        Err(AppendError::Busy) => {
            shared.volume.evict(header.size_bytes().max(TAIL_CHUNK_MAX_BYTES));
            try_append(shared, &mut header, payload, now_ms)?
        }
        other => other?,
    };
    if !appended.duplicate {
        wake(shared);
    }
    Ok(appended)
}

/// Tells everybody who has work with a grown tail; no borrow of the state is held.
fn wake<E: Env>(shared: &Rc<Shared<E>>) {
    let (opened, care) = {
        let mut state = shared.state.borrow_mut();
        let care = !std::mem::replace(&mut state.cared_for, true);
        (state.tail.take_opened(), care)
    };
    if let Some(bytes) = opened {
        shared.volume.note_tail(shared, bytes);
    }
    if care {
        shared.volume.care_for(shared);
    }
    writer::kick(shared);
}

fn try_append<E: Env>(
    shared: &Shared<E>,
    header: &mut Header,
    payload: &Chain,
    now_ms: i64,
) -> Result<Appended, AppendError> {
    let mut state = shared.state.borrow_mut();
    let state = &mut *state;
    let refusal = state.failure.as_ref().or(state.closed.as_ref()).or(state.shortage.as_ref());
    if let Some(error) = refusal {
        return Err(AppendError::Failed(error.clone()));
    }
    if header.is_transactional() || header.is_control() {
        return Err(AppendError::TransactionalRefused);
    }
    match state.producers.judge(header) {
        Verdict::New => {}
        Verdict::Duplicate(known) => {
            return Ok(Appended {
                base_offset: known.base_offset,
                last_offset: known.last_offset,
                log_append_time_ms: append_time(header, known.timestamp_ms),
                log_start: state.marks.log_start(),
                duplicate: true,
            });
        }
        Verdict::OutOfOrder { expected } => {
            return Err(AppendError::OutOfOrderSequence { expected });
        }
        Verdict::OldEpoch { current } => {
            return Err(AppendError::InvalidProducerEpoch { current });
        }
    }
    header.base_offset = state.marks.log_end();
    make_room(shared, state, header, now_ms)?;
    store(state, header, payload, now_ms);
    Ok(Appended {
        base_offset: header.base_offset,
        last_offset: header.last_offset(),
        log_append_time_ms: append_time(header, header.max_timestamp_ms),
        log_start: state.marks.log_start(),
        duplicate: false,
    })
}

fn append_time(header: &Header, stored_ms: i64) -> i64 {
    match header.timestamp_type() {
        TimestampType::CreateTime => -1,
        TimestampType::LogAppendTime => stored_ms,
    }
}

/// Reserves memory for the batch and, if it is due, starts the next segment.
fn make_room<E: Env>(
    shared: &Shared<E>,
    state: &mut State<E>,
    header: &Header,
    now_ms: i64,
) -> Result<(), AppendError> {
    let size = header.size_bytes();
    let waiting = state.unwritten_bytes();
    if waiting > 0 && waiting + size as u64 > UNWRITTEN_PER_LOG_BYTES as u64 {
        return Err(AppendError::Busy);
    }
    let arrival = Arrival {
        size: size as u64,
        max_timestamp_ms: header.max_timestamp_ms,
        last_offset: header.last_offset(),
        now_ms,
    };
    let roll = is_roll_due(state, &arrival);
    if !state.tail.make_room(&shared.pool, size, roll, now_ms) {
        return Err(AppendError::Busy);
    }
    if roll {
        roll_segment(state, now_ms);
    }
    Ok(())
}

/// Kafka's rule (`LogSegment.shouldRoll`): size, age by record timestamps, full index, or an offset
/// too far from the base.
fn is_roll_due<E: Env>(state: &mut State<E>, arrival: &Arrival) -> bool {
    let settings = state.settings.clone();
    let segment: &Segment<FileOf<E>> = state.active();
    if segment.size == 0 {
        return false;
    }
    let waited_ms = match segment.first_timestamp_ms {
        Some(first) if first >= 0 => arrival.max_timestamp_ms.saturating_sub(first),
        _ => arrival.now_ms.saturating_sub(segment.begun_ms),
    };
    segment.size + arrival.size > settings.segment_bytes
        || waited_ms > settings.segment_ms
        || segment.growing.is_full(settings.segment_index_bytes)
        || arrival.last_offset.distance_from(segment.base) > i64::from(i32::MAX)
}

/// Ends the active segment and begins the next one; the writer makes its file.
pub(super) fn roll_segment<E: Env>(state: &mut State<E>, now_ms: i64) {
    let snapshot = super::snapshot::encode(&state.producers, state.marks.log_end());
    let segment = state.active();
    assert!(segment.size > 0, "a segment without a batch is not rolled");
    let newest = (segment.max_timestamp_ms, segment.max_timestamp_offset);
    segment.growing.add_time(segment.base, newest);
    segment.producers_at_end = Some(snapshot);
    let (base, origin) = (segment.end, segment.virtual_end());
    assert!(base == state.marks.log_end(), "segments follow one another without a gap");
    state.tail.close_chunk();
    state.segments.push_back(Segment::empty(base, origin, now_ms));
}

fn store<E: Env>(state: &mut State<E>, header: &Header, payload: &Chain, now_ms: i64) {
    let size = header.size_bytes();
    assert!(header.base_offset == state.marks.log_end(), "offsets are dense");
    assert!(header.last_offset() >= header.base_offset, "a batch holds at least one record");
    let bytes = header.encode();
    assert!(size == bytes.len() + payload.len(), "a checked batch is as long as it says");
    state.tail.begin_batch(header.base_offset, now_ms);
    state.tail.append(&bytes, now_ms);
    for slice in payload.slices() {
        state.tail.append(slice, now_ms);
    }
    let interval = state.settings.index_interval_bytes;
    state.active().add(header, interval);
    state.producers.remember(header);
    let new_epoch = state.epochs.note(header.partition_leader_epoch, header.base_offset);
    state.epochs_changed |= new_epoch;
    state.marks.append_to(header.next_offset());
    let segment_end = state.active().end;
    assert!(segment_end == state.marks.log_end(), "the log ends with its last segment");
    state.last_append_ms = now_ms;
    let end = state.active().virtual_end();
    assert!(end == state.tail.end(), "the segment ends where the tail does");
}
