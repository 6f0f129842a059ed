//! How long a producer waits for the acks rule (`timeout.ms` of its request).

use std::{cell::Cell, future::Future};

use millrace_engine::shard::signal::{Signal, race};

/// Until when the answer that a connection waits for is worth waiting for. One look at all
/// connections in a while ends the wait, so that a request costs no timer.
#[derive(Default)]
pub struct Patience {
    until_ns: Cell<Option<u64>>,
    is_over: Signal,
}

impl Patience {
    /// Ends the wait if its time is up at `now_ns` on the monotonic clock.
    pub fn look(&self, now_ns: u64) {
        if self.until_ns.get().is_some_and(|until_ns| until_ns <= now_ns) {
            self.is_over.fire();
        }
    }

    /// Waits for `answer`; `None` when a look found that `until_ns` had passed.
    pub(super) async fn wait(&self, answer: impl Future<Output = ()>, until_ns: u64) -> Option<()> {
        self.is_over.rearm();
        self.until_ns.set(Some(until_ns));
        let answered = race(answer, self.is_over.wait()).await;
        self.until_ns.set(None);
        answered
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    #[test]
    fn only_a_look_after_its_time_ends_a_wait() {
        let patience = Patience::default();
        patience.look(u64::MAX);
        let mut context = Context::from_waker(Waker::noop());
        let mut wait = pin!(patience.wait(pending(), 100));
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        patience.look(99);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        patience.look(100);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(None));
    }

    #[test]
    fn an_answer_that_came_counts_and_leaves_nothing_to_the_next() {
        let patience = Patience::default();
        let mut context = Context::from_waker(Waker::noop());
        let answered = pin!(patience.wait(ready(()), 0)).poll(&mut context);
        assert_eq!(answered, Poll::Ready(Some(())));
        patience.look(u64::MAX);
        let next = pin!(patience.wait(pending(), u64::MAX)).poll(&mut context);
        assert_eq!(next, Poll::Pending);
    }
}
