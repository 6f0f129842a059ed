//! What the connections of a shard hold for slow clients: frames begun, requests not answered, and
//! answers not taken.
//!
//! Owns the three sums and the choice of who goes when one is over its bound. Bytes count from the
//! moment they are held. Invariant: a client that holds little goes only when nobody holds much.

use std::{
    cell::Cell,
    cmp::Reverse,
    rc::{Rc, Weak},
    time::Duration,
};

use millrace_engine::io::Clock;

use super::{Connections, Queued, Shared};
use crate::limits;

/// What one connection holds, and since when.
#[derive(Default)]
pub(super) struct Held {
    bytes: Cell<usize>,
    since_ns: Cell<u64>,
}

impl Held {
    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// How long, in nanoseconds.
    pub(super) fn age_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.since_ns.get())
    }

    /// Holds `bytes` from now on; `sum` is that of all connections.
    fn set(&self, bytes: usize, sum: &Cell<usize>) {
        sum.set(sum.get() - self.bytes.replace(bytes) + bytes);
    }
}

impl Shared {
    /// Bytes of a frame that has begun and is not complete; 0 once it is. Beyond the shard's bound
    /// somebody's connection is closed: whoever asks looks at `closing` next.
    pub(super) fn begun(&self, bytes: usize) {
        let bytes = if self.closing.get() { 0 } else { bytes };
        if self.begun.bytes() == 0 && bytes > 0 {
            self.begun.since_ns.set(self.broker.shard.env().monotonic_ns());
        }
        self.begun.set(bytes, &self.connections.begun_bytes);
        self.connections.relieve_begun();
    }

    /// Puts a request in its place; `false` when the connection is to end. Beyond the shard's bound
    /// somebody's connection is ended, maybe this one.
    pub(super) fn enqueue(&self, queued: Queued) -> bool {
        // Nobody may be left to take it.
        if self.closing.get() {
            return false;
        }
        if self.queued.bytes() == 0 {
            self.queued.since_ns.set(self.broker.shard.env().monotonic_ns());
        }
        self.queued.set(self.queued.bytes() + queued.bytes, &self.connections.queued_bytes);
        self.open.set(self.open.get() + 1);
        self.queue.borrow_mut().push_back(queued);
        self.came.fire();
        self.connections.relieve_queued();
        !self.closing.get()
    }

    /// A request of so many bytes of memory is answered.
    pub(super) fn answered(&self, bytes: usize) {
        self.open.set(self.open.get() - 1);
        self.queued.set(self.queued.bytes() - bytes, &self.connections.queued_bytes);
    }

    /// Drops the requests that will not be answered. The connection is closing: none comes after.
    pub(super) fn abandon(&self) {
        self.queue.borrow_mut().clear();
        self.queued.set(0, &self.connections.queued_bytes);
    }

    /// Memory of an answer that the client has not taken, in bytes; told again with each piece
    /// that it takes.
    pub(super) fn unsent(&self, bytes: usize) {
        self.unsent.since_ns.set(self.broker.shard.env().monotonic_ns());
        self.unsent.set(bytes, &self.connections.unsent_bytes);
    }

    /// Whether a frame comes slower than any real client sends it.
    pub(super) fn is_frame_late(&self, now_ns: u64) -> bool {
        let bytes = u64::try_from(self.begun.bytes()).unwrap_or(u64::MAX);
        let allowed = limits::FRAME_DEADLINE
            + Duration::from_secs(bytes / limits::FRAME_RATE_MIN_BYTES_PER_S);
        bytes > 0 && u128::from(self.begun.age_ns(now_ns)) >= allowed.as_nanos()
    }
}

impl Connections {
    /// Closes connections until the begun frames are within their bound: the oldest of the large
    /// ones first.
    fn relieve_begun(&self) {
        let bound = limits::BEGUN_BYTES_PER_SHARD.max(self.broker.settings.frame_cap_bytes);
        while self.begun_bytes.get() > bound {
            let holders = self.living().filter(|one| one.begun.bytes() > 0);
            let worst = holders.max_by_key(|one| {
                let is_large = one.begun.bytes() > limits::SMALL_FRAME_BYTES;
                (is_large, Reverse(one.begun.since_ns.get()))
            });
            let Some(worst) = worst else { return };
            worst.close();
        }
    }

    /// Ends connections until the requests that are not answered are within their bound: of the
    /// large ones first, those that wait longest. Who ends is counted until its memory is free.
    fn relieve_queued(&self) {
        let sum_bytes = self.queued_bytes.get();
        let mut excess_bytes = sum_bytes.saturating_sub(limits::QUEUED_BYTES_PER_SHARD);
        if excess_bytes == 0 {
            return;
        }
        let mut holders: Vec<_> = self.living().filter(|one| one.queued.bytes() > 0).collect();
        holders.sort_by_key(|one| {
            let is_small = one.queued.bytes() <= limits::SMALL_FRAME_BYTES;
            (!one.closing.get(), is_small, one.queued.since_ns.get())
        });
        for one in holders {
            if excess_bytes == 0 {
                return;
            }
            excess_bytes = excess_bytes.saturating_sub(one.queued.bytes());
            one.end();
        }
    }

    /// Ends connections until the answers not taken are within their bound: of those that took
    /// nothing for a while, the one that took nothing for longest first.
    pub(super) fn relieve_unsent(&self, now_ns: u64) {
        let bound = self.broker.shard.pool().budget_bytes() / limits::UNSENT_SHARE;
        let mut excess_bytes = self.unsent_bytes.get().saturating_sub(bound);
        if excess_bytes == 0 {
            return;
        }
        let is_stuck = |one: &Rc<Shared>| {
            let age_ns = u128::from(one.unsent.age_ns(now_ns));
            one.unsent.bytes() > 0 && age_ns >= limits::UNSENT_GRACE.as_nanos()
        };
        let mut stuck: Vec<_> = self.living().filter(is_stuck).collect();
        stuck.sort_by_key(|one| one.unsent.since_ns.get());
        for one in stuck {
            if excess_bytes == 0 {
                return;
            }
            excess_bytes = excess_bytes.saturating_sub(one.unsent.bytes());
            one.end();
        }
    }

    /// Whether no connection has begun a frame, waits for an answer or leaves one untaken.
    pub(super) fn holds_nothing(&self) -> bool {
        [&self.begun_bytes, &self.queued_bytes, &self.unsent_bytes].iter().all(|sum| sum.get() == 0)
    }

    /// The connections that live now.
    pub(super) fn living(&self) -> impl Iterator<Item = Rc<Shared>> {
        let living: Vec<_> = self.list.borrow().values().filter_map(Weak::upgrade).collect();
        living.into_iter()
    }
}
