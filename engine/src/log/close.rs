//! A clean stop: everything appended becomes durable and every segment sealed, so that the next
//! start reads no batch at all.

use std::rc::Rc;

use super::{checkpoint, seal, snapshot, state::Shared, writer};
use crate::{
    error::{Error, Kind, Result},
    io::Env,
    types::Offset,
};

/// Refuses further appends, drains, flushes and seals.
pub(super) async fn close<E: Env>(shared: &Rc<Shared<E>>) -> Result<()> {
    let read_only = {
        let mut state = shared.state.borrow_mut();
        let read_only = state.closed.is_some();
        let text = format!("{}: the log is closed", shared.dir.display());
        state.closed.get_or_insert(Error::new(Kind::NotOwner, text));
        read_only
    };
    if read_only {
        return Ok(());
    }
    drain(shared).await?;
    let path = shared.dir.display().to_string();
    let io_error = |error: std::io::Error| {
        shared.fail_io("close", &error);
        Error::from_io(&path, &error)
    };
    if let Some(base) = prepare_active(shared) {
        seal::seal(shared, base).await.map_err(io_error)?;
    }
    checkpoint::write(shared).await.map_err(io_error)
}

/// Waits until all is durable and no task of the log is at work any more.
async fn drain<E: Env>(shared: &Rc<Shared<E>>) -> Result<()> {
    writer::kick(shared);
    shared
        .changed
        .wait_for(|| {
            let state = shared.state.borrow();
            (!state.writing || state.has_failed()).then_some(())
        })
        .await;
    // A relaxed log may have written records that no flush was asked for.
    shared.volume.request_flush(shared);
    shared
        .changed
        .wait_for(|| {
            let state = shared.state.borrow();
            let busy = state.writing || state.preparing.is_some() || state.sealing;
            // What finds no room was acknowledged to nobody.
            let writable_end =
                if state.shortage.is_some() { state.written_end } else { state.marks.log_end() };
            let durable = state.marks.durable_end() == writable_end;
            let failed = shared.volume.health().is_failed() || state.has_failed();
            let complete = durable && (state.seal_waits || !seal::is_due(&state));
            (failed || (!busy && complete)).then_some(())
        })
        .await;
    shared.failure().map_or(Ok(()), Err)
}

/// Readies the active segment for its seal; `None` when it has no bytes or is sealed as it is.
fn prepare_active<E: Env>(shared: &Shared<E>) -> Option<Offset> {
    let mut state = shared.state.borrow_mut();
    let snapshot = snapshot::encode(&state.producers, state.marks.log_end());
    let segment = state.active();
    let unchanged = segment.seal.is_some_and(|record| record.size == segment.size)
        && segment.prepared == segment.size;
    if segment.size == 0 || unchanged {
        return None;
    }
    let newest = (segment.max_timestamp_ms, segment.max_timestamp_offset);
    segment.growing.add_time(segment.base, newest);
    segment.producers_at_end = Some(snapshot);
    Some(segment.base)
}
