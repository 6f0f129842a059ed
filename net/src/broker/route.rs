//! The way of new images to the shards, which the metadata's writer is older than.
//!
//! Shard 0 serves as soon as it is ready itself, so a client's first command may be done before the
//! start goes on behind the shards' own. Its image waits here; only the newest counts.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

type Deliver<T> = Box<dyn Fn(T) + Send>;

/// A way that is opened once.
pub(super) struct Route<T> {
    state: Mutex<State<T>>,
}

enum State<T> {
    /// Nowhere to go yet, with the newest of what came.
    Closed(Option<T>),
    Open(Deliver<T>),
}

impl<T> fmt::Debug for Route<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Route")
    }
}

impl<T> Default for Route<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Closed(None)) }
    }
}

impl<T> Route<T> {
    /// Hands `item` on, or keeps it until the way is open.
    pub(super) fn send(&self, item: T) {
        match &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Closed(newest) => *newest = Some(item),
            State::Open(deliver) => deliver(item),
        }
    }

    /// Opens the way, first for what waits. Items go in the order of their [`Route::send`].
    pub(super) fn open(&self, deliver: Deliver<T>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Closed(newest) = &mut *state
            && let Some(item) = newest.take()
        {
            deliver(item);
        }
        *state = State::Open(deliver);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// What came before was once dropped: its topics had no partitions until the next change.
    #[test]
    fn the_newest_of_what_came_early_is_delivered_first() {
        let route = Route::default();
        route.send(1);
        route.send(2);
        let (sender, delivered) = mpsc::sync_channel(2);
        route.open(Box::new(move |item| sender.send(item).expect("the test listens")));
        route.send(3);
        drop(route);
        assert_eq!(delivered.iter().collect::<Vec<_>>(), [2, 3]);
    }
}
