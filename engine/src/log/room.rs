//! A log that is short of room or descriptors: refuses appends, looks again now and then, and goes
//! on once it has what it needs.
//!
//! What waits in memory stays and is written then; nobody was told that it is safe. Retention and
//! deletions go on meanwhile, so that a disk which the log itself has filled becomes free again.
//! Only what touched no acknowledged byte may come here; a failed flush never does.

use std::{io, rc::Rc, time::Duration};

use super::{prepare, seal, state::Shared, writer};
use crate::{
    error::{Error, Kind},
    io::Env,
    limits::{PREPARE_STEP_MIN_BYTES, SHORTAGE_PAUSE_MS},
    types::Offset,
};

const PAUSE: Duration = Duration::from_millis(SHORTAGE_PAUSE_MS);

/// The error of a flush as a final one: what the system calls want of room may have lost anything.
/// Want of descriptors comes of opening the directory that was to be flushed, and stays what it is.
pub(super) fn flush_failed(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => error,
        _ => io::Error::other(format!("flush: {error}")),
    }
}

/// The next write lacks something that comes back.
pub(super) fn missed<E: Env>(shared: &Rc<Shared<E>>, error: &io::Error) {
    let text = format!("{}: {error}; writes are refused until there is room", shared.dir.display());
    let (marks, start) = {
        let mut state = shared.state.borrow_mut();
        state.shortage = Some(Error::new(Kind::Full, text));
        state.prepare_step_bytes = PREPARE_STEP_MIN_BYTES;
        (state.marks, !std::mem::replace(&mut state.awaits_room, true))
    };
    if start {
        shared.env.spawn(look_again(shared.clone()));
    }
    shared.changed.notify();
    shared.tell(&marks);
}

/// There is room for the next write.
pub(super) fn found<E: Env>(shared: &Rc<Shared<E>>) {
    if shared.state.borrow_mut().shortage.take().is_some() {
        writer::kick(shared);
    }
}

/// The next seal lacks something that comes back; the segment is as good as one not yet sealed.
pub(super) fn missed_seal<E: Env>(shared: &Rc<Shared<E>>) {
    shared.state.borrow_mut().seal_waits = true;
    let shared = shared.clone();
    let env = shared.env.clone();
    env.spawn_background(async move {
        shared.env.sleep(PAUSE).await;
        shared.state.borrow_mut().seal_waits = false;
        seal::start(&shared);
    });
}

async fn look_again<E: Env>(shared: Rc<Shared<E>>) {
    loop {
        shared.env.sleep(PAUSE).await;
        let Some(base) = wanting(&shared) else { break };
        prepare::start(&shared, base);
    }
    shared.state.borrow_mut().awaits_room = false;
}

/// The segment that is to be written next, if it waits for room.
fn wanting<E: Env>(shared: &Shared<E>) -> Option<Offset> {
    let state = shared.state.borrow();
    if state.has_failed() || state.closed.is_some() || state.shortage.is_none() {
        return None;
    }
    let at = state.segments.partition_point(|segment| segment.virtual_end() <= state.written);
    state.segments.get(at).or(state.segments.back()).map(|segment| segment.base)
}
