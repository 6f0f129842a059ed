//! A signal between tasks of one shard: a partition has moved, a connection came, stop.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    task::{Poll, Waker},
};

use smallvec::SmallVec;

/// Stays fired until it is rearmed; any number of tasks may wait.
#[derive(Default)]
pub struct Signal {
    fired: Cell<bool>,
    wakers: RefCell<SmallVec<[Waker; 2]>>,
}

impl Signal {
    /// Wakes who waits, now or when they start to wait.
    pub fn fire(&self) {
        self.fired.set(true);
        let mut wakers = self.wakers.borrow_mut();
        wakers.drain(..).for_each(Waker::wake);
    }

    /// Whether the signal is fired and not yet rearmed.
    #[must_use]
    pub fn is_fired(&self) -> bool {
        self.fired.get()
    }

    /// Makes the signal ready to be fired again.
    pub fn rearm(&self) {
        self.fired.set(false);
    }

    /// Completes once the signal is fired.
    pub async fn wait(&self) {
        poll_fn(|context| {
            if self.fired.get() {
                return Poll::Ready(());
            }
            let mut wakers = self.wakers.borrow_mut();
            if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

/// Completes with `Some` when `first` does, or with `None` when `second` does before.
pub async fn race<T>(
    first: impl Future<Output = T>,
    second: impl Future<Output = ()>,
) -> Option<T> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        if let Poll::Ready(value) = first.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        second.as_mut().poll(context).map(|()| None)
    })
    .await
}
