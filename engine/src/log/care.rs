//! What a log does once it is quiet: give its tail's memory back, note its durable end on disk.

use std::rc::Rc;

use super::{checkpoint, state::Shared};
use crate::{
    error::Error,
    io::Env,
    limits::{DURABLE_RECORD_BYTES, DURABLE_RECORD_SYNC_BYTES, TAIL_IDLE_MS},
};

/// What becomes of the durable-end record.
enum Record {
    None,
    Noted,
    Synced,
}

/// One look; whether another is wanted.
pub(super) async fn look_after<E: Env>(shared: &Rc<Shared<E>>) -> bool {
    let now_ms = shared.env.wall_ms();
    let (quiet, record, flush) = {
        let mut state = shared.state.borrow_mut();
        let ended = state.has_failed() || state.closed.is_some();
        let silent_ms = now_ms.saturating_sub(state.last_append_ms);
        let settled = state.marks.durable_end() == state.marks.log_end();
        let quiet = ended || (silent_ms >= TAIL_IDLE_MS && settled);
        // The settings of a relaxed log may never ask for its last records.
        let flush = !ended && silent_ms >= TAIL_IDLE_MS && state.has_unflushed();
        if quiet {
            state.cared_for = false;
        }
        if quiet && !ended {
            state.tail.shrink(&shared.pool, now_ms);
        }
        let unrecorded = state.written - state.recorded;
        let record = match unrecorded {
            0 => Record::None,
            _ if ended => Record::None,
            _ if quiet => Record::Synced,
            DURABLE_RECORD_SYNC_BYTES.. => Record::Synced,
            DURABLE_RECORD_BYTES.. => Record::Noted,
            _ => Record::None,
        };
        (quiet, record, flush)
    };
    if flush {
        shared.volume.request_flush(shared);
    }
    let written = match record {
        Record::None => Ok(()),
        Record::Noted => checkpoint::note(shared).await,
        Record::Synced => checkpoint::write(shared).await,
    };
    match written {
        Ok(()) => {}
        Err(error) if Error::is_shortage(&error) => {
            shared.state.borrow_mut().cared_for = true;
            return true;
        }
        Err(error) => shared.fail_io("record the durable end", &error),
    }
    if quiet {
        shared.state.borrow_mut().record_file = None;
    }
    !quiet
}
