//! One value from any thread to one waiting task.
//!
//! The value travels through a shared cell; the wake-up of a task on a shard goes through that
//! shard's port, so that the executor's wakers never leave their thread. Elsewhere the waiting
//! task's own waker is used. A sender dropped empty-handed is an answer too: [`Cancelled`].

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use super::{local::Local, port::Port};

/// The sender went away without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the answer will not come: its sender is gone")
    }
}

impl std::error::Error for Cancelled {}

/// A new pair.
#[must_use]
pub fn channel<T: Send>() -> (Sender<T>, Receiver<T>) {
    let cell = Arc::new(Mutex::new(Cell { value: None, sender_gone: false, waiter: None }));
    (Sender { cell: cell.clone() }, Receiver { cell, seat: None })
}

struct Cell<T> {
    value: Option<T>,
    sender_gone: bool,
    waiter: Option<Waiter>,
}

/// Whom to wake.
enum Waiter {
    OnShard(Arc<Port>, usize),
    Elsewhere(Waker),
}

impl Waiter {
    fn wake(self) {
        let (port, key) = match self {
            Self::Elsewhere(waker) => return waker.wake(),
            Self::OnShard(port, key) => (port, key),
        };
        match Local::find() {
            Some(shard) if Arc::ptr_eq(&shard.port, &port) => shard.waits.borrow().wake(key),
            _ => {
                port.fulfilled.push(key);
                port.ring();
            }
        }
    }
}

fn lock<T>(cell: &Mutex<Cell<T>>) -> MutexGuard<'_, Cell<T>> {
    // No code of ours panics under the lock, and the cell is sound at every step.
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fulfils the wait, from any thread.
pub struct Sender<T: Send> {
    cell: Arc<Mutex<Cell<T>>>,
}

impl<T: Send> Sender<T> {
    /// Whether the receiver is still there.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.cell) > 1
    }

    /// Hands `value` over; without effect when the receiver is gone.
    pub fn send(self, value: T) {
        lock(&self.cell).value = Some(value);
        // Dropping the sender wakes the receiver.
    }
}

impl<T: Send> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut cell = lock(&self.cell);
        cell.sender_gone = true;
        let waiter = cell.waiter.take();
        drop(cell);
        if let Some(waiter) = waiter {
            waiter.wake();
        }
    }
}

impl<T: Send> fmt::Debug for Sender<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Sender")
    }
}

/// Waits for the value; ready with it or with [`Cancelled`].
pub struct Receiver<T: Send> {
    cell: Arc<Mutex<Cell<T>>>,
    /// Key among the waits of the shard that polls.
    seat: Option<usize>,
}

impl<T: Send> fmt::Debug for Receiver<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Receiver")
    }
}

impl<T: Send> Receiver<T> {
    /// The value if it is there; `None` while the sender may still send.
    pub fn try_take(&mut self) -> Option<Result<T, Cancelled>> {
        let mut cell = lock(&self.cell);
        match cell.value.take() {
            Some(value) => Some(Ok(value)),
            None => cell.sender_gone.then_some(Err(Cancelled)),
        }
    }

    fn seat(&mut self, shard: &Local, waker: &Waker) -> usize {
        let mut waits = shard.waits.borrow_mut();
        match self.seat {
            Some(key) => {
                waits.update(key, waker);
                key
            }
            None => *self.seat.insert(waits.insert(waker.clone())),
        }
    }
}

impl<T: Send> Future for Receiver<T> {
    type Output = Result<T, Cancelled>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(answer) = self.try_take() {
            return Poll::Ready(answer);
        }
        let waiter = match Local::find() {
            Some(shard) => {
                let key = self.seat(&shard, cx.waker());
                Waiter::OnShard(shard.port.clone(), key)
            }
            None => Waiter::Elsewhere(cx.waker().clone()),
        };
        let mut cell = lock(&self.cell);
        if let Some(value) = cell.value.take() {
            return Poll::Ready(Ok(value));
        }
        if cell.sender_gone {
            return Poll::Ready(Err(Cancelled));
        }
        cell.waiter = Some(waiter);
        Poll::Pending
    }
}

impl<T: Send> Drop for Receiver<T> {
    fn drop(&mut self) {
        if let Some(key) = self.seat
            && let Some(shard) = Local::find()
        {
            shard.waits.borrow_mut().remove(key);
        }
    }
}
