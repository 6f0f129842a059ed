//! What a log does once it is quiet: give its tail's memory back, note its durable end on disk.

use std::rc::Rc;

use super::{checkpoint, state::Shared};
use crate::{
    io::Env,
    limits::{DURABLE_RECORD_BYTES, TAIL_IDLE_MS},
};

/// One look; whether another is wanted.
pub(super) async fn look_after<E: Env>(shared: &Rc<Shared<E>>) -> bool {
    let now_ms = shared.env.wall_ms();
    let (quiet, record) = {
        let mut state = shared.state.borrow_mut();
        let ended = state.has_failed() || state.closed.is_some();
        let silent_ms = now_ms.saturating_sub(state.last_append_ms);
        let settled = state.marks.durable_end() == state.marks.log_end();
        let quiet = ended || (silent_ms >= TAIL_IDLE_MS && settled);
        if quiet {
            state.cared_for = false;
        }
        if quiet && !ended {
            state.tail.shrink(&shared.pool, now_ms);
        }
        let unrecorded = state.written - state.recorded;
        (quiet, !ended && (unrecorded > DURABLE_RECORD_BYTES || (quiet && unrecorded > 0)))
    };
    if record && let Err(error) = checkpoint::write(shared).await {
        shared.fail_io("record the durable end", &error);
    }
    !quiet
}
