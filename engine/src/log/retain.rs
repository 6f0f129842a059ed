//! The start of the log moves: by retention (time, size) and by `DeleteRecords`.
//!
//! Whole segments go from the oldest on; the active one is rolled first when it has aged too. A
//! segment is renamed and the directory synced before its bytes go, later and in steps, so a power
//! cut leaves no gap: at worst a segment comes back. What `DeleteRecords` was answered for does
//! not: its start is in the durable-end record before the answer.

use std::{io, rc::Rc, time::Duration};

use super::{
    append::roll_segment,
    checkpoint, remove, seal,
    segment::{PRODUCERS_SUFFIX, Phase, Segment, file_name},
    state::{FileOf, Naming, Shared, State},
};
use crate::{
    error::{Error, Kind, Result},
    io::{Disk, Env},
    types::Offset,
};

/// Raises the start of the log to `to`; durable when it completes. Returns the start.
pub(super) async fn delete_records<E: Env>(shared: &Rc<Shared<E>>, to: Offset) -> Result<Offset> {
    let start = {
        let mut state = shared.state.borrow_mut();
        if let Some(error) = state.failure.as_ref().or(state.closed.as_ref()) {
            return Err(error.clone());
        }
        if to > state.marks.high_watermark() || to.0 < 0 {
            let text = format!("{to} is not in 0..={}", state.marks.high_watermark());
            return Err(Error::new(Kind::Invalid, text));
        }
        if to > state.marks.log_start() {
            state.marks.set_log_start(to);
            shared.volume.read_ahead().forget_before(shared, to);
        }
        state.marks.log_start()
    };
    let written = checkpoint::write(shared).await;
    written.map_err(|error| {
        if !Error::is_shortage(&error) {
            shared.fail_io("record the log start", &error);
        }
        Error::from_io(&shared.dir.display().to_string(), &error)
    })?;
    let marks = shared.state.borrow().marks;
    shared.tell(&marks);
    Ok(start)
}

/// Removes what `retention.ms`, `retention.bytes` and the start of the log allow, and forgets
/// silent producers. Returns the number of segments removed.
pub(super) async fn apply_retention<E: Env>(shared: &Rc<Shared<E>>, now_ms: i64) -> Result<usize> {
    let flush = {
        let mut state = shared.state.borrow_mut();
        if let Some(error) = state.failure.as_ref().or(state.closed.as_ref()) {
            return Err(error.clone());
        }
        let expiration_ms = state.settings.producer_id_expiration_ms;
        state.producers.expire(now_ms, expiration_ms);
        roll_when_aged(&mut state, now_ms)
    };
    if flush {
        shared.volume.request_flush(shared);
    }
    seal::start(shared);
    let Some(_naming) = Naming::begin(shared) else { return Ok(0) };
    let mut removed = 0;
    while let Some(base) = next_to_remove(shared, now_ms) {
        let gone = remove_oldest(shared, base).await;
        gone.map_err(|error| {
            shared.fail_io("remove a segment", &error);
            Error::from_io(&shared.dir.display().to_string(), &error)
        })?;
        removed += 1;
        shared.env.yield_now().await;
    }
    if removed > 0 {
        let marks = shared.state.borrow().marks;
        shared.tell(&marks);
    }
    Ok(removed)
}

/// Kafka rolls a segment that would be removed were it not the active one. Returns whether it waits
/// for a flush: one is due though the topic's own settings may never ask for it.
fn roll_when_aged<E: Env>(state: &mut State<E>, now_ms: i64) -> bool {
    let (retention_ms, end) = (state.settings.retention_ms, state.marks.log_end());
    let settled = state.marks.durable_end() == end && state.marks.high_watermark() == end;
    let segment = state.active();
    let aged = segment.size > 0 && has_aged(segment_age_ms(segment, now_ms), retention_ms);
    if aged && settled {
        roll_segment(state, now_ms);
    }
    aged && state.has_unflushed()
}

fn segment_age_ms<F>(segment: &super::segment::Segment<F>, now_ms: i64) -> i64 {
    let newest = segment.max_timestamp_ms;
    now_ms.saturating_sub(if newest >= 0 { newest } else { segment.begun_ms })
}

fn has_aged(age_ms: i64, retention_ms: i64) -> bool {
    retention_ms >= 0 && age_ms > retention_ms
}

/// The oldest segment, if it may go now; it is taken out of the log at once.
fn next_to_remove<E: Env>(shared: &Shared<E>, now_ms: i64) -> Option<Offset> {
    let mut state = shared.state.borrow_mut();
    if state.has_failed() || state.segments.len() < 2 {
        return None;
    }
    assert!(!state.damaged, "a damaged log keeps all it has");
    let total: u64 = state.segments.iter().map(|segment| segment.size).sum();
    let settings = state.settings.clone();
    let oldest = state.segments.front()?;
    let too_old = has_aged(segment_age_ms(oldest, now_ms), settings.retention_ms);
    let keep_bytes = u64::try_from(settings.retention_bytes).ok();
    let too_much = keep_bytes.is_some_and(|keep| total - oldest.size >= keep);
    let deleted = oldest.end <= state.marks.log_start();
    let visible = oldest.end <= state.marks.high_watermark();
    if oldest.phase != Phase::Sealed || !visible || !(too_old || too_much || deleted) {
        return None;
    }
    let base = oldest.base;
    state.segments.pop_front();
    let start = state.segments.front().map_or(state.marks.log_end(), |segment| segment.base);
    assert!(start >= base, "the log starts at or behind what was removed");
    let start = start.max(state.marks.log_start());
    state.marks.set_log_start(start);
    shared.volume.read_ahead().forget_before(shared, start);
    state.epochs.start_at(start);
    state.epochs_changed = true;
    Some(base)
}

async fn remove_oldest<E: Env>(shared: &Rc<Shared<E>>, base: Offset) -> io::Result<()> {
    // Without a segment's file the durable-end record is all that says where the log goes on. The
    // segments that are left may all be too young to have one.
    let named =
        |segment: &Segment<FileOf<E>>| segment.phase == Phase::Sealed || segment.file.is_some();
    let is_last_name = !shared.state.borrow().segments.iter().any(named);
    if is_last_name {
        checkpoint::write(shared).await?;
    }
    remove::rename_segment_files(shared.disk(), &shared.dir, base).await?;
    let snapshot = shared.dir.join(file_name(base, PRODUCERS_SUFFIX));
    let _may_be_gone = shared.disk().remove_file(&snapshot).await;
    let delay_ms = shared.state.borrow().settings.file_delete_delay_ms;
    let delay = Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0));
    let shared = shared.clone();
    let env = shared.env.clone();
    env.spawn_background(async move {
        shared.env.sleep(delay).await;
        let Some(_naming) = Naming::begin(&shared) else { return };
        // Left over at worst: the next start removes it.
        let _retried_at_start = remove::unlink_in_steps(&shared, base).await;
    });
    Ok(())
}
