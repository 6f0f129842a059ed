//! Results of one request that touches several partitions, gathered on the shard that took it.
//!
//! Knows nothing of what is gathered. A slot dropped unfulfilled counts as an answer of `None`, so
//! that a request never waits for a partition that went away.

use std::{
    cell::{Cell, RefCell},
    future::poll_fn,
    rc::Rc,
    task::{Poll, Waker},
};

use smallvec::SmallVec;

/// Answers in order, `None` where a slot was dropped; that of a single partition lies in place.
pub type Answers<T> = SmallVec<[Option<T>; 1]>;

struct Shared<T> {
    results: RefCell<Answers<T>>,
    remaining: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

/// The waiting end: completes when every slot has its answer.
pub struct Join<T> {
    shared: Rc<Shared<T>>,
}

/// The answering end for one partition.
pub struct Slot<T> {
    shared: Rc<Shared<T>>,
    index: usize,
}

impl<T> Join<T> {
    /// A join of `count` answers.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let mut results = Answers::with_capacity(count);
        results.resize_with(count, || None);
        Self {
            shared: Rc::new(Shared {
                results: RefCell::new(results),
                remaining: Cell::new(count),
                waker: RefCell::new(None),
            }),
        }
    }

    /// The slot of answer `index`, to be taken once each.
    #[must_use]
    pub fn slot(&self, index: usize) -> Slot<T> {
        Slot { shared: self.shared.clone(), index }
    }

    /// All answers in order; `None` where a slot was dropped.
    pub async fn wait(self) -> Answers<T> {
        self.settled().await;
        self.take()
    }

    /// Completes when every slot has its answer or was dropped.
    pub async fn settled(&self) {
        poll_fn(|context| {
            if self.shared.remaining.get() == 0 {
                return Poll::Ready(());
            }
            *self.shared.waker.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The answers so far, in order; `None` where there is none. Later ones are dropped.
    #[must_use]
    pub fn take(self) -> Answers<T> {
        if self.shared.remaining.get() == 0 {
            return self.shared.results.take();
        }
        // The slots that are left still find their places.
        self.shared.results.borrow_mut().iter_mut().map(Option::take).collect()
    }
}

impl<T> Slot<T> {
    /// Gives the answer.
    pub fn fulfil(self, answer: T) {
        self.shared.results.borrow_mut()[self.index] = Some(answer);
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        let remaining = self.shared.remaining.get();
        assert!(remaining > 0, "each slot of a join is dropped once");
        self.shared.remaining.set(remaining - 1);
        if remaining == 1
            && let Some(waker) = self.shared.waker.borrow_mut().take()
        {
            waker.wake();
        }
    }
}
