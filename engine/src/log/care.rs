//! What a log does once it is quiet: give its tail's memory back, note its durable end on disk.

use std::rc::Rc;

use super::state::Shared;
use crate::{io::Env, limits::TAIL_IDLE_MS};

/// One look; whether another is wanted.
pub(super) async fn look_after<E: Env>(shared: &Rc<Shared<E>>) -> bool {
    let now_ms = shared.env.wall_ms();
    let mut state = shared.state.borrow_mut();
    if state.has_failed() || state.closed.is_some() {
        state.cared_for = false;
        return false;
    }
    let quiet = now_ms.saturating_sub(state.last_append_ms) >= TAIL_IDLE_MS;
    if !quiet || state.unwritten_bytes() > 0 {
        return true;
    }
    state.tail.shrink(&shared.pool, now_ms);
    state.cared_for = false;
    false
}
