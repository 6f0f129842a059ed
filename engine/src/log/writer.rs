//! The writer of one log: one direct write in flight, arrivals coalesce behind it.
//!
//! Runs while bytes are unwritten and ends when there are none. A write covers the aligned span
//! from the last block that is not complete on the device to the end of the segment; the zeros that
//! fill the last block may turn into records while the device reads them, which is harmless: those
//! bytes are written again. Writes go into prepared space only. A failed write is final.

use std::rc::Rc;

use super::{
    planted::{Bug, is_planted},
    prepare,
    state::{FileOf, Shared, State},
    tail::Ranges,
};
use crate::{
    io::{DiskFile, Env, buf::IoRange},
    limits::{DIRECT_ALIGNMENT_BYTES, WRITE_DURING_FLUSH_BYTES},
    types::Offset,
};

const ALIGNMENT: u64 = DIRECT_ALIGNMENT_BYTES as u64;

enum Step<F> {
    Nothing,
    /// The space of this segment up to this file position is to be prepared first.
    Prepare(Offset, u64),
    Write(Write<F>),
}

struct Write<F> {
    file: Rc<F>,
    ranges: Ranges,
    at: u64,
    /// Virtual position and offset that are with the device once it completes.
    end: u64,
    end_offset: Offset,
    /// Bytes of the log in it that no write has carried before.
    new_bytes: u64,
}

/// Starts the writer unless it runs.
pub(super) fn kick<E: Env>(shared: &Rc<Shared<E>>) {
    let start = {
        let mut state = shared.state.borrow_mut();
        !std::mem::replace(&mut state.writing, true)
    };
    if start {
        shared.env.spawn(run(shared.clone()));
    }
}

async fn run<E: Env>(shared: Rc<Shared<E>>) {
    loop {
        let gated = shared.state.borrow().settings.flushes_every_message();
        if gated {
            shared.volume.gate().wait(|| is_large(&shared)).await;
        }
        let step = next_step(&mut shared.state.borrow_mut());
        match step {
            Step::Nothing => break,
            Step::Prepare(base, until) => {
                prepare::start(&shared, base);
                shared.changed.wait_for(|| prepare_ended(&shared, base, until)).await;
            }
            Step::Write(write) => {
                prepare::start_ahead(&shared);
                let pass = gated.then(|| shared.volume.gate().pass(write.new_bytes));
                let result = write.file.write_at(&write.ranges, write.at).await;
                drop(pass);
                match result {
                    Ok(()) => complete(&shared, &write),
                    Err(error) => shared.fail_io("write", &error),
                }
            }
        }
    }
    shared.state.borrow_mut().writing = false;
    shared.changed.notify();
}

/// Whether the next write has enough to do not to wait for a flush in flight.
fn is_large<E: Env>(shared: &Shared<E>) -> bool {
    shared.state.borrow().unwritten_bytes() >= WRITE_DURING_FLUSH_BYTES
}

fn prepare_ended<E: Env>(shared: &Shared<E>, base: Offset, until: u64) -> Option<()> {
    let mut state = shared.state.borrow_mut();
    let ready = state.segment(base).is_none_or(|segment| segment.prepared >= until);
    (ready || state.has_failed() || state.preparing.is_none()).then_some(())
}

fn next_step<E: Env>(state: &mut State<E>) -> Step<FileOf<E>> {
    if state.has_failed() || state.unwritten_bytes() == 0 {
        return Step::Nothing;
    }
    let written = state.written;
    let at = state.segments.partition_point(|segment| segment.virtual_end() <= written);
    let segment = &state.segments[at];
    assert!(segment.origin <= written, "segments are written in order");
    let until = segment.size.next_multiple_of(ALIGNMENT);
    let file = match &segment.file {
        Some(file) if until <= segment.prepared => file.clone(),
        _ if state.shortage.is_some() => return Step::Nothing,
        _ => return Step::Prepare(segment.base, until),
    };
    let from = (written - segment.origin) / ALIGNMENT * ALIGNMENT;
    assert!(from < until, "there is something to write");
    let (end, end_offset) = (segment.virtual_end(), segment.end);
    let ranges = state.tail.io_ranges(segment.origin + from, end);
    state.submitted_end = end_offset;
    let bytes: usize = ranges.iter().map(IoRange::len).sum();
    assert!(bytes as u64 == until - from, "a write covers its aligned span");
    Step::Write(Write { file, ranges, at: from, end, end_offset, new_bytes: end - written })
}

/// The device has taken a write, and we know.
fn complete<E: Env>(shared: &Rc<Shared<E>>, write: &Write<FileOf<E>>) {
    let (flush, marks) = {
        let mut state = shared.state.borrow_mut();
        assert!(write.end > state.written, "each write brings the log forward");
        assert!(write.end <= state.tail.end(), "only what was appended is written");
        assert!(write.end_offset > state.written_end, "offsets follow positions");
        state.written = write.end;
        state.written_end = write.end_offset;
        if is_planted(Bug::AcknowledgeAtWrite) {
            state.marks.acknowledge(write.end_offset);
            (true, Some(state.marks))
        } else if state.settings.flushes_every_message() {
            (true, None)
        } else {
            state.marks.acknowledge(write.end_offset);
            (is_flush_due(&state), Some(state.marks))
        }
    };
    if flush {
        shared.volume.request_flush(shared);
    } else {
        start_flush_timer(shared);
    }
    shared.changed.notify();
    if let Some(marks) = marks {
        shared.tell(&marks);
    }
}

/// Whether a relaxed log must flush now: `flush.messages` reached, or a segment is complete.
fn is_flush_due<E: Env>(state: &State<E>) -> bool {
    let unflushed = state.written_end.distance_from(state.marks.durable_end());
    let segment_complete =
        state.segments.back().is_some_and(|active| active.base > state.marks.durable_end());
    unflushed >= state.settings.flush_messages || segment_complete
}

fn start_flush_timer<E: Env>(shared: &Rc<Shared<E>>) {
    let wait_ms = {
        let mut state = shared.state.borrow_mut();
        if state.flush_timer || state.settings.flush_ms == i64::MAX {
            return;
        }
        state.flush_timer = true;
        u64::try_from(state.settings.flush_ms).unwrap_or(0)
    };
    let shared = shared.clone();
    let env = shared.env.clone();
    env.spawn(async move {
        shared.env.sleep(std::time::Duration::from_millis(wait_ms)).await;
        shared.state.borrow_mut().flush_timer = false;
        shared.volume.request_flush(&shared);
    });
}
