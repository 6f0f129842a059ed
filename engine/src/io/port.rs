//! The part of a shard that other threads reach: its doorbell and its list of fulfilled waits.
//!
//! A sender puts its message where the shard will look, then rings. A shard that is awake finds
//! the bell rung on its next turn; one that sleeps is woken through its eventfd, by one writer.
//! Invariant: whatever was published before [`Port::ring`] is found by the shard after it answers
//! the bell, or after it refused to fall asleep; no wake-up is ever lost.

use std::{
    fs::File,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering, fence},
};

use crossbeam::queue::SegQueue;

use super::{
    runtime::queues::{Class, Task},
    sys,
};

/// A shard as other threads see it.
pub(super) struct Port {
    /// Number of the shard.
    pub(super) shard: usize,
    /// Read by the shard's ring while the shard sleeps.
    pub(super) bell: File,
    sleeping: AtomicBool,
    rung: AtomicBool,
    closed: AtomicBool,
    /// Keys of the shard's waits that another thread fulfilled; as long as waits are outstanding.
    pub(super) fulfilled: SegQueue<usize>,
    /// The shard's tasks that another thread woke; each at most once.
    pub(super) woken: SegQueue<(Class, Task)>,
}

impl Port {
    /// A port whose shard is awake.
    pub(super) fn new(shard: usize) -> io::Result<Self> {
        Ok(Self {
            shard,
            bell: sys::eventfd()?,
            sleeping: AtomicBool::new(false),
            rung: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            fulfilled: SegQueue::new(),
            woken: SegQueue::new(),
        })
    }

    /// Tells the shard that something was published for it.
    pub(super) fn ring(&self) {
        // Pairs with the fence in `answer`: either the load below sees the bell cleared, or the
        // shard, which clears it later, then sees what was published.
        fence(Ordering::SeqCst);
        if self.rung.load(Ordering::Relaxed) {
            return;
        }
        self.rung.store(true, Ordering::Release);
        // Pairs with the fence in `fall_asleep`: either this thread sees the shard asleep, or the
        // shard sees the bell rung.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) && self.sleeping.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Signals the eventfd. The count cannot overflow, so the write neither blocks nor fails.
    pub(super) fn wake(&self) {
        let written = (&self.bell).write(&1u64.to_ne_bytes());
        assert!(matches!(written, Ok(8)), "an eventfd takes a count of one");
    }

    /// Shard only: whether the bell rang, without answering it.
    pub(super) fn has_rung(&self) -> bool {
        self.rung.load(Ordering::Relaxed)
    }

    /// Shard only: clears the bell; true if it had rung, and then everything published is visible.
    pub(super) fn answer(&self) -> bool {
        if !self.has_rung() {
            return false;
        }
        self.rung.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        true
    }

    /// Shard only: announces sleep. False if the bell rang, and then the shard stays awake.
    pub(super) fn fall_asleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_rung() {
            self.stay_awake();
            return false;
        }
        true
    }

    /// Shard only: no wake-up is needed from now on.
    pub(super) fn stay_awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Shard only: nobody will look at what is published any more.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the shard has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}
