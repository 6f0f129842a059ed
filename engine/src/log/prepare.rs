//! Space for the appends: files are made and zeros are written and synced ahead, in growing steps,
//! so that an append overwrites initialised extents and a device flush alone makes it durable.
//!
//! Invariant: `prepared` of a segment covers only what is written *and* synced, its name included.
//! Zeros never touch bytes below `prepared`. A failure here is a failed write: final for the log.
//! Want of room or descriptors is not: nothing was acknowledged of what was to go there.

use std::{io, rc::Rc};

use super::{
    checkpoint,
    room::{self, flush_failed},
    segment::{LOG_SUFFIX, Phase, file_name},
    state::{FileOf, Shared},
};
use crate::{
    error::Error,
    io::{Disk, DiskFile, Env, OpenMode},
    limits::{DIRECT_ALIGNMENT_BYTES, PREPARE_STEP_MAX_BYTES, PREPARE_STEP_MIN_BYTES},
    types::Offset,
};

const ALIGNMENT: u64 = DIRECT_ALIGNMENT_BYTES as u64;
/// A step used up faster than this is followed by a larger one.
const FAST_STEP_MS: i64 = 1_000;
/// A step that lasted longer than this is followed by a smaller one.
const SLOW_STEP_MS: i64 = 60_000;

struct Plan<F> {
    file: Option<Rc<F>>,
    from: u64,
    length: u64,
}

/// Starts preparing the segment at `base`, unless something is being prepared already.
///
/// At normal priority: it is little work but much waiting, and at low shares a busy shard would
/// run into its end.
pub(super) fn start<E: Env>(shared: &Rc<Shared<E>>, base: Offset) {
    {
        let mut state = shared.state.borrow_mut();
        if state.preparing.is_some() || state.has_failed() {
            return;
        }
        assert!(!state.damaged, "a damaged log takes no appends");
        state.preparing = Some(base);
    }
    shared.env.spawn(run(shared.clone(), base));
}

/// Prepares more of the active segment when the appends come near the end of what is prepared.
pub(super) fn start_ahead<E: Env>(shared: &Rc<Shared<E>>) {
    let base = {
        let mut state = shared.state.borrow_mut();
        let (step, cap) = (state.prepare_step_bytes, state.settings.segment_bytes);
        let segment = state.active();
        let ahead = segment.prepared.saturating_sub(segment.size);
        let full = segment.prepared >= cap.next_multiple_of(ALIGNMENT);
        if full || ahead > step / 2 || segment.file.is_none() {
            return;
        }
        segment.base
    };
    start(shared, base);
}

async fn run<E: Env>(shared: Rc<Shared<E>>, base: Offset) {
    match extend(&shared, base).await {
        Ok(()) => room::found(&shared),
        Err(error) if Error::is_shortage(&error) => room::missed(&shared, &error),
        Err(error) => shared.fail_io("prepare space", &error),
    }
    shared.state.borrow_mut().preparing = None;
    shared.changed.notify();
}

async fn extend<E: Env>(shared: &Rc<Shared<E>>, base: Offset) -> io::Result<()> {
    let Some(plan) = plan(shared, base) else { return Ok(()) };
    let (file, made) = match plan.file {
        Some(file) => (file, false),
        None => {
            // A directory with a segment but no durable-end file would be taken for Kafka's.
            if shared.state.borrow().checkpoint_sequence == 0 {
                checkpoint::write(shared).await?;
            }
            let path = shared.dir.join(file_name(base, LOG_SUFFIX));
            (Rc::new(shared.disk().open(&path, OpenMode::Write).await?), true)
        }
    };
    assert!(plan.length > 0, "a step prepares something");
    assert!(plan.from.is_multiple_of(ALIGNMENT), "zeros are written directly");
    file.write_zeros(plan.from, plan.length).await?;
    file.sync().await.map_err(flush_failed)?;
    if made {
        shared.disk().sync_dir(&shared.dir).await.map_err(flush_failed)?;
    }
    let mut state = shared.state.borrow_mut();
    if let Some(segment) = state.segment(base) {
        assert!(segment.phase == Phase::Open, "a segment being sealed is not extended");
        assert!(segment.prepared <= plan.from, "one preparation at a time");
        segment.prepared = plan.from + plan.length;
        segment.file = Some(file);
    }
    Ok(())
}

fn plan<E: Env>(shared: &Shared<E>, base: Offset) -> Option<Plan<FileOf<E>>> {
    let mut state = shared.state.borrow_mut();
    if state.has_failed() {
        return None;
    }
    let now_ms = monotonic_ms(&shared.env);
    let lasted_ms = now_ms - std::mem::replace(&mut state.prepared_at_ms, now_ms);
    let step = state.prepare_step_bytes;
    state.prepare_step_bytes = if lasted_ms < FAST_STEP_MS {
        (step * 4).min(PREPARE_STEP_MAX_BYTES)
    } else if lasted_ms > SLOW_STEP_MS {
        (step / 4).max(PREPARE_STEP_MIN_BYTES)
    } else {
        step
    };
    let step = state.prepare_step_bytes;
    let cap = state.settings.segment_bytes;
    let segment = state.segment(base)?;
    let from = segment.prepared.next_multiple_of(ALIGNMENT);
    let needed = segment.size.next_multiple_of(ALIGNMENT);
    // A file cut in mid-block reaches to the end of that block only if something follows.
    let least = if from > segment.prepared { needed.max(from + ALIGNMENT) } else { needed };
    let until = (from.max(needed) + step).min(cap.next_multiple_of(ALIGNMENT)).max(least);
    (until > from).then(|| Plan { file: segment.file.clone(), from, length: until - from })
}

fn monotonic_ms<E: Env>(env: &E) -> i64 {
    i64::try_from(env.monotonic_ns() / 1_000_000).unwrap_or(i64::MAX)
}
