//! The end of a shard's logs: closed a few at a time, all within a bounded time.
//!
//! Knows nothing of connections, which have ended by then. Failure behaviour: a log that cannot be
//! closed clean is left as it is; nothing acknowledged depends on it.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use super::{
    Shard,
    partition::Partition,
    signal::{Signal, race},
};
use crate::{
    error::{Error, Kind, Result},
    io::Env,
    limits::{CLOSE_DEADLINE_MS, LOGS_CLOSED_AT_ONCE},
};

/// What the closing tasks of a shard share.
struct Closing<E: Env> {
    waiting: RefCell<Vec<Rc<Partition<E>>>>,
    /// Logs not closed yet.
    left: Cell<usize>,
    outcome: RefCell<Result<()>>,
    ended: Signal,
}

impl<E: Env> Shard<E> {
    /// Flushes and closes every log, so that the next start reads no batch of it. Returns the first
    /// failure; the others are closed all the same.
    pub async fn close(&self) -> Result<()> {
        self.begin_stop();
        let waiting: Vec<_> = self.inner.partitions.take().into_values().collect();
        let count = waiting.len();
        if count == 0 {
            return Ok(());
        }
        let closing = Rc::new(Closing {
            waiting: RefCell::new(waiting),
            left: Cell::new(count),
            outcome: RefCell::new(Ok(())),
            ended: Signal::default(),
        });
        for _ in 0..count.min(LOGS_CLOSED_AT_ONCE) {
            self.inner.env.spawn(close_in_turn(closing.clone()));
        }
        let deadline = Duration::from_millis(CLOSE_DEADLINE_MS);
        race(closing.ended.wait(), self.inner.env.sleep(deadline)).await;
        let left = closing.left.get();
        let outcome = closing.outcome.replace(Ok(()));
        if left > 0 {
            let seconds = deadline.as_secs();
            let text =
                format!("{left} of {count} logs not closed in {seconds} s: the disk is slow");
            return outcome.and(Err(Error::new(Kind::Fatal, text)));
        }
        outcome
    }
}

async fn close_in_turn<E: Env>(closing: Rc<Closing<E>>) {
    loop {
        let Some(partition) = closing.waiting.borrow_mut().pop() else { return };
        if let Err(error) = partition.log.close().await {
            let mut first = closing.outcome.borrow_mut();
            if first.is_ok() {
                *first = Err(error);
            }
        }
        partition.retire();
        let left = closing.left.get();
        assert!(left > 0, "each log is closed once");
        closing.left.set(left - 1);
        if left == 1 {
            closing.ended.fire();
        }
    }
}
