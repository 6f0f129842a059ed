//! Waiting for a state of the same shard to change.
//!
//! Invariant: a waiter polls its condition after registering, so no change is missed; wake-ups may
//! be spurious, the condition decides.

use std::{cell::RefCell, future::poll_fn, task::Poll, task::Waker};

/// Wakes everybody who waits for a change.
#[derive(Default)]
pub(super) struct Event {
    waiting: RefCell<Vec<Waker>>,
}

impl Event {
    /// Wakes all waiters, each to look at its condition again.
    pub(super) fn notify(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Completes when `condition` gives a value, asked now and after each notification.
    pub(super) async fn wait_for<T>(&self, mut condition: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match condition() {
            Some(value) => Poll::Ready(value),
            None => {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }
}
